//! Targets and hosts of requests in their one form: no bytes panic, no path leads above the root, and what is forwarded
//! is what was judged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimit::policy::application::target::{Authority, EscapedSlashes, PathForm, RequestTarget, host, path};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, target)) = bytes.split_first() else { return };
    let slashes = [EscapedSlashes::Keep, EscapedSlashes::Decode, EscapedSlashes::Refuse];
    let form = PathForm {
        ignore_case: first & 1 == 1,
        escaped_slashes: slashes[usize::from(first >> 1) % slashes.len()],
    };
    let judged = path(target, form);
    assert_eq!(path(judged.as_bytes(), form), judged);
    if judged.starts_with('/') {
        assert!(!judged.split('/').any(|segment| segment == "." || segment == ".."), "{judged}");
    }
    if let Ok(parsed) = RequestTarget::parse(target, form) {
        assert_eq!(parsed.path(), judged);
        let again = RequestTarget::parse(parsed.forwarded().as_bytes(), form).expect("what is forwarded is a target");
        assert_eq!((again.forwarded(), again.path()), (parsed.forwarded(), parsed.path()));
    }
    if let Ok(authority) = Authority::parse(target) {
        assert_eq!(authority.host(), host(&String::from_utf8_lossy(target)));
    }
});
