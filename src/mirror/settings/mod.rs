//! Settings: from code and the environment to what a transport needs.
//!
//! `config` has what a user sets, `environment` the variables, and `resolve` combines both.

pub(super) mod config;
pub(super) mod endpoint;
pub(super) mod environment;
mod headers;
#[cfg(feature = "metrics")]
pub(super) mod metrics_config;
pub(super) mod resolve;
pub(super) mod resource;
pub(super) mod tls;
