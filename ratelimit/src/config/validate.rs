//! From the configuration's texts to the policy: every value is judged here, once, and every mistake is reported.

use std::{
    fmt,
    num::NonZeroU64,
    path::{Path, PathBuf},
    str::FromStr,
};

use ratelimit_common::{
    limit::{Algorithm, LimitSpec, Rate},
    time::Nanos,
};

use super::{
    error::{At, Report, quoted},
    fields::Text,
    limit::{LimitDraft, LimitOption, LimitTextError, blamed_option},
    pending::{self, NOT_SUPPORTED_YET},
    rate::parse_count,
    raw::{RawConfig, RawInterface, RawKey, RawNetwork, RawRule},
    words::parse_word,
};
use crate::policy::{
    Action, AllowList, Interface, Interfaces, Key, Mode, Network, OnExit, PacketLimit, Policy, Prefix,
    PrefixLengths, Rule, Rules, TableSize, duplicates,
};

const MODES: [(&str, Mode); 3] = [("auto", Mode::Auto), ("native", Mode::Native), ("generic", Mode::Generic)];
const ON_EXITS: [(&str, OnExit); 2] = [("detach", OnExit::Detach), ("keep", OnExit::Keep)];
const ACTIONS: [(&str, Action); 2] = [("drop", Action::Drop), ("observe", Action::Observe)];

/// Bytes of a Unix socket's path at most, without the NUL.
const LONGEST_SOCKET_PATH: usize = 107;

/// Judges a whole file. `directory` is the file's own: paths in it are relative to that.
///
/// `None` only if a mistake was reported; with a mistake reported, what comes back is not to be used.
pub fn validate(raw: &RawConfig, directory: &Path, report: &mut Report) -> Option<Policy> {
    let instance = parsed(raw.instance.as_ref(), report);
    let control = raw.control.as_ref().and_then(|text| socket_path(text, directory, report));
    let network = match &raw.network {
        Some(network) => Some(validate_network(network, report)?),
        None => None,
    };
    Some(Policy { instance: instance.unwrap_or_default(), network, control })
}

fn socket_path(text: &Text, directory: &Path, report: &mut Report) -> Option<PathBuf> {
    let path = directory.join(&text.text);
    let length = path.as_os_str().len();
    if text.text.is_empty() || text.text.contains('\0') {
        report.error(&text.at, "must be the path of a socket");
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

fn validate_network(raw: &RawNetwork, report: &mut Report) -> Option<Network> {
    let interfaces = validate_interfaces(&raw.interfaces, report);
    let allow = raw.allow.iter().filter_map(|text| parsed::<Prefix>(Some(text), report)).collect();
    let table = raw.table_size.as_ref().and_then(|text| table_size(text, report));
    let on_exit = word(raw.on_exit.as_ref(), &ON_EXITS, report);
    let rules = validate_rules(&raw.rules, report);
    Some(Network {
        interfaces: interfaces?,
        allow: AllowList::new(allow),
        table: table.unwrap_or_default(),
        on_exit: on_exit.unwrap_or_default(),
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

fn table_size(text: &Text, report: &mut Report) -> Option<TableSize> {
    let buckets = match parse_count(&text.text) {
        Ok(buckets) => buckets.get(),
        // Of all that can be wrong with it, the range says most.
        Err(super::rate::CountError::Zero) => 0,
        Err(error) => {
            report.error(&text.at, error);
            return None;
        }
    };
    let size = TableSize::at_least(buckets);
    if size.is_none() {
        let (least, most) = (TableSize::LEAST, TableSize::MOST);
        report.error(&text.at, format!("{buckets} buckets; must be {least} to {most}"));
    }
    size
}

fn validate_rules(raw: &[RawRule], report: &mut Report) -> Option<Rules> {
    let names: Vec<&Text> = raw.iter().filter_map(|rule| rule.name.as_ref()).collect();
    for (later, earlier) in duplicates(names.iter().map(|name| name.text.as_str())) {
        if let (Some(later), Some(earlier)) = (names.get(later), names.get(earlier)) {
            report_duplicate(later, earlier, report);
        }
    }
    let rules: Vec<Rule> = raw.iter().filter_map(|rule| validate_rule(rule, report)).collect();
    Rules::new(rules).ok()
}

fn report_duplicate(later: &Text, earlier: &Text, report: &mut Report) {
    let (first, line) = (earlier.at.field.as_str(), earlier.at.position.line);
    report
        .error(&later.at, format!("{} is there twice, first as {first} on line {line}", quoted(&later.text)));
}

fn validate_rule(raw: &RawRule, report: &mut Report) -> Option<Rule> {
    let name = parsed(raw.name.as_ref(), report);
    let key = validate_key(&raw.key, report);
    let limit = validate_limit(raw, report);
    let action = word(raw.action.as_ref(), &ACTIONS, report).unwrap_or_default();
    Some(Rule { name: name?, key: key?, limit: limit?, action })
}

fn validate_key(raw: &RawKey, report: &mut Report) -> Option<Key> {
    match raw {
        RawKey::Default => Some(Key::default()),
        RawKey::Word(text) if pending::is_pending_value(&text.at.field, &text.text) => {
            report
                .error(&text.at, format!("{} is {NOT_SUPPORTED_YET}; accepted: source", quoted(&text.text)));
            None
        }
        RawKey::Word(text) => word(Some(text), &[("source", Key::default())], report),
        RawKey::Source { ipv4, ipv6 } => {
            let default = PrefixLengths::default();
            let ipv4 = prefix_length(ipv4.as_ref(), default.ipv4(), PrefixLengths::MOST_IPV4, report);
            let ipv6 = prefix_length(ipv6.as_ref(), default.ipv6(), PrefixLengths::MOST_IPV6, report);
            PrefixLengths::new(ipv4?, ipv6?).map(Key::Source)
        }
    }
}

fn prefix_length(text: Option<&Text>, default: u8, most: u8, report: &mut Report) -> Option<u8> {
    let Some(text) = text else { return Some(default) };
    let digits = text.text.bytes().all(|byte| byte.is_ascii_digit());
    let length = text.text.parse().ok().filter(|length| digits && (1..=most).contains(length));
    if length.is_none() {
        let given = quoted(&text.text);
        report.error(
            &text.at,
            format!("{given} is not a prefix length; must be a whole number from 1 to {most}"),
        );
    }
    length
}

fn validate_limit(raw: &RawRule, report: &mut Report) -> Option<PacketLimit> {
    let mut draft = LimitDraft::default();
    let mut refused = Vec::new();
    for (option, text) in &raw.limit {
        if let Err(error) = draft.set(*option, &text.text) {
            report.error(&text.at, error);
            refused.push(*option);
        }
    }
    // What an unknown algorithm goes with can't be said.
    if refused.contains(&LimitOption::Algorithm) {
        return None;
    }
    let fits_kernel = fits_kernel(raw, draft.algorithm(), report);
    match draft.finish() {
        Ok(spec) if fits_kernel => {
            let limit = PacketLimit::new(spec);
            limit.map_err(|error| report.error(place(raw, blamed_option(&error)), error)).ok()
        }
        Ok(_) => None,
        Err(errors) => {
            // A rate that is not there, or not one, has been reported.
            for (option, error) in errors.iter().filter(|(_, error)| *error != LimitTextError::RateMissing) {
                report.error(place(raw, *option), error);
            }
            None
        }
    }
}

/// Whether packets can be limited by this algorithm at all, which is said even if the numbers are wrong.
fn fits_kernel(raw: &RawRule, algorithm: Algorithm, report: &mut Report) -> bool {
    let slow = Rate { amount: NonZeroU64::MIN, per: Nanos::SECOND };
    let limit = PacketLimit::new(LimitSpec::new(algorithm, slow));
    limit.map_err(|error| report.error(place(raw, blamed_option(&error)), error)).is_ok()
}

/// Where an option stands; an option that was not given, where its rule does.
fn place(raw: &RawRule, option: LimitOption) -> &At {
    raw.limit.iter().find(|(given, _)| *given == option).map_or(&raw.at, |(_, text)| &text.at)
}

fn parsed<T: FromStr<Err: fmt::Display>>(text: Option<&Text>, report: &mut Report) -> Option<T> {
    let text = text?;
    text.text.parse().map_err(|error| report.error(&text.at, error)).ok()
}

fn word<T: Copy>(text: Option<&Text>, words: &[(&'static str, T)], report: &mut Report) -> Option<T> {
    let text = text?;
    parse_word(&text.text, words).map_err(|error| report.error(&text.at, error)).ok()
}
