//! Records on a span after it was made.

use std::borrow::Cow;

use serde::Serialize;
use tracing::Span;

use super::session::Session;
use super::stream::Stream;
use crate::record::layer::{Op, on_span};
use crate::record::raw_fields::RawFields;
use crate::trace::{AsFailure, Failure, Kind, Outcome, Refused, RemoteContext, Usage};

/// Records on agent spans, unseen by other layers: nothing given here becomes a `tracing` field.
///
/// On a span that is no agent span, or that no ledger listens to, all of it does nothing.
pub trait SpanExt {
    /// What a tool returned, JSON or text.
    ///
    /// ```
    /// # use spanledger::{SpanExt, spans};
    /// # let tool = spans::tool_call("search", "c1").start();
    /// tool.record_result(&serde_json::json!({"hits": 3}));
    /// tool.record_result("three hits");
    /// ```
    fn record_result<T: Serialize + ?Sized>(&self, result: &T);

    /// What was used. Later counts replace earlier ones; unknown ones change nothing.
    fn record_usage(&self, usage: &Usage);

    /// An error, with its type and the chain of its causes; `anyhow::Error` too. Makes the
    /// outcome `error`, unless [`finish`](Self::finish) sets another one.
    ///
    /// ```
    /// # use spanledger::{SpanExt, spans};
    /// # let tool = spans::tool_call("read", "c1").start();
    /// if let Err(error) = std::fs::read("/no/such/file") {
    ///     tool.record_error(&error);
    /// }
    /// ```
    fn record_error<E: AsFailure<M> + ?Sized, M>(&self, error: &E);

    /// An error that is no Rust error.
    fn record_failure(&self, failure: &Failure);

    /// Why a model stopped: `stop`, `length`, `tool_use`, ….
    ///
    /// ```
    /// # use spanledger::{SpanExt, spans};
    /// # let call = spans::model_call("anthropic", "claude-sonnet-4-5").start();
    /// call.record_finish_reason("tool_use");
    /// call.record_response("msg_01", "claude-sonnet-4-5-20250929");
    /// ```
    fn record_finish_reason(&self, reason: &str) {
        self.set("finish_reason", reason);
    }

    /// The provider's id of a model's answer, and the model that answered.
    fn record_response(&self, response_id: &str, response_model: &str) {
        self.set("response_id", response_id);
        self.set("response_model", response_model);
    }

    /// The body of the request that a model call sends: of OpenAI's chat completions or responses, of Anthropic's
    /// messages, or any other JSON.
    ///
    /// It is recorded redacted, each message once in a session. The prompt, the tools and the parameters of the
    /// call are taken from it, and `request_digest` becomes the digest of the redacted body: equal requests have
    /// equal digests. `spanledger replay --inputs` prints the body again, and `spanledger diff` compares it.
    /// Messages that the agent recorded before as events are not recorded again.
    ///
    /// ```
    /// # use spanledger::{SpanExt, spans};
    /// # let answer = serde_json::json!({});
    /// let body = serde_json::json!({
    ///     "model": "gpt-5",
    ///     "messages": [{"role": "user", "content": "What is 6 by 7?"}],
    /// });
    /// let call = spans::model_call("openai", "gpt-5").start();
    /// call.request(&body);
    /// // … `body` is sent, and `answer` comes back …
    /// call.response(&answer);
    /// ```
    fn request<T: Serialize + ?Sized>(&self, body: &T);

    /// The body of a model's answer, whole: its text, its tool calls, its usage, why it stopped, its id and model,
    /// or the error that the provider reports.
    fn response<T: Serialize + ?Sized>(&self, body: &T);

    /// The exit code of a tool's process.
    ///
    /// ```
    /// # use spanledger::{SpanExt, spans};
    /// # let tool = spans::tool_call("bash", "c1").start();
    /// tool.record_exit_code(1);
    /// ```
    fn record_exit_code(&self, code: i32) {
        self.set("exit_code", code);
    }

    /// Why a turn or a run ended: `end_turn`, `max_turns`, ….
    ///
    /// ```
    /// # use spanledger::{SpanExt, spans};
    /// # let turn = spans::session_turn().start();
    /// turn.record_stop_reason("end_turn");
    /// ```
    fn record_stop_reason(&self, reason: &str) {
        self.set("stop_reason", reason);
    }

    /// The summary that a compaction made.
    fn record_summary(&self, summary: &str) {
        self.set("summary", summary);
    }

    /// What a permission's rules said: `allow`, `deny` or `ask`, and where the rule came from: `manifest`,
    /// `session`, `project`, `hook` or `user`.
    ///
    /// ```
    /// # use spanledger::{SpanExt, spans};
    /// # let permission = spans::permission_evaluate("bash").start();
    /// permission.record_action("ask", "project");
    /// permission.record_decision("allow_once", "ada");
    /// ```
    fn record_action(&self, action: &str, source: &str) {
        self.set("action", action);
        self.set("source", source);
    }

    /// What a person, or a program in place of one, answered to a permission that the rules leave open.
    fn record_decision(&self, decision: &str, decided_by: &str) {
        self.set("decision", decision);
        self.set("decided_by", decided_by);
    }

    /// Any field of the span's kind, or one of your own. A name made at run time is given as a `String`.
    fn set<T: Serialize>(&self, key: impl Into<Cow<'static, str>>, value: T);

    /// Whether the call may go on, by the [limits](crate::Builder::limits) and the
    /// [hooks](crate::Builder::before_tool). Ask once, after the span of a model call, a tool call or a turn has
    /// started and before the work begins. Limits are checked as of the start of the span.
    ///
    /// If a limit or a hook refuses it, the span is closed as denied, and the error says why. If a hook asks for a
    /// person ([`Refused::Ask`]), the span stays open. Where nothing is recorded, everything is allowed.
    ///
    /// ```
    /// use serde_json::json;
    /// use spanledger::{Outcome, Refused, SpanExt, spans};
    /// fn run_tool() -> Result<(), Refused> {
    ///     let tool = spans::tool_call("bash", "call_1").args(json!({"command": "ls"})).start();
    ///     tool.allowed()?;
    ///     tool.record_result("Cargo.toml");
    ///     tool.finish(Outcome::Ok);
    ///     Ok(())
    /// }
    /// # run_tool().unwrap();
    /// ```
    fn allowed(&self) -> Result<(), Refused>;

    /// Writes the close line now, and never again. The first close wins.
    fn finish(&self, outcome: Outcome);

    /// The session the span belongs to, as a handle that can go anywhere.
    fn session(&self) -> Option<Session>;

    /// The span (or the agent span around it) as a context for other processes: a `traceparent` and a
    /// `tracestate`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use tracing_subscriber::layer::SubscriberExt;
    /// # let (layer, _guard) = spanledger::builder().root(dir.path()).build()?;
    /// # let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    /// # use spanledger::{SpanExt, spans};
    /// let tool = spans::tool_call("fetch", "call_1").start();
    /// let context = tool.remote_context().expect("a ledger is recording");
    /// println!("traceparent: {}", context.traceparent());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn remote_context(&self) -> Option<RemoteContext>;

    /// The span (or the agent span around it) as a context of the OpenTelemetry API, for what takes
    /// one: spans with an explicit parent, futures moved to where no span is current. Empty where no
    /// agent span is.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use tracing_subscriber::layer::SubscriberExt;
    /// # let (layer, _guard) = spanledger::builder().root(dir.path()).build()?;
    /// # let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    /// use opentelemetry::trace::TraceContextExt;
    /// use spanledger::{SpanExt, spans};
    /// let tool = spans::tool_call("fetch", "call_1").start();
    /// assert!(tool.otel_context().span().span_context().is_valid());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "mirror")]
    fn otel_context(&self) -> opentelemetry::Context;

    /// An answer of the model as it arrives. See [`Stream`].
    fn stream(&self, message_id: impl AsRef<str>) -> Stream;

    /// Reasoning of the model as it arrives.
    fn stream_reasoning(&self, message_id: impl AsRef<str>) -> Stream;

    /// The input of a tool call as it arrives.
    fn stream_tool_input(&self, tool_call_id: impl AsRef<str>) -> Stream;
}

fn record(span: &Span, fields: RawFields, usage: Option<Box<Usage>>) {
    on_span(span, Op::Record { fields, usage });
}

fn put<T: Serialize + ?Sized>(span: &Span, name: impl Into<Cow<'static, str>>, value: &T) {
    let mut fields = RawFields::new();
    fields.json(name, value);
    record(span, fields, None);
}

impl SpanExt for Span {
    fn record_result<T: Serialize + ?Sized>(&self, result: &T) {
        put(self, field!(ToolCall.result), result);
    }

    fn record_usage(&self, usage: &Usage) {
        record(self, RawFields::new(), Some(Box::new(usage.clone())));
    }

    fn record_error<E: AsFailure<M> + ?Sized, M>(&self, error: &E) {
        self.record_failure(&error.as_failure());
    }

    fn record_failure(&self, failure: &Failure) {
        let mut fields = RawFields::new();
        fields.failure(field!(ToolCall.error), failure);
        record(self, fields, None);
    }

    fn request<T: Serialize + ?Sized>(&self, body: &T) {
        if let Ok(body) = serde_json::to_string(body) {
            on_span(self, Op::Request { body });
        }
    }

    fn response<T: Serialize + ?Sized>(&self, body: &T) {
        if let Ok(body) = serde_json::to_string(body) {
            on_span(self, Op::Response { body });
        }
    }

    fn set<T: Serialize>(&self, key: impl Into<Cow<'static, str>>, value: T) {
        put(self, key, &value);
    }

    fn allowed(&self) -> Result<(), Refused> {
        match self.session() {
            // Events that a hook records belong to the call.
            Some(session) => self.in_scope(|| session.recorder.allowed(&session.target)),
            None => Ok(()),
        }
    }

    fn finish(&self, outcome: Outcome) {
        let error = None;
        on_span(self, Op::Finish { outcome, error });
    }

    fn session(&self) -> Option<Session> {
        on_span(self, Op::Locate)
    }

    fn remote_context(&self) -> Option<RemoteContext> {
        self.session()?.remote_context()
    }

    #[cfg(feature = "mirror")]
    fn otel_context(&self) -> opentelemetry::Context {
        let context = |it: Session| crate::record::otel::context_of(&it.recorder, &it.target);
        self.session().map_or_else(Default::default, context)
    }

    fn stream(&self, message_id: impl AsRef<str>) -> Stream {
        let kind = Some(Kind::MessageAssistant);
        Stream::new(self.session(), kind, message_id.as_ref())
    }

    fn stream_reasoning(&self, message_id: impl AsRef<str>) -> Stream {
        let kind = Some(Kind::MessageReasoning);
        Stream::new(self.session(), kind, message_id.as_ref())
    }

    fn stream_tool_input(&self, tool_call_id: impl AsRef<str>) -> Stream {
        Stream::new(self.session(), None, tool_call_id.as_ref())
    }
}
