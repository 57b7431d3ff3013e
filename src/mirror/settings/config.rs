//! The mirror's settings: endpoint, protocol, headers, certificates, limits.
//!
//! Code beats the variable for traces, which beats the variable for all signals, which beats the
//! default; `resolve.rs` applies that order.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::mirror::map::policy::Limits;
use crate::trace::{named_enum, setters};

named_enum! {
    /// The protocol that spans are sent with.
    #[non_exhaustive]
    pub enum Protocol {
        /// `grpc`: protobuf over gRPC.
        Grpc = "grpc",
        /// `http/protobuf`: protobuf over HTTP/1.1.
        HttpProtobuf = "http/protobuf",
        /// `http/json`: JSON over HTTP/1.1.
        HttpJson = "http/json",
    }
}

named_enum! {
    /// The compression of requests.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Compression {
        /// None: costs the least CPU time.
        #[default]
        None = "none",
        /// `gzip`, which every server supports.
        Gzip = "gzip",
        /// `zstd`: faster and smaller, supported by the collector.
        Zstd = "zstd",
    }
}

/// Certificates or a key in PEM format.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pem {
    /// The text itself.
    Bytes(Vec<u8>),
    /// A file, read when the mirror is set up.
    File(PathBuf),
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes(<{} bytes>)", bytes.len()),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Where and how the mirror sends spans.
///
/// | setter | environment (`_TRACES_` form first) | default |
/// |---|---|---|
/// | [`endpoint`](Self::endpoint) | `OTEL_EXPORTER_OTLP_ENDPOINT` | no mirror; `localhost` if `OTEL_TRACES_EXPORTER=otlp` |
/// | [`protocol`](Self::protocol) | `OTEL_EXPORTER_OTLP_PROTOCOL` (`grpc`, `http/protobuf`, `http/json`) | gRPC for port 4317, else HTTP with protobuf |
/// | [`header`](Self::header) | `OTEL_EXPORTER_OTLP_HEADERS` (`a=1,b=2`, values percent-encoded) | none |
/// | [`ca_certificate`](Self::ca_certificate) | `OTEL_EXPORTER_OTLP_CERTIFICATE` (a file) | the system's root certificates |
/// | [`client_certificate`](Self::client_certificate) | `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`, `…_CLIENT_KEY` (files) | none |
/// | | `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`: an `http://` proxy, except for loopback addresses | no proxy |
/// | [`compression`](Self::compression) | `OTEL_EXPORTER_OTLP_COMPRESSION` (`none`, `gzip`, `zstd`) | none |
/// | [`timeout`](Self::timeout) | `OTEL_EXPORTER_OTLP_TIMEOUT` (milliseconds) | 10 s |
/// | [`linger`](Self::linger) | `OTEL_BSP_SCHEDULE_DELAY` (milliseconds) | 1 s |
/// | [`content`](Self::content) | `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` | not sent |
/// | [`error_text`](Self::error_text) | `SPANLEDGER_OTLP_ERROR_TEXT` | as content |
/// | [`log_messages`](Self::log_messages) | `SPANLEDGER_OTLP_LOG_MESSAGES` | as content |
/// | [`paths`](Self::paths) | `SPANLEDGER_OTLP_PATHS` | as content |
/// | [`custom_fields`](Self::custom_fields) | `SPANLEDGER_OTLP_CUSTOM_FIELDS` | as content |
/// | [`cache_write_name`](Self::cache_write_name), [`usage_cost`](Self::usage_cost) | | the attributes that most backends read |
/// | [`value_length_limit`](Self::value_length_limit) | `OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT`, `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT` | none |
/// | [`attribute_limit`](Self::attribute_limit) | `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT`, `OTEL_ATTRIBUTE_COUNT_LIMIT` | none |
/// | [`event_limit`](Self::event_limit) | `OTEL_SPAN_EVENT_COUNT_LIMIT` | none |
/// | [`link_limit`](Self::link_limit) | `OTEL_SPAN_LINK_COUNT_LIMIT` | none |
///
/// `OTEL_EXPORTER_OTLP_INSECURE=true` makes a gRPC endpoint without a scheme unencrypted.
/// `OTEL_SDK_DISABLED=true` turns the mirror off, whatever code sets. `OTEL_TRACES_EXPORTER`
/// without `otlp` in it turns it off unless code sets an endpoint.
///
/// Metrics, if enabled, use the same settings and the variables with `_METRICS_`; they are sent as
/// protobuf even where spans are sent as JSON.
#[derive(Clone, Default)]
#[must_use = "pass it to the builder"]
pub struct Otlp {
    pub(crate) endpoint: Option<String>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) ca: Option<Pem>,
    pub(crate) client: Option<(Pem, Pem)>,
    pub(crate) compression: Option<Compression>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) content: Option<bool>,
    /// In the order of `Texts::NAMES`.
    pub(crate) texts: [Option<bool>; 4],
    pub(crate) cache_write_name: bool,
    pub(crate) usage_cost: bool,
    pub(crate) limits: Limits,
    pub(crate) linger: Option<Duration>,
}

impl fmt::Debug for Otlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The endpoint and the headers may hold credentials.
        f.debug_struct("Otlp")
            .field("protocol", &self.protocol)
            .field("compression", &self.compression)
            .field("timeout", &self.timeout)
            .field("content", &self.content)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Otlp {
    /// No settings: the environment and the defaults apply.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// The server's address, such as `http://localhost:4317`. For HTTP, `/v1/traces` is appended
        /// if it is missing. By default there is no endpoint and no mirror.
        pub fn endpoint(self, endpoint: impl Into<String>) { self.endpoint = Some(endpoint.into()) }

        /// The protocol. By default [`Protocol::Grpc`] if the endpoint's port is 4317, else
        /// [`Protocol::HttpProtobuf`].
        pub fn protocol(self, protocol: Protocol) { self.protocol = Some(protocol) }

        /// Adds a header to every request; it replaces one of the same name from the environment. By
        /// default there is none.
        pub fn header(self, name: impl Into<String>, value: impl Into<String>) {
            self.headers.push((name.into(), value.into()));
        }

        /// Certificates to trust in addition to the system's. By default none.
        pub fn ca_certificate(self, certificates: Pem) { self.ca = Some(certificates) }

        /// The certificate and key for a server that asks for a client certificate. By default none.
        pub fn client_certificate(self, certificates: Pem, key: Pem) {
            self.client = Some((certificates, key));
        }

        /// The compression of requests. By default [`Compression::None`].
        pub fn compression(self, compression: Compression) { self.compression = Some(compression) }

        /// The time limit of one attempt, from connecting to the end of the response. By default 10 s.
        pub fn timeout(self, timeout: Duration) { self.timeout = Some(timeout) }

        /// How long a span waits at most for others to fill a batch. By default 1 s.
        pub fn linger(self, linger: Duration) { self.linger = Some(linger) }

        /// Whether messages, system instructions, tool definitions, arguments and results are sent. By default they
        /// are not.
        pub fn content(self, sent: bool) { self.content = Some(sent) }

        /// Whether the messages, causes, details and stacks of errors are sent. By default as
        /// [`content`](Self::content) is; the types of errors are always sent.
        ///
        /// ```
        /// use spanledger::mirror::Otlp;
        /// let otlp = Otlp::new().endpoint("http://127.0.0.1:4317").error_text(true).log_messages(true);
        /// ```
        pub fn error_text(self, sent: bool) { self.texts[0] = Some(sent) }

        /// Whether the messages and fields of log events are sent. By default as [`content`](Self::content) is.
        pub fn log_messages(self, sent: bool) { self.texts[1] = Some(sent) }

        /// Whether directories, files, the program's path and its arguments are sent. By default as
        /// [`content`](Self::content) is.
        pub fn paths(self, sent: bool) { self.texts[2] = Some(sent) }

        /// Whether fields of your own are sent: those that the schema doesn't know, and the fields of other `tracing`
        /// spans. By default as [`content`](Self::content) is. Attributes that were set through the OpenTelemetry API
        /// are always sent.
        pub fn custom_fields(self, sent: bool) { self.texts[3] = Some(sent) }

        /// Whether the tokens written to a provider's cache are called `gen_ai.usage.cache_write.input_tokens`, as in
        /// the newest conventions. By default they are called `gen_ai.usage.cache_creation.input_tokens`, which more
        /// backends read: under the new name Phoenix drops them, and Langfuse counts them twice.
        ///
        /// ```
        /// use spanledger::mirror::Otlp;
        /// let otlp = Otlp::new().endpoint("http://127.0.0.1:4317").cache_write_name(true);
        /// ```
        pub fn cache_write_name(self, newest: bool) { self.cache_write_name = newest }

        /// Whether the cost of a model call is sent as `gen_ai.usage.cost` too, which is not in the conventions and
        /// which Langfuse reads. By default only as `agent.cost_usd`.
        ///
        /// ```
        /// use spanledger::mirror::Otlp;
        /// let otlp = Otlp::new().endpoint("http://127.0.0.1:4317").usage_cost(true);
        /// ```
        pub fn usage_cost(self, sent: bool) { self.usage_cost = sent }

        /// Truncates attribute texts to this many bytes. By default nothing is truncated.
        pub fn value_length_limit(self, length: usize) {
            self.limits.attribute_length = Some(length);
        }

        /// Sends at most this many attributes per span. By default all.
        pub fn attribute_limit(self, count: usize) { self.limits.attribute_count = Some(count) }

        /// Sends at most this many events per span. By default all.
        pub fn event_limit(self, count: usize) { self.limits.event_count = Some(count) }

        /// Sends at most this many links per span. By default all.
        pub fn link_limit(self, count: usize) { self.limits.link_count = Some(count) }
    }
}
