//! Endpoint and settings of the mirror: each setting, each variable, and their precedence.

mod certificates;
mod endpoint;
mod requests;

use std::collections::BTreeMap;

use spanledger::Error;
use spanledger::mirror::{Otlp, Resolved};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const HERE: (&str, &str) = (ENDPOINT, "http://127.0.0.1:4318");
const HERE_SECURE: (&str, &str) = (ENDPOINT, "https://127.0.0.1:4318");

fn try_resolve(
    code: impl Into<Option<Otlp>>,
    variables: &[(&str, &str)],
) -> Result<Option<Resolved>, Error> {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    Otlp::resolve(code.into(), |name| {
        variables.get(name).map(|&value| value.to_owned())
    })
}

fn resolve(code: impl Into<Option<Otlp>>, variables: &[(&str, &str)]) -> Resolved {
    let resolved = try_resolve(code, variables).unwrap();
    resolved.expect("there is a mirror")
}

/// Asserts that there is no mirror and no error.
fn assert_off(code: impl Into<Option<Otlp>>, variables: &[(&str, &str)]) {
    let resolved = try_resolve(code, variables).unwrap();
    assert!(resolved.is_none(), "{resolved:?}");
}

/// The refused setting and the error message.
fn refused(code: impl Into<Option<Otlp>>, variables: &[(&str, &str)]) -> (&'static str, String) {
    let error = try_resolve(code, variables).unwrap_err();
    let message = error.to_string();
    match error {
        Error::Environment { name, .. } => (name, message),
        Error::Otlp { setting, .. } => (setting, message),
        other => panic!("{other}"),
    }
}

fn header(resolved: &Resolved, name: &str) -> Option<String> {
    let value = resolved.headers.get(name)?;
    Some(value.to_str().unwrap().to_owned())
}
