//! Where the tests run: in a virtual machine of `cargo xtask test --kernel`, which has all that they need, or on a
//! machine that may lack some of it; and how much time there is.

/// Whether they do.
pub fn is_guest() -> bool {
    std::env::var_os("RATELIMIT_GUEST").is_some()
}

/// How often a test repeats what finds the more the longer it goes on: RATELIMIT_SOAK asks for the long form.
pub fn repetitions(short: u32, long: u32) -> u32 {
    if std::env::var_os("RATELIMIT_SOAK").is_some() { long } else { short }
}

/// Says that a test lacks something on this machine. A guest lacks nothing.
pub fn not_run(what: &str) {
    assert!(!is_guest(), "{what}, in a guest, which should have it");
    println!("not run: {what}");
}
