//! `setup`: finds or installs what building and testing needs. When all is there it takes a fraction of a second.
//!
//! What only one group of tests or benchmarks needs is a list of its own here; nothing else is to be edited for a new
//! program.

use anyhow::Result;
use installer::Installer;

use crate::command;
use crate::vm::Kernel;

mod bpf;
mod clients;
mod installer;
mod kernels;
mod probe;

/// A program that tests or benchmarks start, and the Debian package that has it.
pub struct SetupProgram {
    /// What it is called.
    pub name: &'static str,
    /// Which package has it.
    pub package: &'static str,
}

/// The network benchmark compares with nftables and iptables; documents show commands of all of them.
const KERNEL_TESTS: &[SetupProgram] = &[
    SetupProgram { name: "ip", package: "iproute2" },
    SetupProgram { name: "ethtool", package: "ethtool" },
    SetupProgram { name: "nft", package: "nftables" },
    SetupProgram { name: "iptables", package: "iptables" },
];

/// It compiles the floor, which the benchmarks of packets print beside the product.
const PACKET_BENCHMARKS: &[SetupProgram] = &[SetupProgram { name: "clang", package: "clang" }];

/// throttlecrab-server needs it to be built.
const SERVER_BENCHMARK: &[SetupProgram] = &[SetupProgram { name: "protoc", package: "protobuf-compiler" }];

/// The packages tier, which asks for them itself: lintian brings many.
pub const PACKAGES: &[SetupProgram] = &[
    SetupProgram { name: "lintian", package: "lintian" },
    SetupProgram { name: "dpkg-shlibdeps", package: "dpkg-dev" },
    SetupProgram { name: "systemd-analyze", package: "systemd" },
];

/// Sets up everything, and says for each item what is used.
pub fn all() -> Result<()> {
    let mut installer = Installer::new(true);
    clients::ensure(&mut installer)?;
    kernels::ensure(&mut installer, Kernel::Linux6_1);
    ensure(installer, &[KERNEL_TESTS, PACKET_BENCHMARKS, SERVER_BENCHMARK])
}

/// Sets up what `cargo build` needs; silent if all is there.
pub fn for_build() -> Result<()> {
    ensure(Installer::new(false), &[])
}

/// Sets up what `cargo xtask test` needs on the machine itself; silent if all is there.
pub fn for_tests() -> Result<()> {
    let mut installer = Installer::new(false);
    clients::ensure(&mut installer)?;
    ensure(installer, &[KERNEL_TESTS])
}

/// Sets up what `cargo xtask test --packages` needs; silent if all is there.
pub fn for_packages() -> Result<()> {
    ensure(Installer::new(false), &[PACKAGES])
}

/// Sets up a virtual machine with a kernel, as far as that can be done; silent if all is there.
pub fn for_kernel(kernel: Kernel) {
    let mut installer = Installer::new(false);
    kernels::ensure(&mut installer, kernel);
    if let Err(error) = installer.finish() {
        println!("setup: tests on {} will not run: {error:#}", kernel.tier());
    }
}

fn ensure(mut installer: Installer, groups: &[&[SetupProgram]]) -> Result<()> {
    bpf::ensure(&mut installer)?;
    programs(&mut installer, groups)?;
    installer.finish()
}

fn programs(installer: &mut Installer, groups: &[&[SetupProgram]]) -> Result<()> {
    let mut missing = Vec::new();
    for SetupProgram { name, package } in groups.iter().copied().flatten() {
        match command::find_program(name) {
            Some(path) => installer.found(name, &path.display().to_string()),
            None => missing.push(*package),
        }
    }
    installer.packages(&missing).map(drop)
}
