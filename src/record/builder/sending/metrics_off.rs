//! Replaces `metrics` in builds without the feature `metrics`: none are sent.

use std::sync::Arc;
use std::time::Instant;

use super::Sending;
use crate::error::Error;
use crate::ledger::{LedgerConfig, Listener};
use crate::mirror::Queue;
use crate::record::health::Health;

#[derive(Clone, Default)]
pub(super) struct MetricsSettings;

impl MetricsSettings {
    pub fn resolve(&self, _: &Sending) -> Result<Option<MetricsConfig>, Error> {
        Ok(None)
    }
}

pub(super) enum MetricsConfig {}

#[derive(Debug)]
pub(super) struct Metrics;

impl Metrics {
    pub fn start(_: Option<MetricsConfig>, _: &LedgerConfig, _: Option<&Arc<Queue>>) -> Self {
        Self
    }

    pub fn listener(&self) -> Option<Arc<dyn Listener>> {
        None
    }

    pub fn add_to(&self, _: &mut Health) {}

    pub fn stop(&self, _: Instant, _: impl FnOnce()) {}
}
