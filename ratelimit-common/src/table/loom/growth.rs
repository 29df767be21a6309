//! A set is split while others use it: buckets that move, buckets that stay, and keys that have none yet.

use super::{
    explore, run,
    scene::{
        Start::{self, Free, Idle, Live},
        bucket, first_in_set_0, second_in_set_0,
    },
    world::World,
};
use crate::table::Key;

fn split(world: &World) {
    world.split();
}

fn mover() -> Key {
    first_in_set_0(11)
}

fn stayer() -> Key {
    first_in_set_0(20)
}

fn charge_mover(world: &World) {
    world.charge(mover());
}

fn charge_stayer(world: &World) {
    world.charge(stayer());
}

#[test]
fn a_bucket_that_moves_is_charged() {
    explore(2, |loads| {
        let world = World::new(loads, bucket(3), &[Live(mover(), 1), Free(9)], &[Free(9)]);
        run(&world, [split, charge_mover, charge_mover]);
        assert_eq!((world.admitted(mover()), world.taken(mover())), (2, Some(3)));
    });
}

#[test]
fn a_bucket_that_moves_is_exchanged() {
    explore(2, |loads| {
        let world = World::new(loads, bucket(3), &[Live(mover(), 1), Free(9)], &[Free(9)]);
        run(&world, [split, charge_mover, |world| world.exchange(mover())]);
        assert_eq!((world.admitted(mover()), world.taken(mover())), (2, Some(3)));
    });
}

#[test]
fn a_bucket_that_stays_is_charged() {
    explore(2, |loads| {
        let world = World::new(loads, bucket(3), &[Live(stayer(), 1), Free(9)], &[Free(9)]);
        run(&world, [split, charge_stayer, charge_stayer]);
        assert_eq!((world.admitted(stayer()), world.taken(stayer())), (2, Some(3)));
    });
}

#[test]
fn a_bucket_that_moves_is_full_all_the_time() {
    explore(3, |loads| {
        let world = World::new(loads, bucket(1), &[Live(mover(), 1)], &[Free(9)]);
        run(&world, [split, |world| assert!(!world.has_room(mover()))]);
    });
}

#[test]
fn a_bucket_that_moves_gets_a_unit_back() {
    explore(2, |loads| {
        let world = World::new(loads, bucket(3), &[Live(mover(), 2)], &[Free(9)]);
        run(&world, [split, charge_mover, |world| world.give_back(mover())]);
        assert_eq!((world.admitted(mover()), world.taken(mover())), (1, Some(2)));
    });
}

fn claimed_by_two(key: fn() -> Key, charge: fn(&World), set_0: &'static [Start], other: &'static [Start]) {
    explore(2, move |loads| {
        let world = World::new(loads, bucket(1), set_0, other);
        run(&world, [split, charge, charge]);
        assert_eq!((world.admitted(key()), world.taken(key())), (1, Some(1)));
        assert_eq!(world.live_evictions(), 0);
    });
}

#[test]
fn a_new_key_that_moves_is_claimed_in_both_sets() {
    claimed_by_two(mover, charge_mover, &[Free(9)], &[Free(9)]);
}

#[test]
fn a_new_key_that_moves_is_claimed_in_the_set_that_is_split() {
    claimed_by_two(mover, charge_mover, &[Free(9), Free(8)], &[]);
}

#[test]
fn a_new_key_that_stays_is_claimed() {
    claimed_by_two(stayer, charge_stayer, &[Free(9)], &[Free(9)]);
}

/// The set that is split is its second one.
fn second_mover() -> Key {
    let moves = |key: &Key| key.second() & crate::table::LEAST_SETS != 0;
    (30..).map(second_in_set_0).find(moves).unwrap()
}

#[test]
fn a_new_key_that_moves_between_second_sets_is_claimed() {
    claimed_by_two(second_mover, |world| world.charge(second_mover()), &[Free(9)], &[Free(9)]);
}

#[test]
fn an_idle_bucket_that_moves_is_taken_while_its_owner_charges_it() {
    explore(2, |loads| {
        let world = World::new(loads, bucket(1), &[Idle(mover(), 9), Free(8)], &[Free(7)]);
        run(&world, [split, charge_mover, charge_stayer]);
        for key in [mover(), stayer()] {
            assert_eq!((world.admitted(key), world.taken(key)), (1, Some(1)));
        }
        assert_eq!(world.live_evictions(), 0);
    });
}
