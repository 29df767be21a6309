//! Putting a policy in force as a transaction: it is loaded, noted and attached, and then committed, or rolled back to
//! what was in force before.

use std::borrow::Cow;

use ratelimit_common::{
    table::SLOTS,
    time::{Nanos, Now},
    wire,
};
use tracing::warn;

use super::{
    super::{
        Attachment, DaemonAddress, Error, LoadedPolicy, ProgramGeneration, Requirements, RuleInForce,
        attach::{self, AttachOutcome, AttachTarget},
        buckets::BucketTable,
        carry::Earlier,
        clock, counters,
        coverage::{Coverage, Missing},
        denied,
        kind::InterfaceKind,
        list_sizes, lists,
        notes::{kept_state, write_state},
        pins::Pins,
        raw,
        state::{self, Assignment, InstanceState},
        system,
        trial::{self, TrialEnd, WantedTrial},
        windows::ClockMove,
    },
    Claim, Wanted, config_path,
};
use crate::{
    compile::{Compiled, compile},
    policy::{Interfaces, Network, OnExit},
};

/// A generation in force.
#[derive(Debug)]
pub(super) struct LoadedGeneration {
    pub generation: ProgramGeneration,
    pub compiled: Compiled,
    pub state: InstanceState,
    pub buckets: BucketTable,
    pub attachments: Vec<Attachment>,
    pub is_adopted: bool,
    pub observes: bool,
}

/// Puts a policy in force instead of `old`, if there is one.
///
/// # Errors
/// Something is missing, or refused; what was in force before is in force still.
pub(super) fn put_in_force(
    claim: &Claim,
    coverage: &mut Coverage,
    wanted: &Wanted<'_>,
    daemon: &DaemonAddress,
    mut old: Option<&mut LoadedGeneration>,
) -> Result<LoadedGeneration, Error> {
    let plan = Plan::new(claim, coverage, wanted, old.is_some())?;
    let mut transaction = PolicyChange::load(claim, plan)?;
    let noted = transaction.note(daemon);
    match noted.and_then(|()| transaction.attach(old.as_mut().map(|old| &mut old.generation))) {
        Ok(outcome) => transaction.commit(coverage, outcome),
        Err(error) => {
            transaction.roll_back()?;
            Err(error)
        }
    }
}

/// What is to be done, before anything is.
struct Plan<'w> {
    wanted: &'w Wanted<'w>,
    /// Its rules as they are to work: maybe they only observe.
    network: Cow<'w, Network>,
    observes: bool,
    targets: Vec<AttachTarget>,
    /// The notes that an earlier daemon or generation left.
    before: Option<InstanceState>,
    state: InstanceState,
    assignment: Assignment,
    moved: Option<ClockMove>,
    earlier: Earlier,
}

impl<'w> Plan<'w> {
    fn new(
        claim: &Claim,
        coverage: &mut Coverage,
        wanted: &'w Wanted<'w>,
        is_reload: bool,
    ) -> Result<Self, Error> {
        let pins = &claim.pins;
        let sets = wanted.network.table.slots() / SLOTS as u32;
        let before = kept_state(pins, sets)?;
        let earlier = Earlier::find(pins)?;
        // What is in force already goes on where it can.
        let missing = match &before {
            _ if is_reload => Missing::Known,
            Some(before) => Missing::Some(before.wanted()),
            None if !earlier.is_empty() => Missing::Some(&[]),
            None => Missing::None,
        };
        let targets = coverage.targets(pins, &wanted.network.interfaces, missing)?;
        let mut state = before.clone().map_or_else(|| InstanceState::new(sets, earlier.observes()), Ok)?;
        let observes = wanted.observes.unwrap_or(state.observes);
        let network = if observes {
            let rules = wanted.network.rules.observing();
            Cow::Owned(Network { rules, ..wanted.network.clone() })
        } else {
            Cow::Borrowed(wanted.network)
        };
        let assignment = state.assign(&network)?;
        state.note_banning(&network);
        let moved = state.align(claim.wall)?;
        Ok(Self { wanted, network, observes, targets, before, state, assignment, moved, earlier })
    }

    fn compile(&self) -> Compiled {
        let mut compiled = compile(&self.network, &self.state.facts(), &self.assignment.numbers);
        compiled.globals.is_on_trial = self.wanted.trial.is_some().into();
        compiled
    }
}

/// A policy on its way into force.
struct PolicyChange<'w> {
    pins: &'w Pins,
    plan: Plan<'w>,
    compiled: Compiled,
    generation: ProgramGeneration,
    buckets: BucketTable,
    done: Done,
}

/// What has been done and would have to be undone.
#[derive(Default)]
struct Done {
    /// The end of the trial was replaced; this is the one before.
    replaced_trial_end: Option<TrialEnd>,
    /// Buckets were moved as windows were, at this time.
    moved_buckets_at: Option<Now>,
}

impl<'w> PolicyChange<'w> {
    /// Loads the programs, and makes the numbers of new rules good to use. Nothing has to be undone of it.
    fn load(claim: &'w Claim, plan: Plan<'w>) -> Result<Self, Error> {
        let (pins, sets, compiled) = (&claim.pins, plan.state.sets, plan.compile());
        pins.create()?;
        let kind = plan.targets.first().map_or(Ok(InterfaceKind::Ethernet), AttachTarget::kind)?;
        let mut generation = ProgramGeneration::load(&compiled, sets, Some(&pins.maps()), kind)?;
        let buckets = BucketTable::map(generation.map("BUCKETS")?, sets)?;
        buckets.forget(&plan.assignment.new);
        for &number in &plan.assignment.new {
            counters::clear_rule(&mut generation, number)?;
        }
        Ok(Self { pins, plan, compiled, generation, buckets, done: Done::default() })
    }

    /// Before anything is attached, the notes say that this daemon does so: a crash in between leaves no number with
    /// two owners, and nobody takes what was in force before for what is.
    fn note(&mut self, daemon: &DaemonAddress) -> Result<(), Error> {
        let Self { pins, plan, generation, .. } = self;
        (plan.state.is_starting, plan.state.daemon) = (true, Some(daemon.clone()));
        write_state(generation, &plan.state.before(plan.moved))?;
        plan.earlier.carry_bans(pins, &plan.state)?;
        self.done.replaced_trial_end = trial::begin(generation, plan.wanted.trial)?;
        Ok(())
    }

    fn attach(&mut self, old: Option<&mut ProgramGeneration>) -> Result<AttachOutcome, Error> {
        let now = since(&self.compiled)?;
        if let Some(moved) = &self.plan.moved {
            moved.before_switch(&self.buckets, &self.compiled.limits, now);
            self.done.moved_buckets_at = Some(now);
        }
        attach::attach(&mut self.generation, self.pins, &self.plan.targets, old)
    }

    /// Interfaces have what they had; so have buckets, the trial and the notes then.
    fn roll_back(self) -> Result<(), Error> {
        let Self { mut plan, compiled, mut generation, buckets, done, .. } = self;
        if let Some((moved, now)) = plan.moved.zip(done.moved_buckets_at) {
            moved.take_back(&buckets, &compiled.limits, now);
        }
        if let Some(end) = done.replaced_trial_end {
            end.put(&mut generation)?;
        }
        (plan.state.is_starting, plan.state.daemon) = (false, None);
        write_state(&mut generation, plan.before.as_ref().unwrap_or(&plan.state))
    }

    fn commit(self, coverage: &mut Coverage, outcome: AttachOutcome) -> Result<LoadedGeneration, Error> {
        let AttachOutcome { attachments, refused } = outcome;
        self.note_places(coverage, &refused);
        // Numbers that are free from now on must not be in use by a processor that has not come to the end of its
        // packet.
        raw::wait_for_running_programs();
        let Self { pins, mut plan, compiled, mut generation, buckets, .. } = self;
        // Those that the earlier program has made meanwhile.
        plan.earlier.carry_bans(pins, &plan.state)?;
        let now = since(&compiled)?;
        plan.moved.inspect(|moved| moved.after_switch(&buckets, &compiled.limits, now));
        let numbers = &plan.assignment.numbers;
        let before = plan.before.as_ref().and_then(|state| state.in_force.as_ref());
        let since = match before.filter(|_| plan.wanted.is_same) {
            Some(before) => before.since,
            None => clock::unix()?.0 / Nanos::SECOND.0,
        };
        let trial_length = match plan.wanted.trial {
            Some(WantedTrial::Begins(length)) => Some(length.0),
            Some(WantedTrial::GoesOn) => before.and_then(|before| before.trial_length),
            None => None,
        };
        let noted = LoadedPolicy { trial_length, ..in_force(&plan.network, plan.wanted, numbers, since) };
        buckets.clamp(&changed(&compiled.limits, plan.before.as_ref(), &noted), now);
        let (mut state, observes, is_adopted) = (plan.state, plan.observes, plan.before.is_some());
        state.retire(numbers);
        (state.observes, state.is_starting) = (observes, false);
        state.in_force = Some(noted);
        write_state(&mut generation, &state)?;
        if let Err(error) = lists::pin(&generation, pins) {
            warn!(%error, "bans will not say what the allow list lets pass");
        }
        if let Err(error) = pins.remove_other_layouts() {
            warn!(%error, "maps of another version can't be removed");
        }
        trial::begin_again(&mut generation, plan.wanted.trial)?;
        Ok(LoadedGeneration { generation, compiled, state, buckets, attachments, is_adopted, observes })
    }

    fn note_places(&self, coverage: &mut Coverage, refused: &[(usize, Error)]) {
        let Plan { network, targets, .. } = &self.plan;
        let has_it = |place: &usize| refused.iter().all(|(refused, _)| refused != place);
        let with = (0..).zip(targets).filter(|(place, _)| has_it(place)).map(|(_, target)| target);
        coverage.note(&network.interfaces, with);
        for (place, error) in refused {
            targets.get(*place).into_iter().for_each(|target| coverage.note_refusal(target.name(), error));
        }
    }
}

/// The rules whose limits may be others than before. Those of the rest may be emptier than empty, after a wall clock
/// that was set back: a refill that came comes again.
fn changed(
    limits: &[wire::CompiledRule],
    before: Option<&InstanceState>,
    noted: &LoadedPolicy,
) -> Vec<wire::CompiledRule> {
    let before = before.and_then(|state| state.in_force.as_ref()).map_or(&[][..], |before| &before.rules);
    let limits_as = |rule: &RuleInForce| {
        let same =
            |old: &RuleInForce| (old.number, &old.limit, &old.key) == (rule.number, &rule.limit, &rule.key);
        before.iter().any(same)
    };
    let stays = |limit: &&wire::CompiledRule| {
        noted.rules.iter().any(|rule| rule.number == limit.counters && limits_as(rule))
    };
    limits.iter().filter(|limit| !stays(limit)).copied().collect()
}

pub(super) fn since(compiled: &Compiled) -> Result<Now, Error> {
    Ok(Now(Nanos(clock::monotonic()?.0.saturating_sub(compiled.globals.epoch))))
}

fn names(interfaces: &Interfaces) -> Vec<String> {
    interfaces.iter().map(|interface| interface.name.to_string()).collect()
}

fn in_force(network: &Network, wanted: &Wanted<'_>, numbers: &[u32], since: u64) -> LoadedPolicy {
    let first = |index| network.rules.parts().iter().position(|part| part.rule == index);
    let number = |index| first(index).and_then(|place| numbers.get(place)).copied().unwrap_or_default();
    LoadedPolicy {
        config: config_path(wanted.config),
        since,
        keeps_on_exit: network.on_exit == OnExit::Keep,
        allow: network.allow.len(),
        deny: network.deny.len(),
        lists: list_sizes::sizes(&network.lists),
        is_on_trial: wanted.trial.is_some(),
        trial_length: None,
        asks: Requirements::of(&network.rules),
        interfaces: names(&network.interfaces),
        left_out: names(&network.left_out),
        namespace: system::network_namespace(),
        rules: network
            .rules
            .iter()
            .enumerate()
            .map(|(index, rule)| state::describe(rule, number(index)))
            .collect(),
        denied: denied::counts(&network.rules, numbers),
    }
}
