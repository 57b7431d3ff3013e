//! Certificates for the server, made for each test.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::ring};

/// The server's certificate and key, as PEM.
pub struct ServerTls {
    pub certificate: String,
    pub key: String,
    /// If given, clients have to show a certificate that this authority signed.
    pub client_ca: Option<String>,
    /// The versions of HTTP that it offers.
    pub alpn: &'static [&'static str],
}

/// A certificate authority for one test.
pub struct Authority {
    pub pem: String,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        // A name of its own, or one authority would be taken for another with a bad signature.
        let name = spanledger::new_session_id();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = rcgen::Issuer::new(params, key);
        Self { pem, issuer }
    }

    /// A certificate for this name, and its key.
    pub fn issue(&self, name: &str) -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A server of this name.
    pub fn server(&self, name: &str) -> ServerTls {
        let (certificate, key) = self.issue(name);
        ServerTls {
            certificate,
            key,
            client_ca: None,
            alpn: &["h2", "http/1.1"],
        }
    }
}

pub(super) fn acceptor(tls: ServerTls) -> TlsAcceptor {
    let chain = CertificateDer::pem_slice_iter(tls.certificate.as_bytes())
        .collect::<Result<_, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(tls.key.as_bytes()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match tls.client_ca {
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            let ca = CertificateDer::from_pem_slice(ca.as_bytes()).unwrap();
            roots.add(ca).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = tls.alpn.iter().map(|name| (*name).into()).collect();
    Arc::new(config).into()
}
