//! Replaces `sending` in builds without the feature `mirror`: nothing is sent.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::ledger::{LedgerConfig, Listener};
use crate::record::health::Health;
use crate::record::otel::OtelBridge;
use crate::record::process_state::Settings;

#[derive(Clone, Default)]
pub(crate) struct Sending;

#[derive(Default)]
pub(crate) struct Endpoints;

impl Sending {
    pub fn resolve(&self, _: &mut Settings) -> Result<Endpoints, Error> {
        Ok(Endpoints)
    }

    pub fn shutdown_timeout(&self) -> Duration {
        Duration::ZERO
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
