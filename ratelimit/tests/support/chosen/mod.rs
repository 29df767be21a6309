//! Questions of which a client has chosen every byte that it can, and what must come of them: with room left they pass
//! and are charged, with all limits used up they are denied, and no question is answered with an error. For the
//! property test and the fuzz target, which make the bytes.

mod question;
mod side;

use self::{
    question::{Cost, Question},
    side::{Answer, Side},
};

/// Hits that a limit lets through at once.
const MOST_HITS: u64 = 1_000_000_000;

/// Limits that have room for all that is asked in between two that are made anew.
const ROOMY: &str =
    "{algorithm: token_bucket, unit: second, requests_per_unit: 1000000, burst: 30000000000000}";
/// Limits that one question uses up.
const TIGHT: &str = "{algorithm: token_bucket, unit: day, requests_per_unit: 1}";

/// Questions until new limits are made, so that the roomy ones keep room.
const MOST_QUESTIONS: u32 = 4_000;

/// Two daemons with the same rules and other numbers.
pub struct Sides {
    roomy: Side,
    tight: Side,
    asked: u32,
}

impl Sides {
    pub fn new() -> Self {
        Self { roomy: Side::new(ROOMY), tight: Side::new(TIGHT), asked: 0 }
    }

    /// Makes a question of the bytes, and asks it.
    pub fn ask(&mut self, bytes: &[u8]) {
        self.asked += 1;
        if self.asked > MOST_QUESTIONS {
            *self = Self::new();
        }
        let question = Question::of(bytes);
        if let Some(message) = question.raw_message() {
            // Whatever it says is answered.
            self.roomy.ask_raw(message);
            return;
        }
        if question.is_too_long() {
            assert_eq!(self.roomy.ask(&question), Answer::Denied, "too long: {question:?}");
            return;
        }
        self.with_room(&question);
        self.used_up(&question);
    }

    fn with_room(&self, question: &Question) {
        let left = |cost| match self.roomy.ask(&question.costing(cost)) {
            Answer::Allowed { remaining } => remaining,
            Answer::Denied => panic!("denied with room left: {question:?}"),
        };
        match question.cost() {
            Cost::Takes(hits) if hits <= MOST_HITS => {
                let before = left(question.cost());
                assert_eq!(before - left(question.cost()), hits, "charged: {question:?}");
            }
            Cost::Takes(_) => {
                let before = left(Cost::Takes(0));
                assert_eq!(self.roomy.ask(question), Answer::Denied, "{question:?}");
                assert_eq!(left(Cost::Takes(0)), before, "not charged: {question:?}");
            }
            Cost::GivesBack(_) => {
                let before = left(Cost::Takes(1));
                assert!(left(question.cost()) >= before, "given back: {question:?}");
            }
        }
    }

    fn used_up(&self, question: &Question) {
        // It passes, or what it shares with an earlier one is used up already.
        self.tight.ask(&question.costing(Cost::Takes(1)));
        let answer = self.tight.ask(question);
        let gives_back = matches!(question.cost(), Cost::GivesBack(_));
        assert!(gives_back || answer == Answer::Denied, "passes with all limits used up: {question:?}");
    }
}
