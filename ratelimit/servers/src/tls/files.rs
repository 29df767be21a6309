//! The files of certificates: reading them, telling whether they have changed, and why they can't be used.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use nix::fcntl::OFlag;
use thiserror::Error;
use tokio_rustls::rustls::{
    self, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
    server::WebPkiClientVerifier,
};

use super::{
    content::{Item, diagnose},
    doubt::{self, DoubtfulCertificate},
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
    /// A file has not what it should have.
    #[error("{path}: {why}", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is looked for.
        item: Item,
        /// What it has, and what to do.
        why: String,
    },
    /// A certificate can't be read.
    #[error("{path}: {}", certificate_advice(source), path = path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: webpki::Error,
    },
    /// A key is of a kind that is not known.
    #[error(
        "{path}: not a supported key; supported are ECDSA with P-256, P-384 or P-521, Ed25519, and RSA from 2048 bits \
         on ({source}): have a certificate made for such a key", path = path.display()
    )]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: rustls::Error,
    },
    /// They don't fit together.
    #[error(
        "{cert}: was made for another key than {key} holds: name two files that belong together, with \
         the server's own certificate first", cert = cert.display(), key = key.display()
    )]
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
    /// No certificate can be for it.
    #[error("`{name}` is not a name that a certificate can have")]
    Name {
        /// The name.
        name: String,
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
            | Self::Content { path, .. }
            | Self::Certificate { path, .. }
            | Self::Key { path, .. }
            | Self::Mismatch { cert: path, .. }
            | Self::Unusable { path, .. }
            | Self::ClientCa { path, .. } => path,
            Self::Name { .. } => Path::new(""),
        }
    }

    /// Whether it is about the private key: that may be in one file with the certificate.
    #[must_use]
    pub const fn is_about_key(&self) -> bool {
        matches!(self, Self::Content { item: Item::Key, .. } | Self::Key { .. })
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

/// What a listener needs.
#[derive(Debug)]
pub struct Usable {
    /// For the connections.
    pub config: Arc<ServerConfig>,
    /// What speaks against the certificate all the same.
    pub doubt: Option<DoubtfulCertificate>,
}

/// Whether a listener could use these files, and what speaks against it if it could.
///
/// # Errors
/// Why not.
pub fn check(files: &Tls) -> Result<Option<DoubtfulCertificate>, TlsError> {
    read(files, &[]).map(|usable| usable.doubt)
}

/// What a listener that speaks these protocols needs.
///
/// # Errors
/// The files can't be used.
pub fn read(files: &Tls, protocols: &[&[u8]]) -> Result<Usable, TlsError> {
    let certificates = own_certificates(&files.cert)?;
    let key = private_key(&files.key)?;
    let doubt = certificates.first().and_then(|own| doubt::find(own, SystemTime::now()));
    let doubt = doubt.map(|why| DoubtfulCertificate { path: files.cert.clone(), why });
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
    Ok(Usable { config: Arc::new(config), doubt })
}

/// Those of a file whom to trust.
///
/// # Errors
/// It can't be read, or has none.
pub fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|source| TlsError::Unusable { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

/// All certificates of a file, at least one, of which the first is shown to others.
///
/// # Errors
/// It can't be read, has none, or a first one that is of no use.
pub fn own_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = certificates(path)?;
    if let Some(Err(source)) = certificates.first().map(webpki::EndEntityCert::try_from) {
        return Err(TlsError::Certificate { path: path.to_owned(), source });
    }
    Ok(certificates)
}

/// All certificates of a file, at least one.
///
/// # Errors
/// It can't be read, or has none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content = content(path)?;
    let lacks = |error: Option<&pem::Error>| lacks(path, &content, Item::Certificate, error);
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    let certificates = certificates.map_err(|error| lacks(Some(&error)))?;
    if certificates.is_empty() { Err(lacks(None)) } else { Ok(certificates) }
}

/// The first private key of a file, of a kind that can be used.
///
/// # Errors
/// It can't be read, has none, or one of another kind.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let content = content(path)?;
    let key = PrivateKeyDer::from_pem_slice(&content)
        .map_err(|error| lacks(path, &content, Item::Key, Some(&error)))?;
    let loaded = rustls::crypto::ring::default_provider().key_provider.load_private_key(key.clone_key());
    loaded.map_err(|source| TlsError::Key { path: path.to_owned(), source })?;
    Ok(key)
}

fn lacks(path: &Path, content: &[u8], item: Item, error: Option<&pem::Error>) -> TlsError {
    TlsError::Content { path: path.to_owned(), item, why: diagnose(path, content, item, error) }
}

fn certificate_advice(error: &webpki::Error) -> String {
    match error {
        webpki::Error::UnsupportedCertVersion => {
            "a certificate of X.509 version 1, which clients no longer accept: have one of version 3 made, as by \
             `openssl x509 -req -extfile FILE` with a `subjectAltName` in FILE"
                .to_owned()
        }
        error => format!("not a certificate that can be read ({error}): have another made"),
    }
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
