//! Which of the kernel tests run in a guest: one or two of each kind of thing that a kernel can do otherwise. Each load
//! of the program takes seconds there. Tests against the clock, such as floods at a pace, are none for an emulated
//! processor.

use std::process::Command;

use anyhow::{Result, bail};

use super::Choice;
use crate::command;
use crate::kernel::TestProgram;

/// Whole names, or modules of which all tests run.
const SELECTED: &[&str] = &[
    "debug_log",
    "verified",
    "simulated",
    "captures::whole_captures_get_the_same_answers",
    "virtio",
    "tunnels",
    "tunnel_traffic",
    "raw_ip::packets_on_a_tun_device_are_limited_by_their_source",
    "raw_ip::a_tag_without_an_id_hides_no_packet",
    "joined::a_frame_longer_than_the_mtu_counts_as_many_packets_as_its_bytes_make",
    "stacked::slaves_get_the_program_before_their_bond",
    "stacked::a_port_gets_the_program_before_its_bridge",
    "sources::packets_of_every_kind_obey_a_limit_by_source",
    "sources::what_a_router_forwards_is_no_neighbour_discovery",
    "limits::allowed_sources_lose_nothing_and_others_do",
    "interfaces::a_source_has_one_bucket_on_all_interfaces",
    "interfaces::long_packets_are_limited_too",
    "bans::a_ban_of_a_24_covers_all_of_it_and_nothing_else",
    "bans::sources_that_go_on_exceeding_a_rule_are_banned_by_the_kernel",
    "reload::each_packet_is_judged_by_one_of_two_configurations_and_none_is_lost",
    "trials::a_trial_that_nobody_confirms_lets_everything_pass_without_a_daemon",
    "lifecycle::the_next_daemon_goes_on_with_buckets_and_counters",
    "lifecycle::detach_leaves_nothing_behind_with_a_daemon_or_without",
    "events::a_trickle_of_dropped_packets_gives_events",
    "top::a_table_for_people_and_what_can_not_be_shown",
    "unprivileged",
];

/// The names of the tests that are to run.
pub fn choose(program: &TestProgram, choice: Choice<'_>) -> Result<Vec<String>> {
    let is_chosen = |name: &String| match choice {
        Choice::Selected(filter) => {
            is_of_any(SELECTED, name) && filter.is_none_or(|filter| name.contains(filter))
        }
        Choice::Any(filter) => name.contains(filter),
    };
    Ok(all(program, SELECTED)?.into_iter().filter(is_chosen).collect())
}

/// The names of all tests of a program, which has to have those that are in a list: what is there no more would be left
/// out in silence.
pub fn all(program: &TestProgram, listed: &[&str]) -> Result<Vec<String>> {
    let printed = command::quietly(Command::new(&program.tests).args(["--list", "--format=terse"]))?;
    let all: Vec<String> =
        printed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect();
    if let Some(unknown) = listed.iter().find(|listed| !all.iter().any(|name| is_of(listed, name))) {
        bail!("no kernel test is called {unknown}, but xtask lists it");
    }
    Ok(all)
}

/// Whether a list has a test, or its module.
pub fn is_of_any(listed: &[&str], name: &str) -> bool {
    listed.iter().any(|listed| is_of(listed, name))
}

fn is_of(listed: &str, name: &str) -> bool {
    name.strip_prefix(listed).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    //! What a selected name means.

    use super::*;

    #[test]
    fn a_module_selects_its_tests_and_a_name_one_test() {
        for (selected, name, expected) in [
            ("verified", "verified::some_test", true),
            ("verified::some_test", "verified::some_test", true),
            ("verified::some", "verified::some_test", false),
            ("verified", "verified_too::some_test", false),
        ] {
            assert_eq!(is_of(selected, name), expected, "{selected} {name}");
        }
    }
}
