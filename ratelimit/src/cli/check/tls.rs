//! TLS towards a daemon: whom this client trusts, what it shows of itself, and what the daemon has against it.

use std::{
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, AlertDescription, CertificateError, ClientConfig, OtherError, RootCertStore,
        pki_types::{InvalidDnsNameError, ServerName},
    },
};

use crate::server::{TlsError, certificates, own_certificates, private_key, shown_time};

/// What a client shows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// Its certificate, and those that lead from it to who vouches for it.
    pub cert: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
}

/// No TLS.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// The certificates to trust.
    #[error("`--ca`: {0}")]
    Ca(TlsError),
    /// The client's certificate.
    #[error("`--cert`: {0}")]
    Cert(TlsError),
    /// Its key.
    #[error("`--key`: {0}")]
    Key(TlsError),
    /// Each is good, but they don't go together.
    #[error(
        "`--cert`, `--key`: {source}: name the key that {cert} was made for, and put the client's own \
         certificate first in that file", cert = cert.display()
    )]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// The host has no name that certificates can be for.
    #[error(transparent)]
    Name(#[from] InvalidDnsNameError),
    /// TLS can't be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The daemon wants to know who asks.
    #[error(
        "TLS: the daemon asks for a certificate: name one that its `client_ca` has signed, and its key, \
         by `--cert` and `--key`"
    )]
    Unknown,
    /// It does not like what it is shown.
    #[error(
        "TLS: the daemon refuses the certificate of `--cert` ({0:?}): name one that its `client_ca` has \
         signed and that has not expired"
    )]
    Refused(AlertDescription),
    /// Its certificate is for others.
    #[error("TLS: {0}: ask by a name that the certificate is for, such as `--url https://NAME:PORT`")]
    OtherName(io::Error),
    /// Its certificate is not valid now.
    #[error(
        "TLS: the daemon's certificate {0}: renew it where the daemon runs, or correct the clock of the \
         machine that has the wrong time"
    )]
    OtherTime(String),
    /// Its certificate is one of an authority.
    #[error(
        "TLS: the daemon shows the certificate of a CA, not one for a server: let the CA issue one for it, or make one with \
         `openssl req -x509 -addext basicConstraints=critical,CA:FALSE ...`"
    )]
    Authority,
    /// HTTP is spoken where gRPC is, or the other way round.
    #[error(
        "TLS: the daemon speaks another protocol there: `--url` is https:// for HTTP and grpcs:// for gRPC, which have \
         addresses of their own"
    )]
    OtherProtocol,
    /// The daemon's certificate is not trusted, or it does not speak TLS.
    #[error(
        "TLS: {0}; `--ca` names the authority that has signed the daemon's certificate, and http:// or \
         grpc:// asks without TLS"
    )]
    Broken(io::Error),
}

/// What the daemon had against the client's certificate, if anything. With TLS 1.3 it says so only after the handshake,
/// and the protocols above hide it.
#[derive(Clone, Debug, Default)]
pub struct TlsRefusal(Arc<OnceLock<AlertDescription>>);

impl TlsRefusal {
    fn note(&self, error: &io::Error) {
        if let Some(rustls::Error::AlertReceived(alert)) = tls_error(error)
            && is_about_certificates(*alert)
        {
            // The first is the reason.
            let _ = self.0.set(*alert);
        }
    }

    /// As an error, for a client that shows this.
    pub fn error(&self, own: Option<&ClientIdentity>) -> Option<HandshakeError> {
        let alert = *self.0.get()?;
        Some(if own.is_some() { HandshakeError::Refused(alert) } else { HandshakeError::Unknown })
    }
}

const fn is_about_certificates(alert: AlertDescription) -> bool {
    use AlertDescription as Alert;
    matches!(
        alert,
        Alert::AccessDenied
            | Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRequired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::DecryptError
            | Alert::UnknownCA
            | Alert::UnsupportedCertificate
    )
}

/// Speaks TLS over a stream.
pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    host: &str,
    config: ClientConfig,
    refusal: &TlsRefusal,
) -> Result<Watched<tokio_rustls::client::TlsStream<S>>, HandshakeError> {
    let name = ServerName::try_from(host.to_owned())?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = stream.map_err(|error| {
        refusal.note(&error);
        of_handshake(error)
    })?;
    Ok(Watched { stream, refusal: refusal.clone() })
}

fn of_handshake(error: io::Error) -> HandshakeError {
    use CertificateError::{
        ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYetContext, Other,
    };
    let is_authority = |error: &OtherError| {
        error.0.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
    };
    match tls_error(&error) {
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            HandshakeError::OtherProtocol
        }
        Some(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
            HandshakeError::OtherName(error)
        }
        Some(rustls::Error::InvalidCertificate(ExpiredContext { not_after, .. })) => {
            HandshakeError::OtherTime(format!("expired on {}", shown_time(*not_after)))
        }
        Some(rustls::Error::InvalidCertificate(NotValidYetContext { not_before, .. })) => {
            HandshakeError::OtherTime(format!("is not valid before {}", shown_time(*not_before)))
        }
        Some(rustls::Error::InvalidCertificate(Other(error))) if is_authority(error) => {
            HandshakeError::Authority
        }
        _ => HandshakeError::Broken(error),
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|error| error.downcast_ref())
}

/// What to speak with.
pub fn config(
    ca: &Path,
    own: Option<&ClientIdentity>,
    protocol: &str,
) -> Result<ClientConfig, HandshakeError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(ca).map_err(HandshakeError::Ca)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = builder.with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(ClientIdentity { cert, key }) => {
            let chain = own_certificates(cert).map_err(HandshakeError::Cert)?;
            let key = private_key(key).map_err(HandshakeError::Key)?;
            let mismatch = |source| HandshakeError::Mismatch { cert: cert.clone(), source };
            builder.with_client_auth_cert(chain, key).map_err(mismatch)?
        }
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Ok(config)
}

/// A stream that notes why it broke.
pub struct Watched<S> {
    stream: S,
    refusal: TlsRefusal,
}

impl<S: AsyncRead + Unpin> Watched<S> {
    /// If it can't be written to, what the other side said before it closed is read first, or waited for.
    fn noted<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(_)) = &written {
            let mut unread = [0; 1024];
            let read = Pin::new(self).poll_read(context, &mut ReadBuf::new(&mut unread));
            return if read.is_pending() { Poll::Pending } else { written };
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &read {
            self.refusal.note(error);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.noted(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.noted(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
