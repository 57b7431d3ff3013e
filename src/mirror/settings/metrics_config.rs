//! Whether metrics are sent, where to, and how; and the resource that they have.

use std::time::Duration;

use opentelemetry::{Array, KeyValue, Value as Otel};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::Temporality;
use serde_json::Value;

use super::config::{Otlp, Protocol};
use super::endpoint::PATHS;
use super::environment::{Environment, SDK_DISABLED, Signal, signal};
use super::resolve::{Resolved, lists_otlp};
use crate::error::Error;

const METRICS: Signal = signal!("METRICS", PATHS[1], "metrics", "MetricsService");
const INTERVAL: [&str; 1] = ["OTEL_METRIC_EXPORT_INTERVAL"];
const TEMPORALITY: [&str; 1] = ["OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"];

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
        if !enabled || env.is_true(&SDK_DISABLED)? {
            return Ok(None);
        }
        let code = code.unwrap_or_default();
        let endpoint = code.endpoint_setting(&METRICS, &env);
        let mut to = code.resolve_signal(&METRICS, endpoint, &env)?;
        // Servers that accept JSON accept protobuf, and opentelemetry-otlp needs a feature for JSON.
        if to.protocol == Protocol::HttpJson {
            to.protocol = Protocol::HttpProtobuf;
        }
        let ms = env.parsed(&INTERVAL, "a number of milliseconds above 0", |value| {
            value.parse().ok().filter(|&ms: &u64| ms > 0)
        })?;
        let temporality = env.parsed(&TEMPORALITY, "cumulative, delta or lowmemory", |value| {
            value.parse().ok()
        })?;
        Ok(Some(MetricsConfig {
            to,
            interval: ms.map_or(DEFAULT_INTERVAL, Duration::from_millis),
            temporality: temporality.unwrap_or_default(),
        }))
    }
}

/// The resource in the header of a segment as the SDK's type, with the values that the mirror sends.
pub(crate) fn sdk_resource(logged: &Value) -> Resource {
    let members = logged.as_object().into_iter().flatten();
    let attributes =
        members.filter_map(|(name, value)| Some(KeyValue::new(name.clone(), sdk_value(value)?)));
    Resource::builder_empty()
        .with_attributes(attributes)
        .build()
}

fn sdk_value(value: &Value) -> Option<Otel> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(truth) => (*truth).into(),
        Value::String(text) => text.clone().into(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(int), _) => int.into(),
            (None, Some(float)) if number.is_f64() => float.into(),
            _ => number.to_string().into(),
        },
        Value::Array(items) => {
            let texts = items
                .iter()
                .map(|item| Some(item.as_str()?.to_owned().into()));
            // The SDK's lists have one type; lists of other values than texts become JSON.
            match texts.collect() {
                Some(texts) => Otel::Array(Array::String(texts)),
                None => value.to_string().into(),
            }
        }
        Value::Object(_) => value.to_string().into(),
    })
}
