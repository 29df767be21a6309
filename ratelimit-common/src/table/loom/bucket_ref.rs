//! Buckets are charged where they were found, without a second look at whose they are, while others take their slots.

use super::{
    explore, run,
    scene::{
        Start::{Free, Idle, Live},
        bucket, first_in_set_0, second_in_set_0,
    },
    world::World,
};
use crate::table::Key;

fn owner() -> Key {
    first_in_set_0(10)
}

fn neighbour() -> Key {
    second_in_set_0(20)
}

fn newcomer() -> Key {
    first_in_set_0(30)
}

fn charge_owner(world: &World) {
    world.charge_known(owner());
}

fn charge_neighbour(world: &World) {
    world.charge_known(neighbour());
}

fn charge_newcomer(world: &World) {
    world.charge_known(newcomer());
}

#[test]
fn a_unit_is_given_out_once() {
    explore(3, |loads| {
        let world = World::new(loads, bucket(3), &[Live(owner(), 2)], &[]);
        run(&world, [charge_owner, charge_owner]);
        assert_eq!((world.admitted(owner()), world.taken(owner())), (1, Some(3)));
    });
}

#[test]
fn an_idle_bucket_is_taken_while_its_owner_charges_it() {
    explore(3, |loads| {
        let world = World::new(loads, bucket(1), &[Idle(owner(), 9), Free(8)], &[]);
        run(&world, [charge_owner, charge_newcomer]);
        for key in [owner(), newcomer()] {
            assert_eq!((world.admitted(key), world.taken(key)), (1, Some(1)));
        }
        assert_eq!(world.live_evictions(), 0);
    });
}

#[test]
fn a_slot_that_is_given_back_is_nobodys() {
    explore(2, |loads| {
        let world = World::new(loads, bucket(1), &[Idle(owner(), 9), Free(8)], &[Free(7)]);
        run(&world, [charge_owner, charge_newcomer, charge_newcomer]);
        for key in [owner(), newcomer()] {
            assert_eq!((world.admitted(key), world.taken(key)), (1, Some(1)));
        }
        assert_eq!(world.live_evictions(), 0);
    });
}

#[test]
fn a_bucket_in_its_second_set_is_found_while_others_take_the_slots_around_it() {
    explore(2, |loads| {
        let world = World::new(loads, bucket(3), &[Live(neighbour(), 1), Free(9)], &[Free(8)]);
        run(&world, [charge_owner, charge_neighbour, charge_newcomer]);
        assert_eq!((world.admitted(neighbour()), world.taken(neighbour())), (1, Some(2)));
        for key in [owner(), newcomer()] {
            assert_eq!((world.admitted(key), world.taken(key)), (1, Some(1)));
        }
        assert_eq!(world.live_evictions(), 0);
    });
}

/// What several rules decide about one packet is put in force later than decided: at the place, if it is still so.
#[test]
fn what_was_decided_before_is_put_in_force_only_if_nothing_has_changed() {
    explore(3, |loads| {
        let world = World::new(loads, bucket(1), &[Idle(owner(), 9), Free(8)], &[]);
        run(&world, [|world| world.charge_later(owner()), charge_newcomer]);
        for key in [owner(), newcomer()] {
            assert_eq!((world.admitted(key), world.taken(key)), (1, Some(1)));
        }
        assert_eq!(world.live_evictions(), 0);
    });
}
