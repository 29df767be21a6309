//! The alert rules in `config/prometheus`, as Prometheus itself tries them: `alerts.yml` beside this file says when
//! each fires.

use std::{fs, path::Path, process::Command};

use crate::process::program;

#[test]
fn alerts_fire_when_their_cause_is_there_and_not_before() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = tempfile::tempdir().unwrap();
    let rules = fs::read_to_string(here.join("../config/prometheus/ratelimit.rules.yml")).unwrap();
    let cases = fs::read_to_string(here.join("tests/clients/alerts.yml")).unwrap();
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let of_it = cases.lines().filter(|line| line.contains(&format!("alertname: {alert},")));
        let (quiet, fires): (Vec<&str>, Vec<&str>) =
            of_it.partition(|line| line.ends_with("exp_alerts: []}"));
        assert!(quiet.len() == 1 && fires.len() == 1, "{alert}: {quiet:?} {fires:?}");
    }
    // Texts for people are not what is tried.
    let is_text = |line: &&str| {
        ["annotations:", "summary:", "description:"].iter().any(|key| line.trim_start().starts_with(key))
    };
    let bare: String = rules.lines().filter(|line| !is_text(line)).flat_map(|line| [line, "\n"]).collect();
    fs::write(directory.path().join("ratelimit.rules.yml"), bare).unwrap();
    fs::write(directory.path().join("alerts.yml"), cases).unwrap();
    let promtool = program("RATELIMIT_PROMETHEUS").with_file_name("promtool");
    let tried = Command::new(promtool)
        .args(["test", "rules", "alerts.yml"])
        .current_dir(&directory)
        .output()
        .unwrap();
    assert!(
        tried.status.success(),
        "{}{}",
        String::from_utf8_lossy(&tried.stdout),
        String::from_utf8_lossy(&tried.stderr)
    );
}
