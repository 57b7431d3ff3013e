//! Whether metrics are sent, where to, and how.

use std::time::Duration;

use opentelemetry_sdk::metrics::Temporality;

use super::config::{Exporters, Otlp, Protocol, Resolved};
use super::environment::{self as var, Environment, METRICS};
use crate::error::Error;

/// How often metrics are sent, unless `OTEL_METRIC_EXPORT_INTERVAL` says otherwise.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

/// Where metrics go, and how: decided.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metered {
    /// The way there.
    pub to: Resolved,
    /// How often they are sent.
    pub interval: Duration,
    /// Whether each time tells what has come since the start or since the last time.
    pub temporality: Temporality,
}

impl Otlp {
    /// What holds for metrics in the end, or `None` if none are wanted: `asked` is what code says
    /// to that. Variables have `_METRICS_` where those of spans have `_TRACES_`; `http/json` is taken
    /// for `http/protobuf`.
    ///
    /// ```
    /// use spanledger::mirror::Otlp;
    /// let env = |name: &str| (name == "OTEL_METRICS_EXPORTER").then(|| "otlp".to_owned());
    /// let metrics = Otlp::resolve_metrics(None, None, env)?.expect("they were asked for");
    /// assert_eq!(metrics.to.shown(), "http://localhost:4318/v1/metrics");
    /// # Ok::<(), spanledger::Error>(())
    /// ```
    pub fn resolve_metrics(
        code: Option<Self>,
        asked: Option<bool>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Metered>, Error> {
        let env = Environment::new(&env);
        let asked = match asked {
            Some(asked) => asked,
            None => match Exporters::asked(&METRICS, &env) {
                Some(exporters) => exporters? == Exporters::Otlp,
                None => false,
            },
        };
        if !asked || env.is_true(&var::SDK_DISABLED)? {
            return Ok(None);
        }
        let code = code.unwrap_or_default();
        let mut to = code.way(&METRICS, code.address(&METRICS, &env), &env)?;
        // opentelemetry-otlp's JSON would bring a second encoding for nothing: whoever takes JSON
        // over HTTP takes protobuf.
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
        Ok(Some(Metered {
            to,
            interval: ms.map_or(DEFAULT_INTERVAL, Duration::from_millis),
            temporality: temporality.unwrap_or_default(),
        }))
    }
}
