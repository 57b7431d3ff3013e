//! Sends a context to other processes and reads it from them, by the W3C's headers.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;

use crate::trace::RemoteContext;

/// Puts headers into a map of the `http` crate.
struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        let name = HeaderName::from_bytes(key.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
            self.0.insert(name, value);
        }
    }
}

impl RemoteContext {
    /// Writes it into a carrier: `traceparent` and `tracestate`.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use spanledger::RemoteContext;
    /// let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    /// let context: RemoteContext = header.parse()?;
    /// let mut carrier = HashMap::new();
    /// context.inject(&mut carrier);
    /// assert_eq!(carrier["traceparent"], header);
    /// assert_eq!(RemoteContext::extract(&carrier), Some(context));
    /// # Ok::<(), spanledger::RemoteContextError>(())
    /// ```
    pub fn inject(&self, carrier: &mut dyn Injector) {
        let context = Context::new().with_remote_span_context(self.to_span_context());
        TraceContextPropagator::new().inject_context(&context, carrier);
    }

    /// Reads it from a carrier, if that has one. This follows the W3C's text strictly; the SDK's propagator accepts
    /// ids that are too short.
    pub fn extract(carrier: &dyn Extractor) -> Option<Self> {
        let traceparent = carrier.get("traceparent")?;
        Self::from_texts(traceparent, carrier.get("tracestate"))
    }

    /// Writes it into the headers of a request.
    ///
    /// ```
    /// # use spanledger::RemoteContext;
    /// # let context: RemoteContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
    /// let mut headers = http::HeaderMap::new();
    /// context.to_headers(&mut headers);
    /// assert_eq!(RemoteContext::from_headers(&headers), Some(context));
    /// # Ok::<(), spanledger::RemoteContextError>(())
    /// ```
    pub fn to_headers(&self, headers: &mut HeaderMap) {
        headers.remove("tracestate");
        self.inject(&mut Headers(headers));
    }

    /// Reads it from the headers of a request, for the run that answers it.
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| {
            // A list may be spread over several headers; a context may not.
            let values = headers.get_all(name).iter();
            let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
            values.join(",")
        };
        Self::from_texts(&text("traceparent"), Some(&text("tracestate")))
    }
}
