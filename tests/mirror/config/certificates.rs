//! Certificates and keys.

use std::path::Path;

use spanledger::mirror::{Otlp, Pem};

use super::{HERE, HERE_SECURE, refused, resolve};

/// A certificate that signed itself, and its key.
fn certificate() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn unusable_certificate_is_refused_by_variable() {
    let dir = tempfile::tempdir().unwrap();
    let empty = write(dir.path(), "empty.pem", "");
    let missing = dir.path().join("missing.pem");
    for path in [empty.as_str(), missing.to_str().unwrap()] {
        for name in [
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
        ] {
            assert_eq!(refused(None, &[HERE_SECURE, (name, path)]).0, name);
            // Where nothing is encrypted, nothing is read.
            resolve(None, &[HERE, (name, path)]);
        }
    }
}

#[test]
fn certificate_precedence() {
    let dir = tempfile::tempdir().unwrap();
    let (pem, _) = certificate();
    let good = write(dir.path(), "good.pem", &pem);
    let bad = (
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
        "/nowhere/certificates.pem",
    );
    assert_eq!(refused(None, &[HERE_SECURE, bad]).0, bad.0);
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", good.as_str());
    resolve(None, &[HERE_SECURE, bad, traces]);
    let code = Otlp::new().ca_certificate(Pem::Bytes(pem.into_bytes()));
    resolve(code, &[HERE_SECURE, bad]);
    let code = Otlp::new().ca_certificate(Pem::File(good.into()));
    resolve(code, &[HERE_SECURE, bad]);
}

#[test]
fn client_certificate_needs_a_matching_key() {
    let dir = tempfile::tempdir().unwrap();
    let ((pem, key), (_, other)) = (certificate(), certificate());
    let pem = write(dir.path(), "client.pem", &pem);
    let key = write(dir.path(), "client.key", &key);
    let other = write(dir.path(), "other.key", &other);
    let certificate_name = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
    let key_name = "OTEL_EXPORTER_OTLP_CLIENT_KEY";
    let with_certificate = (certificate_name, pem.as_str());
    let with_key = (key_name, key.as_str());
    resolve(None, &[HERE_SECURE, with_certificate, with_key]);
    let refused = |variables: &[_]| refused(None, variables).0;
    assert_eq!(refused(&[HERE_SECURE, with_certificate]), certificate_name);
    assert_eq!(refused(&[HERE_SECURE, with_key]), key_name);
    let wrong = (key_name, other.as_str());
    assert_eq!(refused(&[HERE_SECURE, with_certificate, wrong]), key_name);
    let no_key = (key_name, pem.as_str());
    assert_eq!(refused(&[HERE_SECURE, with_certificate, no_key]), key_name);
    // For traces first.
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", key.as_str());
    resolve(None, &[HERE_SECURE, with_certificate, wrong, traces]);
    let no_certificate = (certificate_name, key.as_str());
    let name = "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE";
    let traces = (name, pem.as_str());
    assert_eq!(
        refused(&[HERE_SECURE, no_certificate, with_key]),
        certificate_name
    );
    resolve(None, &[HERE_SECURE, no_certificate, with_key, traces]);
}

#[test]
fn client_certificate_in_code_overrides_variables() {
    let (pem, key) = certificate();
    let bytes = |text: String| Pem::Bytes(text.into_bytes());
    let code = Otlp::new().client_certificate(bytes(pem), bytes(key.clone()));
    let bad = ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/nowhere/client.key");
    resolve(code, &[HERE_SECURE, bad]);
    let swapped = Otlp::new().client_certificate(bytes(key.clone()), bytes(key));
    let (setting, _) = refused(swapped, &[HERE_SECURE]);
    assert_eq!(setting, "Otlp::client_certificate");
}
