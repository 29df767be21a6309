//! TLS for listeners, with certificates that are read again when their files change.
//!
//! Files are looked at when a client connects, at most once a second. So a certificate that was renewed, or the link
//! that was turned to it, counts for the next connection; what can't be read or does not fit together leaves the old
//! one in force, and a reload of the configuration fails. Files that hang, as they do on a network that is gone, leave
//! the old one in force too: one thread waits for them, and nobody else.

mod content;
mod doubt;
mod files;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::{Duration, Instant},
};

use tokio::{
    runtime::Runtime,
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};
use tracing::{error, info, warn};

use self::files::{Usable, Versions, read, versions};
pub use self::{
    doubt::{DoubtfulCertificate, shown as shown_time},
    files::{TlsError, certificates, check as check_certificates, own_certificates, private_key, roots},
};
use crate::{policy::application::Tls, text::Shown};

/// How long files are taken for unchanged.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a look at them is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// The TLS side of a listener.
#[derive(Debug)]
pub struct Certificates {
    files: Tls,
    protocols: &'static [&'static [u8]],
    loaded: Mutex<Loaded>,
    /// Held by who looks at the files.
    looking: Arc<AsyncMutex<()>>,
}

#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    versions: Versions,
    /// Whether what has these versions can't be used, and the configuration is an older one.
    is_bad: bool,
    looked: Instant,
}

/// What a look at the files has found.
#[derive(Debug)]
struct CertificateLook {
    versions: Versions,
    read: Result<Usable, TlsError>,
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// They can't be read, or don't fit together.
    pub fn load(files: Tls, protocols: &'static [&'static [u8]]) -> Result<Self, TlsError> {
        // Before the files are read: if they change meanwhile, they are read again.
        let versions = versions(&files);
        let config = read(&files, protocols)?.in_force();
        let loaded = Loaded { config, versions, is_bad: false, looked: Instant::now() };
        Ok(Self { files, protocols, loaded: Mutex::new(loaded), looking: Arc::default() })
    }

    /// The files.
    pub const fn files(&self) -> &Tls {
        &self.files
    }

    /// What takes the next connection.
    pub async fn acceptor(self: &Arc<Self>) -> TlsAcceptor {
        // If what somebody else is reading has changed since, the next look finds that.
        if self.is_due()
            && let Ok(alone) = Arc::clone(&self.looking).try_lock_owned()
        {
            let this = Arc::clone(self);
            let looked = tokio::task::spawn_blocking(move || {
                this.use_found(this.look(&alone, false));
            });
            if tokio::time::timeout(PATIENCE, looked).await.is_err() {
                say_slow(&self.files.cert);
            }
        }
        TlsAcceptor::from(Arc::clone(&lock(&self.loaded).config))
    }

    /// Whether to look at the files: so says the first who asks after a time.
    fn is_due(&self) -> bool {
        let mut loaded = lock(&self.loaded);
        let is_due = loaded.looked.elapsed() >= LOOK_AGAIN;
        if is_due {
            loaded.looked = Instant::now();
        }
        is_due
    }

    /// Reads the files if they have changed; with `again` also if they were bad.
    fn look(&self, _alone: &OwnedMutexGuard<()>, again: bool) -> Option<CertificateLook> {
        let versions = versions(&self.files);
        let (is_same, is_bad) = {
            let loaded = lock(&self.loaded);
            (versions == loaded.versions, loaded.is_bad)
        };
        (!is_same || (again && is_bad))
            .then(|| CertificateLook { versions, read: read(&self.files, self.protocols) })
    }

    /// Puts it in force, or says why not.
    fn use_found(&self, found: Option<CertificateLook>) {
        if let Some(Err(error)) = found.map(|found| self.put_in_force(found)) {
            error!("the old certificate stays in force: {}", Shown(error));
        }
    }

    /// Also notes what is bad, so that it is said once and not at each connection.
    fn put_in_force(&self, found: CertificateLook) -> Result<(), TlsError> {
        let mut loaded = lock(&self.loaded);
        loaded.versions = found.versions;
        loaded.is_bad = found.read.is_err();
        loaded.config = found.read?.in_force();
        info!(certificate = %Shown(self.files.cert.display()), "new certificate");
        Ok(())
    }
}

/// Certificates that a reload has read, and that can be used.
#[derive(Debug, Default)]
pub struct FreshCertificates(Vec<(Arc<Certificates>, CertificateLook)>);

impl FreshCertificates {
    /// Reads all files that have changed, or were bad, on threads of the runtime, and waits for that, but not for long:
    /// what comes later counts then.
    ///
    /// # Errors
    /// Why some can't be used. None of them is in force then.
    pub fn read(all: &[Arc<Certificates>], runtime: &Runtime) -> Result<Self, TlsError> {
        let (sender, ended) = mpsc::channel();
        for certificates in all {
            let (certificates, sender) = (Arc::clone(certificates), sender.clone());
            runtime.spawn(async move {
                let locked = Arc::clone(&certificates.looking).lock_owned();
                let Ok(alone) = tokio::time::timeout(PATIENCE, locked).await else { return };
                tokio::task::spawn_blocking(move || {
                    let found = certificates.look(&alone, true);
                    // Nobody waits any more.
                    if let Err(mpsc::SendError((certificates, found))) = sender.send((certificates, found)) {
                        certificates.use_found(found);
                    }
                });
            });
        }
        drop(sender);
        Self::collect(all, &ended)
    }

    fn collect(
        all: &[Arc<Certificates>],
        ended: &mpsc::Receiver<(Arc<Certificates>, Option<CertificateLook>)>,
    ) -> Result<Self, TlsError> {
        let end = Instant::now() + PATIENCE;
        let (mut fresh, mut waiting) = (Self::default(), all.to_vec());
        while let Ok((certificates, found)) =
            ended.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            waiting.retain(|other| !Arc::ptr_eq(other, &certificates));
            match found {
                Some(bad) if bad.read.is_err() => certificates.put_in_force(bad)?,
                found => fresh.0.extend(found.map(|found| (certificates, found))),
            }
        }
        if let Some(slow) = waiting.first() {
            say_slow(&slow.files.cert);
        }
        Ok(fresh)
    }

    /// Lets them count.
    pub fn put_in_force(self) {
        for (certificates, found) in self.0 {
            certificates.use_found(Some(found));
        }
    }
}

impl Usable {
    /// What connections need; what speaks against it is said.
    fn in_force(self) -> Arc<ServerConfig> {
        if let Some(doubt) = self.doubt {
            warn!("{}", Shown(doubt));
        }
        self.config
    }
}

fn say_slow(certificate: &Path) {
    let certificate = Shown(certificate.display());
    warn!(%certificate, "reading certificates takes long; until that ends, the old ones stay in force");
}

/// What is locked here is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Barrier, thread};

    use super::*;

    fn certificates(directory: &Path) -> Arc<Certificates> {
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = Tls { cert: directory.join("cert.pem"), key: directory.join("key.pem"), client_ca: None };
        fs::write(&files.cert, issued.cert.pem()).unwrap();
        fs::write(&files.key, issued.signing_key.serialize_pem()).unwrap();
        Arc::new(Certificates::load(files, &[]).unwrap())
    }

    #[test]
    fn nobody_waits_for_files_that_hang() {
        let directory = tempfile::tempdir().unwrap();
        let certificates = certificates(directory.path());
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let (is_stuck, is_over) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            // As one who looks at such a file.
            scope.spawn(|| {
                let _alone = certificates.looking.blocking_lock();
                is_stuck.wait();
                is_over.wait();
            });
            is_stuck.wait();
            lock(&certificates.loaded).looked -= LOOK_AGAIN;
            let connects = async { tokio::time::timeout(PATIENCE * 20, certificates.acceptor()).await };
            let accepted = runtime.block_on(connects).is_ok();
            let (sender, reloaded) = mpsc::channel();
            let all = [Arc::clone(&certificates)];
            let runtime = &runtime;
            scope.spawn(move || {
                sender.send(FreshCertificates::read(&all, runtime).is_ok()).unwrap();
            });
            let reloaded = reloaded.recv_timeout(PATIENCE * 20).unwrap_or(false);
            is_over.wait();
            assert!(accepted && reloaded, "{accepted} {reloaded}");
        });
    }
}
