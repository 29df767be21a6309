//! Random requests under random limits, against a slow model: each bucket is a list of what was taken from it, and what
//! it says next is what a limiter with that one rule says after all of the list.

use std::collections::HashMap;

use ratelimit_limiter::{
    Limiter, Nanos, Rule,
    clock::{Clock as _, FakeClock},
};

use crate::{Numbers, START, algorithms, limiter, rule};

const KEYS: u64 = 2;

/// A limit, and whether it only observes.
type Text = (String, bool);

fn random_rules(numbers: &mut Numbers) -> Vec<Text> {
    let options = ["token_bucket,refill=interval", "leaky_bucket,on_limit=delay"];
    let kinds: Vec<_> = algorithms().chain(options).collect();
    let limit = |numbers: &mut Numbers| {
        let kind = numbers.pick(&kinds);
        let is_wide = kind == "sliding_window_counter" && numbers.below(3) == 0;
        let rate =
            if is_wide { "400000/s" } else { numbers.pick(&["3/s", "10/s", "5/m", "7/h", "20/m", "1/s"]) };
        let denied = if numbers.below(4) == 0 { ",count_denied=true" } else { "" };
        let (kind, more) =
            kind.split_once(',').map_or((kind, String::new()), |(kind, more)| (kind, format!(",{more}")));
        (format!("{kind},rate={rate}{more}{denied}"), numbers.below(6) == 0)
    };
    (0..1 + numbers.below(5)).map(|_| limit(numbers)).collect()
}

fn made(rules: &[Text]) -> (Limiter<FakeClock>, FakeClock) {
    let made = |(index, (text, observes)): (usize, &Text)| {
        let rule = rule(&index.to_string(), text);
        if *observes { rule.observe() } else { rule }
    };
    let rules: Vec<Rule> = rules.iter().enumerate().map(made).collect();
    limiter(rules, 1000)
}

/// One limit's part in a request: the rule, the key and the cost.
type Ask = (usize, u64, u32);

/// For each rule and key, when what was asked for that changed the bucket.
#[derive(Clone, Default)]
struct Model(HashMap<(usize, u64), Vec<(Nanos, u32)>>);

impl Model {
    /// Whether a cost exceeds the limit, and what remains after it. What denied requests leave alone they change
    /// nothing of.
    fn take(&mut self, rules: &[Text], (rule, key, cost): Ask, now: Nanos) -> (bool, u64) {
        let taken = self.0.entry((rule, key)).or_default();
        taken.push((now, cost));
        let (limiter, clock) = limiter([crate::rule("rule", &rules[rule].0)], 100);
        let mut answer = (false, 0);
        for &(time, cost) in &*taken {
            clock.set(time);
            let decision = limiter.check("key", cost);
            answer = (decision.exceeded(), decision.remaining());
        }
        answer
    }

    fn ask(&self, rules: &[Text], ask: Ask, now: Nanos) -> bool {
        self.clone().take(rules, ask, now).0
    }

    /// For each part whether it exceeds its limit.
    fn judge(&mut self, rules: &[Text], asks: &[Ask], now: Nanos) -> Vec<bool> {
        let observes = |ask: &Ask| rules[ask.0].1;
        let stands_alone = |ask: &Ask| rules[ask.0].0.contains("count_denied") && !observes(ask);
        let mut exceeded: Vec<bool> = Vec::new();
        for ask in asks {
            exceeded.push(if stands_alone(ask) {
                self.take(rules, *ask, now).0
            } else {
                self.ask(rules, *ask, now)
            });
        }
        let is_denied =
            |exceeded: &[bool]| asks.iter().zip(exceeded).any(|(ask, &over)| over && !observes(ask));
        if is_denied(&exceeded) {
            return exceeded;
        }
        let before = self.clone();
        for of_observers in [false, true] {
            for (index, ask) in
                asks.iter().enumerate().filter(|(_, ask)| !stands_alone(ask) && observes(ask) == of_observers)
            {
                exceeded[index] = self.take(rules, *ask, now).0;
                if is_denied(&exceeded) {
                    *self = before;
                    return exceeded;
                }
            }
        }
        exceeded
    }
}

fn advance(clock: &FakeClock, numbers: &mut Numbers) {
    let by = match numbers.below(12) {
        0..6 => 0,
        6 => numbers.below(1000),
        7 | 8 => numbers.below(1_000_000_000),
        9 => numbers.below(60_000_000_000),
        _ => numbers.below(4_000_000_000_000),
    };
    clock.advance(Nanos(by));
}

#[test]
fn a_request_is_judged_as_by_a_slow_model() {
    for seed in 1..60_u64 {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let rules = random_rules(&mut numbers);
        let (limiter, clock) = made(&rules);
        let mut model = Model::default();
        assert_eq!(clock.now(), START);
        for step in 0..25 {
            advance(&clock, &mut numbers);
            let costs = [0, 1, 1, 1, 2, 3, 5, 100, 300_000, u32::MAX];
            let ask = |numbers: &mut Numbers| {
                (numbers.below(rules.len() as u64) as usize, numbers.below(KEYS), numbers.pick(&costs))
            };
            let asks: Vec<Ask> = (0..1 + numbers.below(5)).map(|_| ask(&mut numbers)).collect();
            let parts: Vec<_> =
                asks.iter().map(|(rule, key, cost)| limiter.ask(*rule, key, *cost).unwrap()).collect();
            let outcome = limiter.check_each(&parts);
            let exceeded: Vec<bool> =
                outcome.decisions().iter().map(|decision| decision.exceeded()).collect();
            let place = format!("seed {seed}, step {step}: {rules:?} {asks:?}");
            assert_eq!(exceeded, model.judge(&rules, &asks, clock.now()), "{place}");
            for (rule, key) in (0..rules.len()).flat_map(|rule| (0..KEYS).map(move |key| (rule, key))) {
                let left =
                    limiter.check_each(&[limiter.ask(rule, &key, 0).unwrap()]).decisions()[0].remaining();
                let (_, expected) = model.clone().take(&rules, (rule, key, 0), clock.now());
                assert_eq!(left, expected, "rule {rule}, key {key} after {place}");
            }
        }
    }
}
