//! From the configuration's texts to the policy: every value is judged here, once, and every mistake is reported.

mod application;
mod asking;
mod ban;
mod deny_body;
mod key;
mod matches;
mod named;
mod prefixes;
mod proxy;
mod rules;
mod store;

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use self::prefixes::ListReader;
pub use self::{
    application::{ON_STORE_ERRORS, consistency, matching_files, number},
    ban::{BanLengthError, parse_ban_length, terms as ban_terms},
    named::NamedLists,
};
use super::{
    count::{CountError, parse_count},
    error::{Report, quoted},
    fields::LocatedText,
    last::LastLists,
    raw::{RawApplication, RawConfig, RawInterface, RawListener, RawNetwork},
    words::parse_word,
};
use crate::policy::{
    Application, AttachMode, Interface, Interfaces, ListPurpose, Network, OnExit, OnMalformed, Policy, Range,
    TableSize,
    application::{ListenAddress, ListenerSettings},
    duplicates,
};

const MODES: [(&str, AttachMode); 3] =
    [("auto", AttachMode::Auto), ("native", AttachMode::Native), ("generic", AttachMode::Generic)];
const ON_EXITS: [(&str, OnExit); 2] = [("detach", OnExit::Detach), ("keep", OnExit::Keep)];
const ON_MALFORMED: [(&str, OnMalformed); 2] = [("pass", OnMalformed::Pass), ("drop", OnMalformed::Drop)];

/// Bytes of a Unix socket's path at most, without the NUL.
const LONGEST_SOCKET_PATH: usize = 107;

/// Judges a whole file, and puts what lists have in the place of their names. `directory` is the file's own: paths in
/// it are relative to that.
///
/// `None` only if a mistake was reported; with a mistake reported, what comes back is not to be used.
pub fn validate(
    raw: &mut RawConfig,
    directory: &Path,
    last: &LastLists,
    report: &mut Report,
) -> Option<Policy> {
    let named = NamedLists::read(&raw.lists, directory, report);
    named.resolve(raw, report);
    let policy = validate_all(raw, &named, directory, last, report);
    named.warn_of_unused(report);
    policy
}

fn validate_all(
    raw: &RawConfig,
    named: &NamedLists,
    directory: &Path,
    last: &LastLists,
    report: &mut Report,
) -> Option<Policy> {
    let instance = parsed(raw.instance.as_ref(), report);
    let control = raw.control.as_ref().and_then(|text| socket_path(text, directory, report));
    let network = match &raw.network {
        Some(network) => Some(validate_network(network, ListReader::new(directory, last), report)?),
        None => None,
    };
    let application = match &raw.application {
        Some(application) => {
            Some(application::validate(application, directory, raw.network.is_some(), (last, named), report)?)
        }
        None => None,
    };
    let metrics = raw.metrics.as_ref().and_then(|text| listen_address(text, report));
    let others = [
        raw.metrics.as_ref().zip(metrics.map(ListenAddress::Tcp)),
        raw.control.as_ref().zip(control.clone().map(ListenAddress::Unix)),
    ];
    if let Some((raw, application)) = raw.application.as_ref().zip(application.as_ref()) {
        check_collisions(raw, application, others.into_iter().flatten(), report);
    }
    Some(Policy { instance: instance.unwrap_or_default(), network, application, metrics, control })
}

/// Notes which of the other addresses a listener has, too.
fn check_collisions<'r>(
    raw: &RawApplication,
    application: &Application,
    others: impl Iterator<Item = (&'r LocatedText, ListenAddress)>,
    report: &mut Report,
) {
    let raw: Vec<&RawListener> = raw.listeners().collect();
    let made: Vec<&ListenerSettings> = application.listeners().collect();
    for (text, address) in others {
        // One that is wrong itself has been left out, and then it is not known which is which.
        let mut pairs = raw.iter().zip(&made).filter(|_| raw.len() == made.len());
        if let Some((listener, _)) = pairs.find(|(_, made)| made.address.collides_with(&address)) {
            report_collision(&listener.address, text, report);
        }
    }
}

/// Numbers only: what a name means can change, and with it who may reach what listens there.
fn listen_address(text: &LocatedText, report: &mut Report) -> Option<SocketAddr> {
    let address = text.text.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
    if address.is_none() {
        let shown = quoted(&text.text);
        let error = format!(
            "{shown} is not an address with a port; write one such as 127.0.0.1:9102 or \"[::1]:9102\""
        );
        report.error(&text.at, error);
    }
    address
}

fn socket_path(text: &LocatedText, directory: &Path, report: &mut Report) -> Option<PathBuf> {
    let path = directory.join(&text.text);
    let length = path.as_os_str().len();
    if text.text.trim().is_empty() || text.text.contains(crate::text::is_hidden) {
        report.error(&text.at, "must be the path of a socket, without control characters");
    } else if length > LONGEST_SOCKET_PATH {
        report.error(
            &text.at,
            format!("{length} bytes long; a socket's path has at most {LONGEST_SOCKET_PATH}"),
        );
    } else {
        return Some(path);
    }
    None
}

fn validate_network(raw: &RawNetwork, mut lists: ListReader<'_>, report: &mut Report) -> Option<Network> {
    let interfaces = validate_interfaces(&raw.interfaces, report);
    let allow = lists.list(&ListPurpose::Allow, &raw.allow, report);
    let deny = lists.list(&ListPurpose::Deny, &raw.deny, report);
    let table = raw.table_size.as_ref().and_then(|text| table_size(text, report));
    let on_exit = word(raw.on_exit.as_ref(), &ON_EXITS, report);
    let on_malformed = word(raw.on_malformed.as_ref(), &ON_MALFORMED, report);
    let rules = rules::validate(&raw.rules, &mut lists, report);
    Some(Network {
        interfaces: interfaces?,
        left_out: Interfaces::default(),
        allow,
        deny,
        lists: lists.into_parts(),
        table: table.unwrap_or_default(),
        on_exit: on_exit.unwrap_or_default(),
        on_malformed: on_malformed.unwrap_or_default(),
        rules: rules?,
    })
}

fn validate_interfaces(raw: &[RawInterface], report: &mut Report) -> Option<Interfaces> {
    for (later, earlier) in duplicates(raw.iter().map(|interface| interface.name.text.as_str())) {
        if let (Some(later), Some(earlier)) = (raw.get(later), raw.get(earlier)) {
            report_duplicate(&later.name, &earlier.name, report);
        }
    }
    let interfaces = raw.iter().filter_map(|interface| {
        let name = parsed(Some(&interface.name), report);
        let mode = word(interface.mode.as_ref(), &MODES, report).unwrap_or_default();
        Some(Interface { name: name?, mode })
    });
    Interfaces::new(interfaces.collect()).ok()
}

fn table_size(text: &LocatedText, report: &mut Report) -> Option<TableSize> {
    let buckets = match parse_count(&text.text) {
        Ok(buckets) => buckets.get(),
        // Whatever else is wrong with it, the range says most.
        Err(CountError::Zero) => 0,
        Err(error) => {
            report.error(&text.at, error);
            return None;
        }
    };
    let size = TableSize::at_least(buckets);
    if size.is_none() {
        let Range { least, most } = TableSize::RANGE;
        report.error(&text.at, format!("{buckets} buckets; must be {least} to {most}"));
    }
    size
}

fn report_duplicate(later: &LocatedText, earlier: &LocatedText, report: &mut Report) {
    let (first, line) = (earlier.at.field.as_str(), earlier.at.position.line);
    let shown = quoted(&later.text);
    let error = format!(
        "{shown} is there twice, first as {first} on line {line}: change one of them, or leave it out"
    );
    report.error(&later.at, error);
}

fn report_collision(later: &LocatedText, earlier: &LocatedText, report: &mut Report) {
    let (first, line) = (earlier.at.field.as_str(), earlier.at.position.line);
    let (one, other) = (quoted(&later.text), quoted(&earlier.text));
    report
        .error(&later.at, format!("can't listen at {one} and at {other}, which {first} on line {line} has"));
}

fn parsed<T: FromStr<Err: fmt::Display>>(text: Option<&LocatedText>, report: &mut Report) -> Option<T> {
    let text = text?;
    text.text.parse().map_err(|error| report.error(&text.at, error)).ok()
}

/// What a word stands for, if it is one of these.
pub fn word<T: Clone>(
    text: Option<&LocatedText>,
    words: &[(&'static str, T)],
    report: &mut Report,
) -> Option<T> {
    let text = text?;
    parse_word(&text.text, words).map_err(|error| report.error(&text.at, error)).ok()
}
