//! `ratelimit simulate`, the program: the golden decisions, its formats, its summaries and its errors.

#[expect(dead_code, reason = "what is owed shows in how long requests are denied")]
#[path = "../../../ratelimit-common/tests/support/vectors.rs"]
mod golden;

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    process::{Child, ChildStdin, Command, Output, Stdio},
    thread,
};

use golden::{Event, Vector};
use ratelimit::{config::limit::format_limit, limiter::Nanos};
use serde_json::Value;

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    command.arg("simulate").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs it with `input` on its standard input.
fn simulate(arguments: &[&str], input: &str) -> Output {
    let mut child = start(arguments);
    let stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = thread::spawn(move || write_all(stdin, input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// It need not read to the end.
fn write_all(mut stdin: ChildStdin, input: &[u8]) {
    let _ = stdin.write_all(input);
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

pub fn success(arguments: &[&str], input: &str) -> String {
    let output = simulate(arguments, input);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout).to_owned()
}

/// All requests of a vector, and what is expected of each.
fn requests(vector: &Vector) -> Vec<Event> {
    vector.events.iter().flat_map(|event| (0..event.times).map(|_| *event)).collect()
}

/// The same week, 2,800 weeks later.
const SHIFT: u64 = 2_800 * 604_800;

fn decimal(time: Nanos, shift: u64) -> String {
    format!("{}.{:09}", time.0 / 1_000_000_000 + shift, time.0 % 1_000_000_000)
}

#[test]
fn every_vector_holds_in_text_and_json_and_at_unix_times() {
    let overrun = include_str!("../../../ratelimit-common/tests/overrun.yaml");
    for vector in golden::all().unwrap().into_iter().chain(golden::read(overrun).unwrap()) {
        for shift in [0, SHIFT] {
            let line = |event: &Event| format!("{} key {}\n", decimal(event.at, shift), event.cost);
            let input: String = requests(&vector).iter().map(line).collect();
            let limit = format_limit(&vector.spec);
            let lines = success(&["--limit", &limit], &input);
            let objects = success(&["--limit", &limit, "--output", "json"], &input);
            for (index, event) in requests(&vector).iter().enumerate() {
                let at = format!("{}, request {index}: {event:?}", vector.name);
                let line = lines.lines().nth(index).unwrap();
                check(event, &read_line(line), &at);
                assert!(line.starts_with(&format!("{} key ", decimal(event.at, shift))), "{at}: {line}");
                check(event, &read_object(objects.lines().nth(index).unwrap()), &at);
            }
        }
    }
}

type Fields = BTreeMap<String, String>;

fn read_line(line: &str) -> Fields {
    let mut words = line.split(' ').skip(2);
    let allow = ("allow".to_owned(), (words.next() == Some("allow")).to_string());
    let field =
        |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap();
    words.map(field).chain([allow]).collect()
}

/// The numbers as they are written, for a float is not exact.
fn read_object(line: &str) -> Fields {
    let object: Value = serde_json::from_str(line).unwrap();
    let written =
        |name: &str| line.split_once(&format!("\"{name}\":")).unwrap().1.split([',', '}']).next().unwrap();
    let names = object.as_object().unwrap().keys();
    names.map(|name| (name.clone(), written(name).to_owned())).collect()
}

fn check(event: &Event, fields: &Fields, at: &str) {
    let get = |name: &str| fields.get(name).map(String::as_str);
    let time = |name: &str| get(name).map(|text| golden::seconds(text).unwrap());
    assert_eq!(get("allow"), Some(if event.allow { "true" } else { "false" }), "{at}");
    assert_eq!(get("never"), event.never.then_some("true"), "{at}");
    assert_eq!(time("retry_after").is_some(), !event.allow && !event.never, "{at}");
    assert!(
        event.remaining.is_none_or(|left| get("remaining") == Some(&left.to_string())),
        "{at}: {fields:?}"
    );
    assert!(event.retry_after.is_none_or(|wait| time("retry_after") == Some(wait)), "{at}: {fields:?}");
    assert!(event.leaves_after.is_none_or(|wait| time("leaves_after") == Some(wait)), "{at}: {fields:?}");
}

#[test]
fn lines_are_in_the_form_that_is_documented() {
    let input = "0.50\n0.5 \n 1 a\n2\tb\t3\n\n2 b 0\n2 \u{e4}\"\\ 9\n";
    let expected = r#"0.50 - allow remaining=1
0.5 - allow remaining=0
1 a allow remaining=1
2 b deny remaining=2 never=true
2 b allow remaining=2
2 ä"\ deny remaining=2 never=true

LIMIT                          ALLOWED  DENIED  LONGEST_WAIT  LARGEST_BURST
token_bucket,rate=1/s,burst=2        4       2             0              2
"#;
    assert_eq!(success(&["--limit", "rate=1/s,burst=2"], input), expected);
    let input = "7.50 \u{e4}\"\\\n".repeat(3);
    let limit = "leaky_bucket,rate=3/s,burst=2,on_limit=delay";
    let objects = success(&["--output", "json", "--limit", limit], &input);
    let expected = r#"{"seconds":7.5,"key":"ä\"\\","allow":true,"remaining":1,"leaves_after":0}
{"seconds":7.5,"key":"ä\"\\","allow":true,"remaining":0,"leaves_after":0.333333334}
{"seconds":7.5,"key":"ä\"\\","allow":false,"remaining":0,"retry_after":0.333333334}
{"summary":{"limit":"leaky_bucket,rate=3/s,burst=2,on_limit=delay","allowed":2,"denied":1,"longest_wait":0.333333334,"largest_burst":2}}
"#;
    assert_eq!(objects, expected);
}

#[test]
fn several_limits_are_compared_by_their_summaries() {
    // Five a minute, ten requests around a boundary, and one more.
    let input: String = [7230, 7240, 7245, 7250, 7259, 7259, 7260, 7270, 7275, 7280, 7289]
        .map(|second| format!("{second}\n"))
        .concat();
    let limits = ["fixed_window,rate=5/m", "sliding_window_log,rate=5/m", "token_bucket,rate=5/m"];
    let arguments: Vec<&str> = limits.iter().flat_map(|limit| ["--limit", limit]).collect();
    let table = success(&arguments, &input);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["LIMIT", "ALLOWED", "DENIED", "LONGEST_WAIT", "LARGEST_BURST"]);
    assert_eq!(rows[1], ["fixed_window,rate=5/m", "10", "1", "1", "10"]);
    assert_eq!(rows[2], ["sliding_window_log,rate=5/m", "5", "6", "31", "5"]);
    assert_eq!(rows[3][..3], ["token_bucket,rate=5/m", "9", "2"]);
    let objects = success(&[&arguments[..], &["--output", "json"]].concat(), &input);
    let objects: Vec<Value> = objects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 3);
    assert_eq!(objects[0]["summary"]["largest_burst"], 10);
    assert_eq!(objects[1]["summary"]["limit"], limits[1]);
}

#[test]
fn files_are_read_and_nothing_gives_a_summary_of_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("arrivals");
    fs::write(&path, "1700000000.000000001 a\n1700000000.000000001 a\n").unwrap();
    let limit = "token_bucket,rate=1/h,burst=1";
    let lines = success(&["--limit", limit, path.to_str().unwrap()], "");
    assert!(lines.starts_with("1700000000.000000001 a allow remaining=0\n1700000000.000000001 a deny remaining=0 retry_after=3600\n"), "{lines}");
    for arguments in [vec!["--limit", limit], vec!["--limit", limit, "-"]] {
        let lines = success(&arguments, "");
        let row: Vec<&str> = lines.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row, [limit, "0", "0", "0", "0"]);
    }
    let object = success(&["--limit", limit, "--output", "json"], "\n");
    assert!(object.starts_with(r#"{"summary":{"limit":"#) && object.lines().count() == 1, "{object}");
}

#[test]
fn wrong_lines_and_limits_end_with_status_2() {
    let limit = "rate=1/s";
    let cases = [
        ("0\n5 k\n4.999999999 k\n", "-:3: 4.999999999 is earlier"),
        ("0\n1e3\n", "-:2: `1e3`: not a decimal number"),
        ("NaN\n", "-:1: `NaN`"),
        ("-1\n", "-:1: `-1`: a time before"),
        ("0.1234567891\n", "-:1: `0.1234567891`: more than nine decimals"),
        ("18446744074\n", "-:1: `18446744074`: more than"),
        ("1 k 4294967296\n", "-:1: `4294967296` is not a cost"),
        ("1 k 1 x\n", "-:1: `x` is too much"),
    ];
    for (input, message) in cases {
        let output = simulate(&["--limit", limit], input);
        assert_eq!(output.status.code(), Some(2), "{input}");
        assert!(text(&output.stderr).starts_with(message), "{input}: {}", text(&output.stderr));
        assert_eq!(
            text(&output.stdout).lines().count(),
            input.lines().count() - 1,
            "{input}: lines before it"
        );
    }
    for wrong in [
        "token_bucket",
        "tokenbucket,rate=1/s",
        "fixed_window,rate=1/s,burst=2",
        "sliding_window_log,rate=10001/s",
    ] {
        let output = simulate(&["--limit", wrong], "");
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
    assert_eq!(simulate(&[], "").status.code(), Some(2));
    let missing = simulate(&["--limit", limit, "/nonexistent/arrivals"], "");
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("/nonexistent/arrivals"));
}

#[test]
fn what_goes_with_a_configuration_alone_is_not_ignored_beside_a_limit() {
    for more in [["--access-log", "log"], ["--engine", "user"]] {
        let output = simulate(&[&["--limit", "rate=1/s"], &more[..]].concat(), "0 a\n");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{more:?}");
        let said = text(&output.stderr);
        assert!(said.contains("cannot be used with") && said.contains(more[0]), "{said}");
    }
}

#[test]
fn keys_do_nothing_to_the_terminal() {
    let lines = success(&["--limit", "token_bucket,rate=1/s"], "0 a\u{1b}[2J\u{202e}ü\n");
    assert!(lines.starts_with("0 a\\u{1b}[2J\\u{202e}ü allow"), "{lines}");
}

#[test]
fn an_output_that_is_closed_early_ends_it_quietly() {
    let mut child = start(&["--limit", "rate=1/s"]);
    let stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || write_all(stdin, "1\n".repeat(1_000_000).as_bytes()));
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
