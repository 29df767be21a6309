//! A figure of many rounds, and its error.

/// A percentile of rounds, and half of what it would differ by if the rounds were made again: the percentile lies as
/// far from its place among the sorted rounds as a binomial count spreads, in two of three cases.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    pub value: f64,
    pub error: f64,
}

impl Figure {
    /// What a round takes that others on the machine hardly disturb. Zero of no rounds.
    pub fn tenth(rounds: &[f64]) -> Self {
        Self::of(rounds, 0.1)
    }

    pub fn median(rounds: &[f64]) -> Self {
        Self::of(rounds, 0.5)
    }

    fn of(rounds: &[f64], share: f64) -> Self {
        let mut sorted = rounds.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let spread = (count * share * (1.0 - share)).sqrt();
        let at = |place: f64| {
            let place = place.round().clamp(0.0, (count - 1.0).max(0.0));
            sorted.get(place as usize).copied().unwrap_or_default()
        };
        let place = (count - 1.0) * share;
        Self { value: at(place), error: (at(place + spread) - at(place - spread)) / 2.0 }
    }
}
