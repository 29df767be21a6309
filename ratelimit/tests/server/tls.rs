//! TLS and certificates of clients, and new certificates while the servers run.

use std::{
    fs,
    net::TcpStream,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::{
    support::{Answer, Fixture, PATIENCE, RULES, request},
    wait,
};

pub type Authority = CertifiedIssuer<'static, KeyPair>;

pub fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Writes a certificate for localhost and its key; returns both as PEM.
pub fn issue(authority: &Authority, cert: &Path, key: &Path) -> (String, String) {
    let own = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let issued = params.signed_by(&own, authority).unwrap();
    let texts = (issued.pem(), own.serialize_pem());
    fs::write(key, &texts.1).unwrap();
    fs::write(cert, &texts.0).unwrap();
    texts
}

pub fn directory(authority: &Authority) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("rules.yaml"), RULES).unwrap();
    fs::write(at("ca.pem"), authority.pem()).unwrap();
    issue(authority, &at("cert.pem"), &at("key.pem"));
    directory
}

pub fn listen(directory: &Path, client_ca: bool) -> String {
    let at = |name: &str| directory.join(name).display().to_string();
    let client_ca = if client_ca { format!(", client_ca: '{}'", at("ca.pem")) } else { String::new() };
    let tls = format!("{{cert: '{}', key: '{}'{client_ca}}}", at("cert.pem"), at("key.pem"));
    format!(
        "listen:\n  http: {{address: '127.0.0.1:0', tls: {tls}}}\n  grpc: {{address: '127.0.0.1:0', tls: {tls}}}"
    )
}

/// The status of a health check, if the handshake succeeds.
fn ask(fixture: &Fixture, trusted: &Authority, own: Option<&(String, String)>) -> Option<u16> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(fixture.http()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    // With TLS 1.3 a server says that it does not like the client only after that.
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).ok()?;
    }
    let mut answer = Vec::new();
    std::io::Write::write_all(&mut stream, &request("GET", "/healthcheck", &[], b"")).ok()?;
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    (!answer.is_empty()).then(|| Answer::parse(&answer).status)
}

#[test]
fn who_trusts_the_certificate_is_answered() {
    let authority = authority();
    let directory = directory(&authority);
    let lines = listen(directory.path(), false);
    let fixture = Fixture::in_directory(directory, &lines);
    assert_eq!(ask(&fixture, &authority, None), Some(200));
    assert_eq!(ask(&fixture, &self::authority(), None), None);
    // Who speaks plainly gets nothing, and does no harm.
    let mut plain = TcpStream::connect(fixture.http()).unwrap();
    std::io::Write::write_all(&mut plain, &request("GET", "/healthcheck", &[], b"")).unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert_eq!(ask(&fixture, &authority, None), Some(200));
}

#[test]
fn handshakes_do_not_hold_up_the_end() {
    let authority = authority();
    let directory = directory(&authority);
    let lines = listen(directory.path(), false);
    let fixture = Fixture::in_directory(directory, &lines);
    let silent = TcpStream::connect(fixture.http()).unwrap();
    wait::until("a connection", || (fixture.servers.stats().open() > 0).then_some(()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = Instant::now();
    runtime.block_on(fixture.servers.drain());
    // It would have had five seconds.
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    drop(silent);
}

#[test]
fn clients_need_a_certificate_if_somebody_must_vouch_for_them() {
    let authority = authority();
    let directory = directory(&authority);
    let own = issue(&authority, &directory.path().join("own.pem"), &directory.path().join("own.key"));
    let foreign =
        issue(&self::authority(), &directory.path().join("other.pem"), &directory.path().join("other.key"));
    let lines = listen(directory.path(), true);
    let fixture = Fixture::in_directory(directory, &lines);
    assert_eq!(ask(&fixture, &authority, Some(&own)), Some(200));
    assert_eq!(ask(&fixture, &authority, None), None);
    assert_eq!(ask(&fixture, &authority, Some(&foreign)), None);
}

#[test]
fn a_new_certificate_counts_and_a_bad_one_does_not() {
    let old = authority();
    let directory = directory(&old);
    let at = |name: &str| directory.path().join(name);
    let (cert, key) = (at("cert.pem"), at("key.pem"));
    let lines = listen(directory.path(), false);
    let fixture = Fixture::in_directory(directory, &lines);
    let policy = crate::support::application(fixture.directory.path(), &lines);

    fs::write(&cert, "nonsense").unwrap();
    fixture.reload(&policy).unwrap_err();
    assert_eq!(ask(&fixture, &old, None), Some(200));

    // Without anybody saying so: the files are looked at once a second.
    let new = authority();
    issue(&new, &cert, &key);
    let start = Instant::now();
    while ask(&fixture, &new, None).is_none() {
        assert!(start.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(50)); // tidy: sleep, files are looked at by the system's clock
    }
    assert_eq!(ask(&fixture, &old, None), None);
}

#[test]
fn a_reload_with_certificates_that_can_not_be_used_changes_nothing_and_says_so_each_time() {
    let authority = authority();
    let directory = directory(&authority);
    let at = |name: &str| directory.path().join(name);
    let (cert, key) = (at("cert.pem"), at("key.pem"));
    let lines = listen(directory.path(), false);
    let fixture = Fixture::in_directory(directory, &lines);
    let tighter = RULES
        .replace("per-user, unit: hour, requests_per_unit: 2", "per-user, unit: hour, requests_per_unit: 0");
    fs::write(fixture.directory.path().join("rules.yaml"), tighter).unwrap();
    let policy = crate::support::application(fixture.directory.path(), &lines);
    let denied = || {
        let request = ratelimit::application::Request {
            domain: "edge".to_owned(),
            descriptors: vec![ratelimit::application::Descriptor::of([("user", "a")])],
            hits_addend: 0,
        };
        !fixture.service.decide(&request).unwrap().allowed()
    };

    let good = fs::read(&key).unwrap();
    let foreign = issue(&self::authority(), &at_other(&cert), &at_other(&key)).1;
    for (content, part) in [(Some(foreign), "was made for another key than"), (None, "can't read it")] {
        match content {
            Some(content) => fs::write(&key, content).unwrap(),
            None => fs::remove_file(&key).unwrap(),
        }
        // Oftener than there are listeners, each of which could say it once.
        for _ in 0..3 {
            let why = fixture.reload(&policy).unwrap_err().to_string();
            assert!(why.contains(part) && why.contains("key.pem"), "{why}");
        }
        assert!(!denied(), "the old rules stay");
        assert_eq!(ask(&fixture, &authority, None), Some(200));
    }
    // A configuration that does not name them any more is not held up by them; where to listen is fixed.
    let plain = crate::support::application(fixture.directory.path(), "");
    fixture.reload(&plain).unwrap();
    assert!(denied());

    fs::write(&key, good).unwrap();
    fixture.reload(&policy).unwrap();
    assert_eq!(ask(&fixture, &authority, None), Some(200));
}

fn at_other(path: &Path) -> std::path::PathBuf {
    path.with_extension("other")
}

#[test]
fn a_named_pipe_in_place_of_a_key_is_waited_for_by_nobody() {
    let authority = authority();
    let directory = directory(&authority);
    let key = directory.path().join("key.pem");
    let lines = listen(directory.path(), false);
    let fixture = Fixture::in_directory(directory, &lines);
    let policy = crate::support::application(fixture.directory.path(), &lines);
    fs::remove_file(&key).unwrap();
    nix::unistd::mkfifo(&key, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let done = fixture.reload(&policy);
        sender.send((fixture, done)).is_ok()
    });
    let (fixture, done) = receiver.recv_timeout(PATIENCE).expect("the reload waits");
    let why = done.unwrap_err().to_string();
    assert!(why.contains("key.pem: can't read it (not a regular file)"), "{why}");
    assert_eq!(ask(&fixture, &authority, None), Some(200));
}

#[test]
fn files_that_are_no_certificates_are_refused_at_the_start() {
    let authority = authority();
    for (name, content, part) in [
        ("cert.pem", Some("nonsense"), "no certificate"),
        ("key.pem", Some(""), "no private key"),
        ("key.pem", None, "can't read it"),
    ] {
        let directory = directory(&authority);
        let lines = listen(directory.path(), false);
        let policy = crate::support::application(directory.path(), &lines);
        let path = directory.path().join(name);
        match content {
            Some(content) => fs::write(&path, content).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let service = Arc::new(ratelimit::application::Service::new(&policy.service_policy()).unwrap());
        let error = ratelimit::server::Servers::start(&policy, service).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(name), "{error}");
    }
}
