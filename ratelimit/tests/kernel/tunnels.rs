//! Tunnels: which kinds of devices this kernel can make. Tests of a kind run only where [`device`] can make it.

use std::process::Command;

use crate::{guest, net::isolated};

/// Kinds of devices without Ethernet headers, and what `ip link add` needs for one.
pub const KINDS: [(&str, &str); 6] = [
    ("gre", "local 10.9.0.1 remote 10.9.0.2"),
    ("ipip", "local 10.9.0.1 remote 10.9.0.2"),
    ("sit", "local 10.9.0.1 remote 10.9.0.2"),
    ("ip6gre", "local fd09::1 remote fd09::2"),
    ("ip6tnl", "mode any local fd09::1 remote fd09::2"),
    ("wireguard", ""),
];

/// Makes a device, unless this kernel has no such kind. `name` may have further options behind it.
pub fn device(name: &str, kind: &str, options: &str) -> bool {
    let mut ip = Command::new("ip");
    ip.args(["link", "add", "name"]).args(name.split_whitespace());
    ip.args(["type", kind]).args(options.split_whitespace());
    let output = ip.output().expect("ip");
    if !output.status.success() {
        guest::not_run(&format!(
            "no device of the kind {kind}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    output.status.success()
}

#[test]
fn a_guest_can_make_tunnels_of_each_kind() {
    isolated(|| {
        for (kind, options) in KINDS {
            device("tunnel", kind, options).then(|| crate::net::ip("link del tunnel"));
        }
    });
}
