//! What a connection becomes that both sides have upgraded, as for WebSockets: bytes in both directions, until one side
//! has said all, or neither says anything for too long.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::{Instant, timeout, timeout_at},
};

/// Bytes that are read at once.
const BUFFER: usize = 16 << 10;
/// How long the other direction may go on when one side has said all.
const FAREWELL: Duration = Duration::from_secs(10);

/// Passes on what both sides say.
pub async fn run(client: OnUpgrade, server: OnUpgrade, idle: Duration) {
    let Ok((client, server)) = tokio::try_join!(client, server) else { return };
    pass_on(client, server, idle).await;
}

async fn pass_on(client: Upgraded, server: Upgraded, idle: Duration) {
    let (from_client, to_client) = tokio::io::split(TokioIo::new(client));
    let (from_server, to_server) = tokio::io::split(TokioIo::new(server));
    let last = Last::new();
    let mut there = std::pin::pin!(copy(from_client, to_server, &last, idle));
    let mut back = std::pin::pin!(copy(from_server, to_client, &last, idle));
    // That a side is gone, or silent for too long, is the end of both.
    let _ = tokio::select! {
        done = &mut there => match done {
            Ok(()) => timeout(FAREWELL, back).await.unwrap_or(Ok(())),
            Err(error) => Err(error),
        },
        done = &mut back => match done {
            Ok(()) => timeout(FAREWELL, there).await.unwrap_or(Ok(())),
            Err(error) => Err(error),
        },
    };
}

/// When something was last passed on, in either direction.
struct Last {
    start: Instant,
    millis: AtomicU64,
}

impl Last {
    fn new() -> Self {
        Self { start: Instant::now(), millis: AtomicU64::new(0) }
    }

    fn now(&self) {
        self.millis.store(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    fn get(&self) -> Instant {
        self.start + Duration::from_millis(self.millis.load(Relaxed))
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    last: &Last,
    idle: Duration,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = match timeout_at(last.get() + idle, from.read(&mut buffer)).await {
            Ok(length) => length?,
            Err(_) if last.get() + idle > Instant::now() => continue,
            Err(late) => return Err(late.into()),
        };
        last.now();
        let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else {
            return to.shutdown().await;
        };
        timeout(idle, to.write_all(bytes)).await??;
        to.flush().await?;
        last.now();
    }
}
