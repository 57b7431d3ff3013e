//! What happens besides spans: messages, artifacts, decisions, verdicts, and your own kinds.
//!
//! Each function makes an event; `.emit()` records it in the current session, `.on(&span)` on a
//! span, [`Session::record`] anywhere. Events that belong to no session are kept in an implicit
//! one. What is given here never passes through `tracing`, so neighbours see none of it.
//!
//! ```
//! use spanledger::events;
//! events::message_user("Why does the build fail?").message_id("msg_1").emit();
//! events::custom("build_cache", serde_json::json!({"hits": 12})).emit();
//! ```
//!
//! A plain macro does the same with its target: `info!(target: "spanledger::message_user",
//! message_id = "msg_1", "Why does the build fail?")`; the message counts as `content`. Its
//! fields are ordinary `tracing` fields, though, which every layer sees.

use serde::Serialize;
use tracing::Span;

use crate::event::{AsFailure, Failure, RawFields, Usage};
use crate::layer::{Op, on_current, on_span};
use crate::spans::Session;

/// An event on its way into the trace.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `.emit()`"]
pub struct Event {
    kind: String,
    fields: RawFields,
}

impl Event {
    fn new(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            fields: RawFields::new(),
        }
    }

    pub(crate) fn into_parts(self) -> (String, RawFields) {
        (self.kind, self.fields)
    }

    /// Any other field.
    pub fn set(mut self, key: impl Into<String>, value: impl Serialize) -> Self {
        self.fields.json(key.into(), &value);
        self
    }

    fn op(self) -> Op {
        Op::Event {
            kind: self.kind,
            fields: self.fields,
        }
    }

    /// Records it in the current session, on the current agent span.
    pub fn emit(self) {
        on_current(self.op());
    }

    /// Records it on a span, in that span's session.
    pub fn on(self, span: &Span) -> Emitter<'_> {
        Emitter { event: self, span }
    }

    /// Records it in a session, from anywhere.
    pub fn emit_in(self, session: &Session) {
        session.record(self);
    }
}

/// An event and the span it goes to.
#[derive(Debug)]
#[must_use = "nothing happens until `.emit()`"]
pub struct Emitter<'a> {
    event: Event,
    span: &'a Span,
}

impl Emitter<'_> {
    /// Records it there. Where the span is switched off, that is the current session.
    pub fn emit(self) {
        if self.span.is_disabled() {
            self.event.emit();
        } else {
            on_span(self.span, self.event.op());
        }
    }
}

/// An event of your own kind. Members of an object become its fields, anything else its `value`.
/// The kind should be a short lower-case word; other characters are replaced by `_`. The kinds of
/// span lines and of the ledger's own (`checkpoint`, `gap`, …) get `custom.` before them.
///
/// ```
/// use serde_json::json;
/// spanledger::events::custom("cache_hit", json!({"key": "x", "bytes": 10})).emit();
/// ```
pub fn custom(kind: &str, payload: serde_json::Value) -> Event {
    let mut event = Event::new(kind);
    match payload {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                event.fields.json(key, &value);
            }
        }
        value => event.fields.json("value", &value),
    }
    event
}

/// The field that a setter is named after: `r#final` sets `final`.
fn field_name(setter: &'static str) -> &'static str {
    setter.strip_prefix("r#").unwrap_or(setter)
}

macro_rules! set {
    (text $fields:expr, $name:ident, $value:expr) => {
        $fields.text(field_name(stringify!($name)), $value.as_ref())
    };
    (json $fields:expr, $name:ident, $value:expr) => {
        $fields.json(field_name(stringify!($name)), &$value)
    };
    (u64 $fields:expr, $name:ident, $value:expr) => {
        $fields.u64(field_name(stringify!($name)), $value)
    };
    (f64 $fields:expr, $name:ident, $value:expr) => {
        $fields.f64(field_name(stringify!($name)), $value)
    };
    (bool $fields:expr, $name:ident, $value:expr) => {
        $fields.bool(field_name(stringify!($name)), $value)
    };
}

/// A kind of event: its constructor, which takes the fields it can't be without, and a setter
/// for each of the others.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $make:ident $builder:ident ( $($need_form:ident $need:ident: $need_type:ty),* ) {
            $( $(#[$field_doc:meta])* $form:ident $field:ident; )*
        }
    )*) => { $(
        $(#[$doc])*
        pub fn $make($($need: $need_type),*) -> $builder {
            #[allow(unused_mut)]
            let mut event = Event::new(stringify!($make));
            $( set!($need_form event.fields, $need, $need); )*
            $builder(event)
        }

        #[doc = concat!("Made by [`", stringify!($make), "`].")]
        #[derive(Clone, Debug)]
        #[must_use = "nothing happens until `.emit()`"]
        pub struct $builder(Event);

        impl $builder {
            $( events! { @setter $(#[$field_doc])* $form $field } )*

            /// Any other field.
            pub fn set(self, key: impl Into<String>, value: impl Serialize) -> Self {
                Self(self.0.set(key, value))
            }

            /// Records it in the current session, on the current agent span.
            pub fn emit(self) {
                self.0.emit();
            }

            /// Records it on a span, in that span's session.
            pub fn on(self, span: &Span) -> Emitter<'_> {
                self.0.on(span)
            }

            /// Records it in a session, from anywhere.
            pub fn emit_in(self, session: &Session) {
                session.record(self);
            }
        }

        impl From<$builder> for Event {
            fn from(builder: $builder) -> Self {
                builder.0
            }
        }
    )* };
    (@setter $(#[$doc:meta])* text $field:ident) => {
        $(#[$doc])*
        pub fn $field(mut self, value: impl AsRef<str>) -> Self {
            set!(text self.0.fields, $field, value);
            self
        }
    };
    (@setter $(#[$doc:meta])* json $field:ident) => {
        $(#[$doc])*
        pub fn $field(mut self, value: impl Serialize) -> Self {
            set!(json self.0.fields, $field, value);
            self
        }
    };
    (@setter $(#[$doc:meta])* $form:ident $field:ident) => {
        $(#[$doc])*
        pub fn $field(mut self, value: $form) -> Self {
            set!($form self.0.fields, $field, value);
            self
        }
    };
}

events! {
    /// What the session is called from now on.
    session_title SessionTitle(text title: impl AsRef<str>) {}

    /// Something about the session changed.
    session_update SessionUpdate() {
        /// The model from now on.
        text model_id;
        /// Its provider.
        text provider_id;
        /// Its variant.
        text variant;
        /// The temperature from now on.
        f64 temperature;
        /// When it was archived.
        text archived_at;
        /// Whatever else changed.
        json metadata;
    }

    /// What the session is doing: busy, idle, waiting (for a person), retrying, error.
    session_status SessionStatus(text status: impl AsRef<str>) {
        /// Which try.
        u64 attempt;
        /// Why.
        text message;
        /// When it goes on.
        text next_at;
    }

    /// A message of the user.
    message_user MessageUser(text content: impl AsRef<str>) {
        /// The message's id.
        text message_id;
        /// Its parts, as the AI SDK has them, verbatim.
        json parts;
        /// Files that came with it: `{name, media_type, sha256, bytes, blob or url}`.
        json attachments;
        /// When it was queued, if it had to wait.
        text queued_at;
        /// What sent it.
        text trigger;
        /// A snapshot of the workspace at that moment.
        text snapshot_id;
        /// The message that it replaces.
        text replaces;
        /// Whatever else belongs to it.
        json metadata;
    }

    /// A message of the model.
    message_assistant MessageAssistant(text content: impl AsRef<str>) {
        /// The message's id.
        text message_id;
        /// Its parts, verbatim.
        json parts;
        /// Which part this is, where parts are told one by one.
        u64 part_index;
        /// Files that came with it.
        json attachments;
        /// Whether it is all of it.
        bool complete;
        /// Why it isn't.
        text abort_reason;
        /// The message that it replaces.
        text replaces;
        /// Whatever else belongs to it.
        json metadata;
    }

    /// Reasoning of the model.
    message_reasoning MessageReasoning(text content: impl AsRef<str>) {
        /// The message's id.
        text message_id;
        /// Which part this is.
        u64 part_index;
        /// Its parts, verbatim.
        json parts;
        /// Whether it is all of it.
        bool complete;
        /// Whatever else belongs to it.
        json metadata;
    }

    /// A message of the system.
    message_system MessageSystem(text content: impl AsRef<str>) {
        /// The message's id.
        text message_id;
        /// Its parts, verbatim.
        json parts;
        /// Whatever else belongs to it.
        json metadata;
    }

    /// A piece of a message. [`SpanExt::stream`](crate::SpanExt::stream) does this for you, and
    /// keeps secrets that are split over two pieces from getting through.
    message_delta MessageDelta(text message_id: impl AsRef<str>, text text: impl AsRef<str>) {
        /// Which part.
        u64 part_index;
        /// Where in the part.
        u64 offset;
    }

    /// A piece of a tool call's input.
    tool_input_delta ToolInputDelta(text tool_call_id: impl AsRef<str>, text text: impl AsRef<str>) {
        /// Which part.
        u64 part_index;
        /// Where in the part.
        u64 offset;
    }

    /// The assembled system prompt in force from now on. Stored in full the first time in a
    /// session and by its digest afterwards; the digest is put on every model call.
    system_prompt SystemPrompt(text body: impl AsRef<str>) {
        /// What it was assembled from.
        json sources;
    }

    /// The tools the model may call from now on: `[{name, description, schema}]`. Stored once,
    /// like [`system_prompt`].
    tool_catalog ToolCatalog(json tools: impl Serialize) {}

    /// The permission rules in force from now on. Stored once, like [`system_prompt`].
    permission_rules PermissionRules(json rules: impl Serialize) {}

    /// A call waits for a person.
    hitl_request HitlRequest(text interrupt_id: impl AsRef<str>) {
        /// The pending call.
        json pending;
        /// The tool it is about.
        text tool_id;
        /// The call it is about.
        text tool_call_id;
        /// What may be answered.
        json options;
    }

    /// A person answered.
    hitl_response HitlResponse(text interrupt_id: impl AsRef<str>) {
        /// What was decided.
        json decision;
        /// Who decided.
        text decided_by;
        /// What came with it.
        json payload;
    }

    /// Something the agent made, tied to the code that made it.
    artifact Artifact(text path: impl AsRef<str>) {
        /// Its media type.
        text mime;
        /// What it shows.
        text caption;
        /// The call that made it.
        text tool_call_id;
        /// png, svg, …
        text format;
        /// `[width, height]`.
        json size_px;
        /// Its resolution.
        u64 dpi;
        /// Where it belongs.
        text slot;
        /// The code that made it.
        text source_code;
        /// Its digest.
        text sha256;
        /// Its size.
        u64 bytes;
        /// The blob that holds it.
        text blob;
    }

    /// One step of an investigation; `parent_id` makes it a tree.
    attempt Attempt(text id: impl AsRef<str>) {
        /// The attempt it goes on from.
        text parent_id;
        /// Why it was made.
        text rationale;
        /// What was changed.
        json parameters_changed;
        /// What came out.
        json metrics;
        /// The candidate.
        text candidate_path;
        /// Its figure.
        text plot_artifact_path;
        /// Anything else.
        text notes;
    }

    /// What a validator said of one iteration.
    verdict Verdict(u64 iteration: u64, text verdict_kind: impl AsRef<str>) {
        /// Why it was rejected.
        text error;
        /// The span it is about.
        text span_id;
    }

    /// How an iterate loop ended.
    iterate_result IterateResult(text final_verdict: impl AsRef<str>) {
        /// fill, email, playbook, …
        text kind;
        /// What was asked for.
        text prompt;
        /// Attempts spent.
        u64 iterations;
        /// The cap.
        u64 max_iterations;
        /// What was accepted.
        json artifact;
        /// Whether it is grounded; left out where that doesn't apply.
        bool grounded;
        /// Who ran the loop.
        text daemon;
    }

    /// A state, or how it changed.
    state_update StateUpdate() {
        /// The whole state.
        json state;
        /// What changed.
        json diff;
    }

    /// A pattern repeats.
    loop_warning LoopWarning(text pattern: impl AsRef<str>, u64 repetitions: u64) {
        /// How many events were looked at.
        u64 window_size;
        /// The addresses of the repetitions.
        json evidence;
    }

    /// The conversation went back to a message; what came after is hidden, not deleted.
    rewind Rewind(text to_message_id: impl AsRef<str>) {
        /// The messages that are hidden by it.
        json hidden_ids;
        /// The snapshot the workspace went back to.
        text snapshot_id;
    }

    /// Another session began at a message of this one.
    branch Branch(text child_session_id: impl AsRef<str>) {
        /// The message.
        text message_id;
    }

    /// A hook ran.
    hook Hook(text point: impl AsRef<str>, text name: impl AsRef<str>) {
        /// What it decided.
        text decision;
        /// Why.
        text reason;
    }

    /// A client attached to the session.
    client_attach ClientAttach(text client: impl AsRef<str>) {}

    /// A client went away; the session goes on.
    client_detach ClientDetach(text client: impl AsRef<str>) {}

    /// A message between agent and client.
    rpc Rpc(text direction: impl AsRef<str>, text method: impl AsRef<str>) {
        /// The call's id.
        json id;
        /// What was asked.
        json params;
        /// What was answered.
        json result;
        /// What went wrong.
        json error;
    }

    /// The trial that this session is: ids and revisions.
    trial Trial(text trial_id: impl AsRef<str>) {
        /// The experiment.
        text experiment_id;
        /// The data set.
        text dataset_id;
        /// The task.
        text task_id;
        /// Its revision.
        text task_revision;
        /// The harness.
        text harness;
        /// Its adapter's revision.
        text adapter_revision;
        /// The effective configuration.
        json config;
        /// Where adaptation came from.
        json adaptation;
    }

    /// Where it ran.
    environment Environment() {
        /// The runtime image.
        text image;
        /// The compute backend.
        text backend;
        /// The versions of the tools.
        json tool_versions;
    }

    /// A file that went in.
    input_file InputFile(text path: impl AsRef<str>) {
        /// Its digest.
        text sha256;
        /// Its size.
        u64 bytes;
    }

    /// What came out.
    output Output() {
        /// The answer.
        json r#final;
        /// What it was taken from.
        json raw;
    }

    /// How it was graded; also after the session ended.
    evaluation Evaluation() {
        /// The scores.
        json scores;
        /// Who graded.
        text author;
    }

    /// What somebody says of something in the session; also after it ended.
    annotation Annotation(text target: impl AsRef<str>, json value: impl Serialize) {
        /// Who.
        text author;
    }

    /// A phase of the work.
    phase Phase(text name: impl AsRef<str>) {
        /// When it began.
        text start;
        /// When it ended.
        text end;
    }

    /// Where an imported session came from.
    import Import(text format: impl AsRef<str>) {
        /// Its id there.
        text source_id;
        /// The blob of what was imported.
        text raw_blob;
    }
}

/// What a model call used, where no `model.call` span says it.
///
/// ```
/// use spanledger::{Usage, events};
/// events::model_usage(&Usage { input_tokens: Some(10), ..Usage::default() }).emit();
/// ```
pub fn model_usage(usage: &Usage) -> Event {
    let mut event = Event::new("model_usage");
    event.fields.usage(usage);
    event
}

/// An error that is no span's outcome.
///
/// ```
/// if let Err(error) = "x".parse::<u32>() {
///     spanledger::events::error(&error).emit();
/// }
/// ```
pub fn error<E: AsFailure<M>, M>(error: &E) -> Event {
    failure(&error.as_failure())
}

/// An error that is no Rust error.
pub fn failure(failure: &Failure) -> Event {
    let mut event = Event::new("error");
    event.fields.json_text("error", &failure.to_json());
    event
}
