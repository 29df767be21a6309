//! Files that change while the daemon runs, as people and as orchestrators change them.

use std::{fs, os::unix::fs::symlink, process::Command, thread, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::process::{Daemon, Process, accepts, free_address, get, until};

const AUTH: &str = "  auth: {domain: edge, descriptors: [{user: '{query:user}'}]}\n";

fn rules(limit: u32) -> String {
    format!(
        "domain: edge\ndescriptors: [{{key: user, rate_limit: {{unit: day, requests_per_unit: {limit}}}}}]\n"
    )
}

fn limit(daemon: &Daemon) -> Option<String> {
    get(daemon.http, "/v1/auth?user=probe", &[]).header("x-ratelimit-limit").map(str::to_owned)
}

#[test]
fn a_changed_file_counts_and_a_bad_one_does_not() {
    let daemon = Daemon::start(&rules(1000), AUTH);
    assert_eq!(limit(&daemon).as_deref(), Some("1000"));
    daemon.write("rules.yaml", &rules(2000));
    until("the new limit", || limit(&daemon).as_deref() == Some("2000"));
    daemon.write("rules.yaml", "domain: [");
    daemon.write("rules.yaml.new", &rules(3000));
    assert_eq!(limit(&daemon).as_deref(), Some("2000"));
    fs::rename(daemon.path("rules.yaml.new"), daemon.path("rules.yaml")).unwrap();
    until("the limit after that", || limit(&daemon).as_deref() == Some("3000"));
    // What was counted goes on: this user has asked more often than five times.
    let left = get(daemon.http, "/v1/auth?user=probe", &[]);
    let left: u32 = left.header("x-ratelimit-remaining").unwrap().parse().unwrap();
    assert!(left < 2995, "{left}");
}

#[test]
fn a_changed_file_of_networks_counts() {
    let daemon = Daemon::start(&rules(1000), AUTH);
    let limit = || {
        let answer = get(daemon.http, "/v1/auth?user=192.0.2.7", &[]);
        answer.header("x-ratelimit-limit").map(str::to_owned)
    };
    let office =
        "  - {key: user, value_in: [{file: office.txt}], rate_limit: {unit: day, requests_per_unit: 9000}}\n";
    let others = "  - {key: user, rate_limit: {unit: day, requests_per_unit: 2000}}\n";
    daemon.write("office.txt", "198.51.100.0/24\n");
    daemon.write("rules.yaml", &format!("domain: edge\ndescriptors:\n{office}{others}"));
    until("the rules that name the file", || limit().as_deref() == Some("2000"));
    daemon.write("office.txt", "192.0.2.0/24\n");
    until("the limit of the network", || limit().as_deref() == Some("9000"));
    daemon.write("office.txt", "198.51.100.0/24\n");
    until("the limit of all others", || limit().as_deref() == Some("2000"));
}

#[test]
fn a_change_that_takes_a_new_start_does_not_hold_up_the_others() {
    let daemon = Daemon::start(&rules(1000), AUTH);
    let configuration = fs::read_to_string(daemon.path("ratelimit.yaml")).unwrap();
    let other =
        configuration.replace("application:\n", "application:\n  store: {memory: {max_keys: 200k}}\n");
    daemon.write("ratelimit.yaml", &format!("instance: other\n{other}"));
    daemon.write("rules.yaml", &rules(5));
    until("the lower limit", || limit(&daemon).as_deref() == Some("5"));
    let mut reload = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    let said = reload.args(["reload", "--control"]).arg(daemon.path("control.sock")).output().unwrap();
    let expected = "reloaded: 0 rules on packets, 1 limit on requests\n\
                    in effect only when the daemon starts again, for instance by `systemctl restart ratelimit`: \
                    `instance`, `application.store`\n";
    assert_eq!(String::from_utf8(said.stdout).unwrap(), expected);
}

#[test]
fn a_start_is_followed_by_no_reload() {
    let metrics = free_address();
    let state = "  store: {memory: {state_file: state}}\n";
    let lines = format!("{AUTH}{state}metrics: {{listen: '{metrics}'}}\n");
    let daemon = Daemon::start(&rules(1000), &lines);
    // Its socket and its log are beside the files.
    daemon.write("daemon.log", "started");
    thread::sleep(Duration::from_millis(400)); // tidy: sleep, nothing is to happen
    let text = get(metrics, "/metrics", &[]).body;
    let reloads: Vec<_> = text.lines().filter(|line| line.contains("_reloads_total{")).collect();
    assert!(reloads.len() == 2 && reloads.iter().all(|line| line.ends_with(" 0")), "{reloads:?}");
}

#[test]
fn a_daemon_without_network_has_a_status_and_rules() {
    let daemon = Daemon::start(&rules(1), AUTH);
    let control = daemon.path("control.sock");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
        let shown = command.args(arguments).arg("--control").arg(&control).output().unwrap();
        assert!(shown.status.success(), "{arguments:?} {shown:?}");
        String::from_utf8(shown.stdout).unwrap()
    };
    for _ in 0..3 {
        get(daemon.http, "/v1/auth?user=probe", &[]);
    }
    let text = run(&["status"]);
    for part in [
        "running, process",
        "no rules on packets",
        &format!("config      {}, in force for ", daemon.path("ratelimit.yaml").display()),
        &format!("listening   HTTP at {}\n", daemon.http),
        &format!("listening   gRPC at {}\n", daemon.grpc),
        "requests    1 rule in 1 domain\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&run(&["status", "--output", "json"])).unwrap();
    let rule = &json["application"]["rules"][0];
    assert_eq!((&rule["allowed"], &rule["denied"]), (&1.into(), &2.into()), "{json}");
    assert_eq!(json["network"], false);
    let rules: serde_json::Value = serde_json::from_str(&run(&["rules", "--output", "json"])).unwrap();
    assert_eq!(rules["request_rules"][0], *rule);
    assert!(run(&["rules"]).starts_with("DOMAIN  RULE "));
}

#[test]
fn the_status_of_requests_names_the_whole_path_of_the_configuration() {
    let mut daemon = Daemon::start(&rules(1), AUTH);
    daemon.kill();
    let mut run = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    run.args(["run", "--config", "ratelimit.yaml"]).current_dir(daemon.directory.path());
    let _process = Process::start(&mut run);
    until("the start", || accepts(daemon.http));
    let mut status = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    let shown = status.args(["status", "--control"]).arg(daemon.path("control.sock")).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    let config = format!("config      {}, in force for ", daemon.path("ratelimit.yaml").display());
    assert!(text.contains(&config), "{config}: {text}");
}

#[test]
fn what_is_about_packets_alone_says_what_there_is_for_requests() {
    let daemon = Daemon::start(&rules(1), AUTH);
    let mut observe = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    let said =
        observe.args(["observe", "on", "--control"]).arg(daemon.path("control.sock")).output().unwrap();
    let error = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.code() == Some(1) && error.contains("`application.shadow_mode`"), "{error}");
}

#[test]
fn a_daemon_without_network_is_detached() {
    let daemon = Daemon::start(&rules(1000), AUTH);
    let mut detach = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    let detached = detach.args(["detach", "--control"]).arg(daemon.path("control.sock")).output().unwrap();
    assert!(detached.status.success(), "{detached:?}");
    assert_eq!(daemon.end(), Some(0));
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_not_the_end() {
    let daemon = Daemon::start(&rules(1000), "  store: {memory: {state_file: state}}\n");
    let process = Pid::from_raw(daemon.id().try_into().unwrap());
    let limited =
        Command::new("prlimit").args(["--fsize=0", "--pid", &process.to_string()]).status().unwrap();
    assert!(limited.success());
    kill(process, Signal::SIGTERM).unwrap();
    let file = daemon.path("state");
    assert_eq!(daemon.end(), Some(1), "as with a full disk");
    assert!(!file.exists());
}

/// A ConfigMap: the file is a link through a directory that is a link, and that is replaced.
#[test]
fn a_link_that_is_turned_counts() {
    let maps = tempfile::tempdir().unwrap();
    let at = |name: &str| maps.path().join(name);
    for (name, limit) in [("first", 1000), ("second", 2000)] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("rules.yaml"), rules(limit)).unwrap();
    }
    symlink("first", at("..data")).unwrap();
    symlink("..data/rules.yaml", at("rules.yaml")).unwrap();
    let pattern = maps.path().join("*.yaml");
    let daemon = Daemon::start_with(&pattern.display().to_string(), "", AUTH, "");
    assert_eq!(limit(&daemon).as_deref(), Some("1000"));
    symlink("second", at("..data_tmp")).unwrap();
    fs::rename(at("..data_tmp"), at("..data")).unwrap();
    until("the other limit", || limit(&daemon).as_deref() == Some("2000"));
}
