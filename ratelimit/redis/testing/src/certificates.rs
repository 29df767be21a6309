//! Certificates for TLS: an authority, and one certificate for servers and clients.

use std::{fs, net::IpAddr, path::PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use tempfile::TempDir;

/// Files of an authority of a test's own.
#[derive(Debug)]
pub struct Certificates(TempDir);

impl Certificates {
    /// With a server's certificate for this address, and a client's.
    pub(crate) fn new(address: IpAddr) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate for its own issuer's if both have one name.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| fs::write(directory.path().join(name), text).unwrap();
        write("ca.pem", authority.pem());
        for (name, names) in [("server", vec![SanType::IpAddress(address)]), ("client", Vec::new())] {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::default();
            params.subject_alt_names = names;
            params.distinguished_name.push(DnType::CommonName, name);
            write(&format!("{name}.pem"), params.signed_by(&key, &authority).unwrap().pem());
            write(&format!("{name}.key"), key.serialize_pem());
        }
        Self(directory)
    }

    /// What the authority says of itself.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// The client's certificate and its key.
    #[must_use]
    pub fn client(&self) -> (PathBuf, PathBuf) {
        (self.file("client.pem"), self.file("client.key"))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
