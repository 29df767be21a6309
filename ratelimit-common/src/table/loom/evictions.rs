//! Slots change hands while their owners use them: an idle bucket is taken without loss; one in use only if there is no
//! other slot, and then it is counted.

use super::{
    explore, run,
    scene::{
        Start::{Free, Idle, Live},
        bucket, first_in_set_0, second_in_set_0, window,
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
    world.charge(owner());
}

fn charge_neighbour(world: &World) {
    world.charge(neighbour());
}

fn charge_newcomer(world: &World) {
    world.charge(newcomer());
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
fn an_idle_bucket_is_taken_while_its_owner_charges_it_twice() {
    explore(2, |loads| {
        let world = World::new(loads, bucket(1), &[Idle(owner(), 9), Free(8)], &[Free(7)]);
        run(&world, [charge_owner, charge_newcomer, charge_owner]);
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
fn a_bucket_in_use_stays_while_others_take_the_slots_around_it() {
    explore(2, |loads| {
        let world = World::new(loads, bucket(3), &[Live(owner(), 1), Free(9)], &[Free(8)]);
        run(&world, [charge_owner, charge_neighbour, charge_newcomer]);
        assert_eq!((world.admitted(owner()), world.taken(owner())), (1, Some(2)));
        for key in [neighbour(), newcomer()] {
            assert_eq!((world.admitted(key), world.taken(key)), (1, Some(1)));
        }
        assert_eq!(world.live_evictions(), 0);
    });
}

#[test]
fn a_full_bucket_never_looks_like_an_empty_one() {
    explore(2, |loads| {
        let world = World::new(loads, bucket(1), &[Live(owner(), 1), Free(9)], &[Free(8)]);
        run(&world, [charge_neighbour, charge_newcomer, |world| assert!(!world.has_room(owner()))]);
    });
}

#[test]
fn without_an_idle_slot_the_bucket_nearest_to_fresh_goes_and_is_counted() {
    explore(3, |loads| {
        let world = World::new(loads, bucket(3), &[Live(neighbour(), 2), Live(owner(), 1)], &[]);
        run(&world, [charge_neighbour, charge_newcomer]);
        assert_eq!(world.taken(owner()), None);
        assert_eq!((world.admitted(neighbour()), world.taken(neighbour())), (1, Some(3)));
        assert_eq!((world.admitted(newcomer()), world.taken(newcomer())), (1, Some(1)));
        assert_eq!(world.live_evictions(), 1);
    });
}

#[test]
fn two_that_take_the_last_bucket_for_one_key_do_not_take_it_from_each_other() {
    explore(3, |loads| {
        let world = World::new(loads, bucket(1), &[Live(owner(), 1)], &[]);
        run(&world, [charge_newcomer, charge_newcomer]);
        assert_eq!((world.admitted(newcomer()), world.taken(newcomer())), (1, Some(1)));
        assert_eq!(world.live_evictions(), 1);
    });
}

/// Each eviction forgets what one bucket held, and nothing else is forgotten.
#[test]
fn what_is_lost_is_counted() {
    explore(2, |loads| {
        let world = World::new(loads, bucket(3), &[Live(owner(), 1)], &[Live(neighbour(), 2)]);
        run(&world, [charge_owner, charge_newcomer, charge_newcomer]);
        let keys = [owner(), neighbour(), newcomer()];
        let admitted: u32 = keys.iter().map(|&key| world.admitted(key)).sum();
        let taken: u32 = keys.iter().filter_map(|&key| world.taken(key)).sum();
        let lost = 1 + 2 + admitted - taken;
        let evictions = world.live_evictions();
        assert!((evictions..=3 * evictions).contains(&lost), "{lost} by {evictions}");
    });
}

#[test]
fn who_gives_back_a_unit_does_not_give_it_to_another_key_in_the_same_state() {
    explore(2, |loads| {
        let world = World::new(loads, window(1), &[Live(owner(), 1)], &[]);
        run(&world, [|world| world.give_back(owner()), charge_newcomer, charge_newcomer]);
        assert_eq!((world.admitted(newcomer()), world.taken(newcomer())), (1, Some(1)));
    });
}
