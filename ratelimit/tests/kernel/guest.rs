//! Whether the tests run in a virtual machine of `cargo xtask test --kernel`, which has all that they need, or on a machine
//! that may lack some of it.

/// Whether they do.
pub fn is_guest() -> bool {
    std::env::var_os("RATELIMIT_GUEST").is_some()
}

/// Says that a test lacks something on this machine. A guest lacks nothing.
pub fn not_run(what: &str) {
    assert!(!is_guest(), "{what}, in a guest, which should have it");
    println!("not run: {what}");
}
