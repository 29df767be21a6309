//! What packages may depend on, as cargo resolves it: who uses the kernel's library, what must know no servers, and how
//! little a program needs that embeds the limiter.
//!
//! A package can name nothing that it does not depend on, so that these boundaries hold for each line of code.

use std::collections::BTreeSet;

use anyhow::Result;

use super::Finding;
use crate::command;

/// The only package of the workspace that knows the kernel's library; tests of others may.
const DATAPLANE: &str = "ratelimit-dataplane";
const KERNEL: &str = "aya";

/// Packages that decide, or say what is to be decided: they must not know where questions come from.
const PURE: [&str; 4] = ["ratelimit-config", DATAPLANE, "ratelimit-limiter", "ratelimit-policy"];
const SERVERS: [&str; 4] = ["axum", "hyper", "ratelimit-servers", "tonic"];

/// What others embed, and how many lines cargo may need to say what it depends on, itself included.
const EMBEDDED: &str = "ratelimit-limiter";
const MOST_EMBEDDED: usize = 25;

/// Asks cargo, and checks what it says.
pub fn check() -> Result<Vec<Finding>> {
    let mut findings = kernel(&tree(&["--workspace", "--invert", KERNEL, "--depth", "1"])?);
    for package in PURE {
        findings.extend(servers(package, &tree(&["--package", package])?));
    }
    findings.extend(embedded(&tree(&["--package", EMBEDDED, "--no-default-features"])?));
    Ok(findings)
}

/// The lines of a tree of what is linked, without those that are there twice.
fn tree(arguments: &[&str]) -> Result<String> {
    let mut cargo = command::cargo();
    command::quietly(
        cargo.args(["tree", "--locked", "--edges", "normal", "--prefix", "none"]).args(arguments),
    )
}

/// Each package by its name, and whether it is one of ours.
fn packages(tree: &str) -> BTreeSet<(&str, bool)> {
    let lines = tree.lines().filter_map(|line| Some((line.split_once(' ')?.0, line.contains(" (/"))));
    lines.collect()
}

fn kernel(tree: &str) -> Vec<Finding> {
    let users = packages(tree).into_iter().filter(|(name, is_ours)| *is_ours && *name != DATAPLANE);
    users.map(|(name, _)| finding(name, &format!("only {DATAPLANE} depends on `{KERNEL}`"))).collect()
}

fn servers(package: &str, tree: &str) -> Vec<Finding> {
    let known = packages(tree).into_iter().filter(|(name, _)| SERVERS.contains(name));
    known
        .map(|(name, _)| finding(package, &format!("decides, and depends on no server such as `{name}`")))
        .collect()
}

fn embedded(tree: &str) -> Option<Finding> {
    let count = tree.lines().filter(|line| !line.is_empty()).collect::<BTreeSet<_>>().len();
    (count > MOST_EMBEDDED).then(|| {
        let rule = format!("without features its dependencies take at most {MOST_EMBEDDED} lines of `cargo tree`, not {count}");
        finding(EMBEDDED, &rule)
    })
}

fn finding(package: &str, rule: &str) -> Finding {
    Finding { path: package.to_owned(), line: 1, rule: rule.to_owned() }
}

#[cfg(test)]
mod tests {
    //! Each rule: what breaks it, and what does not.

    use super::*;

    #[test]
    fn only_the_data_plane_depends_on_the_kernels_library() {
        let fine = "aya v0.14.0\naya-log v0.3.0\nratelimit-dataplane v0.1.0 (/ratelimit/dataplane)\n";
        assert_eq!(kernel(fine), []);
        let breach = format!("{fine}ratelimit v0.1.0 (/ratelimit) (*)\n");
        assert_eq!(kernel(&breach), [finding("ratelimit", "only ratelimit-dataplane depends on `aya`")]);
    }

    #[test]
    fn what_decides_knows_no_servers() {
        let fine = "ratelimit-policy v0.1.0 (/ratelimit/policy)\nthiserror v2.0.0\nhyperloglog v1.0.0\n\n";
        assert_eq!(servers("ratelimit-policy", fine), []);
        for server in ["axum", "hyper", "ratelimit-servers", "tonic"] {
            let breach = format!("{fine}{server} v1.0.0\n{server} v1.0.0 (*)\n");
            let findings = servers("ratelimit-policy", &breach);
            let [finding] = findings.as_slice() else { panic!("{findings:?}") };
            assert!(finding.rule.contains(&format!("`{server}`")), "{finding}");
        }
    }

    #[test]
    fn what_is_embedded_is_small() {
        let tree =
            |count: usize| (0..count).map(|n| format!("a{n} v1.0.0\na{n} v1.0.0\n")).collect::<String>();
        assert_eq!(embedded(&tree(MOST_EMBEDDED)), None);
        assert!(embedded(&tree(MOST_EMBEDDED + 1)).is_some_and(|finding| finding.rule.ends_with("not 26")));
    }
}
