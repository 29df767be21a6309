//! The machine inside the machine: this process's own namespaces, the wires to the receivers, and which core does what.
//!
//! Namespaces and wires belong to nobody but this process, so they vanish with it, however it ends. Nothing is cleaned
//! up here, and nothing outside is touched.

use std::{
    fs::{self, File},
    io::Write as _,
    net::{Ipv4Addr, UdpSocket},
    os::fd::AsRawFd as _,
    panic::resume_unwind,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    mount::{MsFlags, mount},
    net::if_::if_nametoindex,
    sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, setns, unshare},
    time::{ClockId, clock_getcpuclockid},
    unistd::Pid,
};

/// Moves this process, which must have one thread only, to a network and mounts of its own.
pub fn enter() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
        .context("new namespaces: run this as root")?;
    // What is mounted from here on is seen by nobody else.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .context("separating mounts")?;
    for (kind, target) in [("sysfs", "/sys"), ("bpf", "/sys/fs/bpf"), ("tmpfs", "/run")] {
        mount_new(kind, target)?;
    }
    Ok(())
}

fn mount_new(kind: &str, target: &str) -> Result<()> {
    mount(Some(kind), target, Some(kind), MsFlags::empty(), None::<&str>)
        .with_context(|| format!("mounting {kind} on {target}"))
}

/// Runs a program, gives it a text to read, and returns what it says.
pub fn tool(program: &str, arguments: &str, input: &str) -> Result<String> {
    let line = format!("{program} {arguments}");
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace()).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().with_context(|| format!("starting {line} (`cargo xtask setup` installs it)"))?;
    child.stdin.take().context("its input")?.write_all(input.as_bytes()).context("writing its input")?;
    let output = child.wait_with_output().with_context(|| format!("waiting for {line}"))?;
    if !output.status.success() {
        bail!("{line}: {}\n{input}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("reading its output")
}

/// Which cores work.
#[derive(Clone, Copy)]
pub struct Cores {
    pub generator: usize,
    pub receiver: usize,
    /// Two threads of one core disturb each other.
    pub are_siblings: bool,
}

impl Cores {
    /// Two of those that this process may use, not of the same core if that can be had.
    pub fn choose() -> Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).context("reading the affinity")?;
        let mut allowed = (0..CpuSet::count()).filter(|&core| allowed.is_set(core) == Ok(true));
        let generator = allowed.next().context("no processor")?;
        let siblings = siblings(generator);
        let others: Vec<usize> = allowed.collect();
        let apart = others.iter().find(|core| !siblings.contains(core));
        match apart.or(others.first()) {
            Some(&receiver) => Ok(Self { generator, receiver, are_siblings: apart.is_none() }),
            None => bail!("there is one processor here, and the generator and the receiver need one each"),
        }
    }
}

/// The threads of a processor's core, from a list such as `0,4` or `0-1`.
fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let list = fs::read_to_string(path).unwrap_or_default();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Keeps a thread on a core; 0 is the calling one.
pub fn pin(thread: Pid, core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core).context("the number of a core")?;
    sched_setaffinity(thread, &set).context("pinning a thread to a core")
}

/// A network namespace with the far end of a wire, whose packets a kernel thread of its own takes in.
pub struct Receiver {
    namespace: File,
    /// The far end's name, and that of the directory with its files.
    name: String,
    /// The near end's index.
    pub near: u32,
    thread: Pid,
    /// The processor time of that thread.
    clock: ClockId,
}

impl Receiver {
    pub fn new(number: usize, core: usize) -> Result<Self> {
        // The thread is found by this name.
        let name = format!("n{number}p{}", std::process::id());
        let namespace = new_namespace(&name)?;
        let near = format!("near{number}");
        let far = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
        ip(&format!("link add {near} type veth peer name {name} address 02:00:00:00:00:01 netns {far}"))?;
        in_namespace(&namespace, || bring_up(&name))?;
        // Second, because it takes redirected frames only if the far end takes them when this one comes up.
        bring_up(&near)?;
        fs::write(file(&name, "threaded"), "1").context("giving the receiver a thread")?;
        let thread = thread_of(&name)?;
        pin(thread, core)?;
        let clock = clock_getcpuclockid(thread).context("the clock of the receiver's thread")?;
        let near = if_nametoindex(near.as_str()).context("the near end")?;
        Ok(Self { namespace, name, near, thread, clock })
    }

    /// One that answers: both ends have an address, see [`Self::address`].
    pub fn with_addresses(number: usize, core: usize) -> Result<Self> {
        let receiver = Self::new(number, core)?;
        let near = format!("near{number}");
        set_gro(&near, false).context("turning GRO off for the near end")?;
        ip(&format!("link set {near} arp on"))?;
        ip(&format!("address add {}/30 dev {near}", Self::address(number, 1)))?;
        receiver.enter(|| {
            ip(&format!("link set {} arp on", receiver.name))?;
            ip(&format!("address add {}/30 dev {}", Self::address(number, 2), receiver.name)).map(drop)
        })?;
        Ok(receiver)
    }

    /// The address of the near end (1) or the far end (2) of a numbered wire.
    pub fn address(number: usize, end: u8) -> Ipv4Addr {
        // RFC 2544's network, as for the packets.
        Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + 4 * number as u32 + u32::from(end))
    }

    /// The name of its interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs something in its network.
    pub fn enter<T: Send>(&self, what: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        in_namespace(&self.namespace, what)
    }

    /// All packets that its thread has taken in, whatever became of them.
    pub fn received(&self) -> Result<u64> {
        let path = file(&self.name, "statistics/rx_packets");
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        text.trim().parse().context(path)
    }

    /// How often its thread has waited for packets.
    pub fn waits(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.thread);
        let status = fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|number| number.trim().parse().ok())
            .with_context(|| format!("no number of waits in {path}"))
    }

    /// How long its thread has worked. What others do on its core meanwhile does not count, nor does waiting for
    /// packets.
    pub fn worked(&self) -> Result<Duration> {
        Ok(self.clock.now().context("reading a thread's clock")?.into())
    }
}

fn in_namespace<T: Send>(namespace: &File, what: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let inside = || {
        setns(namespace, CloneFlags::CLONE_NEWNET).context("entering a namespace")?;
        what()
    };
    thread::scope(|scope| scope.spawn(inside).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// The kernel thread that takes in an interface's packets; it may take a moment to get its name.
fn thread_of(interface: &str) -> Result<Pid> {
    let prefix = format!("napi/{interface}-");
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        for process in fs::read_dir("/proc").context("/proc")?.flatten() {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            if name.starts_with(&prefix) {
                let id = process.file_name().to_string_lossy().parse().context("a process id")?;
                return Ok(Pid::from_raw(id));
            }
        }
        thread::sleep(Duration::from_millis(1)); // tidy: sleep, nothing tells when the thread has its name
    }
    bail!("there is no thread {prefix}*: kernel threads can't be seen from this process namespace")
}

/// Where the files are by which the kernel shows a namespace's interfaces.
fn directory(name: &str) -> String {
    format!("/run/{name}")
}

fn file(interface: &str, name: &str) -> String {
    format!("{}/class/net/{interface}/{name}", directory(interface))
}

fn new_namespace(name: &str) -> Result<File> {
    let make = || {
        unshare(CloneFlags::CLONE_NEWNET).context("a network namespace")?;
        // Nobody but the generator sends anything.
        let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        fs::create_dir(directory(name)).context("making a directory")?;
        mount_new("sysfs", &directory(name))?;
        File::open("/proc/thread-self/ns/net").context("the namespace's file")
    };
    thread::scope(|scope| scope.spawn(make).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

fn ip(arguments: &str) -> Result<String> {
    tool("ip", arguments, "")
}

/// The kernel takes redirected frames, and takes them in by a thread, only where GRO is on.
fn bring_up(interface: &str) -> Result<()> {
    set_gro(interface, true).with_context(|| format!("turning GRO on for {interface}"))?;
    ip(&format!("link set {interface} arp off up")).map(drop)
}

/// Turns GRO on or off; to be called in the interface's network.
pub fn set_gro(interface: &str, is_on: bool) -> std::io::Result<()> {
    const ETHTOOL_SGRO: u32 = 0x2c;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut value = [ETHTOOL_SGRO, is_on.into()];
    // SAFETY: all zeros is a request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte of zero stays at the end.
    for (place, byte) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(interface.bytes()) {
        *place = byte.cast_signed();
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the request and what it points to live during the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
