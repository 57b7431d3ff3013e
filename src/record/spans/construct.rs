//! Constructors of the six spans.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use tracing::Span;

use super::session::Session;
use crate::record::layer::{ExplicitParent, PendingSpan, make_span};
use crate::record::raw_fields::RawFields;
use crate::record::setters::{field_setters, set_field, value_type};
use crate::trace::{RemoteContext, schema};

/// A builder for each span of the schema.
macro_rules! define_builders {
    (
        spans { $(
            $span:ident $builder:ident $reader:ident $name:literal: $doc:literal
            opens [$($opens:tt)*]
            closes $close:ident $Close:ident: $close_doc:literal $fields:tt
        )* }
        $($rest:tt)*
    ) => { $(
        #[doc = concat!($doc, " The span `", $name, "`.")]
        #[derive(Clone, Debug)]
        #[must_use = "nothing happens until `.start()`"]
        pub struct $builder {
            fields: RawFields,
            parent: Option<ExplicitParent>,
        }

        impl $builder {
            const NAME: &str = $name;

            fn new_span() -> Self {
                Self { fields: RawFields::new(), parent: None }
            }

            field_setters! { $fields }

            fn fields_mut(&mut self) -> &mut RawFields {
                &mut self.fields
            }

            /// Sets any other field. Unknown fields are kept.
            pub fn set(mut self, key: impl Into<Cow<'static, str>>, value: impl Serialize) -> Self {
                self.fields.json(key.into(), &value);
                self
            }

            /// Makes it a child of this span. By default its parent is the current span.
            pub fn child_of(mut self, span: &Span) -> Self {
                self.parent = Some(ExplicitParent::Span(span.clone()));
                self
            }

            /// Puts it where a session handle is. By default its parent is the current span.
            pub fn in_session(mut self, session: &Session) -> Self {
                self.parent = Some(ExplicitParent::Session(session.clone()));
                self
            }
        }
    )* };
}
schema!(define_builders);

/// Starts a span. Other layers see the fields listed here, and no others.
macro_rules! start {
    ($( $builder:ident($( $shown:ident ),*) )*) => { $(
        impl $builder {
            /// Makes the span. The kernel has its open line when this returns.
            #[must_use = "the span ends when it is dropped"]
            pub fn start(self) -> Span {
                $( let $shown = self.fields.get(stringify!($shown)).map(str::to_owned); )*
                $( let $shown = $shown.as_deref(); )*
                let (parent, explicit) = match self.parent {
                    Some(ExplicitParent::Span(span)) => (Some(span), None),
                    explicit => (None, explicit),
                };
                let pending = PendingSpan { name: Self::NAME, fields: self.fields, parent: explicit };
                make_span(pending, || match &parent {
                    Some(parent) => tracing::info_span!(target: "spanledger", parent: parent, $builder::NAME, $($shown),*),
                    None => tracing::info_span!(target: "spanledger", $builder::NAME, $($shown),*),
                })
            }
        }
    )* };
}
start! {
    SessionRun(session_id, agent)
    SessionTurn(turn_index)
    ModelCall(provider_id, model_id)
    ToolCall(tool_id, tool_call_id)
    PermissionEvaluate(tool_id, tool_call_id)
    CompactionRun()
}

/// A run of an agent in a session, new or resumed; the span `session.run`.
///
/// Inside another session's span it is a subagent: a session of its own in the same trace. The
/// same id again, nested, is a run within the same session.
///
/// ```
/// use spanledger::{Outcome, SpanExt, spans};
/// let run = spans::session_run("ses_demo", "planner")
///     .model("anthropic", "claude-sonnet-4-5")
///     .title("Fix the build")
///     .start();
/// run.in_scope(|| { /* turns */ });
/// run.finish(Outcome::Ok);
/// ```
pub fn session_run(session_id: impl AsRef<str>, agent: impl AsRef<str>) -> SessionRun {
    SessionRun::new_span().session_id(session_id).agent(agent)
}

/// A span as [`session_run`] makes it, of which nothing is recorded. Our layer sets `seen`.
pub(crate) fn probe(seen: &Arc<AtomicBool>) -> Span {
    let mut run = SessionRun::new_span();
    run.parent = Some(ExplicitParent::Probe(Arc::clone(seen)));
    run.start()
}

impl SessionRun {
    /// A run in a session of its own, whose id is made when it starts.
    pub fn new(agent: impl AsRef<str>) -> Self {
        session_run(crate::new_session_id(), agent)
    }

    /// Makes it a child of a span of another process.
    pub fn parent(mut self, remote: RemoteContext) -> Self {
        self.parent = Some(ExplicitParent::Remote(remote));
        self
    }

    /// Gives it no parent: it starts a trace, even inside another span.
    pub fn detached(mut self) -> Self {
        self.parent = Some(ExplicitParent::Detached);
        self
    }

    /// The session that it continues from a message on, as a session of its own.
    ///
    /// ```
    /// use spanledger::spans;
    /// let run = spans::session_run("ses_2", "planner").branched_from("ses_1", "msg_4").start();
    /// ```
    pub fn branched_from(
        mut self,
        session_id: impl AsRef<str>,
        message_id: impl AsRef<str>,
    ) -> Self {
        let [session_id, message_id] = [session_id.as_ref(), message_id.as_ref()];
        let from = serde_json::json!({"session_id": session_id, "message_id": message_id});
        self.fields.json(field!(Run.branched_from), &from);
        self
    }

    /// The provider and model it runs on.
    pub fn model(self, provider_id: impl AsRef<str>, model_id: impl AsRef<str>) -> Self {
        self.provider_id(provider_id).model_id(model_id)
    }
}

/// One turn of a session: from what began it to the agent's answer; the span `session.turn`.
///
/// ```
/// use spanledger::spans;
/// let turn = spans::session_turn().trigger("user").start();
/// ```
pub fn session_turn() -> SessionTurn {
    SessionTurn::new_span()
}

/// One request to a model; the span `model.call`. The digests of the system prompt, tool catalog
/// and permission rules in force are put on it by themselves.
///
/// ```
/// use spanledger::{Outcome, SpanExt, Usage, spans};
/// let call = spans::model_call("anthropic", "claude-sonnet-4-5").temperature(0.2).start();
/// call.record_usage(&Usage { input_tokens: Some(900), output_tokens: Some(40), ..Usage::default() });
/// call.finish(Outcome::Ok);
/// ```
pub fn model_call(provider_id: impl AsRef<str>, model_id: impl AsRef<str>) -> ModelCall {
    ModelCall::new_span()
        .provider_id(provider_id)
        .model_id(model_id)
}

/// One call of a tool; the span `tool.call`.
///
/// ```
/// use serde_json::json;
/// use spanledger::{Outcome, SpanExt, spans};
/// let tool = spans::tool_call("bash", "call_1").args(json!({"command": "ls"})).start();
/// tool.record_result("Cargo.toml\nsrc");
/// tool.finish(Outcome::Ok);
/// ```
pub fn tool_call(tool_id: impl AsRef<str>, tool_call_id: impl AsRef<str>) -> ToolCall {
    ToolCall::new_span()
        .tool_id(tool_id)
        .tool_call_id(tool_call_id)
}

macro_rules! timeout {
    ($( $(#[$doc:meta])* $span:ident )+) => { $(
        impl $span {
            $(#[$doc])*
            pub fn timeout(mut self, limit: Duration) -> Self {
                let ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                self.fields.json(field!(ToolCall.timeout_ms), &ms);
                self
            }
        }
    )+ };
}

timeout! {
    /// Its time limit. The limit is only recorded, not enforced: if the call's future is dropped after that
    /// time, as by `tokio::time::timeout`, the outcome is `timed_out`, not `cancelled`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use spanledger::{FutureExt, spans};
    /// # async fn fetch() -> Result<String, std::io::Error> { Ok("done".into()) }
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let limit = Duration::from_secs(30);
    /// let tool = spans::tool_call("fetch", "call_1").timeout(limit).start();
    /// let page = tokio::time::timeout(limit, fetch().recorded(tool)).await??;
    /// # Ok(()) }
    /// ```
    ToolCall
    /// Its time limit, as for [`ToolCall::timeout`].
    SessionRun
    /// Its time limit, as for [`ToolCall::timeout`].
    SessionTurn
    /// Its time limit, as for [`ToolCall::timeout`].
    ModelCall
}

/// A permission being decided; the span `permission.evaluate`. It lies inside the `tool.call`
/// that it guards, so that a denied tool has its line.
///
/// ```
/// use spanledger::{Outcome, SpanExt, spans};
/// let tool = spans::tool_call("bash", "call_1").start();
/// let permission = spans::permission_evaluate("bash").pattern("rm *").child_of(&tool).start();
/// permission.record_action("deny", "project");
/// permission.finish(Outcome::Denied);
/// tool.finish(Outcome::Denied);
/// ```
///
/// If a person decides, the action is `ask`, and the answer is recorded once, with
/// [`events::hitl_response`](crate::events::hitl_response) or
/// [`record_decision`](crate::SpanExt::record_decision).
pub fn permission_evaluate(tool_id: impl AsRef<str>) -> PermissionEvaluate {
    PermissionEvaluate::new_span().tool_id(tool_id)
}

/// A compaction of the context; the span `compaction.run`.
///
/// ```
/// use spanledger::{SpanExt, spans};
/// let compaction = spans::compaction_run().auto(true).start();
/// compaction.record_summary("so far: …");
/// compaction.set("summarized_message_count", 42);
/// ```
pub fn compaction_run() -> CompactionRun {
    CompactionRun::new_span()
}
