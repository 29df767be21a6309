//! Several threads make a bucket for the same new key: whichever slots they take, one bucket comes of it, and one unit
//! of it is given out.

use super::{
    explore, run,
    scene::{
        Start::{self, Free},
        bucket, first_in_set_0,
    },
    world::World,
};
use crate::table::Key;

fn new_key() -> Key {
    first_in_set_0(10)
}

fn charge(world: &World) {
    world.charge(new_key());
}

fn assert_one_admitted(world: &World) {
    assert_eq!((world.admitted(new_key()), world.taken(new_key())), (1, Some(1)));
    assert_eq!(world.live_evictions(), 0);
}

/// Who comes first takes the slot that has been free for longest in the set with more free slots. Who comes while it is
/// being taken takes another.
fn claimed_by_two(set_0: &'static [Start], other: &'static [Start]) {
    explore(3, move |loads| {
        let world = World::new(loads, bucket(1), set_0, other);
        run(&world, [charge, charge]);
        assert_one_admitted(&world);
    });
}

#[test]
fn an_earlier_slot_then_a_later_one() {
    claimed_by_two(&[Free(9), Free(8)], &[]);
}

#[test]
fn a_later_slot_then_an_earlier_one() {
    claimed_by_two(&[Free(8), Free(9)], &[]);
}

#[test]
fn the_second_set_then_the_first() {
    claimed_by_two(&[Free(9)], &[Free(9), Free(8)]);
}

#[test]
fn one_slot_for_both() {
    claimed_by_two(&[Free(9)], &[]);
}

#[test]
fn who_exchanges_a_state_claims_as_who_charges() {
    explore(3, move |loads| {
        let world = World::new(loads, bucket(1), &[Free(9)], &[Free(9), Free(8)]);
        run(&world, [charge, |world| world.exchange(new_key())]);
        assert_one_admitted(&world);
    });
}

fn claimed_by_three(set_0: &'static [Start], other: &'static [Start]) {
    explore(2, move |loads| {
        let world = World::new(loads, bucket(1), set_0, other);
        run(&world, [charge, charge, charge]);
        assert_one_admitted(&world);
    });
}

#[test]
fn three_slots_of_both_sets() {
    claimed_by_three(&[Free(8), Free(9)], &[Free(9)]);
}

#[test]
fn two_slots_for_three() {
    claimed_by_three(&[Free(9)], &[Free(9)]);
}
