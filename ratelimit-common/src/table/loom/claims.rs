//! Several threads make a bucket for the same new key: whichever slots they take, one bucket comes of it, and it holds
//! every unit that was admitted.

use super::{
    explore,
    memory::{
        Memory,
        Start::{self, Free, Idle, Live},
        bucket, first_in_set_0, second_in_set_0,
    },
    run,
};
use crate::table::Key;

fn new_key() -> Key {
    first_in_set_0(10)
}

fn charge(memory: &Memory) {
    memory.charge(new_key());
}

fn assert_one_admitted(memory: &Memory) {
    assert_eq!((memory.admitted(new_key()), memory.taken(new_key())), (1, Some(1)));
    assert_eq!(memory.live_evictions(), 0);
}

/// Both threads claim; whoever comes later takes the slot that is next in age, or in the set that is now emptier.
fn two_claim(set0: &'static [Start], other: &'static [Start]) {
    explore(3, move || {
        let memory = Memory::new(bucket(1), set0, other);
        run(&memory, [charge, charge]);
        assert_one_admitted(&memory);
    });
}

#[test]
fn two_that_take_the_slots_of_one_set_in_order() {
    two_claim(&[Free(9), Free(8)], &[]);
}

#[test]
fn two_that_take_the_later_slot_first() {
    two_claim(&[Free(8), Free(9)], &[]);
}

#[test]
fn two_that_take_the_second_set_first() {
    two_claim(&[Free(9)], &[Free(9), Free(8)]);
}

#[test]
fn two_with_one_slot() {
    two_claim(&[Free(9)], &[]);
}

#[test]
fn three() {
    explore(2, move || {
        let memory = Memory::new(bucket(1), &[Free(8), Free(9)], &[Free(9)]);
        run(&memory, [charge, charge, charge]);
        assert_one_admitted(&memory);
    });
}
