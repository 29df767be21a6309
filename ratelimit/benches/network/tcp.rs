//! TCP through a filter that lets it pass: how much arrives a second, and what it takes of the processors, with GRO and
//! without.
//!
//! Sender and receiver are threads of this process, on the two cores. What the network's work takes is charged to the
//! thread that it interrupts, mostly the sender, or to the interface's own thread: so the three are added up.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, anyhow};
use nix::{
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

use crate::{
    figure::Figure,
    filter::{Filter, Installed, Limit},
    lab::{self, Cores, Receiver},
};

/// What is sent in one round.
const BYTES: usize = 1 << 27;
const CHUNK: usize = 1 << 16;

const FILTERS: [Filter; 8] = [
    Filter::Nothing,
    Filter::VerdictOnly,
    Filter::Floor,
    Filter::Ratelimit,
    Filter::Generic,
    Filter::NftIngress,
    Filter::NftPrerouting,
    Filter::Hashlimit,
];

/// One connection's way.
pub struct Case {
    pub filter: Filter,
    pub has_gro: bool,
    number: usize,
    receiver: Receiver,
    cores: Cores,
    /// Gigabits a second that arrive, and nanoseconds of processor time a kilobyte.
    goodput: Vec<f64>,
    nanos: Vec<f64>,
    _installed: Installed,
}

/// All of them, whose wires have numbers from this one on.
pub fn cases(first: usize, cores: Cores, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Case>> {
    let wanted = FILTERS.into_iter().filter(|filter| is_wanted(&format!("TCP, {}", filter.name())));
    let all = wanted.flat_map(|filter| [(filter, true), (filter, false)]);
    all.zip(first..).map(|((filter, has_gro), number)| Case::new(number, filter, has_gro, cores)).collect()
}

impl Case {
    fn new(number: usize, filter: Filter, has_gro: bool, cores: Cores) -> Result<Self> {
        let receiver = Receiver::with_addresses(number, cores.receiver)?;
        let installed = receiver.enter(|| filter.install(receiver.name(), Limit::High));
        let installed = installed.with_context(|| format!("installing: {}", filter.name()))?;
        receiver.enter(|| lab::set_gro(receiver.name(), has_gro).context("turning GRO on or off"))?;
        let (goodput, nanos) = (Vec::new(), Vec::new());
        Ok(Self { filter, has_gro, number, receiver, cores, goodput, nanos, _installed: installed })
    }

    /// Sends, over a connection of its own.
    pub fn measure(&mut self) -> Result<()> {
        let address = Receiver::address(self.number, 2);
        let listener = self.receiver.enter(|| TcpListener::bind((address, 0)).context("listening"))?;
        let port = listener.local_addr().context("the listener's port")?.port();
        let core = self.cores.receiver;
        let reader = thread::spawn(move || read_all(&listener, core));
        let interface = self.thread_time();
        let (begin, before) = (Instant::now(), processor_time()?);
        let mut stream = TcpStream::connect((address, port)).context("connecting")?;
        let chunk = [0_u8; CHUNK];
        for _ in 0..BYTES / CHUNK {
            stream.write_all(&chunk).context("sending")?;
        }
        drop(stream);
        let sent = processor_time()? - before;
        let received = reader.join().map_err(|_| anyhow!("the reader has failed"))??;
        let elapsed = begin.elapsed().as_secs_f64();
        let interface = self.thread_time() - interface;
        self.goodput.push(BYTES as f64 * 8.0 / elapsed / 1e9);
        self.nanos.push((sent + received + interface) * 1e9 / (BYTES as f64 / 1e3));
        Ok(())
    }

    /// The processor time of the interface's thread, in seconds. Without GRO and without a program in native mode there
    /// is none.
    fn thread_time(&self) -> f64 {
        self.receiver.worked().unwrap_or_default().as_secs_f64()
    }

    pub fn goodput(&self) -> Figure {
        Figure::median(&self.goodput)
    }

    pub fn nanos(&self) -> Figure {
        Figure::tenth(&self.nanos)
    }
}

/// Returns the processor time that it took.
fn read_all(listener: &TcpListener, core: usize) -> Result<f64> {
    lab::pin(Pid::from_raw(0), core)?;
    let (mut stream, _) = listener.accept().context("taking a connection")?;
    let before = processor_time()?;
    let mut chunk = vec![0_u8; 4 * CHUNK];
    while stream.read(&mut chunk).context("receiving")? > 0 {}
    Ok(processor_time()? - before)
}

/// This thread's processor time, in seconds.
fn processor_time() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("the thread's clock")?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}
