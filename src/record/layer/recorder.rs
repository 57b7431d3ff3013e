//! Opens, updates and closes spans: the part of the layer that does not depend on the subscriber's type.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::enclosing::{Enclosing, ImplicitSession};
use super::ops::Op;
use super::placement::EnvParent;
use super::recent_spans::Registrar;
use super::span_data::{Parent, SpanData, Target};
use crate::record::fields::Fields;
use crate::record::otel::OtelBridge;
use crate::record::panics::last_panic;
use crate::record::process_state::ProcessState;
use crate::record::raw_fields::RawFields;
use crate::record::recognize::Recognized;
use crate::record::session::{Change, Link, Note, OpenSpan, SessionLog, TraceLimits};
use crate::record::spans::Session;
use crate::trace::{FieldRole, Kind, Outcome, SpanKind, Usage, UsageText, hex};

/// Records into one ledger, for its layer and its handles.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub process: ProcessState,
    pub registrar: Registrar,
    pub trace_limits: TraceLimits,
    pub env_parent: EnvParent,
    pub otel: OtelBridge,
    /// How many spans are held back until they are identified.
    pub held_back: AtomicUsize,
}

/// What is recorded on a span after it was made.
#[derive(Clone, Copy)]
pub(crate) struct Update<'a> {
    pub fields: &'a RawFields,
    pub usage: Option<&'a Usage>,
    pub outcome: Outcome,
    pub links: &'a [Link],
    /// The close line follows and has them.
    pub is_last: bool,
}

impl<'a> Update<'a> {
    pub fn fields(fields: &'a RawFields) -> Self {
        Self {
            fields,
            usage: None,
            outcome: Outcome::Unset,
            links: &[],
            is_last: false,
        }
    }
}

impl Recorder {
    pub fn new(process: ProcessState, trace_limits: TraceLimits, otel: OtelBridge) -> Self {
        Self {
            process,
            registrar: Registrar::new(),
            trace_limits,
            env_parent: EnvParent::default(),
            otel,
            held_back: AtomicUsize::new(0),
        }
    }

    /// Writes the open line of a new span, or holds it back until the span is identified. `complete`: no
    /// more fields will come before it is used.
    pub fn begin(&self, data: &mut SpanData, raw: RawFields, complete: bool) {
        if complete || data.is_identified_by(&raw) {
            let target = self.open(data, raw, None);
            data.opened(target);
        } else {
            self.held_back.fetch_add(1, Ordering::Relaxed);
            data.hold_back(raw);
        }
    }

    /// Where the span is. Writes its open line first if that was held back.
    #[inline]
    pub fn target_of<'a>(&self, data: &'a SpanData) -> Option<&'a Arc<Target>> {
        data.open_once(|raw, links| {
            let target = self.open(data, raw, Some(links));
            self.held_back.fetch_sub(1, Ordering::Relaxed);
            target
        })
    }

    /// Writes the open line. `held_links` are the links of a span that was held back.
    fn open(&self, data: &SpanData, raw: RawFields, held_links: Option<&[Link]>) -> Arc<Target> {
        let process = &self.process;
        let (mut raw, recognized) = self.read_fields(data, raw);
        let kind = data.kind();
        let placement = self.place(data, raw.get(field!(Run.session_id)));
        let mut span = placement.new_span(data);
        span.just_made = held_links.is_none() && raw.is_short(process.limits.inline);
        for link in held_links.unwrap_or_default() {
            span.link(*link);
        }
        if let Some(Recognized {
            content, outcome, ..
        }) = &recognized
        {
            self.before_model_call(data, &placement, &span.at, content);
            span.outcome = *outcome;
        }
        let log = placement.log;
        if kind == SpanKind::Run {
            add_run_ids(&mut raw, &data.parent, &log);
            if let Parent::Target(parent) = &data.parent
                && process.limits().is_some()
            {
                log.join(parent.log.family());
            }
        }
        span.usage = process.sanitize(&log, |sanitizer| {
            span.fields.add_clean(&raw, schema_of(kind), sanitizer)
        });
        match kind {
            SpanKind::Run => {
                let description = process.description.as_bytes();
                span.fields.set(field!(Run.process), description);
            }
            SpanKind::Other => {
                let level = data.meta.level().as_str();
                span.describe_other(data.meta.name(), data.meta.target(), Some(level));
            }
            _ => {}
        }
        let subagent = subagent_event(&data.parent, &log, &span);
        let context = log.lock(process).open(span);
        if let Some((parent, fields)) = subagent {
            let (kind, at) = (Kind::Subagent.as_str(), parent.span.as_ref());
            let mut session = parent.log.lock(process);
            session.event(kind, at, &fields, Note::default());
        }
        let span = Some(context);
        let target = Arc::new(Target { log, span });
        if let Some(Recognized { content, .. }) = recognized {
            if kind == SpanKind::Run {
                self.record_assets(&target.log, target.span.as_ref(), &content);
            }
            self.record_messages(data, &target, &content);
            self.recognized_request(data, &target, &content, &raw);
        }
        raw.recycle();
        target
    }

    /// Records on a span.
    pub fn record(&self, data: &SpanData, update: Update<'_>) {
        if update.usage.is_none()
            && update.outcome == Outcome::Unset
            && data.add_pending(update.fields, update.links)
        {
            if data.is_identified() {
                self.target_of(data);
            }
            return;
        }
        let Some(target) = self.target_of(data) else {
            return;
        };
        match self.read_late_fields(data, target, update.fields) {
            Some(Recognized {
                fields, outcome, ..
            }) => {
                let outcome = match update.outcome {
                    Outcome::Unset => outcome,
                    given => given,
                };
                let update = Update {
                    fields: &fields,
                    outcome,
                    ..update
                };
                self.record_at(target, update);
            }
            None => self.record_at(target, update),
        }
    }

    /// Records on a span that has been opened.
    pub fn record_at(&self, target: &Target, update: Update<'_>) {
        let (process, log) = (&self.process, &target.log);
        let Some(at) = &target.span else { return };
        let Update {
            fields: raw,
            usage,
            outcome,
            links,
            is_last,
        } = update;
        let is_last = is_last && at.kind != SpanKind::Other;
        // Fields that wait for the close line are added to the open span in place, unless they are long: those
        // are redacted before the session is locked.
        if usage.is_none()
            && outcome == Outcome::Unset
            && links.is_empty()
            && raw.is_short(process.limits.inline)
            && (is_last || self.waits_for_close(at.kind, raw))
            && log.lock(process).add_fields(at, |fields, sanitizer| {
                fields.add_clean(raw, Some(at.kind), sanitizer);
            })
        {
            return;
        }
        let mut fields = Fields::default();
        let mut cleaned = process.sanitize(log, |sanitizer| {
            fields.add_clean(raw, schema_of(at.kind), sanitizer)
        });
        if let Some(usage) = usage {
            let cleaned = cleaned.get_or_insert_default();
            cleaned.merge(clean_usage(process, log, usage));
        }
        let change = Change {
            fields,
            attributes: None,
            usage: cleaned,
            outcome,
            links,
        };
        log.lock(process).update(at, change);
    }

    /// Whether all fields of a change wait for the close line.
    fn waits_for_close(&self, kind: SpanKind, raw: &RawFields) -> bool {
        let redactor = &self.process.redactor;
        let is_outcome = |name: &str| redactor.field(name).role(kind) == FieldRole::Outcome;
        !kind.writes_outcomes_at_once() && raw.names().all(is_outcome)
    }

    /// Writes the close line, unless it has been written.
    pub fn close(&self, data: &SpanData, outcome: Outcome) {
        if let Some(target) = self.target_of(data)
            && let Some(span) = &target.span
            && data.close()
        {
            target
                .log
                .close(&self.process, span.ids.span, outcome, None);
        }
    }

    /// Closes a span that the registry has dropped.
    pub fn dropped(&self, data: &SpanData) {
        if std::thread::panicking() && !data.made_in_panic {
            self.record_first_error(data, &last_panic().to_json());
        }
        self.close(data, Outcome::Unset);
        // Even without a close line: the registry may now reuse the id.
        data.close();
        // A thread's cache may keep the data for long, but must not keep the user's context alive.
        data.otel.clear();
    }

    /// Whether a span has neither an outcome nor an error.
    fn is_silent(&self, data: &SpanData) -> bool {
        data.target().is_none_or(|target| {
            let span = target.span.as_ref();
            span.is_none_or(|span| target.log.lock(&self.process).is_silent(span.ids.span))
        })
    }

    /// Records an error, JSON or text, on a span whose outcome nothing has recorded yet.
    pub(super) fn record_first_error(&self, data: &SpanData, error: &str) {
        if self.is_silent(data) {
            let mut raw = RawFields::new();
            raw.text(field!(ToolCall.error), error);
            self.record(data, Update::fields(&raw));
        }
    }

    /// The enclosing span or session, where an event belongs.
    pub fn target_in(&self, enclosing: &Enclosing) -> Option<Arc<Target>> {
        match enclosing {
            Enclosing::Span { data, .. } => self.target_of(data).cloned(),
            Enclosing::Session(log) | Enclosing::Implicit(ImplicitSession { log, .. }) => {
                Some(Target::session(Arc::clone(log)))
            }
            Enclosing::Nothing => None,
        }
    }

    /// The process's implicit session, for events outside all others.
    fn process_target(&self) -> Arc<Target> {
        Target::session(self.process.process_session())
    }

    /// The recorder, for an op that needs a session even where none encloses it.
    pub fn implicit_for(&self, op: &Op) -> Option<&Self> {
        matches!(op, Op::Event { .. }).then_some(self)
    }

    pub fn perform(self: &Arc<Self>, enclosing: Enclosing, op: Op) -> Option<Session> {
        if self.process.refuses() {
            return None;
        }
        let target = || {
            let target = self.target_in(&enclosing);
            target.unwrap_or_else(|| self.process_target())
        };
        match (op, &enclosing) {
            (Op::Record { fields, usage }, Enclosing::Span { data, exact: true }) => {
                let update = Update {
                    usage: usage.as_deref(),
                    ..Update::fields(&fields)
                };
                self.record(data, update);
                fields.recycle();
            }
            (Op::Finish { outcome, error }, Enclosing::Span { data, exact: true }) => {
                // The agent may have recorded why it cancels a future.
                let is_new = |_: &_| outcome != Outcome::Cancelled || self.is_silent(data);
                if let Some(error) = error.filter(is_new) {
                    let mut raw = RawFields::new();
                    raw.failure(field!(ToolCall.error), &error);
                    let is_last = true;
                    let fields = Update::fields(&raw);
                    self.record(data, Update { is_last, ..fields });
                }
                self.close(data, outcome);
            }
            (Op::Request { body }, Enclosing::Span { data, exact: true }) => {
                self.request(data, &body);
            }
            (Op::Response { body }, Enclosing::Span { data, exact: true }) => {
                self.response(data, &body);
            }
            (Op::Event { kind, fields }, _) => self.event(&target(), &kind, fields),
            (Op::Probe, _) => return Some(Session::new(self, self.process_target())),
            (Op::Locate, Enclosing::Nothing)
            | (
                Op::Record { .. } | Op::Finish { .. } | Op::Request { .. } | Op::Response { .. },
                _,
            ) => {}
            (Op::Locate, _) => return Some(Session::new(self, target())),
        }
        None
    }
}

/// The kind of span whose schema the fields follow. Those of any other span keep the names that they were given.
fn schema_of(kind: SpanKind) -> Option<SpanKind> {
    (kind != SpanKind::Other).then_some(kind)
}

/// The event by which the parent's session learns of a subagent, and where it belongs.
fn subagent_event<'a>(
    parent: &'a Parent,
    child: &SessionLog,
    run: &OpenSpan,
) -> Option<(&'a Target, Fields)> {
    let Parent::Target(target) = parent else {
        return None;
    };
    if run.at.kind != SpanKind::Run || target.log.id == child.id {
        return None;
    }
    let mut fields = Fields::default();
    if let Some(agent) = run.fields.get(field!(Run.agent)) {
        fields.set(field!(Subagent.agent), agent);
    }
    fields.set_str(field!(Subagent.child_session_id), &child.id);
    Some((target, fields))
}

/// The session of a run and, for a subagent, the session and span that started it.
fn add_run_ids(raw: &mut RawFields, parent: &Parent, log: &SessionLog) {
    if raw.get(field!(Run.session_id)).is_none() {
        raw.text(field!(Run.session_id), &log.id);
    }
    if let Parent::Target(target) = parent
        && target.log.id != log.id
    {
        raw.text(field!(Run.parent_session_id), &target.log.id);
        if let Some(span) = &target.span {
            raw.text("parent_span_id", &hex(&span.ids.span.to_be_bytes()));
        }
    }
}

fn clean_usage(process: &ProcessState, log: &SessionLog, usage: &Usage) -> UsageText {
    let mut text = UsageText::default();
    if let Some(details) = &usage.usage_details {
        let mut raw = RawFields::new();
        raw.json(field!(ModelUsage.usage_details), details);
        let cleaned = process.sanitize(log, |sanitizer| {
            Fields::default().add_clean(&raw, Some(SpanKind::Model), sanitizer)
        });
        text = cleaned.map_or_else(UsageText::default, |text| *text);
    }
    text.usage.merge(&Usage {
        usage_details: None,
        ..usage.clone()
    });
    text
}
