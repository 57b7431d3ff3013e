//! The mirror's settings: endpoint, protocol, headers, certificates, limits.
//!
//! Code beats the variable for traces, which beats the variable for all signals, which beats the
//! default; `resolve.rs` applies that order.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::mirror::map::policy::Limits;

/// The protocol that spans are sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// `grpc`: protobuf over gRPC.
    Grpc,
    /// `http/protobuf`: protobuf over HTTP/1.1.
    HttpProtobuf,
    /// `http/json`: JSON over HTTP/1.1.
    HttpJson,
}

/// The compression of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// None: costs the least CPU time.
    #[default]
    None,
    /// `gzip`, which every server supports.
    Gzip,
    /// `zstd`: faster and smaller, supported by the collector.
    Zstd,
}

impl Compression {
    /// Its name in headers.
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
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

    /// The server's address, such as `http://localhost:4317`. For HTTP, `/v1/traces` is appended
    /// if it is missing. By default there is no endpoint and no mirror.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// The protocol. By default [`Protocol::Grpc`] if the endpoint's port is 4317, else
    /// [`Protocol::HttpProtobuf`].
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// Adds a header to every request; it replaces one of the same name from the environment. By
    /// default there is none.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Certificates to trust in addition to the system's. By default none.
    pub fn ca_certificate(mut self, certificates: Pem) -> Self {
        self.ca = Some(certificates);
        self
    }

    /// The certificate and key for a server that asks for a client certificate. By default none.
    pub fn client_certificate(mut self, certificates: Pem, key: Pem) -> Self {
        self.client = Some((certificates, key));
        self
    }

    /// The compression of requests. By default [`Compression::None`].
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// The time limit of one attempt, from connecting to the end of the response. By default 10 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long a span waits at most for others to fill a batch. By default 1 s.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = Some(linger);
        self
    }

    /// Whether messages, system instructions, tool definitions, arguments and results are sent. By default they
    /// are not.
    pub fn content(mut self, sent: bool) -> Self {
        self.content = Some(sent);
        self
    }

    /// Whether the messages, causes, details and stacks of errors are sent. By default as
    /// [`content`](Self::content) is; the types of errors are always sent.
    ///
    /// ```
    /// use spanledger::mirror::Otlp;
    /// let otlp = Otlp::new().endpoint("http://127.0.0.1:4317").error_text(true).log_messages(true);
    /// ```
    pub fn error_text(mut self, sent: bool) -> Self {
        self.texts[0] = Some(sent);
        self
    }

    /// Whether the messages and fields of log events are sent. By default as [`content`](Self::content) is.
    pub fn log_messages(mut self, sent: bool) -> Self {
        self.texts[1] = Some(sent);
        self
    }

    /// Whether directories, files, the program's path and its arguments are sent. By default as
    /// [`content`](Self::content) is.
    pub fn paths(mut self, sent: bool) -> Self {
        self.texts[2] = Some(sent);
        self
    }

    /// Whether fields of your own are sent: those that the schema doesn't know, and the fields of other `tracing`
    /// spans. By default as [`content`](Self::content) is. Attributes that were set through the OpenTelemetry API
    /// are always sent.
    pub fn custom_fields(mut self, sent: bool) -> Self {
        self.texts[3] = Some(sent);
        self
    }

    /// Whether the tokens written to a provider's cache are called `gen_ai.usage.cache_write.input_tokens`, as in
    /// the newest conventions. By default they are called `gen_ai.usage.cache_creation.input_tokens`, which more
    /// backends read: under the new name Phoenix drops them, and Langfuse counts them twice.
    ///
    /// ```
    /// use spanledger::mirror::Otlp;
    /// let otlp = Otlp::new().endpoint("http://127.0.0.1:4317").cache_write_name(true);
    /// ```
    pub fn cache_write_name(mut self, newest: bool) -> Self {
        self.cache_write_name = newest;
        self
    }

    /// Whether the cost of a model call is sent as `gen_ai.usage.cost` too, which is not in the conventions and
    /// which Langfuse reads. By default only as `agent.cost_usd`.
    ///
    /// ```
    /// use spanledger::mirror::Otlp;
    /// let otlp = Otlp::new().endpoint("http://127.0.0.1:4317").usage_cost(true);
    /// ```
    pub fn usage_cost(mut self, sent: bool) -> Self {
        self.usage_cost = sent;
        self
    }

    /// Truncates attribute texts to this many bytes. By default nothing is truncated.
    pub fn value_length_limit(mut self, length: usize) -> Self {
        self.limits.attribute_length = Some(length);
        self
    }

    /// Sends at most this many attributes per span. By default all.
    pub fn attribute_limit(mut self, count: usize) -> Self {
        self.limits.attribute_count = Some(count);
        self
    }

    /// Sends at most this many events per span. By default all.
    pub fn event_limit(mut self, count: usize) -> Self {
        self.limits.event_count = Some(count);
        self
    }

    /// Sends at most this many links per span. By default all.
    pub fn link_limit(mut self, count: usize) -> Self {
        self.limits.link_count = Some(count);
        self
    }
}
