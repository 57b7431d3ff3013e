//! Certificates: which servers are trusted, and the client certificate.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use super::config::Pem;
use super::environment::invalid;
use crate::error::Error;

/// PEM text and the setting that it came from.
type Setting = (&'static str, Pem);

/// Certificates that were read and are usable.
#[derive(Clone)]
pub(crate) struct Tls {
    authorities: Vec<CertificateDer<'static>>,
    client: Option<Arc<CertifiedKey>>,
}

impl Tls {
    /// Reads all of them, so that errors show before anything is sent.
    pub(crate) fn read(
        ca: Option<Setting>,
        client: Option<(Setting, Setting)>,
    ) -> Result<Self, Error> {
        let mut authorities = Vec::new();
        if let Some((setting, pem)) = ca {
            authorities = certificates(setting, &pem)?;
            for authority in &authorities {
                let added = RootCertStore::empty().add(authority.clone());
                added.map_err(|error| invalid(setting, error))?;
            }
        }
        let client = client.map(|((setting, pem), (key_setting, key))| {
            let chain = certificates(setting, &pem)?;
            let key = PrivateKeyDer::from_pem_slice(&read(key_setting, &key)?)
                .map_err(|error| invalid(key_setting, error))?;
            CertifiedKey::from_der(chain, key, &ring::default_provider())
                .map_err(|error| invalid(key_setting, error))
        });
        Ok(Self {
            authorities,
            client: client.transpose()?.map(Arc::new),
        })
    }

    /// The configuration of a connection. The system's root certificates are trusted too.
    pub(crate) fn client(&self, alpn: &[u8]) -> Result<Arc<ClientConfig>, Error> {
        let mut roots = RootCertStore::empty();
        // System certificates that can't be parsed are skipped.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(self.authorities.iter().cloned());
        if roots.is_empty() {
            let why = "this system has no root certificates, and none was given";
            return Err(invalid("Otlp::ca_certificate", why));
        }
        let builder = builder().with_root_certificates(roots);
        let mut config = match &self.client {
            Some(client) => {
                let client = SingleCertAndKey::from(Arc::clone(client));
                builder.with_client_cert_resolver(Arc::new(client))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols.push(alpn.to_vec());
        Ok(Arc::new(config))
    }
}

/// For endpoints without TLS: trusts nothing.
pub(crate) fn unused() -> Arc<ClientConfig> {
    let mut config = builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// Names its provider, because the process may have another default or none.
fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions")
}

fn certificates(setting: &'static str, pem: &Pem) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&read(setting, pem)?)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(setting, error))?;
    if certificates.is_empty() {
        return Err(invalid(setting, "no certificate found"));
    }
    Ok(certificates)
}

fn read(setting: &'static str, pem: &Pem) -> Result<Vec<u8>, Error> {
    match pem {
        Pem::Bytes(bytes) => Ok(bytes.clone()),
        Pem::File(path) => std::fs::read(path)
            .map_err(|error| invalid(setting, format!("{}: {error}", path.display()))),
    }
}
