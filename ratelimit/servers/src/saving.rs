//! A thread that saves what is counted now and then, so that little is lost if the daemon is killed. Nobody waits for
//! it.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
};

use ratelimit_limiter::application::Service;
use tracing::{error, info};

use crate::text::Shown;

/// Saves for as long as it is there.
#[derive(Debug)]
pub struct Saving {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Saving {
    /// Begins; `None` if counts have no file.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn start(service: &Arc<Service>) -> io::Result<Option<Self>> {
        if service.settings().state_file.is_none() {
            return Ok(None);
        }
        let (stop, stopped) = channel();
        let service = Arc::clone(service);
        let interval = service.settings().save_interval.into();
        let run = move || {
            let mut has_failed = false;
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                has_failed = save(&service, has_failed);
            }
        };
        let thread = thread::Builder::new().name("ratelimit-save".to_owned()).spawn(run)?;
        Ok(Some(Self { stop, thread }))
    }

    /// Ends, once what is being saved is saved.
    pub fn stop(self) {
        drop(self.stop);
        // It has not panicked, and if it had, the last save would still be worth trying.
        let _ = self.thread.join();
    }
}

/// Saves, and says so when it begins to fail or to work again; says whether it has failed.
fn save(service: &Service, has_failed: bool) -> bool {
    let saved = service.save();
    match &saved {
        Ok(()) if has_failed => info!("counts are saved again"),
        Err(error) if !has_failed => error!("{}", Shown(error)),
        Ok(()) | Err(_) => {}
    }
    saved.is_err()
}
