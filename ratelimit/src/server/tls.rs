//! TLS for listeners, with certificates that are read again when their files change.
//!
//! Files are looked at when a client connects, at most once a second. So a certificate that was renewed, or the link that
//! was turned to it, counts for the next connection; what can't be read or does not fit together leaves the old one in force.
//! So do files that hang, as they do on a network that is gone: one thread waits for them, and nobody else.

use std::{
    convert::Infallible,
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, mpsc},
    time::{Duration, Instant},
};

use nix::fcntl::OFlag;
use thiserror::Error;
use tokio::runtime::Runtime;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
        server::WebPkiClientVerifier,
    },
};
use tracing::{error, info, warn};

use crate::{policy::application::Tls, text::Shown};

/// How long files are taken for unchanged.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a look at them is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// A certificate can't be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("{path}: can't read it ({source})", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{path}: no {what} in PEM format ({source})", path = path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is looked for.
        what: &'static str,
        /// What is wrong.
        source: pem::Error,
    },
    /// A file has none.
    #[error("{path}: no certificate in PEM format", path = .0.display())]
    Empty(PathBuf),
    /// They don't fit together.
    #[error("{path}: {source}", path = path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// Clients can't be checked by it.
    #[error("{path}: {source}", path = path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::server::VerifierBuilderError,
    },
}

/// The TLS side of a listener.
#[derive(Debug)]
pub struct Certificates {
    files: Tls,
    protocols: &'static [&'static [u8]],
    loaded: Mutex<Loaded>,
    /// Held by who looks at the files.
    looking: Mutex<()>,
}

#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    versions: Versions,
    looked: Instant,
}

/// What tells one content of the files from another.
type Versions = Vec<Option<(u64, u64, i64, i64, u64)>>;

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// They can't be read, or don't fit together.
    pub fn load(files: Tls, protocols: &'static [&'static [u8]]) -> Result<Self, TlsError> {
        // Before the files are read: if they change meanwhile, they are read again.
        let versions = versions(&files);
        let config = read(&files, protocols)?;
        let loaded = Loaded { config, versions, looked: Instant::now() };
        Ok(Self { files, protocols, loaded: Mutex::new(loaded), looking: Mutex::new(()) })
    }

    /// What takes the next connection.
    pub async fn acceptor(self: &Arc<Self>) -> TlsAcceptor {
        if self.is_due() {
            let this = Arc::clone(self);
            let looked = tokio::task::spawn_blocking(move || this.look());
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

    /// Reads the files again if they have changed, and if nobody is about to.
    fn look(&self) {
        let _alone = match self.looking.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            // If what is being read has changed since, the next look finds that.
            Err(TryLockError::WouldBlock) => return,
        };
        let versions = versions(&self.files);
        if versions == lock(&self.loaded).versions {
            return;
        }
        // Also if they are bad: that is said once, not at each connection.
        lock(&self.loaded).versions = versions;
        match read(&self.files, self.protocols) {
            Ok(config) => {
                lock(&self.loaded).config = config;
                info!(certificate = %Shown(self.files.cert.display()), "new certificate");
            }
            Err(error) => error!("the old certificate stays in force: {}", Shown(error)),
        }
    }
}

/// Reads all files that have changed again now, on threads of the runtime, and waits for that, but not for long.
pub fn reload(all: &[Arc<Certificates>], runtime: &Runtime) {
    // It is closed when all have ended.
    let (sender, ended) = mpsc::channel::<Infallible>();
    for certificates in all {
        let (certificates, sender) = (Arc::clone(certificates), sender.clone());
        runtime.spawn_blocking(move || {
            certificates.look();
            drop(sender);
        });
    }
    drop(sender);
    if let (Err(mpsc::RecvTimeoutError::Timeout), Some(first)) = (ended.recv_timeout(PATIENCE), all.first()) {
        say_slow(&first.files.cert);
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

fn versions(files: &Tls) -> Versions {
    let version = |file: Metadata| (file.dev(), file.ino(), file.mtime(), file.mtime_nsec(), file.size());
    let paths = [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()];
    paths.iter().flatten().map(|path| fs::metadata(path).ok().map(version)).collect()
}

fn read(files: &Tls, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>, TlsError> {
    let certificates = certificates(&files.cert)?;
    let key = private_key(&files.key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let unusable = |source| TlsError::Unusable { path: files.cert.clone(), source };
    let builder = builder.map_err(unusable)?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider).build();
            builder.with_client_cert_verifier(
                verifier.map_err(|source| TlsError::ClientCa { path: path.clone(), source })?,
            )
        }
    };
    let mut config = builder.with_single_cert(certificates, key).map_err(unusable)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|source| TlsError::Unusable { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

/// All certificates of a file, at least one.
///
/// # Errors
/// It can't be read, or has none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content = content(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    let certificates = certificates.map_err(|source| wrong_pem(path, "certificate", source))?;
    if certificates.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(certificates) }
}

/// The first private key of a file.
///
/// # Errors
/// It can't be read, or has none.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&content(path)?).map_err(|source| wrong_pem(path, "private key", source))
}

fn wrong_pem(path: &Path, what: &'static str, source: pem::Error) -> TlsError {
    TlsError::Pem { path: path.to_owned(), what, source }
}

/// Files of certificates are small; one that is not is none.
fn content(path: &Path) -> Result<Vec<u8>, TlsError> {
    use io::Read as _;
    const MOST: u64 = 1 << 20;
    let failed = |source| TlsError::Read { path: path.to_owned(), source };
    // Opening a named pipe would wait for who writes into it.
    let file =
        File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::other("not a regular file")));
    }
    let mut content = Vec::new();
    if file.take(MOST + 1).read_to_end(&mut content).map_err(failed)? as u64 > MOST {
        return Err(failed(io::Error::other("larger than 1 MiB")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

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
                let _alone = certificates.looking.lock();
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
                reload(&all, runtime);
                sender.send(()).unwrap();
            });
            let reloaded = reloaded.recv_timeout(PATIENCE * 20).is_ok();
            is_over.wait();
            assert!(accepted && reloaded, "{accepted} {reloaded}");
        });
    }
}
