//! `/v1/auth`: may the request go on that a proxy shows? For nginx (`auth_request`), Traefik (ForwardAuth) and Caddy
//! (`forward_auth`).

use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, request::Parts};

use super::{
    super::{
        context::{ServeContext, answering},
        offenders::Sender,
        serving::PeerAddress,
    },
    Problem,
    facts::ForwardedFacts,
    no_store, problem,
};
use crate::answers;

/// 200 with the headers of the decision, or the configured status with a problem. Whatever body comes is left unread.
pub async fn answer(
    context: &ServeContext,
    PeerAddress(peer): PeerAddress,
    head: &Parts,
) -> Result<Response, Problem> {
    let in_force = context.in_force();
    let settings = answering(&in_force);
    let auth = settings.auth.as_ref().ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, "this route needs `application.auth`, which is not configured")
    })?;
    let shown = ForwardedFacts::new(head, peer, settings.trusted_hops, auth.asks.path);
    let Some(request) = auth.asks.request(&shown) else { return Ok((no_store(), ()).into_response()) };
    let response = in_force.decide_async(&request).await.map_err(Problem::bad)?;
    context.offenders().note(&request, &response, Sender::of_question(peer));
    let headers = answers::of_http(&response, settings.headers);
    if response.allowed() {
        return Ok((headers, ()).into_response());
    }
    let status = StatusCode::from_u16(auth.deny_status).unwrap_or(StatusCode::FORBIDDEN);
    Ok(match &auth.deny_body {
        Some(body) => problem::denied_with(status, headers, body),
        None => problem::denied(status, &response, headers, None::<()>),
    })
}
