//! The application layer: its settings, and the files of rules that it names.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use glob::{MatchOptions, Pattern, PatternError};

use super::{
    NamedLists,
    asking::{self, BOOLEANS, SLASHES_JUDGED},
    deny_body, proxy, report_collision, report_duplicate, socket_path, store, word,
};
use crate::{
    count::parse_count,
    error::{Report, quoted},
    fields::LocatedText,
    last::LastLists,
    policy::{
        Range,
        application::{
            AnswerHeaders, Application, Auth, Listen, ListenAddress, ListenerSettings, NearLimitRatio,
            OnStoreError, ProxyListener, RuleSources, Template, Tls,
        },
    },
    raw::{RawApplication, RawAuth, RawListener, RawTls},
    rule_file::{self, BanContext, ProxyPeers},
    text::is_hidden,
};

/// What can be done while a store does not answer.
pub const ON_STORE_ERRORS: [(&str, OnStoreError); 3] =
    [("allow", OnStoreError::Allow), ("deny", OnStoreError::Deny), ("local", OnStoreError::Local)];

/// Judges the section and reads the files of rules.
pub fn validate(
    raw: &RawApplication,
    directory: &Path,
    has_network: bool,
    (last, named): (&LastLists, &NamedLists),
    report: &mut Report,
) -> Option<Application> {
    let text = |key: &str| raw.texts.iter().find(|(given, _)| *given == key).map(|(_, text)| text);
    let mut flag = |key: &str| word(text(key), &BOOLEANS, report).unwrap_or_default();
    let (merge_domains, shadow_mode, quota_mode) =
        (flag("merge_domains"), flag("shadow_mode"), flag("quota_mode"));
    let near_limit_ratio = text("near_limit_ratio").and_then(|text| ratio(text, report));
    let trusted_hops = text("trusted_hops").and_then(|text| number(text, Application::TRUSTED_HOPS, report));
    let on_store_error = word(text("on_store_error"), &ON_STORE_ERRORS, report);
    consistency(text("consistency"), report);
    let auth = raw.auth.as_ref().map(|auth| validate_auth(auth, directory, report));
    let patterns: Vec<(PathBuf, &LocatedText)> = raw
        .rules
        .iter()
        .flat_map(|texts| &texts.items)
        .filter_map(|text| Some((pattern(text, directory, report)?, text)))
        .collect();
    let files = find_files(&patterns, report);
    let listen = listen(raw, directory, report);
    let proxy = proxy::validate(&raw.proxy, directory, report);
    refuse_collisions(raw, &listen, &proxy, report);
    let asks = auth.iter().flatten().map(|auth| &auth.asks).next();
    let peers = proxy.iter().filter_map(ProxyPeers::of).collect::<Vec<_>>();
    let bans = BanContext { has_network, listen: &listen, auth: asks, proxies: &peers };
    let (rules, networks) =
        rule_file::read_all(&files, merge_domains, (last, Some(named)), Some(&bans), report);
    if trusted_hops == Some(0) || text("trusted_hops").is_none() {
        refuse_nameless_clients(raw, &listen, report);
    }
    Some(Application {
        rules,
        sources: RuleSources {
            patterns: patterns
                .into_iter()
                .filter(|(_, text)| is_pattern(text))
                .map(|(pattern, _)| pattern)
                .collect(),
            files,
            networks,
            merge_domains,
        },
        shadow_mode,
        quota_mode,
        near_limit_ratio: near_limit_ratio.unwrap_or_default(),
        trusted_hops: trusted_hops.unwrap_or_default() as u8,
        headers: headers(raw, report),
        auth: match auth {
            Some(auth) => Some(auth?),
            None => None,
        },
        store: store::memory(&raw.store, directory, report),
        redis: raw.store.redis.as_ref().and_then(|redis| store::redis(redis, directory, report)),
        on_store_error: on_store_error.unwrap_or_default(),
        listen,
        proxy,
    })
}

/// Whether each request asks a store that several daemons share. There is one answer yet.
pub fn consistency(text: Option<&LocatedText>, report: &mut Report) {
    const WORDS: [(&str, bool); 3] = [("strict", true), ("lease", false), ("eventual", false)];
    if let (Some(text), Some(false)) = (text, word(text, &WORDS, report)) {
        let message =
            format!("{} is to come in a later version; write `strict`, or leave it out", quoted(&text.text));
        report.error(&text.at, message);
    }
}

/// On a Unix socket nobody has an address, so there only a proxy can say who the client is.
fn refuse_nameless_clients(raw: &RawApplication, listen: &Listen, report: &mut Report) {
    let is_unix = |listener: &&ListenerSettings| matches!(listener.address, ListenAddress::Unix(_));
    let Some(socket) = listen.http.iter().find(is_unix) else { return };
    let is_about_client =
        |value: &LocatedText| value.text.parse().is_ok_and(|template: Template| template.names_clients());
    for (_, value) in raw.auth.iter().flat_map(|auth| auth.asks.descriptors.iter().flatten()) {
        if is_about_client(value) {
            let message = format!(
                "clients have no address on a Unix socket, and `listen.http` names {}: set `trusted_hops` to the number \
                 of proxies that add the client's to X-Forwarded-For, or listen on an address with a port",
                quoted(&socket.address.to_string())
            );
            report.error(&value.at, message);
        }
    }
}

/// The files that patterns match, in the order of patterns and then of names, each once.
fn find_files(patterns: &[(PathBuf, &LocatedText)], report: &mut Report) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for (pattern, text) in patterns {
        let Some(found) = match_files(pattern, text, report) else { continue };
        if found.is_empty() {
            report.error(&text.at, format!("no file matches {}", quoted(&text.text)));
        }
        for file in found {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    if let (Some((_, text)), true) = (patterns.first(), files.len() > rule_file::MOST_FILES) {
        let (count, most) = (files.len(), rule_file::MOST_FILES);
        report.error(&text.at, format!("{count} files of rules; at most {most} are read"));
        files.clear();
    }
    files
}

/// `None` if it is no pattern.
fn match_files(pattern: &Path, text: &LocatedText, report: &mut Report) -> Option<Vec<PathBuf>> {
    if !is_pattern(text) {
        return Some(vec![pattern.to_owned()]);
    }
    let is_none = |error: PatternError| {
        report.error(&text.at, format!("{} is not a pattern: {}", quoted(&text.text), error.msg));
    };
    matching_files(pattern).map_err(is_none).ok()
}

/// What a pattern matches, in the order of names.
///
/// # Errors
/// It is none.
pub fn matching_files(pattern: &Path) -> Result<Vec<PathBuf>, PatternError> {
    // Directories that ConfigMaps are mounted with begin with dots, and have each file a second time.
    let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
    let paths = glob::glob_with(&pattern.to_string_lossy(), options)?;
    // One more than are accepted shows that there are too many.
    Ok(paths.filter_map(Result::ok).take(rule_file::MOST_FILES + 1).collect())
}

/// A path below the file's directory.
pub(super) fn path(text: &LocatedText, directory: &Path, report: &mut Report) -> Option<PathBuf> {
    if text.text.trim().is_empty() || text.text.contains(is_hidden) {
        report.error(&text.at, "must be a path, without control characters");
        return None;
    }
    Some(directory.join(&text.text))
}

/// The same, where the text may be a pattern: then the directory's own name is written so that it is none.
fn pattern(text: &LocatedText, directory: &Path, report: &mut Report) -> Option<PathBuf> {
    match directory.to_str().filter(|_| is_pattern(text)) {
        Some(directory) => path(text, Path::new(&Pattern::escape(directory)), report),
        None => path(text, directory, report),
    }
}

fn is_pattern(text: &LocatedText) -> bool {
    text.text.contains(['*', '?', '['])
}

fn ratio(text: &LocatedText, report: &mut Report) -> Option<NearLimitRatio> {
    let ratio = text.text.parse().ok().and_then(NearLimitRatio::new);
    if ratio.is_none() {
        report.error(&text.at, format!("{} is not a number from 0 to 1", quoted(&text.text)));
    }
    ratio
}

pub fn number(text: &LocatedText, range: Range, report: &mut Report) -> Option<u64> {
    let number = match parse_count(&text.text) {
        Ok(number) => Some(number.get()),
        Err(_) if text.text == "0" => Some(0),
        Err(_) => None,
    };
    let number = number.filter(|number| range.contains(*number));
    if number.is_none() {
        report.error(&text.at, format!("{} is not a {range}", quoted(&text.text)));
    }
    number
}

fn headers(raw: &RawApplication, report: &mut Report) -> AnswerHeaders {
    let mut header = |key: &str, left_out: bool| {
        let text = raw.headers.iter().find(|(given, _)| *given == key).map(|(_, text)| text);
        word(text, &BOOLEANS, report).unwrap_or(left_out)
    };
    let left_out = AnswerHeaders::default();
    AnswerHeaders {
        x_ratelimit: header("x_ratelimit", left_out.x_ratelimit),
        retry_after: header("retry_after", left_out.retry_after),
        ietf: header("ietf", left_out.ietf),
        grpc: header("grpc", left_out.grpc),
    }
}

fn validate_auth(raw: &RawAuth, directory: &Path, report: &mut Report) -> Option<Auth> {
    let asks = asking::validate(&raw.asks, &SLASHES_JUDGED, report);
    let deny_status = raw.deny_status.as_ref().and_then(|text| number(text, Auth::DENY_STATUSES, report));
    let deny_body = raw.deny_body.as_ref().map(|text| deny_body::validate(text, directory, report));
    Some(Auth {
        asks: asks?,
        deny_status: deny_status.map_or(Auth::DEFAULT_DENY_STATUS, |status| status as u16),
        deny_body: deny_body.flatten(),
    })
}

fn listen(raw: &RawApplication, directory: &Path, report: &mut Report) -> Listen {
    let mut listeners = |raw: &'_ [RawListener]| -> Vec<ListenerSettings> {
        let listener = |raw: &RawListener| validate_listener(raw, directory, report);
        raw.iter().filter_map(listener).collect()
    };
    Listen { grpc: listeners(&raw.grpc), http: listeners(&raw.http) }
}

fn refuse_collisions(raw: &RawApplication, listen: &Listen, proxy: &[ProxyListener], report: &mut Report) {
    let mut seen: Vec<(ListenAddress, &LocatedText)> = Vec::new();
    let places: Vec<&LocatedText> = raw.listeners().map(|raw| &raw.address).collect();
    let proxies = proxy.iter().map(|proxy| &proxy.listener);
    let listeners: Vec<&ListenerSettings> = listen.grpc.iter().chain(&listen.http).chain(proxies).collect();
    // One that is wrong itself has been left out, and then it is not known which is which.
    for (listener, text) in listeners.iter().zip(&places).filter(|_| listeners.len() == places.len()) {
        match seen.iter().find(|(address, _)| address.collides_with(&listener.address)) {
            Some((address, earlier)) if *address == listener.address => {
                report_duplicate(text, earlier, report);
            }
            Some((_, earlier)) => report_collision(text, earlier, report),
            None => seen.push((listener.address.clone(), text)),
        }
    }
}

pub fn validate_listener(
    raw: &RawListener,
    directory: &Path,
    report: &mut Report,
) -> Option<ListenerSettings> {
    let address = match raw.address.text.strip_prefix("unix:") {
        Some(path) => {
            let text = LocatedText { text: path.to_owned(), at: raw.address.at.clone() };
            ListenAddress::Unix(socket_path(&text, directory, report)?)
        }
        None => match raw.address.text.parse::<SocketAddr>() {
            Ok(address) => ListenAddress::Tcp(address),
            Err(_) => {
                let message = format!(
                    "{} is not where one can listen; write an address with a port, such as 127.0.0.1:8081 or \
                     [::]:8081, or unix:PATH",
                    quoted(&raw.address.text)
                );
                report.error(&raw.address.at, message);
                return None;
            }
        },
    };
    let tls = raw.tls.as_ref().map(|tls| validate_tls(tls, directory, report));
    Some(ListenerSettings { address, tls: tls.flatten() })
}

/// Whether the files hold what they should is for the server to see, which reads them again when they change.
fn validate_tls(raw: &RawTls, directory: &Path, report: &mut Report) -> Option<Tls> {
    let (cert, key) = (path(&raw.cert, directory, report), path(&raw.key, directory, report));
    let client_ca = raw.client_ca.as_ref().map(|text| path(text, directory, report));
    Some(Tls { cert: cert?, key: key?, client_ca: client_ca.flatten() })
}
