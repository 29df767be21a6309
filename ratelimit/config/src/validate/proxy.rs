//! The reverse proxy: its listeners, and where their requests go.

use std::{path::Path, time::Duration};

use super::{
    application::{number, path, validate_listener},
    asking::{self, SLASHES_FORWARDED},
    deny_body, parsed, report_duplicate, word,
};
use crate::{
    error::{Report, quoted},
    fields::{LocatedText, LocatedTexts},
    policy::{
        Prefix,
        application::{
            Application, Balance, ListenAddress, ProxyListener, ProxyProtocol, ProxyRoute, RequestTemplate,
            Timeouts, UpstreamTls, UpstreamUrl, route_host,
            target::{self, PathForm},
        },
        duplicates,
    },
    rate::parse_time,
    raw::{RawPath, RawProxy, RawRoute},
};

const BALANCES: [(&str, Balance); 2] =
    [("round_robin", Balance::RoundRobin), ("least_requests", Balance::LeastRequests)];

/// Judges the list.
pub fn validate(raw: &[RawProxy], directory: &Path, report: &mut Report) -> Vec<ProxyListener> {
    if let Some(first_too_many) = raw.get(ProxyListener::MOST) {
        report.error(&first_too_many.at, format!("at most {} listeners", ProxyListener::MOST));
    }
    raw.iter().filter_map(|raw| validate_one(raw, directory, report)).collect()
}

fn validate_one(raw: &RawProxy, directory: &Path, report: &mut Report) -> Option<ProxyListener> {
    let listener = validate_listener(&raw.listener, directory, report);
    let trusted_hops =
        raw.trusted_hops.as_ref().and_then(|text| number(text, Application::TRUSTED_HOPS, report));
    let proxy_protocol = raw.proxy_protocol.as_ref().map(|texts| proxy_protocol(texts, report));
    let asks = raw.asks.as_ref().map(|asks| asking::validate(asks, &SLASHES_FORWARDED, report));
    let asks = match asks {
        Some(asks) => Some(asks?),
        None => None,
    };
    let path = asks.as_ref().map(|asks| asks.path);
    let path = path.unwrap_or_else(|| {
        let left_out = RawPath::default();
        asking::path_form(raw.path.as_ref().unwrap_or(&left_out), &SLASHES_FORWARDED, report)
    });
    let deny_body = raw.deny_body.as_ref().map(|text| deny_body::validate(text, directory, report));
    let routes = validate_routes(raw, path, directory, report);
    let listener = listener?;
    let made = ProxyListener {
        trusted_hops: trusted_hops.unwrap_or_default() as u8,
        proxy_protocol: proxy_protocol.unwrap_or_default(),
        asks,
        deny_body: deny_body.flatten(),
        path,
        routes,
        listener,
    };
    refuse_nameless_clients(raw, &made, report);
    Some(made)
}

/// On a Unix socket nobody has an address, unless somebody says who the client is.
fn refuse_nameless_clients(raw: &RawProxy, made: &ProxyListener, report: &mut Report) {
    let is_unix = matches!(made.listener.address, ListenAddress::Unix(_));
    let is_told = made.trusted_hops > 0 || made.proxy_protocol != ProxyProtocol::Off;
    let names_clients = made.asks.as_ref().is_some_and(RequestTemplate::names_clients);
    if is_unix && !is_told && names_clients {
        let message = "clients have no address on a Unix socket, and a descriptor is about `{client_address}`: set \
                       `trusted_hops` to the number of proxies that add the client's to X-Forwarded-For, \
                           or `proxy_protocol: true` if they name it in the PROXY protocol";
        report.error(&raw.listener.address.at, message);
    }
}

fn proxy_protocol(texts: &LocatedTexts, report: &mut Report) -> ProxyProtocol {
    match texts.items.as_slice() {
        [one] if one.text == "true" => return ProxyProtocol::Always,
        [one] if one.text == "false" => return ProxyProtocol::Off,
        _ => {}
    }
    let network = |text: &LocatedText| {
        if !text.text.starts_with(|first: char| first.is_ascii_hexdigit() || first == ':')
            || text.text == "false"
        {
            let message = format!("{} is neither true, false nor a list of networks", quoted(&text.text));
            report.error(&text.at, message);
            return None;
        }
        parsed::<Prefix>(Some(text), report)
    };
    ProxyProtocol::From(texts.items.iter().filter_map(network).collect())
}

fn validate_routes(raw: &RawProxy, form: PathForm, directory: &Path, report: &mut Report) -> Vec<ProxyRoute> {
    if raw.routes.is_empty() && report.is_clean() {
        report
            .error(&raw.at_routes, "no routes; add one, such as `{upstreams: [\"http://127.0.0.1:3000\"]}`");
    }
    if let Some(first_too_many) = raw.routes.get(ProxyRoute::MOST) {
        report.error(&first_too_many.at, format!("at most {} routes", ProxyRoute::MOST));
    }
    let routes: Vec<ProxyRoute> =
        raw.routes.iter().filter_map(|route| validate_route(route, form, directory, report)).collect();
    let name = |route: &ProxyRoute| {
        format!("{}{}", route.host.as_deref().unwrap_or_default(), route.path.trim_end_matches('/'))
    };
    if routes.len() == raw.routes.len() {
        let names: Vec<String> = routes.iter().map(name).collect();
        for (later, earlier) in duplicates(names.iter().map(String::as_str)) {
            if let (Some(later), Some(earlier)) = (raw.routes.get(later), raw.routes.get(earlier)) {
                let (first, line) = (earlier.at.field.as_str(), earlier.at.position.line);
                let message =
                    format!("is for the same requests as {first} on line {line}, which takes them all");
                report.error(&later.at, message);
            }
        }
    }
    routes
}

fn validate_route(
    raw: &RawRoute,
    form: PathForm,
    directory: &Path,
    report: &mut Report,
) -> Option<ProxyRoute> {
    let host = raw.host.as_ref().map(|text| host(text, report));
    let prefix = raw.path.as_ref().map(|text| path_prefix(text, form, report));
    let upstreams = validate_upstreams(&raw.upstreams, report);
    let balance = word(raw.balance.as_ref(), &BALANCES, report);
    let host_header = raw.host_header.as_ref().map(|text| host_header(text, report));
    let ca = raw.ca.as_ref().map(|text| path(text, directory, report));
    let server_name = raw.server_name.as_ref().map(|text| server_name(text, report));
    let usual = Timeouts::default();
    let timeouts = Timeouts {
        connect: time(raw.connect.as_ref(), usual.connect, report)?,
        response: time(raw.response.as_ref(), usual.response, report)?,
        idle: time(raw.idle.as_ref(), usual.idle, report)?,
    };
    Some(ProxyRoute {
        host: given(host)?,
        path: given(prefix)?.unwrap_or_else(|| "/".to_owned()),
        upstreams: upstreams?,
        balance: balance.unwrap_or_default(),
        host_header: given(host_header)?,
        tls: UpstreamTls { ca: given(ca)?, server_name: given(server_name)? },
        timeouts,
    })
}

/// `None` if it is there and wrong.
fn given<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        Some(value) => value.map(Some),
        None => Some(None),
    }
}

fn host(text: &LocatedText, report: &mut Report) -> Option<String> {
    let host = route_host(&text.text);
    if host.is_none() {
        let message = format!(
            "{} is not a host; write one without a port, such as api.example.com",
            quoted(&text.text)
        );
        report.error(&text.at, message);
    }
    host
}

fn path_prefix(text: &LocatedText, form: PathForm, report: &mut Report) -> Option<String> {
    let normal = target::path(text.text.as_bytes(), form);
    if normal == text.text && normal.starts_with('/') {
        return Some(normal);
    }
    let right = if text.text.starts_with('/') { normal } else { format!("/{}", text.text) };
    let message = format!("requests never have the path {}: write {}", quoted(&text.text), quoted(&right));
    report.error(&text.at, message);
    None
}

fn validate_upstreams(texts: &LocatedTexts, report: &mut Report) -> Option<Vec<UpstreamUrl>> {
    let most = ProxyRoute::UPSTREAMS.most as usize;
    if texts.items.len() > most {
        report.error(&texts.at, format!("at most {most} servers"));
        return None;
    }
    let urls: Vec<UpstreamUrl> = texts.items.iter().filter_map(|text| parsed(Some(text), report)).collect();
    if urls.len() == texts.items.len() {
        let names: Vec<String> = urls.iter().map(UpstreamUrl::to_string).collect();
        for (later, earlier) in duplicates(names.iter().map(String::as_str)) {
            if let (Some(later), Some(earlier)) = (texts.items.get(later), texts.items.get(earlier)) {
                report_duplicate(later, earlier, report);
            }
        }
    }
    (urls.len() == texts.items.len() && !urls.is_empty()).then_some(urls)
}

/// A host, maybe with a port.
fn host_header(text: &LocatedText, report: &mut Report) -> Option<String> {
    let url = format!("http://{}", text.text).parse::<UpstreamUrl>();
    if url.is_err() || text.text.contains('/') {
        let message =
            format!("{} is not a value of `Host`; write a host, such as api.example.com", quoted(&text.text));
        report.error(&text.at, message);
        return None;
    }
    Some(text.text.clone())
}

fn server_name(text: &LocatedText, report: &mut Report) -> Option<String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':');
    if text.text.is_empty() || text.text.len() > 253 || !text.text.bytes().all(is_name) {
        let message = format!(
            "{} is not a name of a certificate; write one such as api.example.com",
            quoted(&text.text)
        );
        report.error(&text.at, message);
        return None;
    }
    Some(text.text.clone())
}

/// `None` if it is there and wrong.
fn time(text: Option<&LocatedText>, usual: Duration, report: &mut Report) -> Option<Duration> {
    let Some(text) = text else { return Some(usual) };
    let time = match parse_time(&text.text) {
        Ok(time) => Duration::from_nanos(time.0),
        Err(error) => {
            report.error(&text.at, error);
            return None;
        }
    };
    if time > Timeouts::LONGEST {
        report.error(&text.at, "longer than a day; must be at most a day");
        return None;
    }
    Some(time)
}
