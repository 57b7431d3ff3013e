//! The standard environment variables of OpenTelemetry.
//!
//! Where a list has two names, the first wins: a variable for one signal beats the one for all signals.

use super::endpoint::PATHS;
use crate::error::Error;

pub(crate) const SDK_DISABLED: [&str; 1] = ["OTEL_SDK_DISABLED"];

/// The variables and paths of one signal.
pub(crate) struct Signal {
    /// What OTLP over HTTP appends to the server's address.
    pub(crate) path: &'static str,
    pub(crate) grpc_path: &'static str,
    pub(crate) exporter: [&'static str; 1],
    pub(crate) endpoint: [&'static str; 2],
    pub(crate) protocol: [&'static str; 2],
    pub(crate) headers: [&'static str; 2],
    pub(crate) timeout: [&'static str; 2],
    pub(crate) compression: [&'static str; 2],
    pub(crate) insecure: [&'static str; 2],
    pub(crate) certificate: [&'static str; 2],
    pub(crate) client_certificate: [&'static str; 2],
    pub(crate) client_key: [&'static str; 2],
}

macro_rules! signal {
    ($signal:literal, $path:expr, $package:literal, $service:literal) => {
        Signal {
            path: $path,
            grpc_path: concat!(
                "/opentelemetry.proto.collector.",
                $package,
                ".v1.",
                $service,
                "/Export"
            ),
            exporter: [concat!("OTEL_", $signal, "_EXPORTER")],
            endpoint: signal!($signal, "ENDPOINT"),
            protocol: signal!($signal, "PROTOCOL"),
            headers: signal!($signal, "HEADERS"),
            timeout: signal!($signal, "TIMEOUT"),
            compression: signal!($signal, "COMPRESSION"),
            insecure: signal!($signal, "INSECURE"),
            certificate: signal!($signal, "CERTIFICATE"),
            client_certificate: signal!($signal, "CLIENT_CERTIFICATE"),
            client_key: signal!($signal, "CLIENT_KEY"),
        }
    };
    ($signal:literal, $name:literal) => {
        [
            concat!("OTEL_EXPORTER_OTLP_", $signal, "_", $name),
            concat!("OTEL_EXPORTER_OTLP_", $name),
        ]
    };
}
pub(super) use signal;

pub(crate) const TRACES: Signal = signal!("TRACES", PATHS[0], "trace", "TraceService");

pub(crate) const HTTP_PROXY: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
pub(crate) const HTTPS_PROXY: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
pub(crate) const ALL_PROXY: [&str; 2] = ["ALL_PROXY", "all_proxy"];
pub(crate) const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];
pub(crate) const LINGER: [&str; 1] = ["OTEL_BSP_SCHEDULE_DELAY"];
pub(crate) const CONTENT: [&str; 1] = ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"];
pub(crate) const TEXTS: [&str; 4] = [
    "SPANLEDGER_OTLP_ERROR_TEXT",
    "SPANLEDGER_OTLP_LOG_MESSAGES",
    "SPANLEDGER_OTLP_PATHS",
    "SPANLEDGER_OTLP_CUSTOM_FIELDS",
];
pub(crate) const VALUE_LENGTH: [&str; 2] = [
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
];
pub(crate) const ATTRIBUTE_COUNT: [&str; 2] = [
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
];
pub(crate) const EVENT_COUNT: [&str; 1] = ["OTEL_SPAN_EVENT_COUNT_LIMIT"];
pub(crate) const LINK_COUNT: [&str; 1] = ["OTEL_SPAN_LINK_COUNT_LIMIT"];

/// Reads variables: those of the process, or those of a test.
pub(crate) struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

/// A variable that is set and not empty.
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

impl<'a> Environment<'a> {
    pub(crate) fn new(read: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(read)
    }

    /// The first of them that is set and not empty.
    pub(crate) fn first(&self, names: &[&'static str]) -> Option<Variable> {
        names.iter().find_map(|&name| {
            let value = (self.0)(name)?.trim().to_owned();
            (!value.is_empty()).then_some(Variable { name, value })
        })
    }

    /// The parsed value of the first of them that is set.
    pub(crate) fn parsed<T>(
        &self,
        names: &[&'static str],
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(Variable { name, value }) = self.first(names) else {
            return Ok(None);
        };
        parse(&value).map(Some).ok_or(Error::Environment {
            name,
            value,
            expected,
        })
    }

    /// The same of a word in any case.
    pub(crate) fn word<T>(
        &self,
        names: &[&'static str],
        expected: &'static str,
        parse: fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        self.parsed(names, expected, |value| parse(&value.to_ascii_lowercase()))
    }

    pub(crate) fn flag(&self, names: &[&'static str]) -> Result<Option<bool>, Error> {
        self.word(names, "true or false", |value| value.parse().ok())
    }

    pub(crate) fn is_true(&self, names: &[&'static str]) -> Result<bool, Error> {
        Ok(self.flag(names)?.unwrap_or(false))
    }

    pub(crate) fn count(&self, names: &[&'static str]) -> Result<Option<usize>, Error> {
        self.parsed(names, "a number", |value| value.parse().ok())
    }
}

/// A setting that can't be used.
pub(crate) fn invalid(setting: &'static str, why: impl ToString) -> Error {
    Error::Otlp {
        setting,
        why: why.to_string(),
    }
}
