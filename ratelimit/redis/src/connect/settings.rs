//! What is known of a store before it is reached: addresses, credentials, certificates.

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, TlsCertificates,
};

/// How a store is reached.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where clients begin: the server, nodes of a cluster, or sentinels, as URLs.
    pub urls: Vec<String>,
    /// What is there.
    pub topology: Topology,
    /// Of the servers.
    pub credentials: Credentials,
    /// Of the sentinels.
    pub sentinel_credentials: Credentials,
    /// For `rediss://`.
    pub tls: TlsFiles,
    /// The longest that a request takes.
    pub timeout: Duration,
}

/// What is at the addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    #[default]
    Single,
    /// Sentinels, which know a master by this name.
    Sentinel(String),
    /// A cluster.
    Cluster,
}

/// Who asks. The file is read whenever a connection is made, so that a password can change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Of an access control list; without one it is the server's default user.
    pub username: Option<String>,
    /// The file that has the password, and perhaps a line feed.
    pub password_file: Option<PathBuf>,
}

/// Files in PEM. They are read whenever a connection is made, so that they can be renewed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Whom to trust; without it, whom the machine trusts.
    pub ca: Option<PathBuf>,
    /// The client's certificate.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// Why a server can't be asked at all.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SettingsError {
    /// A URL that is none.
    #[error("{0} is no address of a store: {1}")]
    Url(String, String),
    /// There are no URLs.
    #[error("a store needs at least one address")]
    NoUrl,
    /// A password or a certificate.
    #[error("{} can't be read: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: Arc<io::Error>,
    },
    /// A file that has something else.
    #[error("the files of TLS can't be used: {0}")]
    Tls(String),
}

impl Settings {
    /// One server without credentials.
    #[must_use]
    pub fn new(url: &str, timeout: Duration) -> Self {
        Self {
            urls: vec![url.to_owned()],
            topology: Topology::Single,
            credentials: Credentials::default(),
            sentinel_credentials: Credentials::default(),
            tls: TlsFiles::default(),
            timeout,
        }
    }

    /// The addresses of the URLs.
    pub(crate) fn addresses(&self) -> Result<Vec<ConnectionInfo>, SettingsError> {
        if self.urls.is_empty() {
            return Err(SettingsError::NoUrl);
        }
        let parse = |url: &String| {
            url.as_str()
                .into_connection_info()
                .map_err(|error| SettingsError::Url(without_secret(url), error.to_string()))
        };
        self.urls.iter().map(parse).collect()
    }

    /// A client of this address, with what the files have now.
    pub(crate) fn client(&self, address: ConnectionInfo, who: &Credentials) -> Result<Client, SettingsError> {
        let mut redis = address.redis_settings().clone().set_protocol(redis::ProtocolVersion::RESP3);
        redis = redis.set_skip_set_lib_name();
        if let Some(username) = &who.username {
            redis = redis.set_username(username);
        }
        if let Some(path) = &who.password_file {
            let text = String::from_utf8_lossy(&read(path)?).into_owned();
            redis = redis.set_password(
                text.strip_suffix('\n').map_or(text.as_str(), |line| line.trim_end_matches('\r')),
            );
        }
        let tcp = address.tcp_settings().clone().set_nodelay(true);
        let address = address.set_redis_settings(redis).set_tcp_settings(tcp);
        let client = match address.addr() {
            ConnectionAddr::TcpTls { .. } => Client::build_with_tls(address, self.certificates()?),
            _ => Client::open(address),
        };
        client.map_err(|error| SettingsError::Tls(error.to_string()))
    }

    fn certificates(&self) -> Result<TlsCertificates, SettingsError> {
        let root_cert = self.tls.ca.as_ref().map(read).transpose()?;
        let client_tls = match (&self.tls.cert, &self.tls.key) {
            (Some(cert), Some(key)) => {
                Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? })
            }
            _ => None,
        };
        Ok(TlsCertificates { client_tls, root_cert })
    }
}

fn read(path: &PathBuf) -> Result<Vec<u8>, SettingsError> {
    fs::read(path).map_err(|error| SettingsError::File { path: path.clone(), error: Arc::new(error) })
}

/// A URL as it may be shown.
fn without_secret(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") }
}

#[cfg(test)]
mod tests {
    //! Reading addresses and passwords.

    use super::*;

    #[test]
    fn a_password_file_is_read_for_each_client() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        let settings = Settings::new("redis://127.0.0.1:6379/3", Duration::from_millis(50));
        let who = Credentials { username: Some("limiter".to_owned()), password_file: Some(path.clone()) };
        for (text, password) in [("one", "one"), ("two\n", "two"), ("a b\r\n", "a b"), (" c \n\n", " c \n")] {
            fs::write(&path, text).unwrap();
            let address = settings.addresses().unwrap().remove(0);
            let client = settings.client(address, &who).unwrap();
            let redis = client.get_connection_info().redis_settings();
            assert_eq!(
                (redis.username(), redis.password(), redis.db()),
                (Some("limiter"), Some(password), 3)
            );
        }
        fs::remove_file(&path).unwrap();
        let error = settings.client(settings.addresses().unwrap().remove(0), &who).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{} can't be read", path.display())), "{error}");
    }

    #[test]
    fn a_wrong_address_is_named_without_its_password() {
        for (url, shown) in [
            ("http://user:secret@host:1", "http://host:1"),
            ("redis://user:secret@host:port", "redis://host:port"),
            ("secret@host", "host"),
        ] {
            let error = Settings::new(url, Duration::ZERO).addresses().unwrap_err().to_string();
            assert!(error.starts_with(shown) && !error.contains("secret"), "{error}");
        }
        let none = Settings { urls: Vec::new(), ..Settings::new("", Duration::ZERO) };
        assert!(matches!(none.addresses(), Err(SettingsError::NoUrl)));
    }
}
