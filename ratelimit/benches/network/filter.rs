//! What is compared: programs and rules that limit each source, and what there is to compare those with.

use std::{
    fs,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    path::Path,
};

use anyhow::{Context as _, Result};
use ratelimit::{
    config,
    dataplane::{Claim, Dataplane, Wanted},
};

use crate::{
    assembly::{Operation, alu, branch_if_more, branch_unless, copy, load},
    bpf::{self, CLOCK, END, Instruction, XDP_PASS},
    lab::{Receiver, tool},
};

/// Something on a receiver's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    Nothing,
    /// An XDP program that looks at nothing and drops.
    DropOnly,
    /// An XDP program that parses and reads the clock: what every limiter must do.
    ClockOnly,
    Ratelimit,
    RatelimitGeneric,
    NftIngress,
    NftPrerouting,
    Hashlimit,
}

/// How much each source may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nearly nothing passes.
    Low,
    /// All passes.
    High,
}

/// What keeps a filter in place.
pub enum Installed {
    Nothing,
    Link { _link: OwnedFd },
    Ratelimit { _dataplane: Box<Dataplane> },
}

impl Filter {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "no program, no rule",
            Self::DropOnly => "XDP, drops only",
            Self::ClockOnly => "XDP, parses, reads the clock",
            Self::Ratelimit => "ratelimit",
            Self::RatelimitGeneric => "ratelimit, generic mode",
            Self::NftIngress => "nftables, netdev ingress",
            Self::NftPrerouting => "nftables, prerouting",
            Self::Hashlimit => "iptables hashlimit, raw",
        }
    }

    /// Puts it in force; to be called in the receiver's network.
    pub fn install(self, receiver: &Receiver, limit: Limit) -> Result<Installed> {
        tool("nft", "-f -", FURTHER_ON)?;
        let verdict = if limit == Limit::Low { XDP_DROP } else { XDP_PASS };
        match self {
            Self::Nothing => {}
            Self::DropOnly => return link(receiver, &[bpf::set(0, XDP_DROP), END]),
            Self::ClockOnly => return link(receiver, &clock_only(verdict)),
            Self::Ratelimit => return ratelimit(receiver, "native", limit),
            Self::RatelimitGeneric => return ratelimit(receiver, "generic", limit),
            Self::NftIngress => {
                nft("netdev", &format!("ingress device {} priority 0", receiver.name()), limit)?
            }
            Self::NftPrerouting => nft("ip", "prerouting priority raw", limit)?,
            Self::Hashlimit => hashlimit(limit)?,
        }
        Ok(Installed::Nothing)
    }
}

impl Limit {
    /// Packets, the unit's names here and in nftables and iptables, and the burst.
    const fn numbers(self) -> (u32, &'static str, &'static str, u32) {
        match self {
            Self::Low => (1, "h", "hour", 1),
            // The most that hashlimit takes.
            Self::High => (1_000_000, "s", "second", 1_000),
        }
    }
}

/// Where whatever passes ends, at the same place for all: before routing, counted.
const FURTHER_ON: &str = "table ip further_on {
    counter passed {}
    chain prerouting { type filter hook prerouting priority -290; counter name passed drop; }
}";

/// How many packets have passed; to be asked in the receiver's network.
pub fn passed() -> Result<u64> {
    let listed = tool("nft", "list counter ip further_on passed", "")?;
    let mut words = listed.split_whitespace().skip_while(|word| *word != "packets");
    words.nth(1).and_then(|number| number.parse().ok()).with_context(|| format!("no number in {listed}"))
}

const XDP_DROP: i32 = 1;

/// Reads what a limiter per IPv4 source reads, and gives the same verdict whatever it is.
fn clock_only(verdict: i32) -> [Instruction; 14] {
    let (packet, end, scratch) = (2, 3, 4);
    [
        load(4, packet, 1, 0),
        load(4, end, 1, 4),
        copy(scratch, packet),
        alu(Operation::Add, scratch, 34),
        branch_if_more(scratch, end, 7),
        load(2, scratch, packet, 12),
        branch_unless(scratch, 0x0800_u16.to_be() as i32, 5),
        load(1, scratch, packet, 14),
        alu(Operation::And, scratch, 0xf0),
        branch_unless(scratch, 0x40, 2),
        load(4, scratch, packet, 26),
        bpf::call(CLOCK),
        bpf::set(0, verdict),
        END,
    ]
}

/// Attaches a program to the receiver's interface, in native mode.
fn link(receiver: &Receiver, program: &[Instruction]) -> Result<Installed> {
    const BPF_LINK_CREATE: i32 = 28;
    const BPF_XDP: u64 = 37;
    const NATIVE: u64 = 1 << 2;
    let program = bpf::load(program).context("loading a program")?;
    let interface = nix::net::if_::if_nametoindex(receiver.name()).context("the receiver's interface")?;
    let mut attributes = [0_u64; 16];
    attributes[0] = program.as_raw_fd() as u64 | u64::from(interface) << 32;
    attributes[1] = BPF_XDP | NATIVE << 32;
    let fd = bpf::bpf(BPF_LINK_CREATE, &mut attributes).context("attaching a program")?;
    // SAFETY: the kernel has just given it to us.
    Ok(Installed::Link { _link: unsafe { OwnedFd::from_raw_fd(fd) } })
}

/// As the daemon does it, from a configuration to an attached program.
fn ratelimit(receiver: &Receiver, mode: &str, limit: Limit) -> Result<Installed> {
    let (rate, unit, _, burst) = limit.numbers();
    let name = receiver.name();
    let text = format!(
        "instance: {name}\nnetwork:\n  interfaces: [{{name: {name}, mode: {mode}}}]\n  \
         rules: [{{name: every-source, rate: {rate}/{unit}, burst: {burst}}}]\n"
    );
    let path = format!("/run/{name}.yaml");
    fs::write(&path, text).context("writing a configuration")?;
    let policy = config::load(Path::new(&path))?;
    let network = policy.network.context("the configuration's network")?;
    let claim = Claim::take(&policy.instance)?;
    let dataplane = claim.start(
        &Wanted {
            network: &network,
            config: Path::new(&path),
            observes: None,
            trial_end: None,
            is_new_trial: false,
        },
        Path::new("/run/none.sock"),
    )?;
    Ok(Installed::Ratelimit { _dataplane: Box::new(dataplane) })
}

fn nft(family: &str, hook: &str, limit: Limit) -> Result<()> {
    let (rate, _, unit, burst) = limit.numbers();
    let table = format!(
        "table {family} limits {{
            set sources {{ type ipv4_addr; size 131072; flags dynamic, timeout; timeout 1h; }}
            chain limited {{
                type filter hook {hook};
                update @sources {{ ip saddr limit rate over {rate}/{unit} burst {burst} packets }} drop
            }}
        }}"
    );
    tool("nft", "-f -", &table).map(drop)
}

fn hashlimit(limit: Limit) -> Result<()> {
    let (rate, _, unit, burst) = limit.numbers();
    let rule = format!(
        "-t raw -A PREROUTING -m hashlimit --hashlimit-above {rate}/{unit} --hashlimit-burst {burst} \
         --hashlimit-mode srcip --hashlimit-name sources --hashlimit-htable-size 65536 \
         --hashlimit-htable-max 131072 --hashlimit-htable-expire 3600000 -j DROP"
    );
    tool("iptables", &rule, "").map(drop)
}
