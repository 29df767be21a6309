//! Lists of prefixes, inline and from files.

use std::fs;

use ratelimit::config;

use super::{file, network, policy};

#[test]
fn files_have_one_prefix_a_line() {
    let policy =
        policy(&network(&["allow: [10.0.0.0/8, {file: networks.txt}]", "deny: [{file: networks.txt}]"]));
    let network = policy.network.unwrap();
    let shown = |list: &[ratelimit::policy::Prefix]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(shown(&network.allow), ["10.0.0.0/8", "192.0.2.0/24", "2001:db8::1/128"]);
    assert_eq!(shown(&network.deny), ["192.0.2.0/24", "2001:db8::1/128"]);
    assert!(network.list_files.iter().all(|path| path.ends_with("networks.txt")), "{:?}", network.list_files);
}

fn errors_of_list(list: &[u8]) -> Vec<String> {
    let file = file(network(&["deny: [{file: list.txt}]"]));
    fs::write(file.path.with_file_name("list.txt"), list).unwrap();
    let errors = config::check(&file.path).unwrap_err();
    errors.into_iter().map(|error| format!("{}:{} {}", error.line, error.column, error.message)).collect()
}

#[test]
fn mistakes_in_a_file_have_its_lines() {
    let errors = errors_of_list(b"10.0.0.0/8\n\n10.0.0.1/8\nexample.org # name\n");
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors[0].starts_with("4:17 /") && errors[0].contains("list.txt:3: `10.0.0.1/8`: has bits"),
        "{errors:?}"
    );
    assert!(errors[1].contains("list.txt:4: `example.org`: not an IP address"), "{errors:?}");
    let many = errors_of_list("x\n".repeat(100_000).as_bytes());
    assert_eq!(many.len(), 21);
    assert!(many[20].ends_with("list.txt: 99980 more such lines"), "{}", many[20]);
    assert!(errors_of_list(b"10.0.0.0/8\n\xff\n")[0].ends_with("not UTF-8 text"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let file = file(network(&["deny: [{file: nowhere.txt}]"]));
    let errors = config::check(&file.path).unwrap_err().to_string();
    assert!(
        errors.contains("network.deny[0].file: ") && errors.ends_with("nowhere.txt: no such file"),
        "{errors}"
    );
}

#[test]
fn a_hundred_thousand_prefixes_are_read() {
    let file = file(network(&["allow: [{file: list.txt}]"]));
    let lines =
        (0..100_000_u32).map(|index| format!("{}/32\n", std::net::Ipv4Addr::from(index * 2 + (1 << 24))));
    fs::write(file.path.with_file_name("list.txt"), lines.collect::<String>()).unwrap();
    assert_eq!(config::load(&file.path).unwrap().network.unwrap().allow.len(), 100_000);
}
