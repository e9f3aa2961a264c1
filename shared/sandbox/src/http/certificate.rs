use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::rustls::{
    ServerConfig, crypto,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};

/// Certificate authority of this run, and a server certificate for 127.0.0.1 issued by it.
pub(crate) struct Identity {
    /// Certificate authority that clients must trust.
    pub(crate) authority_pem: String,
    pub(crate) server: Arc<ServerConfig>,
}

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("cannot use the certificate that was made")]
    Use(#[from] tokio_rustls::rustls::Error),
}

pub(crate) fn identity() -> Result<Identity, CertificateError> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let names = [
        "127.0.0.1",
        "localhost",
        "kubernetes",
        "kubernetes.default.svc",
    ];
    let server = CertificateParams::new(names.map(str::to_owned).to_vec())?;
    let server = server.signed_by(&key, &authority)?;
    let chain: Vec<CertificateDer<'static>> = vec![server.der().clone()];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Identity {
        authority_pem: authority.pem(),
        server: Arc::new(config),
    })
}
