//! What speaks against a certificate that can be used: clients will refuse it, or some of them will.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use thiserror::Error;
use tokio_rustls::rustls::{
    crypto::ring::default_provider,
    pki_types::{CertificateDer, UnixTime},
};
use webpki::{EndEntityCert, KeyUsage};

/// A certificate that clients may refuse.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {why}", path = path.display())]
pub struct DoubtfulCertificate {
    /// The file.
    pub path: PathBuf,
    /// Why they may.
    pub why: Doubt,
}

/// Why clients may refuse a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Doubt {
    /// It is for an authority.
    #[error(
        "the certificate of a CA: some clients, `ratelimit check` among them, refuse a server that shows one. Let the CA \
         issue one for this server, or make one with `openssl req -x509 -addext basicConstraints=critical,CA:FALSE ...`"
    )]
    Authority,
    /// Its time is over.
    #[error("expired on {0}, so clients refuse it: renew it; a new file is read without a restart")]
    Expired(String),
    /// Its time has not come.
    #[error(
        "is not valid before {0}, and clients refuse it until then: check this machine's clock, or renew it"
    )]
    NotYetValid(String),
    /// It is for something else.
    #[error(
        "its extended key usage is not for servers, so clients refuse it: have one made for `serverAuth`"
    )]
    Purpose,
}

/// What speaks against a server's certificate now.
pub fn find(certificate: &CertificateDer<'_>, now: SystemTime) -> Option<Doubt> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let algorithms = default_provider().signature_verification_algorithms.all;
    let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
    // Who vouches for it is for clients to know: without anybody, that is the last thing that it fails for.
    match certificate.verify_for_usage(algorithms, &[], &[], now, KeyUsage::server_auth(), None, None) {
        Err(webpki::Error::CaUsedAsEndEntity) => Some(Doubt::Authority),
        Err(webpki::Error::CertExpired { not_after, .. }) => Some(Doubt::Expired(shown(not_after))),
        Err(webpki::Error::CertNotValidYet { not_before, .. }) => Some(Doubt::NotYetValid(shown(not_before))),
        Err(webpki::Error::RequiredEkuNotFoundContext(_) | webpki::Error::EmptyEkuExtension) => {
            Some(Doubt::Purpose)
        }
        _ => None,
    }
}

/// A time, for people.
pub fn shown(time: UnixTime) -> String {
    // Later than any that can be shown is not what a certificate says of an end.
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(time.as_secs().min(MOST_SECONDS)));
    humantime::format_rfc3339_seconds(time.unwrap_or(UNIX_EPOCH)).to_string()
}

/// The end of the year 9999.
const MOST_SECONDS: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd};

    use super::*;

    /// Noon on the first of June 2025.
    const NOW: u64 = 1_748_779_200;

    fn found(change: impl FnOnce(&mut CertificateParams)) -> Option<Doubt> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2025, 1, 1), date_time_ymd(2026, 1, 1));
        change(&mut params);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        find(certificate.der(), UNIX_EPOCH + Duration::from_secs(NOW))
    }

    #[test]
    fn what_clients_would_refuse_is_doubted() {
        assert_eq!(found(|_| ()), None);
        let date = |text: &str| format!("{text}T00:00:00Z");
        assert_eq!(
            found(|params| params.not_after = date_time_ymd(2025, 6, 1)),
            Some(Doubt::Expired(date("2025-06-01")))
        );
        assert_eq!(
            found(|params| params.not_before = date_time_ymd(2025, 6, 2)),
            Some(Doubt::NotYetValid(date("2025-06-02")))
        );
        assert_eq!(
            found(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
            Some(Doubt::Authority)
        );
        let usages =
            |usages: &[ExtendedKeyUsagePurpose]| found(|params| params.extended_key_usages = usages.to_vec());
        let (client, server) = (ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth);
        assert_eq!(usages(std::slice::from_ref(&client)), Some(Doubt::Purpose));
        assert_eq!(usages(&[client, server]), None);
    }
}
