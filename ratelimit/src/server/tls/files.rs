//! The files of certificates: reading them, telling whether they have changed, and why they can't be used.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::fcntl::OFlag;
use thiserror::Error;
use tokio_rustls::rustls::{
    self, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
    server::WebPkiClientVerifier,
};

use crate::policy::application::Tls;

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
    #[error("{cert}: was made for another key than that in {key}: put two there that belong together", cert = cert.display(), key = key.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's.
        key: PathBuf,
    },
    /// They are of no use for another reason.
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

impl TlsError {
    /// The file that it is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Read { path, .. }
            | Self::Pem { path, .. }
            | Self::Empty(path)
            | Self::Mismatch { cert: path, .. }
            | Self::Unusable { path, .. }
            | Self::ClientCa { path, .. } => path,
        }
    }

    /// Why a file can't be read, if that is it.
    #[must_use]
    pub fn unreadable(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Read { source, .. } => Some(source.kind()),
            _ => None,
        }
    }
}

/// What tells one content of the files from another.
pub type Versions = Vec<Option<(u64, u64, i64, i64, u64)>>;

/// The versions that there are now.
pub fn versions(files: &Tls) -> Versions {
    let version = |file: Metadata| (file.dev(), file.ino(), file.mtime(), file.mtime_nsec(), file.size());
    let paths = [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()];
    paths.iter().flatten().map(|path| fs::metadata(path).ok().map(version)).collect()
}

/// Whether a listener could use these files.
///
/// # Errors
/// Why not.
pub fn check(files: &Tls) -> Result<(), TlsError> {
    read(files, &[]).map(drop)
}

/// What a listener that speaks these protocols needs.
///
/// # Errors
/// The files can't be used.
pub fn read(files: &Tls, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>, TlsError> {
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
    let mut config = builder.with_single_cert(certificates, key).map_err(|source| match source {
        rustls::Error::InconsistentKeys(_) => {
            TlsError::Mismatch { cert: files.cert.clone(), key: files.key.clone() }
        }
        source => unusable(source),
    })?;
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
