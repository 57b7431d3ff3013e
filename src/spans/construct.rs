//! Constructors of the six spans.

use serde::Serialize;
use tracing::Span;

use super::session::Session;
use crate::event::{RawFields, RemoteContext, Usage};
use crate::layer::{Given, Handoff, Parent, hand_over};

/// Where a span is to hang, if not where the thread is.
#[derive(Clone, Debug, Default)]
struct Under {
    span: Option<Span>,
    parent: Option<Given>,
}

/// One setter. Each kind of value has its own way into the fields.
macro_rules! setter {
    ($(#[$doc:meta])* text $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, value: impl AsRef<str>) -> Self {
            self.fields.text(stringify!($name), value.as_ref());
            self
        }
    };
    ($(#[$doc:meta])* json $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, value: impl Serialize) -> Self {
            self.fields.json(stringify!($name), &value);
            self
        }
    };
    ($(#[$doc:meta])* u64 $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, value: u64) -> Self {
            self.fields.u64(stringify!($name), value);
            self
        }
    };
    ($(#[$doc:meta])* f64 $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, value: f64) -> Self {
            self.fields.f64(stringify!($name), value);
            self
        }
    };
    ($(#[$doc:meta])* bool $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, value: bool) -> Self {
            self.fields.bool(stringify!($name), value);
            self
        }
    };
}

/// A builder of one span: its setters, and what all of them share.
macro_rules! span {
    (
        $(#[$doc:meta])*
        $builder:ident $name:literal shows($($shown:ident),*) {
            $( $(#[$field_doc:meta])* $form:ident $field:ident; )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[must_use = "nothing happens until `.start()`"]
        pub struct $builder {
            fields: RawFields,
            under: Under,
        }

        impl $builder {
            fn empty() -> Self {
                Self { fields: RawFields::new(), under: Under::default() }
            }

            $( setter! { $(#[$field_doc])* $form $field } )*

            /// Any other field. Fields that no version knows are kept.
            pub fn set(mut self, key: impl Into<String>, value: impl Serialize) -> Self {
                self.fields.json(key.into(), &value);
                self
            }

            /// Hangs it from this span. By default it hangs from the current one.
            pub fn child_of(mut self, span: &Span) -> Self {
                self.under = Under { span: Some(span.clone()), parent: None };
                self
            }

            /// Puts it where a session handle is, whatever the current span.
            pub fn in_session(mut self, session: &Session) -> Self {
                self.under = Under { span: None, parent: Some(Given::At(Box::new(session.located().clone()))) };
                self
            }

            /// Makes the span. Its open line is on its way to the disk when this returns.
            #[must_use = "the span ends when it is dropped"]
            pub fn start(self) -> Span {
                $( let $shown = self.fields.get(stringify!($shown)).map(str::to_owned); )*
                $( let $shown = $shown.as_deref(); )*
                let handoff = Handoff { name: $name, fields: self.fields, parent: self.under.parent };
                hand_over(handoff, || match &self.under.span {
                    Some(parent) => tracing::info_span!(target: "spanledger", parent: parent, $name, $($shown),*),
                    None => tracing::info_span!(target: "spanledger", $name, $($shown),*),
                })
            }
        }
    };
}

span! {
    /// A run of an agent: `session.run`. See [`session_run`].
    SessionRun "session.run" shows(session_id, agent) {
        /// The model variant, such as a reasoning effort.
        text variant;
        /// The sampling temperature.
        f64 temperature;
        /// What people call the session.
        text title;
        /// The directory the agent works in.
        text workspace_root;
        /// Where it puts what it makes.
        text output_dir;
        /// A label of this run.
        text run_name;
        /// `{session_id, message_id}` of what it was branched from.
        json branched_from;
        /// Ids of the same session in other systems.
        json external_ids;
        /// Whatever else belongs to the session.
        json metadata;
        /// Labels to find it by.
        json tags;
    }
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
    let mut run = SessionRun::empty();
    run.fields.text("session_id", session_id.as_ref());
    run.fields.text("agent", agent.as_ref());
    run
}

impl SessionRun {
    /// A run in a session of its own, whose id is made when it starts.
    pub fn new(agent: impl AsRef<str>) -> Self {
        session_run(crate::new_session_id(), agent)
    }

    /// Hangs it from a span of another process.
    pub fn parent(mut self, remote: RemoteContext) -> Self {
        self.under = Under {
            span: None,
            parent: Some(Given::Parent(Parent::Remote(Box::new(remote)))),
        };
        self
    }

    /// Hangs it from nothing: a trace of its own, whatever the current span.
    pub fn detached(mut self) -> Self {
        self.under = Under {
            span: None,
            parent: Some(Given::Parent(Parent::Detached)),
        };
        self
    }

    /// The provider and model it runs on.
    pub fn model(mut self, provider_id: impl AsRef<str>, model_id: impl AsRef<str>) -> Self {
        self.fields.text("provider_id", provider_id.as_ref());
        self.fields.text("model_id", model_id.as_ref());
        self
    }
}

span! {
    /// A turn: `session.turn`. See [`session_turn`].
    SessionTurn "session.turn" shows(turn_index) {
        /// Its index, where the agent counts by itself. By default the session counts, from 1.
        u64 turn_index;
        /// What began it: a user, a timer, another agent.
        text trigger;
        /// The message that began it.
        text message_id;
    }
}

/// One turn of a session: from what began it to the agent's answer; the span `session.turn`.
///
/// ```
/// use spanledger::spans;
/// let turn = spans::session_turn().trigger("user").start();
/// ```
pub fn session_turn() -> SessionTurn {
    SessionTurn::empty()
}

span! {
    /// A call of a model: `model.call`. See [`model_call`].
    ModelCall "model.call" shows(provider_id, model_id) {
        /// The model variant, such as a reasoning effort.
        text variant;
        /// The sampling temperature.
        f64 temperature;
        /// The limit that was asked for.
        u64 max_tokens;
        /// Other parameters: `top_p`, `stop`, …
        json params;
        /// What it is for: main, advisor, warmup, title, compaction, subagent.
        text purpose;
        /// Which try this is, from 1.
        u64 attempt;
        /// The span id of the call that it tries again.
        text retry_of;
        /// The messages that went in.
        json input_message_ids;
        /// A digest of the whole request.
        text request_digest;
        /// Whether the answer is streamed.
        bool stream;
        /// How many tokens the model can take.
        u64 context_window;
    }
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
    let mut call = ModelCall::empty();
    call.fields.text("provider_id", provider_id.as_ref());
    call.fields.text("model_id", model_id.as_ref());
    call
}

span! {
    /// A call of a tool: `tool.call`. See [`tool_call`].
    ToolCall "tool.call" shows(tool_id, tool_call_id) {
        /// What it was called with, JSON or text.
        json args;
        /// The command line, for a tool that runs one.
        text command;
        /// function, mcp, builtin, …
        text tool_type;
        /// read, edit, delete, move, search, execute, think, fetch, other.
        text tool_kind;
        /// What a person would call this call.
        text title;
        /// The files it touches.
        json locations;
        /// The message that asked for it.
        text message_id;
        /// Which part of that message.
        u64 part_index;
        /// The span id of the model call that asked for it.
        text model_span_id;
    }
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
    let mut call = ToolCall::empty();
    call.fields.text("tool_id", tool_id.as_ref());
    call.fields.text("tool_call_id", tool_call_id.as_ref());
    call
}

span! {
    /// A permission being decided: `permission.evaluate`. See [`permission_evaluate`].
    PermissionEvaluate "permission.evaluate" shows(tool_id, tool_call_id) {
        /// The call it is about.
        text tool_call_id;
        /// The permission that was asked for.
        text permission;
        /// The pattern that was matched.
        text pattern;
        /// allow, deny or ask; also recorded later with `set("action", …)`.
        text action;
        /// Where the rule came from: manifest, session, project, hook, user.
        text source;
        /// The rule that decided.
        json rule;
        /// What a person may answer.
        json options;
        /// The id under which the person is asked.
        text interrupt_id;
    }
}

/// A permission being decided; the span `permission.evaluate`. It lies inside the `tool.call`
/// that it guards, so that a denied tool has its line.
///
/// ```
/// use spanledger::{SpanExt, spans};
/// let permission = spans::permission_evaluate("bash").pattern("rm *").start();
/// permission.set("action", "deny");
/// permission.set("source", "project");
/// ```
pub fn permission_evaluate(tool_id: impl AsRef<str>) -> PermissionEvaluate {
    let mut permission = PermissionEvaluate::empty();
    permission.fields.text("tool_id", tool_id.as_ref());
    permission
}

span! {
    /// A compaction of the context: `compaction.run`. See [`compaction_run`].
    CompactionRun "compaction.run" shows() {
        /// The session it belongs to, if not the current one.
        text session_id;
        /// It began by itself, since the context was full.
        bool auto;
        /// A person asked for it.
        bool manual;
        /// What began it.
        text trigger;
        /// The first message that is kept.
        text tail_start_id;
        /// How many messages the summary stands for.
        u64 summarized_message_count;
        /// How many there were.
        u64 messages_before;
        /// How many are left.
        u64 messages_after;
    }
}

/// A compaction of the context; the span `compaction.run`.
///
/// ```
/// use spanledger::{SpanExt, spans};
/// let compaction = spans::compaction_run().auto(true).start();
/// compaction.set("summary", "so far: …");
/// compaction.set("summarized_message_count", 42);
/// ```
pub fn compaction_run() -> CompactionRun {
    CompactionRun::empty()
}

/// Usage known when the span is made: for what is recorded after the fact.
macro_rules! usage {
    ($($builder:ident)*) => { $(
        impl $builder {
            /// What it used, where that is known already.
            pub fn usage(mut self, usage: &Usage) -> Self {
                self.fields.usage(usage);
                self
            }
        }
    )* };
}
usage! { SessionRun SessionTurn ModelCall }
