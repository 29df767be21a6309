//! What is compared: programs and rules that limit each source, and what there is to compare those with.

use std::{
    fs, io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use ratelimit::{
    config,
    dataplane::{Claim, Dataplane, Wanted},
};

use crate::{
    bpf::{self, END, XDP_PASS},
    generator::PORT,
    lab::tool,
    source::{Compiled, floor},
};

/// Something on a receiver's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    Nothing,
    /// An XDP program that looks at nothing, and drops or passes.
    VerdictOnly,
    /// The same, for frames of one buffer only.
    VerdictOnlyOneBuffer,
    /// An XDP program that parses and reads the clock: what every limiter must do.
    ClockOnly,
    /// The least limiter: `benches/floor`.
    Floor,
    Ratelimit,
    /// With 64 rules, of which the packets match one.
    SixtyFourRules,
    /// With rules that observe, and every source over its limit.
    Observing,
    /// With `ratelimit top` running.
    WithTop,
    Generic,
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
    Program { _program: Option<Compiled>, _link: OwnedFd },
    Ratelimit { _dataplane: Box<Dataplane>, top: Option<Running> },
}

/// A process that ends with this.
pub struct Running(Child);

impl Installed {
    /// Fails if a process that belongs to it has ended.
    pub fn check(&mut self) -> Result<()> {
        if let Self::Ratelimit { top: Some(Running(child)), .. } = self
            && let Some(status) = child.try_wait().context("asking after ratelimit top")?
        {
            bail!("ratelimit top has ended: {status}");
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Filter {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "no program, no rule",
            Self::VerdictOnly => "XDP, looks at nothing",
            Self::VerdictOnlyOneBuffer => "XDP, the same without frags",
            Self::ClockOnly => "XDP, parses, reads the clock",
            Self::Floor => "XDP, the floor",
            Self::Ratelimit => "ratelimit",
            Self::SixtyFourRules => "ratelimit, 64 rules",
            Self::Observing => "ratelimit, observing",
            Self::WithTop => "ratelimit, top running",
            Self::Generic => "ratelimit, generic mode",
            Self::NftIngress => "nftables, netdev ingress",
            Self::NftPrerouting => "nftables, prerouting",
            Self::Hashlimit => "iptables hashlimit, raw",
        }
    }

    /// Puts it in force on an interface; to be called in its network.
    pub fn install(self, interface: &str, limit: Limit) -> Result<Installed> {
        match self {
            Self::Nothing => {}
            Self::VerdictOnly => return verdict_only(interface, limit, FRAGS),
            Self::VerdictOnlyOneBuffer => return verdict_only(interface, limit, 0),
            Self::ClockOnly => return least(interface, limit, &["RUNG=1"]),
            Self::Floor => return least(interface, limit, &[]),
            Self::Ratelimit | Self::SixtyFourRules | Self::Observing | Self::WithTop | Self::Generic => {
                return ratelimit(self, interface, limit);
            }
            Self::NftIngress => nft("netdev", &format!("ingress device {interface} priority 0"), limit)?,
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

    const fn verdict(self) -> i32 {
        if matches!(self, Self::Low) { XDP_DROP } else { XDP_PASS }
    }
}

/// Lets whatever passes end at the same place for all: before routing, counted. To be called in the receiver's network.
pub fn end_further_on() -> Result<()> {
    const FURTHER_ON: &str = "table ip further_on {
        counter passed {}
        chain prerouting { type filter hook prerouting priority -290; counter name passed drop; }
    }";
    tool("nft", "-f -", FURTHER_ON).map(drop)
}

/// How many packets have passed; to be asked in the receiver's network.
pub fn passed() -> Result<u64> {
    let listed = tool("nft", "list counter ip further_on passed", "")?;
    let mut words = listed.split_whitespace().skip_while(|word| *word != "packets");
    words.nth(1).and_then(|number| number.parse().ok()).with_context(|| format!("no number in {listed}"))
}

const XDP_DROP: i32 = 1;

/// A flag of BPF_PROG_LOAD: the program takes frames of several buffers.
const FRAGS: u32 = 1 << 5;

fn verdict_only(interface: &str, limit: Limit, flags: u32) -> Result<Installed> {
    let program = bpf::load(&[bpf::set(0, limit.verdict()), END], flags).context("loading a program")?;
    let link = attach(interface, program.as_fd())?;
    Ok(Installed::Program { _program: None, _link: link })
}

fn least(interface: &str, limit: Limit, definitions: &[&str]) -> Result<Installed> {
    let mut definitions: Vec<String> =
        definitions.iter().map(|definition| (*definition).to_owned()).collect();
    if limit == Limit::Low {
        let is_floor = definitions.is_empty();
        definitions.push(if is_floor { "DENIED" } else { "DROP" }.to_owned());
    }
    let program = floor(&definitions)?;
    let link = attach(interface, program.program()?)?;
    Ok(Installed::Program { _program: Some(program), _link: link })
}

/// Attaches a program to an interface, in native mode.
fn attach(interface: &str, program: BorrowedFd<'_>) -> Result<OwnedFd> {
    const BPF_LINK_CREATE: i32 = 28;
    const BPF_XDP: u64 = 37;
    const NATIVE: u64 = 1 << 2;
    let interface = nix::net::if_::if_nametoindex(interface).context("the receiver's interface")?;
    let mut attributes = [0_u64; 16];
    attributes[0] = program.as_raw_fd() as u64 | u64::from(interface) << 32;
    attributes[1] = BPF_XDP | NATIVE << 32;
    let fd = bpf::bpf(BPF_LINK_CREATE, &mut attributes).context("attaching a program")?;
    // SAFETY: the kernel has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// As the daemon does it, from a configuration to an attached program.
fn ratelimit(filter: Filter, name: &str, limit: Limit) -> Result<Installed> {
    let mode = if filter == Filter::Generic { "generic" } else { "native" };
    let count = if filter == Filter::SixtyFourRules { 64 } else { 1 };
    let text = format!(
        "instance: {name}\nnetwork:\n  interfaces: [{{name: {name}, mode: {mode}}}]\n  rules:\n{}",
        rules(count, limit)
    );
    let path = format!("/run/{name}.yaml");
    fs::write(&path, text).context("writing a configuration")?;
    let policy = config::load(Path::new(&path))?;
    let network = policy.network.context("the configuration's network")?;
    let claim = Claim::take(&policy.instance)?;
    let wanted = Wanted {
        network: &network,
        config: Path::new(&path),
        is_same: false,
        observes: Some(filter == Filter::Observing),
        trial: None,
    };
    let dataplane = claim.start(&wanted, Path::new("/run/none.sock"))?;
    let top = if filter == Filter::WithTop { Some(top(name)?) } else { None };
    Ok(Installed::Ratelimit { _dataplane: Box::new(dataplane), top })
}

/// One rule for all packets; or many on ports, of which the last is that of the packets.
fn rules(count: u16, limit: Limit) -> String {
    let (rate, unit, _, burst) = limit.numbers();
    let rule = |index: u16| {
        let port = if index + 1 == count { u16::from(PORT) } else { 1_000 + index };
        let condition =
            if count == 1 { String::new() } else { format!(", match: {{destination_port: [{port}]}}") };
        format!("    - {{name: rule-{index}, rate: {rate}/{unit}, burst: {burst}{condition}}}\n")
    };
    (0..count).map(rule).collect()
}

/// Its samples are read and shown each second. What it prints goes to this process, so that it ends with it, however
/// that ends.
fn top(instance: &str) -> Result<Running> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ratelimit"));
    command.args(["top", "--output", "json", "--count", "1000000", "--instance", instance]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().context("starting ratelimit top")?;
    let mut printed = child.stdout.take().context("what ratelimit top prints")?;
    std::thread::spawn(move || io::copy(&mut printed, &mut io::sink()));
    Ok(Running(child))
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
