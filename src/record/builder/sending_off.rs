//! Replaces `sending` in builds without the feature `mirror`: nothing is sent.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::{Builder, env};
use crate::error::Error;
use crate::ledger::{LedgerConfig, Listener, warn_once};
use crate::record::health::Health;
use crate::record::otel::OtelBridge;
use crate::record::process_state::Settings;

#[derive(Clone, Default)]
pub(crate) struct Sending;

#[derive(Default)]
pub(crate) struct Endpoints;

impl Builder {
    /// Nothing is sent anyway.
    pub(crate) fn mirror(self, _: bool) -> Self {
        self
    }
}

impl Sending {
    /// Warns, once for the process, if the environment asks for sending.
    pub fn resolve(&self, _: &mut Settings) -> Result<Endpoints, Error> {
        static WARNED: AtomicBool = AtomicBool::new(false);
        let is = |name, value: &str| env(name).is_some_and(|it| it.eq_ignore_ascii_case(value));
        let is_off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
        let mut endpoints = [
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ]
        .into_iter()
        .filter(|name| !is_off && env(name).is_some());
        if let Some(name) = endpoints.next() {
            let why = "this program was built without the feature `mirror`";
            let message = format!("{name} is set, but nothing is sent: {why}");
            warn_once(&WARNED, &message);
        }
        Ok(Endpoints)
    }

    pub fn bridge(self, _: bool) -> OtelBridge {
        OtelBridge
    }
}

#[derive(Debug)]
pub(crate) struct Senders;

impl Senders {
    pub fn start(_: Endpoints, _: &LedgerConfig) -> Self {
        Self
    }

    pub fn listeners(&self) -> Vec<Arc<dyn Listener>> {
        Vec::new()
    }

    pub fn add_to(&self, _: &mut Health) {}

    pub fn stop(&self, _: Duration) {}

    pub fn abandon(&self) {}
}
