use std::time::Duration;

use kube::{Client, Config, config::AuthInfo};
use secrecy::SecretString;
use thiserror::Error;

/// How to reach one API server.
#[derive(Clone, Debug)]
pub struct Access {
    /// `https://…`; plain `http://` only for this machine, as tests and demos use it.
    pub endpoint: String,
    /// DER certificates to trust; empty means the platform's own.
    pub authorities: Vec<Vec<u8>>,
    pub credentials: Credentials,
}

#[derive(Clone, Debug)]
pub enum Credentials {
    BearerToken(SecretString),
    /// PEM, base64-encoded, as in a kubeconfig.
    ClientCertificate {
        certificate: String,
        key: SecretString,
    },
}

#[derive(Debug, Error)]
pub enum ConnectError {
    #[error(
        "endpoint \"{endpoint}\" is not usable: expected https://host[:port], or http:// on this machine only"
    )]
    Endpoint { endpoint: String },
    #[error("the client for {endpoint} could not be built")]
    Client {
        endpoint: String,
        #[source]
        source: Box<kube::Error>,
    },
}

/// A dead endpoint must fail well within a turn, and leave time to record that.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest wait between two bytes; a page of 500 pods takes about a second on a busy server.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

impl Access {
    pub fn client(&self) -> Result<Client, ConnectError> {
        let refused = || ConnectError::Endpoint {
            endpoint: self.endpoint.clone(),
        };
        let uri: http::Uri = self.endpoint.parse().map_err(|_| refused())?;
        let local = matches!(uri.host(), Some("127.0.0.1" | "localhost" | "[::1]"));
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if local => {}
            _ => return Err(refused()),
        }
        let mut config = Config::new(uri);
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        config.write_timeout = Some(READ_TIMEOUT);
        config.root_cert = (!self.authorities.is_empty()).then(|| self.authorities.clone());
        config.auth_info = match &self.credentials {
            Credentials::BearerToken(token) => AuthInfo {
                token: Some(token.clone()),
                ..AuthInfo::default()
            },
            Credentials::ClientCertificate { certificate, key } => AuthInfo {
                client_certificate_data: Some(certificate.clone()),
                client_key_data: Some(key.clone()),
                ..AuthInfo::default()
            },
        };
        Client::try_from(config).map_err(|source| ConnectError::Client {
            endpoint: self.endpoint.clone(),
            source: Box::new(source),
        })
    }
}
