//! Random requests under random rules, against a slow model: the requests that changed the limits of each entry are
//! kept in a list, and what these say next is what a service with that one rule says of one descriptor after all of the
//! list.

use std::{collections::HashMap, fmt::Write as _};

use ratelimit_limiter::{
    Nanos,
    application::ServicePolicy,
    application::{Code, Descriptor, LimitOverride, MOST_HITS, Request, Status, TimeUnit},
    clock::Clock as _,
};

use crate::{Lab, algorithms, lab, lab_of, rules};

/// Numbers that look random and are the same in each run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

const KEYS: [&str; 4] = ["a", "b", "c", "e"];
const VALUES: [&str; 2] = ["1", "2"];

/// A rule, as far as the model has to know it.
#[derive(Clone, Debug)]
struct Rule {
    limit: String,
    shadow: bool,
    quota: bool,
}

impl Rule {
    fn random(numbers: &mut Numbers) -> Self {
        let algorithm = numbers.pick(&["", ""].into_iter().chain(algorithms()).collect::<Vec<_>>());
        let is_wide = algorithm == "sliding_window_counter" && numbers.one_in(3);
        let requests = if is_wide { 4_000_000 } else { numbers.pick(&[0, 1, 2, 3, 5, 7, 10, 12, 100]) };
        let unit = numbers.pick(&["second", "minute", "hour", "day"]);
        let mut limit = format!("unit: {unit}, requests_per_unit: {requests}");
        if !algorithm.is_empty() {
            write!(limit, ", algorithm: {algorithm}").unwrap();
            limit += if numbers.one_in(4) { ", count_denied: true" } else { "" };
        }
        if numbers.one_in(3) && requests > 1 {
            let soft = 1 + numbers.below(requests - 1);
            write!(limit, ", soft_limit: {soft}, soft_for: {}s", numbers.pick(&[1, 5, 30, 600])).unwrap();
        }
        if numbers.one_in(12) {
            limit = "unlimited: true".to_owned();
        }
        Self { limit, shadow: numbers.one_in(7), quota: numbers.one_in(4) }
    }

    fn is_unlimited(&self) -> bool {
        self.limit.starts_with("unlimited")
    }

    fn counts_all(&self) -> bool {
        !self.limit.contains("algorithm") || self.limit.contains("count_denied")
    }

    fn is_closed(&self) -> bool {
        self.limit.contains("requests_per_unit: 0") && (!self.counts_all() || self.limit.contains("bucket"))
    }
}

fn file(rules: &HashMap<&'static str, Rule>) -> String {
    let mut text = "domain: d\ndescriptors:\n".to_owned();
    for key in KEYS {
        let Rule { limit, shadow, quota } = &rules[key];
        let shadow = if *shadow { ", shadow_mode: true" } else { "" };
        let quota = if *quota { ", quota_mode: true" } else { "" };
        writeln!(text, "  - {{key: {key}{shadow}{quota}, rate_limit: {{{limit}}}}}").unwrap();
    }
    text
}

fn random_descriptor(numbers: &mut Numbers) -> Descriptor {
    let mut descriptor = Descriptor::of([(numbers.pick(&KEYS), numbers.pick(&VALUES))]);
    if numbers.one_in(8) {
        let unit = Some(numbers.pick(&[TimeUnit::Second, TimeUnit::Minute, TimeUnit::Hour]));
        descriptor.limit = Some(LimitOverride { requests_per_unit: numbers.below(8) as u32, unit });
    }
    if numbers.one_in(2) {
        let large = [MOST_HITS, MOST_HITS + 1, 2_000_000, u64::from(u32::MAX) + 7];
        let hits = if numbers.one_in(10) { numbers.pick(&large) } else { numbers.below(6) };
        descriptor.hits_addend = Some(hits);
        descriptor.is_negative_hits = numbers.one_in(3);
    }
    descriptor
}

fn advance(lab: &Lab, numbers: &mut Numbers) {
    let by = match numbers.below(11) {
        0..6 => 0,
        6 => numbers.below(1000),
        7 => numbers.below(1_000_000_000),
        8 => numbers.below(60_000_000_000),
        9 => numbers.below(4_000_000_000_000),
        _ => numbers.below(300_000_000_000),
    };
    lab.clock.advance(Nanos(by));
}

fn of_one(descriptor: &Descriptor) -> Request {
    Request { domain: "d".to_owned(), descriptors: vec![descriptor.clone()], hits_addend: 0 }
}

fn is_over(status: &Status) -> bool {
    status.code == Code::OverLimit
}

/// What was done to the limits of each entry, and when.
#[derive(Clone)]
struct Model<'r> {
    rules: &'r HashMap<&'static str, Rule>,
    passes_all: bool,
    done: HashMap<(String, String), Vec<(Nanos, Descriptor)>>,
}

impl Model<'_> {
    fn rule(&self, descriptor: &Descriptor) -> &Rule {
        &self.rules[&*descriptor.entries[0].0]
    }

    fn stands_alone(&self, descriptor: &Descriptor) -> bool {
        descriptor.limit.is_some() || self.rule(descriptor).counts_all()
    }

    /// Does what a descriptor asks for, and says what is answered.
    fn take(&mut self, descriptor: &Descriptor, now: Nanos) -> Status {
        let text =
            format!("domain: d\ndescriptors: [{{key: x, rate_limit: {{{}}}}}]", self.rule(descriptor).limit);
        let lab = lab(&text.replace("key: x", &format!("key: {}", descriptor.entries[0].0)));
        let done = self.done.entry(descriptor.entries[0].clone()).or_default();
        done.push((now, descriptor.clone()));
        let mut statuses = done.iter().map(|(time, descriptor)| {
            lab.clock.set(*time);
            lab.ask(&of_one(descriptor)).statuses[0].clone()
        });
        statuses.by_ref().last().unwrap()
    }

    fn ask(&self, descriptor: &Descriptor, now: Nanos) -> Status {
        self.clone().take(descriptor, now)
    }

    /// What a descriptor would be told that takes nothing.
    fn left(&self, descriptor: &Descriptor, now: Nanos) -> Status {
        self.ask(&Descriptor { hits_addend: Some(0), is_negative_hits: false, ..descriptor.clone() }, now)
    }

    /// Whether each descriptor is over its limit, and whether the request is denied.
    fn judge(&mut self, request: &Request, now: Nanos) -> (Vec<bool>, bool) {
        let descriptors = &request.descriptors;
        let is_tentative = |model: &Self, descriptor: &Descriptor| {
            let hits = descriptor.hits_addend.unwrap_or(1);
            let is_excessive = hits > MOST_HITS && !descriptor.is_negative_hits;
            let is_closed = descriptor.limit.is_none() && model.rule(descriptor).is_closed();
            hits > 0 && !is_excessive && !is_closed && !model.stands_alone(descriptor)
        };
        let mut over: Vec<bool> = Vec::new();
        for descriptor in descriptors {
            over.push(match (is_tentative(self, descriptor), descriptor.is_negative_hits) {
                (true, true) => false,
                (true, false) => is_over(&self.ask(descriptor, now)),
                (false, _) if self.stands_alone(descriptor) => is_over(&self.take(descriptor, now)),
                (false, _) => is_over(&self.ask(descriptor, now)),
            });
        }
        if self.denies(descriptors, &over) {
            return (over, true);
        }
        let before = self.clone();
        for shadow in [false, true] {
            for (index, descriptor) in descriptors.iter().enumerate() {
                let is_shadow = descriptor.limit.is_none() && self.rule(descriptor).shadow;
                if !is_tentative(self, descriptor) || descriptor.is_negative_hits || is_shadow != shadow {
                    continue;
                }
                over[index] = is_over(&self.take(descriptor, now));
                if over[index] && self.denies(descriptors, &over) {
                    self.done = before.done;
                    return (over, true);
                }
            }
        }
        let mut refunded = before;
        for (index, descriptor) in descriptors.iter().enumerate() {
            if is_tentative(self, descriptor) && descriptor.is_negative_hits {
                over[index] = is_over(&self.take(descriptor, now));
                refunded.take(descriptor, now);
            }
        }
        let is_denied = self.denies(descriptors, &over);
        if is_denied {
            self.done = refunded.done;
        }
        (over, is_denied)
    }

    fn denies(&self, descriptors: &[Descriptor], over: &[bool]) -> bool {
        let modes = |descriptor: &Descriptor| match descriptor.limit {
            Some(_) => (false, false),
            None => (self.rule(descriptor).shadow, self.rule(descriptor).quota),
        };
        let limited =
            |descriptor: &&Descriptor| descriptor.limit.is_some() || !self.rule(descriptor).is_unlimited();
        let decides = |(descriptor, over): (&Descriptor, &bool)| *over && modes(descriptor) == (false, false);
        let is_open = descriptors
            .iter()
            .any(|descriptor| modes(descriptor).1 && (modes(descriptor).0 || !limited(&descriptor)));
        let quotas = || descriptors.iter().zip(over).filter(|(descriptor, _)| modes(descriptor).1);
        let is_over = descriptors.iter().zip(over).any(decides)
            || (!is_open && quotas().count() > 0 && quotas().all(|(_, over)| *over));
        is_over && !self.passes_all
    }
}

#[test]
fn a_request_is_judged_as_by_a_slow_model() {
    for seed in 1..16_u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let of_keys: HashMap<&'static str, Rule> =
            KEYS.into_iter().map(|key| (key, Rule::random(&mut numbers))).collect();
        let mut policy = ServicePolicy::of_rules(rules(&file(&of_keys)));
        policy.shadow_mode = numbers.one_in(10);
        let lab = lab_of(&policy);
        let mut model = Model { rules: &of_keys, passes_all: policy.shadow_mode, done: HashMap::new() };
        for step in 0..20 {
            advance(&lab, &mut numbers);
            let most = numbers.pick(&[1, 3, 6]);
            let descriptors = (0..1 + numbers.below(most)).map(|_| random_descriptor(&mut numbers)).collect();
            let request = Request { descriptors, ..of_one(&Descriptor::default()) };
            let response = lab.ask(&request);
            let over: Vec<bool> =
                response.statuses.iter().map(|status| is_over(status) || status.shadowed).collect();
            let place = format!("seed {seed}, step {step}: {} {request:?}", file(&of_keys));
            let now = lab.clock.now();
            assert_eq!((over, !response.allowed()), model.judge(&request, now), "{place}");
            for (key, value) in KEYS.into_iter().flat_map(|key| VALUES.map(|value| (key, value))) {
                let descriptor = Descriptor { hits_addend: Some(0), ..Descriptor::of([(key, value)]) };
                let left = lab.ask(&of_one(&descriptor)).statuses[0].remaining;
                assert_eq!(left, model.left(&descriptor, now).remaining, "{key} {value} after {place}");
            }
        }
    }
}
