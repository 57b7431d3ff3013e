//! Where the mirror sends to, and how: code beats the variable for traces beats the variable for
//! every signal beats the default.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use http::header::{AUTHORIZATION, HeaderMap};

use super::endpoint::{self, Named};
use super::environment::{self as var, Environment, Found, Signal, TRACES};
use super::headers::{header_of, headers_of};
use super::origin::Limits;
use super::transport::Tls;
use crate::error::Error;

/// How long an attempt may take, unless code or `OTEL_EXPORTER_OTLP_TIMEOUT` says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a span waits for others, unless code or `OTEL_BSP_SCHEDULE_DELAY` says otherwise.
const DEFAULT_LINGER: Duration = Duration::from_secs(1);

/// How spans travel.
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

/// How requests are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all: fastest, and the network is rarely what is short.
    #[default]
    None,
    /// `gzip`, which every server understands.
    Gzip,
    /// `zstd`: faster and smaller, understood by the collector.
    Zstd,
}

/// Certificates or a key as PEM, at hand or in a file.
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

/// Where the mirror sends to, and how.
///
/// | setter | environment (`_TRACES_` form first) | by default |
/// |---|---|---|
/// | [`endpoint`](Self::endpoint) | `OTEL_EXPORTER_OTLP_ENDPOINT` | no mirror; `localhost` if `OTEL_TRACES_EXPORTER=otlp` |
/// | [`protocol`](Self::protocol) | `OTEL_EXPORTER_OTLP_PROTOCOL` (`grpc`, `http/protobuf`, `http/json`) | gRPC at port 4317, else HTTP with protobuf |
/// | [`header`](Self::header) | `OTEL_EXPORTER_OTLP_HEADERS` (`a=1,b=2`, values percent-encoded) | none |
/// | [`ca_certificate`](Self::ca_certificate) | `OTEL_EXPORTER_OTLP_CERTIFICATE` (a file) | the machine's roots alone |
/// | [`client_certificate`](Self::client_certificate) | `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`, `…_CLIENT_KEY` (files) | none |
/// | [`compression`](Self::compression) | `OTEL_EXPORTER_OTLP_COMPRESSION` (`none`, `gzip`, `zstd`) | none |
/// | [`timeout`](Self::timeout) | `OTEL_EXPORTER_OTLP_TIMEOUT` (milliseconds) | 10 s |
/// | [`linger`](Self::linger) | `OTEL_BSP_SCHEDULE_DELAY` (milliseconds) | 1 s |
/// | [`content`](Self::content) | `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` | stays local |
/// | [`value_length_limit`](Self::value_length_limit) | `OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT`, `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT` | none |
/// | [`attribute_limit`](Self::attribute_limit) | `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT`, `OTEL_ATTRIBUTE_COUNT_LIMIT` | none |
/// | [`event_limit`](Self::event_limit) | `OTEL_SPAN_EVENT_COUNT_LIMIT` | none |
/// | [`link_limit`](Self::link_limit) | `OTEL_SPAN_LINK_COUNT_LIMIT` | none |
///
/// `OTEL_EXPORTER_OTLP_INSECURE=true` makes a gRPC endpoint without a scheme a plain one.
/// `OTEL_SDK_DISABLED=true` switches the mirror off, whatever code says. `OTEL_TRACES_EXPORTER`
/// without `otlp` in it switches it off unless code names an endpoint.
///
/// Metrics, where they are asked for, travel the same way, by variables with `_METRICS_` in them; as
/// protobuf also where spans go as JSON.
#[derive(Clone, Default)]
#[must_use = "hand it to the builder"]
pub struct Otlp {
    endpoint: Option<String>,
    protocol: Option<Protocol>,
    headers: Vec<(String, String)>,
    ca: Option<Pem>,
    client: Option<(Pem, Pem)>,
    compression: Option<Compression>,
    timeout: Option<Duration>,
    content: Option<bool>,
    limits: Limits,
    linger: Option<Duration>,
}

impl fmt::Debug for Otlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the endpoint nor the headers: both may hold credentials.
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
    /// Nothing set: the environment and the defaults decide.
    pub fn new() -> Self {
        Self::default()
    }

    /// The address of the server, such as `http://localhost:4317`. Over HTTP `/v1/traces` is added
    /// where it is missing. By default there is none, and no mirror.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// How spans travel. By default [`Protocol::Grpc`] if the endpoint's port is 4317, else
    /// [`Protocol::HttpProtobuf`].
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// A header of every request, beside those of the environment; one of the same name replaces
    /// it. By default there is none.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Certificates that are trusted beside the machine's own. By default there are none.
    pub fn ca_certificate(mut self, certificates: Pem) -> Self {
        self.ca = Some(certificates);
        self
    }

    /// What is shown to a server that asks who calls. By default nothing.
    pub fn client_certificate(mut self, certificates: Pem, key: Pem) -> Self {
        self.client = Some((certificates, key));
        self
    }

    /// How requests are compressed. By default [`Compression::None`].
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// How long one attempt may take, from the connection to the end of the answer. By default
    /// 10 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long a span waits for others to be sent with, at most; where there are enough, it
    /// doesn't. By default 1 s.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = Some(linger);
        self
    }

    /// Whether message content, tool arguments and results are sent. By default they stay local.
    pub fn content(mut self, sent: bool) -> Self {
        self.content = Some(sent);
        self
    }

    /// Cuts the text of attributes at this length. By default nothing is cut.
    pub fn value_length_limit(mut self, length: usize) -> Self {
        self.limits.attribute_length = Some(length);
        self
    }

    /// Sends at most this many attributes of a span. By default all.
    pub fn attribute_limit(mut self, count: usize) -> Self {
        self.limits.attribute_count = Some(count);
        self
    }

    /// Sends at most this many events of a span. By default all.
    pub fn event_limit(mut self, count: usize) -> Self {
        self.limits.event_count = Some(count);
        self
    }

    /// Sends at most this many links of a span. By default all.
    pub fn link_limit(mut self, count: usize) -> Self {
        self.limits.link_count = Some(count);
        self
    }

    /// What holds in the end, or `None` if there is to be no mirror.
    ///
    /// A variable that something stronger overrides is not looked at, and none but the first few
    /// if there is no mirror: a value that can't be used is an error only where it would be used.
    pub fn resolve(
        code: Option<Self>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Resolved>, Error> {
        let code = code.unwrap_or_default();
        let env = Environment::new(&env);
        let Some(named) = code.named(&env)? else {
            return Ok(None);
        };
        Ok(Some(Resolved {
            content: match code.content {
                Some(content) => content,
                None => env
                    .parsed(
                        &var::CONTENT,
                        "NO_CONTENT, SPAN_ONLY, EVENT_ONLY or SPAN_AND_EVENT",
                        content,
                    )?
                    .unwrap_or(false),
            },
            limits: code.limits(&env)?,
            linger: match code.linger {
                Some(linger) => linger,
                None => {
                    let ms = env.count(&var::LINGER)?;
                    ms.map_or(DEFAULT_LINGER, |ms| Duration::from_millis(ms as u64))
                }
            },
            ..code.way(&TRACES, named, &env)?
        }))
    }

    /// How a signal travels; to this machine, if nobody named another.
    pub(super) fn way(
        &self,
        signal: &'static Signal,
        named: Option<Named>,
        env: &Environment<'_>,
    ) -> Result<Resolved, Error> {
        let expected = "grpc, http/protobuf or http/json";
        let protocol = match self.protocol {
            Some(protocol) => Some(protocol),
            None => env.parsed(&signal.protocol, expected, protocol)?,
        };
        let named = named.unwrap_or_else(|| local(signal, protocol));
        let endpoint = named.parse(protocol, || env.is_true(&signal.insecure))?;
        let mut headers = match env.first(&signal.headers) {
            Some(found) => headers_of(&found)?,
            None => HeaderMap::new(),
        };
        for (name, value) in &self.headers {
            let (name, value) = header_of("Otlp::header", name.as_bytes(), value.as_bytes())?;
            headers.insert(name, value);
        }
        if let Some(basic) = endpoint.authorization {
            headers.entry(AUTHORIZATION).or_insert(basic);
        }
        let secure = endpoint.uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        Ok(Resolved {
            protocol: endpoint.protocol,
            headers,
            tls: secure.then(|| self.tls(signal, env)).transpose()?,
            compression: match self.compression {
                Some(compression) => compression,
                None => env
                    .parsed(&signal.compression, "none, gzip or zstd", compression)?
                    .unwrap_or_default(),
            },
            timeout: self.longest(signal, env)?,
            content: false,
            limits: Limits::default(),
            linger: DEFAULT_LINGER,
            uri: endpoint.uri,
        })
    }

    /// The endpoint somebody named; `None` within if one is wanted and nobody named it; `None` if
    /// none is wanted.
    fn named(&self, env: &Environment<'_>) -> Result<Option<Option<Named>>, Error> {
        let named = self.address(&TRACES, env);
        let exporters = Exporters::asked(&TRACES, env);
        if named.is_none() && !matches!(exporters, Some(Ok(Exporters::Otlp))) {
            return Ok(None);
        }
        if env.is_true(&var::SDK_DISABLED)? {
            return Ok(None);
        }
        if self.endpoint.is_none()
            && let Some(exporters) = exporters
            && exporters? == Exporters::Others
        {
            return Ok(None);
        }
        Ok(Some(named))
    }

    /// The endpoint somebody named for a signal.
    pub(super) fn address(&self, signal: &'static Signal, env: &Environment<'_>) -> Option<Named> {
        let path = signal.path;
        match &self.endpoint {
            Some(text) => Some(Named {
                text: text.trim().to_owned(),
                setting: "Otlp::endpoint",
                whole: false,
                path,
            }),
            None => env.first(&signal.endpoint).map(|found| Named {
                text: found.value,
                setting: found.name,
                whole: found.name == signal.endpoint[0],
                path,
            }),
        }
    }

    fn tls(&self, signal: &Signal, env: &Environment<'_>) -> Result<Tls, Error> {
        let file = |names: &[&'static str]| {
            let found = env.first(names)?;
            Some((found.name, Pem::File(found.value.into())))
        };
        let ca = match &self.ca {
            Some(pem) => Some(("Otlp::ca_certificate", pem.clone())),
            None => file(&signal.certificate),
        };
        let (certificates, key) = match &self.client {
            Some((certificates, key)) => {
                let setting = "Otlp::client_certificate";
                let both = ((setting, certificates.clone()), (setting, key.clone()));
                (Some(both.0), Some(both.1))
            }
            None => (file(&signal.client_certificate), file(&signal.client_key)),
        };
        let client = match (certificates, key) {
            (Some(certificates), Some(key)) => Some((certificates, key)),
            (None, None) => None,
            (Some((setting, _)), None) => {
                let why = "it needs the key as well".to_owned();
                return Err(Error::Otlp { setting, why });
            }
            (None, Some((setting, _))) => {
                let why = "it needs the certificate as well".to_owned();
                return Err(Error::Otlp { setting, why });
            }
        };
        Tls::read(ca, client)
    }

    fn longest(&self, signal: &Signal, env: &Environment<'_>) -> Result<Duration, Error> {
        match self.timeout {
            Some(Duration::ZERO) => Err(Error::Otlp {
                setting: "Otlp::timeout",
                why: "no request can be answered in no time".to_owned(),
            }),
            Some(timeout) => Ok(timeout),
            None => {
                let expected = "a number of milliseconds above 0";
                let timeout = env.parsed(&signal.timeout, expected, |value| {
                    let ms = value.parse().ok().filter(|&ms: &u64| ms > 0)?;
                    Some(Duration::from_millis(ms))
                })?;
                Ok(timeout.unwrap_or(DEFAULT_TIMEOUT))
            }
        }
    }

    fn limits(&self, env: &Environment<'_>) -> Result<Limits, Error> {
        let or = |code: Option<usize>, names: &[&'static str]| match code {
            Some(limit) => Ok(Some(limit)),
            None => env.count(names),
        };
        Ok(Limits {
            attribute_length: or(self.limits.attribute_length, &var::VALUE_LENGTH)?,
            attribute_count: or(self.limits.attribute_count, &var::ATTRIBUTE_COUNT)?,
            event_count: or(self.limits.event_count, &var::EVENT_COUNT)?,
            link_count: or(self.limits.link_count, &var::LINK_COUNT)?,
        })
    }
}

/// Where the mirror sends to, and how: decided.
#[derive(Clone)]
#[non_exhaustive]
pub struct Resolved {
    /// Where to, in full, without credentials.
    pub uri: Uri,
    /// How spans travel.
    pub protocol: Protocol,
    /// What every request carries; all of it may be secret.
    pub headers: HeaderMap,
    /// How requests are compressed.
    pub compression: Compression,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// Whether message content is sent.
    pub content: bool,
    /// How much of a span is sent.
    pub limits: Limits,
    /// How long a span waits for others.
    pub linger: Duration,
    /// Who is trusted, and as whom we come; only where the scheme is https.
    pub(super) tls: Option<Tls>,
}

impl Resolved {
    /// The endpoint as it may be logged: without credentials and query.
    pub fn shown(&self) -> String {
        endpoint::shown(&self.uri)
    }
}

impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolved")
            .field("endpoint", &self.shown())
            .field("protocol", &self.protocol)
            .field("headers", &self.headers)
            .field("compression", &self.compression)
            .field("timeout", &self.timeout)
            .field("content", &self.content)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What the variable that names a signal's exporters asks for.
#[derive(PartialEq, Eq)]
pub(super) enum Exporters {
    Otlp,
    Others,
}

impl Exporters {
    /// `None` if it asks for nothing.
    pub(super) fn asked(signal: &Signal, env: &Environment<'_>) -> Option<Result<Self, Error>> {
        env.first(&signal.exporter).map(Self::of)
    }

    fn of(found: Found) -> Result<Self, Error> {
        let mut otlp = false;
        for word in found.value.split(',').map(str::trim) {
            match word.to_ascii_lowercase().as_str() {
                "otlp" => otlp = true,
                "none" => return Ok(Self::Others),
                "" | "console" | "logging" | "zipkin" | "jaeger" | "prometheus" => {}
                _ => {
                    return Err(Error::Environment {
                        name: found.name,
                        value: found.value,
                        expected: "otlp, none or other exporters of OpenTelemetry",
                    });
                }
            }
        }
        Ok(if otlp { Self::Otlp } else { Self::Others })
    }
}

/// The endpoint when an exporter was asked for and nobody said where to.
fn local(signal: &Signal, protocol: Option<Protocol>) -> Named {
    let port = match protocol {
        Some(Protocol::Grpc) => 4317,
        _ => 4318,
    };
    Named {
        text: format!("http://localhost:{port}"),
        setting: signal.exporter[0],
        whole: false,
        path: signal.path,
    }
}

fn protocol(value: &str) -> Option<Protocol> {
    match value.to_ascii_lowercase().as_str() {
        "grpc" => Some(Protocol::Grpc),
        "http/protobuf" => Some(Protocol::HttpProtobuf),
        "http/json" => Some(Protocol::HttpJson),
        _ => None,
    }
}

fn compression(value: &str) -> Option<Compression> {
    match value.to_ascii_lowercase().as_str() {
        "none" => Some(Compression::None),
        "gzip" => Some(Compression::Gzip),
        "zstd" => Some(Compression::Zstd),
        _ => None,
    }
}

/// Content goes on spans or nowhere: there are no events of ours that could carry it.
fn content(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "no_content" | "event_only" | "false" => Some(false),
        "span_only" | "span_and_event" | "true" => Some(true),
        _ => None,
    }
}
