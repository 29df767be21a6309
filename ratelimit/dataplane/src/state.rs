//! The daemon's notes beside the pinned maps: what it must know to adopt them, and what is in force.

use std::path::PathBuf;

use ratelimit_common::{
    algorithm::realign::ClockStep,
    table::Secret,
    time::Nanos,
    wire::{META_BYTES, MOST_RULES, RULE_NUMBERS},
};
use serde::{Deserialize, Serialize};

use super::{
    DeniedCount, Error, ListSize, Requirements,
    clock::{self, WallClock},
    kernel::Wire,
    windows::ClockMove,
};
use crate::{
    compile::{self, BucketOwner, TableFacts},
    policy::{self, Network},
};

/// Everything that is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct InstanceState {
    /// Nanoseconds on CLOCK_MONOTONIC.
    made_at: u64,
    /// The same moment in nanoseconds since the Unix epoch, by the clock as windows are aligned to it.
    #[serde(default)]
    made_at_unix: Option<u64>,
    random: [u64; 4],
    pub sets: u32,
    /// Which rule has which number in the table and the counters.
    numbers: Vec<Number>,
    pub in_force: Option<LoadedPolicy>,
    /// Whether a daemon has begun to change what is in force, and not yet come to the end of it.
    #[serde(default)]
    pub is_starting: bool,
    /// The last daemon that began to.
    #[serde(default)]
    pub daemon: Option<DaemonAddress>,
    /// Whether all rules only observe, because somebody wanted so for a while.
    #[serde(default)]
    pub observes: bool,
    /// The names of rules that ban, and of some that did: their bans may last.
    #[serde(default)]
    pub ban_rules: Vec<String>,
}

/// A daemon, as others may find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonAddress {
    /// Its process.
    pub process: u32,
    /// Its control socket.
    pub control: PathBuf,
}

/// What the attached programs were loaded with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadedPolicy {
    /// The configuration file.
    pub config: PathBuf,
    /// Seconds since the Unix epoch.
    pub since: u64,
    /// What a clean stop does.
    pub keeps_on_exit: bool,
    /// Prefixes on the allow list.
    pub allow: usize,
    /// Prefixes on the deny list.
    #[serde(default)]
    pub deny: usize,
    /// Where the prefixes of lists come from, and how many they are.
    #[serde(default)]
    pub lists: Vec<ListSize>,
    /// Whether it lets everything pass if nobody confirms it in time.
    #[serde(default)]
    pub is_on_trial: bool,
    /// Nanoseconds that its trial lasts from its beginning to its end.
    #[serde(default)]
    pub trial_length: Option<u64>,
    /// The names of the interfaces that it is for.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// The names of those of its file that the command line has left out.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// The network namespace that they are in.
    #[serde(default)]
    pub namespace: Option<u64>,
    /// What the rules go by that an interface may keep from them.
    #[serde(default)]
    pub asks: Requirements,
    /// The rules, in the configuration's order.
    pub rules: Vec<RuleInForce>,
    /// Where packets are counted that lead to a ban.
    #[serde(default)]
    pub denied: Vec<DeniedCount>,
}

/// A rule as outputs show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleInForce {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its limit, as a configuration would have it.
    pub limit: String,
    /// Its key.
    pub key: String,
    /// What it does above the limit.
    pub action: String,
    /// Which packets it is about.
    #[serde(default, rename = "match")]
    pub matches: String,
    /// Which of these it never judges.
    #[serde(default)]
    pub except: Option<String>,
    /// When it bans a source, and for how long, as a configuration would have it.
    #[serde(default)]
    pub ban: Option<String>,
}

impl RuleInForce {
    /// Which packets it judges.
    #[must_use]
    pub fn judged(&self) -> String {
        policy::match_text::with_except(self.matches.clone(), self.except.as_deref())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Number {
    number: u32,
    identity: RuleFingerprint,
}

/// What a rule must have in common with an earlier one to go on with its buckets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RuleFingerprint {
    name: String,
    key: String,
    layout: String,
}

/// What became of the numbers when rules changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    /// For each owner of buckets, in the order of [`compile::owners`].
    pub numbers: Vec<u32>,
    /// Numbers that had no rule before: whatever is left under them belongs to nobody.
    pub new: Vec<u32>,
}

impl InstanceState {
    /// The state of a table that is made now.
    pub(super) fn new(sets: u32, observes: bool) -> Result<Self, Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| Error::System {
            what: "random numbers",
            source: std::io::Error::other(error),
        })?;
        let (words, _) = bytes.as_chunks();
        let mut random = [0; 4];
        random.iter_mut().zip(words).for_each(|(number, word)| *number = u64::from_ne_bytes(*word));
        Ok(Self {
            made_at: clock::monotonic()?.0,
            made_at_unix: None,
            random,
            sets,
            numbers: Vec::new(),
            in_force: None,
            is_starting: false,
            daemon: None,
            observes,
            ban_rules: Vec::new(),
        })
    }

    /// The names of the interfaces that a daemon has wanted last.
    pub(super) fn wanted(&self) -> &[String] {
        self.in_force.as_ref().map_or(&[], |in_force| &in_force.interfaces)
    }

    /// From a map's value; `None` if nothing was written there yet.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, serde_json::Error> {
        let text = text_of(bytes);
        if text.is_empty() { Ok(None) } else { serde_json::from_slice(text).map(Some) }
    }

    pub(super) fn to_bytes(&self) -> Result<Box<Wire<[u8; META_BYTES]>>, Error> {
        let text = serde_json::to_vec(self).map_err(|error| Error::Load(error.to_string()))?;
        let mut bytes = Box::new(Wire([0; META_BYTES]));
        let room = bytes.0.get_mut(..text.len()).ok_or(Error::Object("room for the daemon's notes"))?;
        room.copy_from_slice(&text);
        Ok(bytes)
    }

    /// When the table was made, on the clock that packets are judged by.
    pub(super) const fn made_at(&self) -> Nanos {
        Nanos(self.made_at)
    }

    pub(super) fn secret(&self) -> Secret {
        Secret::new(self.random)
    }

    /// The table's facts by the alignment that is kept.
    pub(super) fn facts(&self) -> TableFacts {
        TableFacts {
            made_at: self.made_at(),
            made_at_unix: Nanos(self.made_at_unix.unwrap_or_default()),
            secret: self.secret(),
            sets: self.sets,
        }
    }

    /// Compares the wall clock with the alignment that is kept, and changes that if the clock was set.
    pub(super) fn align(&mut self, wall: WallClock) -> Result<Option<ClockMove>, Error> {
        let made_at = self.made_at_by(wall)?;
        let Some(kept) = self.made_at_unix else {
            self.made_at_unix = Some(made_at);
            return Ok(None);
        };
        let step = ClockStep::of(i128::from(made_at) - i128::from(kept));
        if step.is_some() {
            self.made_at_unix = Some(made_at);
        }
        Ok(step.map(|step| ClockMove { step, from: Nanos(kept) }))
    }

    /// The same notes with windows where they were before.
    pub(super) fn before(&self, moved: Option<ClockMove>) -> Self {
        let made_at_unix = moved.map_or(self.made_at_unix, |moved| Some(moved.from.0));
        Self { made_at_unix, ..self.clone() }
    }

    fn made_at_by(&self, wall: WallClock) -> Result<u64, Error> {
        let age = clock::monotonic()?.0.saturating_sub(self.made_at);
        Ok(wall()?.0.saturating_sub(age))
    }

    /// Gives each rule its number: the one it had if it can go on with its buckets, else one that nobody has. Numbers
    /// of rules that are gone stay taken until [`Self::retire`], because the old program runs until then.
    pub(super) fn assign(&mut self, network: &Network) -> Result<Assignment, Error> {
        let mut assignment = Assignment { numbers: Vec::new(), new: Vec::new() };
        for owner in compile::owners(&network.rules) {
            let identity = identity(&owner);
            let known = self.numbers.iter().find(|number| number.identity == identity);
            let number = match known {
                Some(known) => known.number,
                None => {
                    let number = self.free_number().ok_or(Error::Object("a free rule number"))?;
                    assignment.new.push(number);
                    self.numbers.push(Number { number, identity });
                    number
                }
            };
            assignment.numbers.push(number);
        }
        Ok(assignment)
    }

    /// From 1, because a tag of zero is no tag.
    fn free_number(&self) -> Option<u32> {
        (1..RULE_NUMBERS as u32).find(|&free| self.numbers.iter().all(|taken| taken.number != free))
    }

    /// Notes which rules ban. Those that do no more are forgotten when they are very many, the first ones first.
    pub(super) fn note_banning(&mut self, network: &Network) {
        let now: Vec<&str> =
            network.rules.iter().filter(|rule| rule.ban.is_some()).map(|rule| rule.name.as_str()).collect();
        self.ban_rules.retain(|name| !now.contains(&name.as_str()));
        let spare = MOST_BAN_RULES.saturating_sub(now.len());
        self.ban_rules.drain(..self.ban_rules.len().saturating_sub(spare));
        self.ban_rules.extend(now.into_iter().map(str::to_owned));
    }

    /// Frees the numbers that are not among `used`.
    pub(super) fn retire(&mut self, used: &[u32]) {
        self.numbers.retain(|number| used.contains(&number.number));
    }
}

/// Names of rules that ban, or did, at most.
const MOST_BAN_RULES: usize = 4 * MOST_RULES;

/// What was written of a map's value, whose other bytes are zero.
pub(super) fn text_of(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn identity(owner: &BucketOwner<'_>) -> RuleFingerprint {
    let (rule, key, limit) = match owner {
        BucketOwner::Part(rule, part) => {
            (rule, format!("{} {:?}", part_name(rule, part), rule.limit.unit()), part.limit)
        }
        BucketOwner::NewSources(rule, limit) => (rule, "new sources".to_owned(), **limit),
        BucketOwner::Denied(rule, part, limit) => {
            (rule, format!("denied {}", part_name(rule, part)), **limit)
        }
    };
    let (kind, period) = limit.shape();
    RuleFingerprint { name: rule.name.to_string(), key, layout: format!("{kind:?}/{}", period.0) }
}

fn part_name(rule: &policy::PacketRule, part: &policy::RulePart) -> String {
    let bits = |bits: Option<u8>| bits.map_or("-".to_owned(), |bits| bits.to_string());
    format!("{}/{}/{}", rule.key.name(), bits(part.ipv4), bits(part.ipv6))
}

/// A rule as outputs show it.
pub(super) fn describe(rule: &policy::PacketRule, number: u32) -> RuleInForce {
    RuleInForce {
        number,
        name: rule.name.to_string(),
        limit: policy::format::format_packet_limit(&rule.limit),
        key: rule.key.to_string(),
        action: match rule.action {
            policy::Action::Drop => "drop",
            policy::Action::Observe => "observe",
        }
        .to_owned(),
        matches: policy::match_text::format_match(&rule.matches),
        except: policy::match_text::format_except(&rule.except),
        ban: rule.ban.as_ref().map(|ban| policy::format::format_ban(ban.terms())),
    }
}
