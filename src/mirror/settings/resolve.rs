//! Settings from code and environment, resolved into what the transport uses.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use http::Uri;
use http::header::{AUTHORIZATION, HeaderMap};
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use serde_json::{Map, Value, json};

use super::config::{Compression, Otlp, Pem, Protocol};
use super::endpoint::{self, EndpointSetting};
use super::environment::{self as var, Environment, Signal, TRACES, invalid};
use super::headers::{header_of, headers_of};
use super::tls::Tls;
use crate::error::Error;
use crate::mirror::map::origin::MAPPING;
use crate::mirror::map::policy::{Limits, Texts};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_LINGER: Duration = Duration::from_secs(1);

/// The settings that apply after code, environment and defaults were combined.
#[derive(Clone)]
#[non_exhaustive]
pub struct Resolved {
    /// The full address, without credentials.
    pub uri: Uri,
    /// The protocol.
    pub protocol: Protocol,
    /// The headers of every request. All of them may be secret.
    pub headers: HeaderMap,
    /// The compression of requests.
    pub compression: Compression,
    /// The time limit of one attempt.
    pub timeout: Duration,
    /// Whether message content is sent.
    pub content: bool,
    /// Which other texts are sent.
    pub texts: Texts,
    /// How much of a span is sent.
    pub limits: Limits,
    /// Whether cache-write tokens have the newest convention's name.
    pub cache_write_name: bool,
    /// Whether model calls have `gen_ai.usage.cost`.
    pub usage_cost: bool,
    /// How long a span waits for others to fill a batch.
    pub linger: Duration,
    /// Certificates; only for https.
    pub(crate) tls: Option<Tls>,
    pub(crate) proxy: Option<Intercept>,
    /// The gRPC method of the signal.
    pub(crate) grpc_path: &'static str,
}

impl Resolved {
    /// The endpoint for logs: without credentials and query, and with `***` for parts of the path that may
    /// be a token.
    pub fn shown(&self) -> String {
        endpoint::shown(&self.uri)
    }

    /// Whether this endpoint is on the same host and port as another, as [`shown`](Self::shown) has it. What
    /// was recorded for that one is then sent to this one.
    ///
    /// ```
    /// use spanledger::mirror::{Otlp, Protocol};
    /// let otlp = Otlp::new().endpoint("http://collector:14317").protocol(Protocol::Grpc);
    /// let to = Otlp::resolve(Some(otlp), |_| None)?.expect("an endpoint");
    /// assert!(to.is_same_server("https://Collector:14317/v1/traces"));
    /// assert!(!to.is_same_server("http://collector:4317"));
    /// # Ok::<(), spanledger::Error>(())
    /// ```
    pub fn is_same_server(&self, recorded: &str) -> bool {
        endpoint::server(&self.shown()).eq_ignore_ascii_case(endpoint::server(recorded))
    }

    /// The `mirror` member of a segment's header.
    pub(crate) fn policy(&self) -> Value {
        let limits = [
            ("attribute_length", self.limits.attribute_length),
            ("attribute_count", self.limits.attribute_count),
            ("event_count", self.limits.event_count),
            ("link_count", self.limits.link_count),
        ];
        let limits = limits
            .into_iter()
            .filter_map(|(name, limit)| Some((name.to_owned(), limit?.into())));
        let mut policy = json!({
            "endpoint": self.shown(),
            "content": self.content,
            "limits": limits.collect::<Map<_, _>>(),
            "mapping": MAPPING,
        });
        let names = [
            ("cache_write_name", self.cache_write_name),
            ("usage_cost", self.usage_cost),
        ];
        let set = names.into_iter().filter(|(_, is_set)| *is_set);
        for (name, value) in set.chain(self.texts.unlike(self.content)) {
            policy[name] = value.into();
        }
        policy
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

impl Otlp {
    /// The settings that apply, or `None` if there is to be no mirror.
    ///
    /// A variable that something else overrides is not read, and hardly any are read if there is no
    /// mirror: an invalid value is an error only where it would be used.
    pub fn resolve(
        code: Option<Self>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Resolved>, Error> {
        let code = code.unwrap_or_default();
        let env = Environment::new(&env);
        let setting = code.endpoint_setting(&TRACES, &env);
        if !code.is_wanted(setting.is_some(), &env)? {
            return Ok(None);
        }
        let expected = "NO_CONTENT, SPAN_ONLY, EVENT_ONLY or SPAN_AND_EVENT";
        let linger = || {
            let ms = env.count(&var::LINGER)?;
            Ok(ms.map(|ms| Duration::from_millis(ms as u64)))
        };
        let content = or_else(code.content, || {
            env.word(&var::CONTENT, expected, parse_content)
        })?
        .unwrap_or(false);
        Ok(Some(Resolved {
            content,
            texts: code.texts(content, &env)?,
            limits: code.limits(&env)?,
            linger: or_else(code.linger, linger)?.unwrap_or(DEFAULT_LINGER),
            ..code.resolve_signal(&TRACES, setting, &env)?
        }))
    }

    /// The settings of one signal. Without an endpoint it goes to this machine.
    pub(crate) fn resolve_signal(
        &self,
        signal: &'static Signal,
        setting: Option<EndpointSetting>,
        env: &Environment<'_>,
    ) -> Result<Resolved, Error> {
        let expected = "grpc, http/protobuf or http/json";
        let protocol = or_else(self.protocol, || {
            env.word(&signal.protocol, expected, Protocol::parse)
        })?;
        let setting = setting.unwrap_or_else(|| local_endpoint(signal, protocol));
        let endpoint = setting.parse(protocol, || env.is_true(&signal.insecure))?;
        let mut headers = match env.first(&signal.headers) {
            Some(variable) => headers_of(&variable)?,
            None => HeaderMap::new(),
        };
        for (name, value) in &self.headers {
            let (name, value) = header_of("Otlp::header", name.as_bytes(), value.as_bytes())?;
            headers.insert(name, value);
        }
        if let Some(basic) = endpoint.authorization {
            headers.entry(AUTHORIZATION).or_insert(basic);
        }
        let secure = endpoint.uri.scheme() == Some(&Scheme::HTTPS);
        let compression = or_else(self.compression, || {
            env.word(
                &signal.compression,
                "none, gzip or zstd",
                Compression::parse,
            )
        })?;
        Ok(Resolved {
            protocol: endpoint.protocol,
            headers,
            tls: secure.then(|| self.tls(signal, env)).transpose()?,
            proxy: proxy_for(&endpoint.uri, env)?,
            compression: compression.unwrap_or_default(),
            timeout: self.attempt_timeout(signal, env)?,
            content: false,
            texts: Texts::default(),
            limits: Limits::default(),
            cache_write_name: self.cache_write_name,
            usage_cost: self.usage_cost,
            linger: DEFAULT_LINGER,
            grpc_path: signal.grpc_path,
            uri: endpoint.uri,
        })
    }

    /// Whether there is to be a mirror.
    fn is_wanted(&self, has_endpoint: bool, env: &Environment<'_>) -> Result<bool, Error> {
        let listed = lists_otlp(&TRACES, env);
        if !has_endpoint && !matches!(listed, Ok(Some(true))) {
            return Ok(false);
        }
        if env.is_true(&var::SDK_DISABLED)? {
            return Ok(false);
        }
        match self.endpoint {
            Some(_) => Ok(true),
            None => Ok(listed?.unwrap_or(true)),
        }
    }

    /// The endpoint that code or environment sets for a signal.
    pub(crate) fn endpoint_setting(
        &self,
        signal: &'static Signal,
        env: &Environment<'_>,
    ) -> Option<EndpointSetting> {
        match &self.endpoint {
            Some(text) => Some(EndpointSetting {
                text: text.trim().to_owned(),
                setting: "Otlp::endpoint",
                path: Some(signal.path),
            }),
            None => env.first(&signal.endpoint).map(|found| EndpointSetting {
                text: found.value,
                setting: found.name,
                path: (found.name != signal.endpoint[0]).then_some(signal.path),
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
            (Some((setting, _)), None) => return Err(invalid(setting, "the key is missing")),
            (None, Some((setting, _))) => {
                return Err(invalid(setting, "the certificate is missing"));
            }
        };
        Tls::read(ca, client)
    }

    fn attempt_timeout(&self, signal: &Signal, env: &Environment<'_>) -> Result<Duration, Error> {
        let timeout = or_else(self.timeout, || {
            let expected = "a number of milliseconds above 0";
            env.parsed(&signal.timeout, expected, |value| {
                let ms = value.parse().ok().filter(|&ms: &u64| ms > 0)?;
                Some(Duration::from_millis(ms))
            })
        })?;
        match timeout {
            Some(Duration::ZERO) => Err(invalid("Otlp::timeout", "timeout must be above 0")),
            timeout => Ok(timeout.unwrap_or(DEFAULT_TIMEOUT)),
        }
    }

    /// Which texts are sent; by default as content is.
    fn texts(&self, content: bool, env: &Environment<'_>) -> Result<Texts, Error> {
        let mut sent = [content; 4];
        for ((sent, code), name) in sent.iter_mut().zip(self.texts).zip(var::TEXTS) {
            let flag = or_else(code, || env.flag(&[name]))?;
            *sent = flag.unwrap_or(content);
        }
        Ok(Texts::new(sent))
    }

    fn limits(&self, env: &Environment<'_>) -> Result<Limits, Error> {
        let limit = |code, names: &[&'static str]| or_else(code, || env.count(names));
        Ok(Limits {
            attribute_length: limit(self.limits.attribute_length, &var::VALUE_LENGTH)?,
            attribute_count: limit(self.limits.attribute_count, &var::ATTRIBUTE_COUNT)?,
            event_count: limit(self.limits.event_count, &var::EVENT_COUNT)?,
            link_count: limit(self.limits.link_count, &var::LINK_COUNT)?,
        })
    }
}

/// What code sets, else what the environment sets.
fn or_else<T>(
    code: Option<T>,
    env: impl FnOnce() -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    code.map_or_else(env, |value| Ok(Some(value)))
}

/// The proxy that an endpoint is reached through. Loopback addresses are reached directly.
fn proxy_for(uri: &Uri, env: &Environment<'_>) -> Result<Option<Intercept>, Error> {
    let host = uri.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    if host == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
        return Ok(None);
    }
    let value = |names: &[&'static str]| env.first(names).map_or_else(String::new, |v| v.value);
    let matcher = Matcher::builder()
        .all(value(&var::ALL_PROXY))
        .http(value(&var::HTTP_PROXY))
        .https(value(&var::HTTPS_PROXY))
        .no(value(&var::NO_PROXY))
        .build();
    match matcher.intercept(uri) {
        Some(proxy) if proxy.uri().scheme() != Some(&Scheme::HTTP) => {
            let names = match uri.scheme() == Some(&Scheme::HTTPS) {
                true => var::HTTPS_PROXY,
                false => var::HTTP_PROXY,
            };
            Err(invalid(names[0], "only http:// proxies are supported"))
        }
        proxy => Ok(proxy),
    }
}

/// Whether the variable that lists a signal's exporters has OTLP. `None` if the variable is not set.
pub(crate) fn lists_otlp(signal: &Signal, env: &Environment<'_>) -> Result<Option<bool>, Error> {
    let expected = "otlp, none or other exporters of OpenTelemetry";
    env.parsed(&signal.exporter, expected, |value| {
        let mut otlp = false;
        for word in value.split(',').map(str::trim) {
            match word.to_ascii_lowercase().as_str() {
                "otlp" => otlp = true,
                "none" => return Some(false),
                "" | "console" | "logging" | "zipkin" | "jaeger" | "prometheus" => {}
                _ => return None,
            }
        }
        Some(otlp)
    })
}

/// The endpoint of an exporter that was asked for without one.
fn local_endpoint(signal: &Signal, protocol: Option<Protocol>) -> EndpointSetting {
    let port = match protocol {
        Some(Protocol::Grpc) => 4317,
        _ => 4318,
    };
    EndpointSetting {
        text: format!("http://localhost:{port}"),
        setting: signal.exporter[0],
        path: Some(signal.path),
    }
}

/// Content is sent on spans or not at all; there are no log events that could carry it.
fn parse_content(value: &str) -> Option<bool> {
    match value {
        "no_content" | "event_only" | "false" => Some(false),
        "span_only" | "span_and_event" | "true" => Some(true),
        _ => None,
    }
}
