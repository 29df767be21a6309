//! The Kubernetes examples: core objects by their schema, and the configurations in them by `ratelimit validate`. What
//! is Istio's or Envoy Gateway's says that it is unchecked.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::process::program;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/kubernetes")
}

fn check(file: &Path) -> bool {
    let validate = program("RATELIMIT_KUBERNETES_VALIDATE");
    let modules = validate.ancestors().nth(2).unwrap();
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", modules).arg(&validate).args(["-k", "1.31", "--strict"]).arg(file);
    python.output().unwrap().status.success()
}

/// The files that a ConfigMap has, by their names.
fn files_in(text: &str) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("  ").and_then(|line| line.strip_suffix(": |")) {
            files.push((name.to_owned(), String::new()));
            is_inside = true;
        } else if let (true, Some(content), Some((_, file))) =
            (is_inside, line.strip_prefix("    "), files.last_mut())
        {
            *file += &format!("{content}\n");
        } else {
            is_inside = false;
        }
    }
    files
}

#[test]
fn core_objects_are_good_and_so_are_the_configurations_in_them() {
    let mut configurations = 0;
    for entry in fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        if text.starts_with("# Unchecked: ") {
            continue;
        }
        assert!(check(&path), "{}", path.display());
        let directory = tempfile::tempdir().unwrap();
        let files = files_in(&text);
        files.iter().for_each(|(name, content)| fs::write(directory.path().join(name), content).unwrap());
        let mut validate = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
        let done = validate.args(["validate", "ratelimit.yaml"]).current_dir(&directory).output().unwrap();
        assert!(done.status.success(), "{} {done:?}", path.display());
        configurations += 1;
    }
    assert_eq!(configurations, 2);
    let directory = tempfile::tempdir().unwrap();
    let wrong = directory.path().join("wrong.yaml");
    let text = fs::read_to_string(examples().join("daemonset.yaml")).unwrap();
    fs::write(&wrong, text.replace("hostNetwork:", "hostNetwrk:")).unwrap();
    assert!(!check(&wrong));
}
