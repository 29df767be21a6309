//! Whatever clients choose of a request is judged, over gRPC, HTTP, Unix sockets and tower: it passes with room left,
//! is denied with all limits used up, and never gets an error.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/chosen/mod.rs"]
mod chosen;

thread_local! {
    static SIDES: RefCell<chosen::Sides> = RefCell::new(chosen::Sides::new());
}

fuzz_target!(
    // As Rust's own `main` does: who writes to a connection that is gone gets an error.
    // SAFETY: no handler is set.
    init: unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) },
    |bytes: &[u8]| SIDES.with_borrow_mut(|sides| sides.ask(bytes))
);
