//! The context of a span as it is passed between processes: `traceparent` and `tracestate`.

use std::fmt;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Map, Value};

/// A span of another process, as it arrives in a `traceparent` header, with the `tracestate` that
/// came along.
///
/// ```
/// use spanledger::RemoteContext;
/// let ctx: RemoteContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
/// assert!(ctx.sampled());
/// assert!("00-00000000000000000000000000000000-b7ad6b7169203331-01".parse::<RemoteContext>().is_err());
/// # Ok::<(), spanledger::RemoteContextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteContext {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    pub(crate) sampled: bool,
    /// `false`: a span of this process that is not an agent span.
    pub(crate) remote: bool,
    pub(crate) tracestate: Option<Arc<str>>,
}

impl RemoteContext {
    /// Whether the caller sampled the trace.
    pub fn sampled(&self) -> bool {
        self.sampled
    }

    /// The same with the value of a `tracestate` header. An invalid one (over 512 bytes, or not printable) is
    /// left out, as W3C allows.
    ///
    /// ```
    /// # use spanledger::RemoteContext;
    /// let ctx: RemoteContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
    /// assert_eq!(ctx.with_tracestate("vendor=1").tracestate(), Some("vendor=1"));
    /// # Ok::<(), spanledger::RemoteContextError>(())
    /// ```
    pub fn with_tracestate(mut self, header: &str) -> Self {
        let header = header.trim();
        let fits = !header.is_empty() && header.len() <= 512 && header.contains('=');
        let printable = header.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t'));
        self.tracestate = (fits && printable).then(|| header.into());
        self
    }

    /// The value of its `tracestate` header.
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// The value of its `traceparent` header.
    ///
    /// ```
    /// # use spanledger::RemoteContext;
    /// let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    /// assert_eq!(header.parse::<RemoteContext>()?.traceparent(), header);
    /// # Ok::<(), spanledger::RemoteContextError>(())
    /// ```
    pub fn traceparent(&self) -> String {
        let flags = u8::from(self.sampled);
        format!("00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }

    /// From the environment variables `TRACEPARENT` and `TRACESTATE`, if they are set.
    ///
    /// ```no_run
    /// let caller = spanledger::RemoteContext::from_env();
    /// ```
    pub fn from_env() -> Option<Self> {
        let header = |name| std::env::var(name).ok();
        Self::from_texts(&header("TRACEPARENT")?, header("TRACESTATE").as_deref())
    }

    /// Passes it to a process that is about to be started, as `TRACEPARENT` and `TRACESTATE`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use tracing_subscriber::layer::SubscriberExt;
    /// # let (layer, _guard) = spanledger::builder().root(dir.path()).build()?;
    /// # let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    /// use spanledger::{SpanExt, spans};
    /// let tool = spans::tool_call("bash", "call_1").start();
    /// let mut command = std::process::Command::new("make");
    /// if let Some(context) = tool.remote_context() {
    ///     context.to_command(&mut command);
    /// }
    /// assert!(command.get_envs().any(|(name, _)| name == "TRACEPARENT"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_command(&self, command: &mut Command) {
        command.env("TRACEPARENT", self.traceparent());
        match &self.tracestate {
            Some(tracestate) => command.env("TRACESTATE", &**tracestate),
            // The one that this process was given belongs to another trace.
            None => command.env_remove("TRACESTATE"),
        };
    }

    /// Passes it to an MCP server, in the `params._meta` of a request.
    ///
    /// ```
    /// # use spanledger::RemoteContext;
    /// # let context: RemoteContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
    /// let mut meta = serde_json::Map::new();
    /// context.to_meta(&mut meta);
    /// let params = serde_json::json!({"name": "search", "arguments": {}, "_meta": meta});
    /// # let meta = params["_meta"].as_object().unwrap();
    /// assert_eq!(RemoteContext::from_meta(meta), Some(context));
    /// # Ok::<(), spanledger::RemoteContextError>(())
    /// ```
    pub fn to_meta(&self, meta: &mut Map<String, Value>) {
        meta.insert("traceparent".into(), self.traceparent().into());
        meta.shift_remove("tracestate");
        if let Some(tracestate) = self.tracestate() {
            meta.insert("tracestate".into(), tracestate.into());
        }
    }

    /// From the `params._meta` of an MCP client's request.
    pub fn from_meta(meta: &Map<String, Value>) -> Option<Self> {
        let header = |name| meta.get(name).and_then(Value::as_str);
        Self::from_texts(header("traceparent")?, header("tracestate"))
    }

    pub(crate) fn from_texts(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let context: Self = traceparent.parse().ok()?;
        Some(context.with_tracestate(tracestate.unwrap_or_default()))
    }
}

/// A `traceparent` that is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteContextError(String);

impl fmt::Display for RemoteContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a W3C traceparent", self.0)
    }
}

impl std::error::Error for RemoteContextError {}

impl std::str::FromStr for RemoteContext {
    type Err = RemoteContextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let lower_hex = |s: &str| s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            let parts: Vec<_> = text.trim().split('-').collect();
            let (&[version, trace, span, flags], more) = parts.split_first_chunk()?;
            let sizes = [version.len(), trace.len(), span.len(), flags.len()] == [2, 32, 16, 2];
            // Version 00 has four parts exactly; later versions may have more.
            let shape = version != "ff" && (version != "00" || more.is_empty());
            if !sizes || !shape || ![version, trace, span, flags].into_iter().all(lower_hex) {
                return None;
            }
            let context = Self {
                trace: u128::from_str_radix(trace, 16).ok()?,
                span: u64::from_str_radix(span, 16).ok()?,
                sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1,
                remote: true,
                tracestate: None,
            };
            (context.trace != 0 && context.span != 0).then_some(context)
        };
        parse().ok_or_else(|| RemoteContextError(text.chars().take(80).collect()))
    }
}
