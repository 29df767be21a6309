//! Clients of servers, with what the files of passwords and certificates have now.

use std::{fs, io, path::PathBuf, sync::Arc};

use ratelimit_policy::application::{Login, RedisAddress, RedisSettings};
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo as _, ProtocolVersion, RedisConnectionInfo,
    TlsCertificates, io::tcp::TcpSettings,
};

/// Why a server can't be asked at all.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
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

/// A client of this address. Files are read whenever a connection is made, so that what they have can change.
pub(super) fn client(
    settings: &RedisSettings,
    address: &RedisAddress,
    login: &Login,
) -> Result<Client, ClientError> {
    // Only the newer protocol says when a connection has ended.
    let mut redis =
        RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_skip_set_lib_name();
    if let Some(username) = &login.username {
        redis = redis.set_username(username);
    }
    if let Some(path) = &login.password_file {
        let text = read(path)?;
        redis = redis.set_password(without_line_feed(&String::from_utf8_lossy(&text)));
    }
    if let RedisAddress::Tcp { database, .. } = address {
        redis = redis.set_db((*database).into());
    }
    let failed = |error: redis::RedisError| ClientError::Tls(error.to_string());
    let info = addr(address).into_connection_info().map_err(failed)?;
    let info = info.set_redis_settings(redis).set_tcp_settings(TcpSettings::default().set_nodelay(true));
    match info.addr() {
        ConnectionAddr::TcpTls { .. } => Client::build_with_tls(info, certificates(settings)?),
        _ => Client::open(info),
    }
    .map_err(failed)
}

fn addr(address: &RedisAddress) -> ConnectionAddr {
    match address {
        RedisAddress::Tcp { host, port, tls: true, .. } => {
            ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
        }
        RedisAddress::Tcp { host, port, .. } => ConnectionAddr::Tcp(host.clone(), *port),
        RedisAddress::Unix(path) => ConnectionAddr::Unix(path.clone()),
    }
}

fn certificates(settings: &RedisSettings) -> Result<TlsCertificates, ClientError> {
    let root_cert = settings.tls.ca.as_ref().map(read).transpose()?;
    let identity = |(cert, key): &(PathBuf, PathBuf)| {
        Ok(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? })
    };
    let client_tls = settings.tls.identity.as_ref().map(identity).transpose()?;
    Ok(TlsCertificates { client_tls, root_cert })
}

fn read(path: &PathBuf) -> Result<Vec<u8>, ClientError> {
    fs::read(path).map_err(|error| ClientError::File { path: path.clone(), error: Arc::new(error) })
}

/// Editors end a file with one, which is no part of a password.
fn without_line_feed(text: &str) -> &str {
    text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line))
}

#[cfg(test)]
mod tests {
    //! Reading passwords.

    use super::*;

    #[test]
    fn a_password_file_is_read_for_each_client() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        let settings = RedisSettings::new("redis://127.0.0.1:6379/3".parse().unwrap());
        let login = Login { username: Some("limiter".to_owned()), password_file: Some(path.clone()) };
        for (text, password) in [("one", "one"), ("two\n", "two"), ("a b\r\n", "a b"), (" c \n\n", " c \n")] {
            fs::write(&path, text).unwrap();
            let client = client(&settings, &settings.addresses[0], &login).unwrap();
            let redis = client.get_connection_info().redis_settings();
            assert_eq!(
                (redis.username(), redis.password(), redis.db()),
                (Some("limiter"), Some(password), 3)
            );
        }
        fs::remove_file(&path).unwrap();
        let error = client(&settings, &settings.addresses[0], &login).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{} can't be read", path.display())), "{error}");
    }
}
