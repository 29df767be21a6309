//! Lists as they are published, downloaded by the script in `config/lists`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/lists/update-list")
}

/// Runs it with this `ratelimit`, from a file as `curl` knows how to.
fn update(published: &Path, list: &Path) -> Output {
    let binaries = Path::new(env!("CARGO_BIN_EXE_ratelimit")).parent().unwrap();
    let path = env::var("PATH").unwrap();
    let mut update = Command::new(script());
    update.env("PATH", format!("{}:{path}", binaries.display()));
    update.arg(format!("file://{}", published.display())).arg(list).output().unwrap()
}

/// As publishers have them: a byte order mark, comments of both kinds, line ends of both kinds, ranges, and bits beyond
/// a prefix's length.
fn published_list() -> String {
    let mut text = "\u{feff}; Published daily\r\n# 500,000 lines\r\n\r\n".to_owned();
    for number in 0..500_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        text += &match number % 5 {
            0 => format!("11.{a}.{b}.{c}\r\n"),
            1 => format!("12.{a}.{b}.{c}/31 ; SBL{number}\n"),
            2 => format!("13.{a}.{b}.0-13.{a}.{b}.{c}\n"),
            3 => format!("2001:{:x}:{:x}::/48 # site {number}\r\n", number >> 16, number & 0xffff),
            _ => format!("\t14.{a}.{b}.{c}/32\n"),
        };
    }
    text
}

#[test]
fn a_published_list_takes_its_place_and_what_is_none_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let (published, list) = (directory.path().join("published"), directory.path().join("drop.txt"));
    fs::write(&published, published_list()).unwrap();
    let done = update(&published, &list);
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.contains(": ok: ") && said.contains("(") && said.contains("100,000 of IPv6"), "{said}");
    let good = fs::read(&list).unwrap();
    assert!(good == fs::read(&published).unwrap());
    // One that has not changed is left as it is, so that nothing is reloaded.
    let before = fs::metadata(&list).unwrap().modified().unwrap();
    assert!(update(&published, &list).status.success());
    assert_eq!(fs::metadata(&list).unwrap().modified().unwrap(), before);

    for (content, why) in [
        ("<html><body>429 Too Many Requests</body></html>\n", "not an IP address"),
        ("", "empty, as after a failed download"),
        ("10.0.0.0/8\nexample.org\n", ":2: "),
    ] {
        fs::write(&published, content).unwrap();
        let refused = update(&published, &list);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && said.contains(why), "{said}");
        assert!(fs::read(&list).unwrap() == good);
    }
    fs::remove_file(&published).unwrap();
    assert!(!update(&published, &list).status.success());
    assert!(fs::read(&list).unwrap() == good);
    let names: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["drop.txt"], "no temporary file is left");
}

#[test]
fn answers_about_lists_for_programs() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list");
    fs::write(&list, "0.0.0.0/0\n2001:db8::/32\n").unwrap();
    let mut validate = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    let done = validate.args(["validate", "--output", "json", "--list"]).arg(&list).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let found = &answer["lists"][0];
    assert_eq!(
        (&found["ok"], &found["ipv4"], &found["ipv6"]),
        (&true.into(), &1.into(), &1.into()),
        "{answer}"
    );
    let warning = found["warnings"][0]["message"].as_str().unwrap();
    assert!(done.status.success() && warning.ends_with(":1: 0.0.0.0/0 is everybody"), "{warning}");
}
