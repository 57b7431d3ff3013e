//! The standard variables of OpenTelemetry, and how a value of theirs is found.
//!
//! Where a list has two names, the first wins: a variable for traces beats the one for every signal.

use crate::error::Error;

pub(super) const SDK_DISABLED: [&str; 1] = ["OTEL_SDK_DISABLED"];
pub(super) const EXPORTER: [&str; 1] = ["OTEL_TRACES_EXPORTER"];
pub(super) const ENDPOINT_OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
pub(super) const ENDPOINT: [&str; 2] = [ENDPOINT_OF_TRACES, "OTEL_EXPORTER_OTLP_ENDPOINT"];
pub(super) const PROTOCOL: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
];
pub(super) const HEADERS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_HEADERS",
];
pub(super) const TIMEOUT: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
];
pub(super) const COMPRESSION: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
    "OTEL_EXPORTER_OTLP_COMPRESSION",
];
pub(super) const INSECURE: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_INSECURE",
    "OTEL_EXPORTER_OTLP_INSECURE",
];
pub(super) const CERTIFICATE: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
];
pub(super) const CLIENT_CERTIFICATE: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
];
pub(super) const CLIENT_KEY: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY",
];
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
