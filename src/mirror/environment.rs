//! The standard variables of OpenTelemetry, and how a value of theirs is found.
//!
//! Where a list has two names, the first wins: a variable for one signal beats the one for every signal.

use super::endpoint::PATHS;
use crate::error::Error;

pub(super) const SDK_DISABLED: [&str; 1] = ["OTEL_SDK_DISABLED"];

/// What is said of one signal.
pub(super) struct Signal {
    /// What OTLP over HTTP adds to the address of a server.
    pub(super) path: &'static str,
    pub(super) exporter: [&'static str; 1],
    pub(super) endpoint: [&'static str; 2],
    pub(super) protocol: [&'static str; 2],
    pub(super) headers: [&'static str; 2],
    pub(super) timeout: [&'static str; 2],
    pub(super) compression: [&'static str; 2],
    pub(super) insecure: [&'static str; 2],
    pub(super) certificate: [&'static str; 2],
    pub(super) client_certificate: [&'static str; 2],
    pub(super) client_key: [&'static str; 2],
}

macro_rules! signal {
    ($signal:literal, $path:expr) => {
        Signal {
            path: $path,
            exporter: [concat!("OTEL_", $signal, "_EXPORTER")],
            endpoint: both!($signal, "ENDPOINT"),
            protocol: both!($signal, "PROTOCOL"),
            headers: both!($signal, "HEADERS"),
            timeout: both!($signal, "TIMEOUT"),
            compression: both!($signal, "COMPRESSION"),
            insecure: both!($signal, "INSECURE"),
            certificate: both!($signal, "CERTIFICATE"),
            client_certificate: both!($signal, "CLIENT_CERTIFICATE"),
            client_key: both!($signal, "CLIENT_KEY"),
        }
    };
}

macro_rules! both {
    ($signal:literal, $name:literal) => {
        [
            concat!("OTEL_EXPORTER_OTLP_", $signal, "_", $name),
            concat!("OTEL_EXPORTER_OTLP_", $name),
        ]
    };
}

pub(super) const TRACES: Signal = signal!("TRACES", PATHS[0]);
#[cfg(feature = "metrics")]
pub(super) const METRICS: Signal = signal!("METRICS", PATHS[1]);

#[cfg(feature = "metrics")]
pub(super) const INTERVAL: [&str; 1] = ["OTEL_METRIC_EXPORT_INTERVAL"];
#[cfg(feature = "metrics")]
pub(super) const TEMPORALITY: [&str; 1] = ["OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"];
pub(super) const LINGER: [&str; 1] = ["OTEL_BSP_SCHEDULE_DELAY"];
pub(super) const CONTENT: [&str; 1] = ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"];
pub(super) const VALUE_LENGTH: [&str; 2] = [
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
];
pub(super) const ATTRIBUTE_COUNT: [&str; 2] = [
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
];
pub(super) const EVENT_COUNT: [&str; 1] = ["OTEL_SPAN_EVENT_COUNT_LIMIT"];
pub(super) const LINK_COUNT: [&str; 1] = ["OTEL_SPAN_LINK_COUNT_LIMIT"];

/// Where variables come from: the process, or a test.
pub(super) struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

/// A variable that says something.
pub(super) struct Found {
    pub(super) name: &'static str,
    pub(super) value: String,
}

impl<'a> Environment<'a> {
    pub(super) fn new(read: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(read)
    }

    /// The first of them that is set. An empty variable says nothing.
    pub(super) fn first(&self, names: &[&'static str]) -> Option<Found> {
        names.iter().find_map(|&name| {
            let value = (self.0)(name)?.trim().to_owned();
            (!value.is_empty()).then_some(Found { name, value })
        })
    }

    /// What the first of them that is set means.
    pub(super) fn parsed<T>(
        &self,
        names: &[&'static str],
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(Found { name, value }) = self.first(names) else {
            return Ok(None);
        };
        match parse(&value) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(Error::Environment {
                name,
                value,
                expected,
            }),
        }
    }

    pub(super) fn is_true(&self, names: &[&'static str]) -> Result<bool, Error> {
        let flag = self.parsed(names, "true or false", |value| {
            value.to_ascii_lowercase().parse().ok()
        })?;
        Ok(flag.unwrap_or(false))
    }

    pub(super) fn count(&self, names: &[&'static str]) -> Result<Option<usize>, Error> {
        self.parsed(names, "a number", |value| value.parse().ok())
    }
}
