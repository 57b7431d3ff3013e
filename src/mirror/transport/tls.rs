//! Who is trusted, and as whom we come.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use crate::error::Error;
use crate::mirror::config::Pem;

/// A file or text, and the setting that named it.
type Given = (&'static str, Pem);

/// Certificates that were read and can be used.
#[derive(Clone)]
pub(in crate::mirror) struct Tls {
    authorities: Vec<CertificateDer<'static>>,
    client: Option<Arc<CertifiedKey>>,
}

impl Tls {
    /// Reads them all, so that what is wrong with them is known before anything is sent.
    pub(in crate::mirror) fn read(
        ca: Option<Given>,
        client: Option<(Given, Given)>,
    ) -> Result<Self, Error> {
        let authorities = match ca {
            Some((setting, pem)) => {
                let authorities = certificates(setting, &pem)?;
                let mut roots = RootCertStore::empty();
                for authority in &authorities {
                    let added = roots.add(authority.clone());
                    added.map_err(|error| refused(setting, error))?;
                }
                authorities
            }
            None => Vec::new(),
        };
        let client = match client {
            Some(((setting, pem), (setting_of_key, key))) => {
                let chain = certificates(setting, &pem)?;
                let key = PrivateKeyDer::from_pem_slice(&bytes(setting_of_key, &key)?)
                    .map_err(|error| refused(setting_of_key, error))?;
                let client = CertifiedKey::from_der(chain, key, &ring::default_provider())
                    .map_err(|error| refused(setting_of_key, error))?;
                Some(Arc::new(client))
            }
            None => None,
        };
        Ok(Self {
            authorities,
            client,
        })
    }

    /// What a connection needs: the machine's roots and our own beside them.
    pub(super) fn client(&self, alpn: &[u8]) -> Result<Arc<ClientConfig>, Error> {
        let mut roots = RootCertStore::empty();
        // A root that can't be parsed is the machine's business; others may still do.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(self.authorities.iter().cloned());
        if roots.is_empty() {
            return Err(Error::Otlp {
                setting: "Otlp::ca_certificate",
                why: "this machine has no root certificates, and none was given".to_owned(),
            });
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

/// For an endpoint without TLS: trusts nobody.
pub(super) fn unused() -> Arc<ClientConfig> {
    let mut config = builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// Names its provider, since the process's default may be another's choice or nobody's.
fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has them")
}

fn certificates(setting: &'static str, pem: &Pem) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&bytes(setting, pem)?)
        .collect::<Result<_, _>>()
        .map_err(|error| refused(setting, error))?;
    if certificates.is_empty() {
        return Err(refused(setting, "it holds no certificate"));
    }
    Ok(certificates)
}

fn bytes(setting: &'static str, pem: &Pem) -> Result<Vec<u8>, Error> {
    match pem {
        Pem::Bytes(bytes) => Ok(bytes.clone()),
        Pem::File(path) => std::fs::read(path)
            .map_err(|error| refused(setting, format!("{}: {error}", path.display()))),
    }
}

fn refused(setting: &'static str, why: impl ToString) -> Error {
    Error::Otlp {
        setting,
        why: why.to_string(),
    }
}
