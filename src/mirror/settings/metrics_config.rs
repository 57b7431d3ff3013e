//! Whether metrics are sent, where to, and how.

use std::time::Duration;

use opentelemetry_sdk::metrics::Temporality;

use super::config::{Otlp, Protocol};
use super::environment::{self as var, Environment, METRICS};
use super::resolve::{Resolved, lists_otlp};
use crate::error::Error;

const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

/// The settings of metrics that apply.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MetricsConfig {
    /// The endpoint and how to reach it.
    pub to: Resolved,
    /// How often metrics are sent.
    pub interval: Duration,
    /// Whether values count since the start or since the last export.
    pub temporality: Temporality,
}

impl Otlp {
    /// The settings of metrics, or `None` if none are to be sent; `enabled` is the
    /// setting in code. Variables have `_METRICS_` where those of spans have `_TRACES_`; `http/json` becomes
    /// `http/protobuf`.
    ///
    /// ```
    /// use spanledger::mirror::Otlp;
    /// let env = |name: &str| (name == "OTEL_METRICS_EXPORTER").then(|| "otlp".to_owned());
    /// let metrics = Otlp::resolve_metrics(None, None, env)?.expect("enabled by the environment");
    /// assert_eq!(metrics.to.shown(), "http://localhost:4318/v1/metrics");
    /// # Ok::<(), spanledger::Error>(())
    /// ```
    pub fn resolve_metrics(
        code: Option<Self>,
        enabled: Option<bool>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<MetricsConfig>, Error> {
        let env = Environment::new(&env);
        let enabled = match enabled {
            Some(enabled) => enabled,
            None => lists_otlp(&METRICS, &env)?.unwrap_or(false),
        };
        if !enabled || env.is_true(&var::SDK_DISABLED)? {
            return Ok(None);
        }
        let code = code.unwrap_or_default();
        let endpoint = code.endpoint_setting(&METRICS, &env);
        let mut to = code.resolve_signal(&METRICS, endpoint, &env)?;
        // Servers that accept JSON accept protobuf, and opentelemetry-otlp needs a feature for JSON.
        if to.protocol == Protocol::HttpJson {
            to.protocol = Protocol::HttpProtobuf;
        }
        let ms = env.parsed(
            &var::INTERVAL,
            "a number of milliseconds above 0",
            |value| value.parse().ok().filter(|&ms: &u64| ms > 0),
        )?;
        let temporality = env.parsed(
            &var::TEMPORALITY,
            "cumulative, delta or lowmemory",
            |value| value.parse().ok(),
        )?;
        Ok(Some(MetricsConfig {
            to,
            interval: ms.map_or(DEFAULT_INTERVAL, Duration::from_millis),
            temporality: temporality.unwrap_or_default(),
        }))
    }
}
