//! The table's protocol under a model checker: the real code over loom's atomics, in every order of steps that a few
//! preemptions allow. Run with `RUSTFLAGS="--cfg loom" cargo test --profile models -p ratelimit-common --lib loom`.
//!
//! A model is a small table, two or three threads, and what must be so after all of them: how many requests were
//! admitted, and that every bucket holds exactly the units it let through. Time stands still, so that a unit lost or
//! counted twice can't hide behind the refill.
//!
//! Not modelled: the algorithms (their tests are beside them), speed, and clocks that differ.

mod bucket_ref;
mod claims;
mod evictions;
mod growth;
mod memory;
mod scene;
mod world;

use std::sync::Arc;

use loom::thread;

use self::{memory::Loads, world::World};

/// Runs `model` in all orders with at most `preemptions` switches away from a thread that could go on.
fn explore(preemptions: usize, model: impl Fn(Loads) + Clone + Send + Sync + 'static) {
    for loads in [Loads::Newest, Loads::Stale] {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 10_000;
        let model = model.clone();
        builder.check(move || model(loads));
    }
}

/// What one thread does.
type Role = fn(&World);

/// Runs each role in a thread, the last one in this, and then what they left undone.
fn run<const N: usize>(world: &Arc<World>, roles: [Role; N]) {
    let threads: Vec<_> = roles[..N - 1]
        .iter()
        .map(|&role| {
            let world = Arc::clone(world);
            thread::spawn(move || role(&world))
        })
        .collect();
    roles[N - 1](world);
    for thread in threads {
        thread.join().unwrap();
    }
    world.finish();
}
