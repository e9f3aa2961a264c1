use std::{path::PathBuf, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderValue, header::USER_AGENT};
use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use secrecy::SecretString;
use thiserror::Error;

/// Address and credentials of one API server.
#[derive(Clone, Debug)]
pub struct Access {
    /// `https://…`; plain `http://` only for this machine, as in tests and demos.
    pub endpoint: String,
    /// The certificate authorities to trust, as base64-encoded PEM like in a kubeconfig; `None` means the platform's.
    pub certificate_authority: Option<String>,
    pub credentials: Credentials,
}

#[derive(Clone, Debug)]
pub enum Credentials {
    BearerToken(SecretString),
    /// Base64-encoded PEM, as in a kubeconfig.
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
    #[error(
        "the certificate authority of {endpoint} is not usable: expected PEM certificates in base64"
    )]
    CertificateAuthority { endpoint: String },
    #[error("cannot read the kubeconfig: set --kubeconfig or the environment variable KUBECONFIG")]
    Kubeconfig(#[source] Box<KubeconfigError>),
    #[error(
        "the kubeconfig has no current context: set --context, or run `kubectl config use-context`"
    )]
    NoCurrentContext,
    #[error(
        "context \"{context}\" cannot be used: `kubectl config get-contexts` lists the contexts"
    )]
    Context {
        context: String,
        #[source]
        source: Box<KubeconfigError>,
    },
    #[error("the client for {endpoint} could not be built")]
    Client {
        endpoint: String,
        #[source]
        source: Box<kube::Error>,
    },
}

/// A dead endpoint must fail well within a turn, and leave time to record the failure.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Upper bound on the wait between two bytes; a page of 500 pods takes about a second on a busy server.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Selection of a kubeconfig and of its context.
#[derive(Clone, Debug, Default)]
pub struct ContextSelection {
    /// Path of the kubeconfig; `None` means the files of `KUBECONFIG`, else `~/.kube/config`.
    pub file: Option<PathBuf>,
    /// `None` means the current context.
    pub context: Option<String>,
}

/// A client with the credentials of a context.
pub struct ContextClient {
    /// Name of the context.
    pub context: String,
    pub client: Client,
}

/// Connects to a context of the kubeconfig like kubectl, with its credentials.
pub async fn from_kubeconfig(selection: &ContextSelection) -> Result<ContextClient, ConnectError> {
    let read = match &selection.file {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let kubeconfig = read.map_err(|source| ConnectError::Kubeconfig(Box::new(source)))?;
    let current = kubeconfig.current_context.clone();
    let named = selection.context.clone().or(current);
    let context = named
        .filter(|context| !context.is_empty())
        .ok_or(ConnectError::NoCurrentContext)?;
    let options = KubeConfigOptions {
        context: Some(context.clone()),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|source| ConnectError::Context {
        context: context.clone(),
        source: Box::new(source),
    })?;
    set_timeouts(&mut config);
    let endpoint = config.cluster_url.to_string();
    let client = Client::try_from(config).map_err(|source| ConnectError::Client {
        endpoint,
        source: Box::new(source),
    })?;
    Ok(ContextClient { context, client })
}

fn set_timeouts(config: &mut Config) {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    // Without this, a request on an idle connection has only the rest of the timeout that began when the connection became idle.
    config.reset_reader_on_write = true;
    config.write_timeout = Some(READ_TIMEOUT);
    // The turn limits its own time: an inconclusive response is recorded, and the next turn tries again.
    config.default_retry = false;
}

impl Access {
    pub fn client(&self) -> Result<Client, ConnectError> {
        self.client_as("whittle")
    }

    /// A client with this user agent, which audit logs and managed fields show.
    pub fn client_as(&self, agent: &str) -> Result<Client, ConnectError> {
        let unusable = || ConnectError::Endpoint {
            endpoint: self.endpoint.clone(),
        };
        let uri: http::Uri = self.endpoint.parse().map_err(|_| unusable())?;
        let local = matches!(uri.host(), Some("127.0.0.1" | "localhost" | "[::1]"));
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if local => {}
            _ => return Err(unusable()),
        }
        let mut config = Config::new(uri);
        set_timeouts(&mut config);
        if let Ok(agent) = HeaderValue::from_str(agent) {
            config.headers.push((USER_AGENT, agent));
        }
        config.root_cert = self
            .certificate_authority
            .as_deref()
            .map(|text| self.authorities(text))
            .transpose()?;
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

    fn authorities(&self, base64: &str) -> Result<Vec<Vec<u8>>, ConnectError> {
        let unusable = || ConnectError::CertificateAuthority {
            endpoint: self.endpoint.clone(),
        };
        let pem = BASE64_STANDARD
            .decode(base64.trim())
            .map_err(|_| unusable())?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let certificates = certificates.map_err(|_| unusable())?;
        if certificates.is_empty() {
            return Err(unusable());
        }
        Ok(certificates
            .iter()
            .map(|certificate| certificate.to_vec())
            .collect())
    }
}
