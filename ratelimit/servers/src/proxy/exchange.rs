//! One request on its way: seen, judged, passed on, answered.

use std::{future::pending, net::IpAddr, sync::Arc};

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version, header};
use hyper::{body::Incoming, upgrade::OnUpgrade};

use super::{
    Proxy, answer,
    body::{Download, Progress, Rest, Upload},
    facts::ProxyFacts,
    failure::UpstreamFailure,
    headers::{self, Origin},
    request::ProxyRequest,
    route_table::{RouteTable, Routed},
    stats::Turned,
    tunnel,
    upstream::{How, NoAnswer, Upstream},
};
use crate::{
    answers,
    application::Response as Decision,
    client_address,
    context::{ServeContext, answering as settings},
    judge::{self, Judgement},
    offenders::Sender,
    policy::application::AnswerHeaders,
    serving::{AnswerGuard, Client, Full, Share, room_for_refusal},
};

/// What a request is passed on with.
pub struct ProxyExchange<'p> {
    /// Who decides.
    pub context: &'p ServeContext,
    /// Where it comes in.
    pub proxy: &'p Proxy,
    /// What is to be done with it.
    pub table: &'p RouteTable,
    /// Who sent it.
    pub client: &'p Client,
}

/// An answer of the proxy itself.
type Own = Box<Response<Body>>;

/// What an answer has to say about limits.
struct Limits {
    decision: Box<Decision>,
    headers: AnswerHeaders,
}

/// What stays with an answer until it is over.
struct AnswerContext {
    answering: AnswerGuard,
    upgrade: Option<OnUpgrade>,
    limits: Option<Limits>,
}

/// A request that may go on, as servers get it.
struct Outgoing<'t> {
    request: Request<Upload>,
    routed: &'t Routed,
    how: How,
    held: AnswerContext,
}

impl<'p> ProxyExchange<'p> {
    /// Passes it on; an error is an answer for which nothing was read of its body.
    pub async fn pass(
        &self,
        answering: AnswerGuard,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Own> {
        let outgoing = self.prepare(answering, request).await?;
        Ok(self.forward(outgoing).await)
    }

    async fn prepare(
        &self,
        mut answering: AnswerGuard,
        request: Request<Incoming>,
    ) -> Result<Outgoing<'p>, Own> {
        let (mut head, body) = request.into_parts();
        let upgrade = head.extensions.remove::<OnUpgrade>();
        let asked = ProxyRequest::new(head, self.client.is_tls, self.table.path);
        let (peer, trusted_hops) = (self.client.peer.0, self.table.trusted_hops);
        let client =
            asked.as_ref().map_or(peer, |asked| client_address::client(&asked.headers, peer, trusted_hops));
        let Ok(place) = self.place(client) else {
            drop(asked);
            return Err(self.turn_away(answering).await);
        };
        answering.holds(place);
        let mut asked = asked.map_err(|why| {
            self.proxy.stats.turned(Turned::Refused);
            Box::new(answer::refused(why))
        })?;
        headers::remove_disbelieved(&mut asked.headers, trusted_hops);
        let limits = self.judge(&asked, client).await?;
        let routed =
            self.table.find(&asked.host, asked.path()).ok_or_else(|| self.turned(Turned::NoRoute))?;
        let origin = Origin {
            peer,
            client,
            trusted_hops,
            is_tls: self.client.is_tls,
            is_http1: asked.is_http1,
            authority: &asked.authority,
        };
        let (upload, progress) = Upload::new(body, &self.table.judged_headers);
        let how = how(&asked, routed, &progress);
        let held = AnswerContext { answering, upgrade: upgrade.filter(|_| asked.is_websocket), limits };
        let mut request = Request::new(upload);
        *request.method_mut() = asked.method;
        *request.headers_mut() = asked.headers;
        origin.tell(request.headers_mut());
        request.headers_mut().remove(header::CONTENT_LENGTH);
        Ok(Outgoing { request, routed, how, held })
    }

    /// A place for a request. Whose place it is is looked up once for a connection, if all on it are of one client.
    fn place(&self, client: Option<IpAddr>) -> Result<Arc<Share>, Full> {
        let places = &self.proxy.places;
        match self.table.trusted_hops {
            0 => places.take_one(self.client.holder(places)),
            _ => places.take_one(&places.holder(client)),
        }
    }

    /// Answers a request that there is no place for. Who takes none of these answers either is not served any more.
    async fn turn_away(&self, mut answering: AnswerGuard) -> Own {
        let refusals = &self.proxy.refusals;
        let holder = refusals.holder(self.client.peer.0);
        let Ok(refusal) = room_for_refusal(|| refusals.take_one(&holder)).await else {
            answering.end_connection();
            return pending().await;
        };
        answering.holds(refusal);
        self.turned(Turned::Busy)
    }

    fn turned(&self, why: Turned) -> Own {
        self.proxy.stats.turned(why);
        Box::new(answer::turned(why))
    }

    /// What its answer has to say about limits, if it may go on.
    async fn judge(&self, asked: &ProxyRequest, client: Option<IpAddr>) -> Result<Option<Limits>, Own> {
        let Some(asks) = &self.table.asks else { return Ok(None) };
        let Some(request) = asks.request(&ProxyFacts::new(asked, client)) else { return Ok(None) };
        let in_force = self.context.in_force();
        let settings = settings(&in_force);
        let judged = judge::decide(&in_force, &request).await;
        if let Judgement::Decided(response) = &judged {
            self.context.offenders().note(&request, response, self.sender());
        }
        match judged {
            Judgement::Decided(decision) if decision.allowed() => {
                Ok(Some(Limits { decision, headers: settings.headers }))
            }
            Judgement::Decided(response) => Err(Box::new(answer::denied(
                &response,
                settings.headers,
                &asked.headers,
                self.table.deny_body.as_ref(),
            ))),
            Judgement::Failed if Judgement::passes_unjudged(settings.on_store_error) => Ok(None),
            Judgement::Failed => Err(self.turned(Turned::Unjudged)),
        }
    }

    /// Whose packets these are, unless proxies in front send them.
    fn sender(&self) -> Sender {
        match self.client.peer.0 {
            Some(peer) if self.table.trusted_hops == 0 => Sender::Client(peer),
            _ => Sender::Unknown,
        }
    }

    async fn forward(&self, Outgoing { request, routed, how, held }: Outgoing<'p>) -> Response<Body> {
        // It stays here as long as nothing of it has been sent.
        let mut request = Some(request);
        let upstreams = routed.group.upstreams();
        let mut last = (UpstreamFailure::Connect, 0);
        for place in routed.group.order() {
            let Some(upstream) = upstreams.get(place) else { continue };
            let in_flight = upstream.begin();
            let failure = match upstream.send(&mut request, &how).await {
                Ok((response, lease)) => {
                    let (progress, idle) = (Arc::clone(&how.progress), routed.route.timeouts.idle);
                    let rest = Rest { lease, in_flight, progress, idle };
                    return self.answered(response, rest, held, how.is_upgrade).unwrap_or_else(|failure| {
                        upstream.failed(failure);
                        answer::failed(failure, place, upstreams.len())
                    });
                }
                Err(NoAnswer::Unsent(failure)) => {
                    upstream.failed(failure);
                    last = (failure, place);
                    continue;
                }
                Err(NoAnswer::Failed(failure)) => failure,
            };
            return self.failed(upstream, failure, &how.progress, (place, upstreams.len()));
        }
        let (failure, place) = last;
        answer::failed(failure, place, upstreams.len())
    }

    /// The answer where a server has failed, or its client.
    fn failed(
        &self,
        upstream: &Upstream,
        failure: UpstreamFailure,
        progress: &Progress,
        (place, count): (usize, usize),
    ) -> Response<Body> {
        if progress.has_failed() {
            return answer::broken_off(false);
        }
        if failure == UpstreamFailure::ResponseTimeout && progress.waits_for_client() && !progress.is_whole()
        {
            return answer::broken_off(true);
        }
        upstream.failed(failure);
        answer::failed(failure, place, count)
    }

    /// What a client gets of a server's answer.
    fn answered(
        &self,
        mut response: Response<Incoming>,
        rest: Rest,
        held: AnswerContext,
        is_upgrade: bool,
    ) -> Result<Response<Body>, UpstreamFailure> {
        let AnswerContext { answering, upgrade, limits } = held;
        *response.version_mut() = Version::HTTP_11;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let is_websocket = headers::tokens(response.headers(), &header::UPGRADE)
                .any(|name| name.eq_ignore_ascii_case(b"websocket"));
            let client = upgrade.filter(|_| is_upgrade && is_websocket).ok_or(UpstreamFailure::Unreadable)?;
            let (server, idle) = (hyper::upgrade::on(&mut response), rest.idle);
            self.client.becomes(async move {
                tunnel::run(client, server, idle).await;
                drop((rest, answering));
            });
            return Ok(switched(response, limits.as_ref()));
        }
        headers::remove_those_of_connection(response.headers_mut());
        add(response.headers_mut(), limits.as_ref());
        Ok(response.map(|body| Body::new(Download::new(body, answering, rest))))
    }
}

fn how(asked: &ProxyRequest, routed: &Routed, progress: &Arc<Progress>) -> How {
    let timeouts = &routed.route.timeouts;
    How {
        target: asked.target.clone(),
        authority: routed.host_header.clone().unwrap_or_else(|| asked.authority.clone()),
        is_upgrade: asked.is_websocket,
        takes_trailers: asked.takes_trailers,
        connect: timeouts.connect,
        response: timeouts.response,
        progress: Arc::clone(progress),
    }
}

/// The answer after which a connection is a WebSocket.
fn switched(response: Response<Incoming>, limits: Option<&Limits>) -> Response<Body> {
    let mut response = response.map(|_| Body::empty());
    let headers = response.headers_mut();
    headers::remove_those_of_connection(headers);
    add(headers, limits);
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    response
}

/// What a server says itself about limits stays.
fn add(to: &mut HeaderMap, limits: Option<&Limits>) {
    if let Some(Limits { decision, headers }) = limits {
        to.reserve(answers::USUAL_HEADERS);
        answers::tell(decision, *headers, |name, value| {
            to.entry(name).or_insert(value);
        });
    }
}

#[cfg(test)]
mod tests;
