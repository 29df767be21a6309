//! A figure of many rounds, and how large its error is.

/// What rounds came to.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The tenth percentile: what a round takes that others on the machine hardly disturb.
    pub tenth: f64,
    pub middle: f64,
    /// Half the distance of the quartiles.
    pub error: f64,
}

impl Figure {
    /// Zero of no rounds.
    pub fn of(rounds: &[f64]) -> Self {
        let mut sorted = rounds.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |share: usize| sorted.get(sorted.len() * share / 100).copied().unwrap_or_default();
        Self { tenth: at(10), middle: at(50), error: (at(75) - at(25)) / 2.0 }
    }
}
