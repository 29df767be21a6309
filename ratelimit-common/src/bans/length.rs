//! How long bans last, and how they lengthen when a prefix is banned again.

use crate::{
    algorithm,
    time::{Nanos, Now, Ticks},
};

/// For how long somebody is banned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BanLength {
    /// For so long.
    For(Nanos),
    /// Until somebody ends it, or the table is gone.
    Forever,
}

/// In the place of a length in nanoseconds.
const FOREVER: u64 = u64::MAX;

/// The state of a ban without an end: the last time that a state can keep.
const NEVER: u64 = Ticks(u64::MAX).as_state();

impl BanLength {
    /// As a [`BanSchedule`] has it.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        match self {
            Self::For(Nanos(FOREVER)) => FOREVER - 1,
            Self::For(length) => length.0,
            Self::Forever => FOREVER,
        }
    }

    /// For how long the ban with this state is in force still, if it is.
    #[must_use]
    pub const fn left(state: u64, now: Now) -> Option<Self> {
        if algorithm::is_idle(state, now) {
            return None;
        }
        Some(match state {
            NEVER => Self::Forever,
            end => Self::For(Ticks(end.wrapping_sub(now.ticks().0)).to_nanos_up()),
        })
    }
}

/// When a ban ends that is made now for so many nanoseconds: before the ticks wrap, see [`Now`], at that time at the
/// latest, since what has wrapped looks passed until then. After that a ban without an end has one in a year.
#[inline(always)]
const fn end(nanos: u64, now: Now) -> u64 {
    let length = if nanos == FOREVER { Nanos::YEAR } else { Nanos(nanos) }.to_ticks();
    if now.is_plain() && (nanos == FOREVER || length.0 > NEVER - now.ticks().0) {
        NEVER
    } else {
        now.plus(length).0
    }
}

/// How long bans last, and how they lengthen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BanSchedule {
    /// Nanoseconds of the first ban; 0 if there are none.
    pub length: u64,
    /// How many times as long the next one is.
    pub factor: u64,
    /// The highest multiple of the first one that is no longer than the longest.
    pub most: u64,
    /// Nanoseconds of the longest.
    pub up_to: u64,
    /// For how many ticks after its end a ban is remembered.
    pub forget: u64,
}

impl BanSchedule {
    /// For how long after their end bans are remembered where nobody says.
    pub const FORGET: Nanos = Nanos::from_secs(86_400);

    /// All bans last for so long.
    #[must_use]
    pub const fn constant(length: BanLength) -> Self {
        let length = length.nanos();
        Self { length, factor: 1, most: 1, up_to: length, forget: Self::FORGET.to_ticks().0 }
    }

    /// Each ban is `factor` times as long as the one before, up to `up_to`, unless that ended more than `forget` ago.
    #[must_use]
    pub const fn lengthening(length: Nanos, factor: u32, up_to: Nanos, forget: Nanos) -> Self {
        let first = if length.0 == 0 { 1 } else { length.0 };
        Self {
            length: first,
            factor: factor as u64,
            most: up_to.0 / first,
            up_to: up_to.0,
            forget: forget.to_ticks().0,
        }
    }

    /// The first ban's length.
    #[must_use]
    pub const fn shortest(&self) -> BanLength {
        if self.length == FOREVER { BanLength::Forever } else { BanLength::For(Nanos(self.length)) }
    }

    /// The nanoseconds of a ban that is so many times as long as the first one.
    #[inline(always)]
    const fn length_of(&self, multiple: u64) -> u64 {
        if multiple > self.most { self.up_to } else { self.length * multiple }
    }
}

/// What is known of a ban, kept beside its slot until another takes that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BanRecord {
    /// The slot's state: of a ban with another one this says nothing.
    pub state: u64,
    /// When it was made: nanoseconds since the table was.
    pub made: u64,
    /// Who made it.
    pub maker: u64,
    /// How many times as long as the first one it was, if a rule with such terms made it.
    pub multiple: u64,
}

impl BanRecord {
    /// Its words.
    pub const WORDS: usize = size_of::<Self>() / size_of::<u64>();

    /// Bans lengthen up to so many times.
    const MOST: u64 = u32::MAX as u64;

    /// The record of a prefix's first ban.
    #[must_use]
    #[inline(always)]
    pub const fn first(terms: &BanSchedule, maker: u64, now: Now) -> Self {
        Self::new(terms, maker, now, 1)
    }

    #[inline(always)]
    const fn new(terms: &BanSchedule, maker: u64, now: Now, multiple: u64) -> Self {
        Self { state: end(terms.length_of(multiple), now), made: now.0.0, maker, multiple }
    }

    #[inline(always)]
    const fn bounded(multiple: u64) -> u64 {
        if multiple > Self::MOST { Self::MOST } else { multiple }
    }

    /// The record of a new ban in a slot with this state, whose record until now is `self`. Whoever is banned while the
    /// packets that banned them are still on their way is not banned twice. `None` if the slot's ban ends later than
    /// the new one, and so stays, unless the new one `replaces` it.
    #[must_use]
    #[inline(always)]
    pub const fn next(
        &self,
        terms: &BanSchedule,
        maker: u64,
        state: u64,
        now: Now,
        replaces: bool,
    ) -> Option<Self> {
        let is_in_force = !algorithm::is_idle(state, now);
        let is_known = self.state == state && self.multiple != 0;
        let is_remembered = is_in_force || now.ticks().0.wrapping_sub(state) <= terms.forget;
        let multiple = if is_known && is_remembered { Self::bounded(self.multiple) } else { 1 };
        let factor = if is_known && is_remembered && !is_in_force { Self::bounded(terms.factor) } else { 1 };
        let next = Self::new(terms, maker, now, Self::bounded(multiple * factor));
        if is_in_force && !replaces && later_end(state, next.state, now) == state {
            return None;
        }
        Some(next)
    }
}

/// When a ban ends whose prefix is banned again until `end`, of the state that it has: the longer ban stays.
#[must_use]
#[inline(always)]
const fn later_end(before: u64, end: u64, now: Now) -> u64 {
    let now_ticks = now.ticks().0;
    let is_later = before.wrapping_sub(now_ticks) > end.wrapping_sub(now_ticks);
    if is_later && !algorithm::is_idle(before, now) { before } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60 * Nanos::SECOND.0;
    const DAY: u64 = 1_440 * MINUTE;

    fn lengthening() -> BanSchedule {
        BanSchedule::lengthening(Nanos(10 * MINUTE), 4, Nanos(7 * DAY), Nanos(DAY))
    }

    /// The next ban so long after the end of this one.
    fn after(record: BanRecord, terms: &BanSchedule, nanos: u64, ended: Now) -> (BanRecord, Now) {
        let now = Now(Nanos(ended.0.0 + nanos));
        let next = record.next(terms, 7, record.state, now, false).unwrap();
        (next, now)
    }

    fn minutes(record: &BanRecord, now: Now) -> u64 {
        let Some(BanLength::For(left)) = BanLength::left(record.state, now) else { panic!("no end") };
        left.0 / MINUTE
    }

    fn ended(record: &BanRecord, now: Now) -> Now {
        Now(Nanos(now.0.0 + minutes(record, now) * MINUTE))
    }

    #[test]
    fn bans_lengthen_until_they_are_forgotten() {
        // The last one is so late that ticks have wrapped.
        for age in [0, DAY, 1_900 * DAY] {
            let terms = lengthening();
            let mut now = Now(Nanos(age));
            let mut record = BanRecord::first(&terms, 7, now);
            for expected in [10, 40, 160, 640, 2_560, 10_080, 10_080, 10_080] {
                assert_eq!(minutes(&record, now), expected);
                (record, now) = after(record, &terms, DAY, ended(&record, now));
            }
            let end = ended(&record, now);
            let (record, now) = after(record, &terms, DAY + 1, end);
            assert_eq!(minutes(&record, now), 10, "forgotten");
        }
    }

    #[test]
    fn a_rule_with_constant_bans_neither_lengthens_nor_forgets() {
        let (terms, constant) = (lengthening(), BanSchedule::constant(BanLength::For(Nanos(MINUTE))));
        let now = Now(Nanos(5));
        let first = BanRecord::first(&terms, 7, now);
        let (second, now) = after(first, &terms, 0, ended(&first, now));
        let (other, now) = after(second, &constant, 0, ended(&second, now));
        assert_eq!(minutes(&other, now), 1);
        let (third, now) = after(other, &terms, 0, ended(&other, now));
        assert_eq!(minutes(&third, now), 160);
    }

    #[test]
    fn packets_on_their_way_do_not_lengthen_a_ban() {
        let terms = lengthening();
        let now = Now(Nanos(5));
        let first = BanRecord::first(&terms, 7, now);
        let (second, now) = after(first, &terms, 0, ended(&first, now));
        let later = Now(Nanos(now.0.0 + 1_000));
        let again = second.next(&terms, 7, second.state, later, false).unwrap();
        assert_eq!((again.multiple, minutes(&again, later)), (4, 40));
    }

    #[test]
    fn who_is_let_go_is_forgotten() {
        let terms = lengthening();
        let now = Now(Nanos(5));
        let first = BanRecord::first(&terms, 7, now);
        let next = first.next(&terms, 7, algorithm::fresh(now), now, false).unwrap();
        assert_eq!(next.multiple, 1);
    }

    #[test]
    fn forever_outlasts_every_other_ban() {
        let forever = BanSchedule::constant(BanLength::Forever);
        for age in [0, 1_000 * DAY, 1_300 * DAY] {
            let now = Now(Nanos(age));
            let record = BanRecord::first(&forever, 1, now);
            assert_eq!(BanLength::left(record.state, now), Some(BanLength::Forever));
            let year = BanSchedule::constant(BanLength::For(Nanos::YEAR));
            assert_eq!(record.next(&year, 1, record.state, now, false), None, "the longer one stays");
            let shortened = record.next(&year, 1, record.state, now, true).unwrap();
            assert_eq!(BanLength::left(shortened.state, now), Some(BanLength::For(Nanos::YEAR)));
            let lengthened = shortened.next(&forever, 1, shortened.state, now, false).unwrap();
            assert_eq!(lengthened.state, record.state);
            let years_later = Now(Nanos(1_650 * DAY));
            assert_eq!(BanLength::left(record.state, years_later), Some(BanLength::Forever));
        }
    }

    #[test]
    fn bans_hold_around_the_wrap_of_ticks() {
        for (age, length, expected) in [
            (1_400, BanLength::Forever, BanLength::Forever),
            (1_900, BanLength::Forever, BanLength::For(Nanos::YEAR)),
            (1_660, BanLength::For(Nanos::YEAR), BanLength::Forever),
            (1_660, BanLength::For(Nanos(DAY)), BanLength::For(Nanos(DAY))),
            (1_900, BanLength::For(Nanos(DAY)), BanLength::For(Nanos(DAY))),
        ] {
            let now = Now(Nanos(age * DAY));
            let record = BanRecord::first(&BanSchedule::constant(length), 1, now);
            assert_eq!(BanLength::left(record.state, now), Some(expected), "{age}");
        }
    }

    #[test]
    fn a_longer_ban_is_not_shortened() {
        let (minutes, week) = (Nanos::from_secs(600).to_ticks(), Nanos::from_secs(604_800).to_ticks());
        // The last one is so late that ticks have wrapped.
        for age in [0, 1, 3_600, 86_400 * 1_800] {
            let now = Now(Nanos::from_secs(age));
            let [short, long] = [minutes, week].map(|length| now.plus(length).0);
            assert_eq!(later_end(long, short, now), long);
            assert_eq!(later_end(short, long, now), long);
            // None, one that has just ended, and one that ended long ago.
            for ended in [algorithm::fresh(now), now.ticks().0.saturating_sub(1), now.ticks().0 / 2] {
                assert_eq!(later_end(ended, short, now), short, "{ended}");
            }
        }
    }

    #[test]
    fn nothing_overflows() {
        let terms = BanSchedule::lengthening(Nanos::YEAR, u32::MAX, Nanos::YEAR, Nanos::YEAR);
        let now = Now(Nanos(0));
        let mut record = BanRecord { state: 1, made: 0, maker: 0, multiple: u64::MAX };
        for _ in 0..3 {
            record = record.next(&terms, 0, record.state, ended(&record, now), false).unwrap_or(record);
            assert_eq!(record.multiple, BanRecord::MOST);
        }
        assert_eq!(BanSchedule::lengthening(Nanos(0), 2, Nanos(0), Nanos(0)).length_of(9), 0);
    }
}
