//! What a file holds that lacks a certificate or a key in PEM format, and what makes one of it.

use std::path::Path;

use tokio_rustls::rustls::pki_types::pem;

/// What is looked for in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A certificate.
    Certificate,
    /// A private key.
    Key,
}

impl Item {
    const fn name(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Key => "private key",
        }
    }
}

const BEGIN: &str = "-----BEGIN ";

/// What is wrong with a file that lacks the item, and what to do. `error` is what reading it as PEM has met, if
/// anything.
pub fn diagnose(path: &Path, content: &[u8], item: Item, error: Option<&pem::Error>) -> String {
    let (path, text) = (path.display(), String::from_utf8_lossy(content));
    let labels: Vec<&str> = text.lines().filter_map(|line| line.trim_end().strip_prefix(BEGIN)).collect();
    let has = |label: &str| labels.iter().any(|found| found.strip_suffix("-----") == Some(label));
    let is_encrypted =
        has("ENCRYPTED PRIVATE KEY") || text.lines().any(|line| line.starts_with("Proc-Type: 4,ENCRYPTED"));
    let name = item.name();
    match (item, error) {
        (Item::Key, _) if is_encrypted => format!(
            "the private key is encrypted, and its password is never asked for: write it without one, \
             as by `openssl pkey -in {path} -out NEW`, to a file that only the daemon's user can read"
        ),
        (_, Some(pem::Error::NoItemsFound) | None) => lacks(&text, content, item, &has, &path),
        (_, Some(pem::Error::MissingSectionEnd { .. })) => {
            format!("the {name} has no end: copy the whole file again")
        }
        (_, Some(error)) => format!("no {name} in PEM format ({error}): copy the whole file again"),
    }
}

fn lacks(
    text: &str,
    content: &[u8],
    item: Item,
    has: &dyn Fn(&str) -> bool,
    path: &std::path::Display<'_>,
) -> String {
    let name = item.name();
    let holds = |what: &str, advice: &str| format!("holds {what} where a {name} is expected: {advice}");
    let is_key = text.contains("PRIVATE KEY-----");
    if has("CERTIFICATE") {
        holds("a certificate", "name the file of the key that it was made for")
    } else if has("CERTIFICATE REQUEST") || has("NEW CERTIFICATE REQUEST") {
        holds("the request for a certificate", "name what the authority has made of it")
    } else if has("TRUSTED CERTIFICATE") {
        holds(
            "a certificate in OpenSSL's own form",
            &format!("`openssl x509 -in {path} -out NEW` writes it anew"),
        )
    } else if has("PKCS7") {
        let command = format!("`openssl pkcs7 -print_certs -in {path} -out NEW` takes the certificates out");
        holds("a PKCS #7 bundle", &command)
    } else if is_key {
        holds("a private key", "name the file of the certificate that was made for it")
    } else if has("PUBLIC KEY") {
        holds("a public key", "name the file of the private one, or of the certificate")
    } else if text.trim().is_empty() {
        format!("is empty: no {name} in PEM format")
    } else if content.first() == Some(&DER_SEQUENCE) {
        let command = if item == Item::Key { "pkey" } else { "x509" };
        format!(
            "no {name} in PEM format: it looks like DER or PKCS #12, which `openssl {command} -in {path} \
             -out NEW` turns into PEM"
        )
    } else {
        format!("no {name} in PEM format")
    }
}

/// What DER begins with, if it is of certificates and keys.
const DER_SEQUENCE: u8 = 0x30;

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

    use super::*;

    /// What is said of a file with this content.
    fn said(content: &str, item: Item) -> String {
        let content = content.as_bytes();
        let error = match item {
            Item::Certificate => {
                CertificateDer::pem_slice_iter(content).collect::<Result<Vec<_>, _>>().map(drop).err()
            }
            Item::Key => PrivateKeyDer::from_pem_slice(content).map(drop).err(),
        };
        diagnose(Path::new("F"), content, item, error.as_ref())
    }

    #[test]
    fn a_file_that_lacks_what_is_due_is_told_by_what_it_has() {
        use Item::{Certificate, Key};
        let section = |label: &str| format!("-----BEGIN {label}-----\nMIIB\n-----END {label}-----\n");
        let old_encrypted = section("RSA PRIVATE KEY")
            .replace("MIIB", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,C6B8\n\nMIIB");
        let both = section("CERTIFICATE") + &section("ENCRYPTED PRIVATE KEY");
        let encrypted = "the private key is encrypted, and its password is never asked for";
        for (content, item, expected) in [
            (section("ENCRYPTED PRIVATE KEY"), Key, encrypted),
            (old_encrypted, Key, encrypted),
            (both, Key, "`openssl pkey -in F -out NEW`"),
            (section("CERTIFICATE"), Key, "holds a certificate where a private key is expected"),
            (section("PUBLIC KEY"), Key, "holds a public key"),
            (section("PRIVATE KEY"), Certificate, "holds a private key where a certificate is expected"),
            (section("ENCRYPTED PRIVATE KEY"), Certificate, "holds a private key"),
            (section("CERTIFICATE REQUEST"), Certificate, "the request for a certificate"),
            (section("NEW CERTIFICATE REQUEST"), Certificate, "the request for a certificate"),
            (section("TRUSTED CERTIFICATE"), Certificate, "`openssl x509 -in F -out NEW`"),
            (section("PKCS7"), Certificate, "`openssl pkcs7 -print_certs -in F -out NEW`"),
            (section("CERTIFICATE").replace("MIIB", "M!IB"), Certificate, "copy the whole file again"),
            ("-----BEGIN CERTIFICATE-----\nMIIB\n".to_owned(), Certificate, "the certificate has no end"),
            ("\u{30}\u{3}".to_owned(), Certificate, "`openssl x509 -in F -out NEW` turns into PEM"),
            ("\u{30}\u{3}".to_owned(), Key, "`openssl pkey -in F -out NEW` turns into PEM"),
            (" \n".to_owned(), Key, "is empty"),
            ("nonsense".to_owned(), Key, "no private key in PEM format"),
        ] {
            let said = said(&content, item);
            assert!(said.contains(expected), "{content}{item:?}: {said}");
        }
    }
}
