//! The table's protocol under a model checker: the real code over loom's atomics, in every order of steps that a few
//! preemptions and the memory model allow. Run with `RUSTFLAGS="--cfg loom" cargo test --release -p ratelimit-common
//! --lib loom`.
//!
//! A model is a small table, two or three threads, and what must be so after all of them: how many were admitted, and
//! that every bucket holds exactly the units it let through. Time stands still, so that a unit lost or charged twice
//! can't hide behind the refill.
//!
//! Not modelled: algorithms (their tests are beside them), speed, and what a caller does with [`super::Attempt::Again`]
//! besides trying again.

mod claims;
mod evictions;
mod growth;
mod memory;

use std::sync::Arc;

use loom::thread;

use self::memory::Memory;

/// Runs `model` in all orders with at most `preemptions` switches away from a thread that could go on.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// What one thread does.
type Role = fn(&Memory);

/// Runs each role in a thread, the last one in this.
fn run<const N: usize>(memory: &Arc<Memory>, roles: [Role; N]) {
    let threads: Vec<_> = roles[..N - 1]
        .iter()
        .map(|&role| {
            let memory = Arc::clone(memory);
            thread::spawn(move || role(&memory))
        })
        .collect();
    roles[N - 1](memory);
    for thread in threads {
        thread.join().unwrap();
    }
    memory.finish();
}
