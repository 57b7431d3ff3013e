//! Opens, updates and closes spans: the part of the layer that does not depend on the subscriber's type.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::enclosing::{Enclosing, ImplicitSession};
use super::ops::Op;
use super::placement::{EnvParent, Placement};
use super::recent_spans::Registrar;
use super::span_data::{Link, Parent, SpanData, Target};
use crate::record::fields::Fields;
use crate::record::otel::OtelBridge;
use crate::record::process_state::ProcessState;
use crate::record::raw_fields::{RawFields, Scalar, is_short};
use crate::record::recognize::Recognized;
use crate::record::session::{Note, OpenSpan, SessionLog, SpanContext, TraceLimits};
use crate::record::spans::Session;
use crate::trace::{Failure, Ids, Outcome, SpanKind, Usage, UsageText, hex16};

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
}

impl<'a> Update<'a> {
    pub fn fields(fields: &'a RawFields) -> Self {
        Self {
            fields,
            usage: None,
            outcome: Outcome::Unset,
            links: &[],
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
        let session_id = raw.get("session_id").map(str::to_owned);
        let placement = self.place(process, data, session_id.as_deref());
        let (log, above) = (Arc::clone(&placement.log), placement.above);
        let mut context = SpanContext {
            ids: Ids {
                trace: placement.trace.id,
                span: data.span_id,
                parent: placement.parent,
            },
            trace: Arc::clone(&placement.trace),
            turn: above.and_then(|above| above.turn),
            kind,
            turn_span: above.and_then(|above| above.turn_span),
            run: above.and_then(|above| above.run),
        };
        if let Some(recognized) = &recognized {
            self.before_model_call(data, &log, &context, above, recognized);
        }
        let mut span = new_open_span(data, &context, &placement);
        span.outcome = recognized.as_ref().map_or(Outcome::Unset, |it| it.outcome);
        span.just_made = held_links.is_none() && raw.is_short(process.limits.inline);
        for (trace, id) in held_links.unwrap_or_default() {
            span.link(*trace, *id);
        }
        if kind == SpanKind::Run {
            add_run_ids(&mut raw, &data.parent, &log);
        }
        let role = (kind != SpanKind::Other).then_some(kind);
        span.usage = process.sanitize(&log.dir, |sanitizer| {
            span.fields.add_clean(&raw, role, sanitizer)
        });
        let mut agent = None;
        match kind {
            SpanKind::Run => {
                span.fields.set("process", process.process().as_bytes());
                agent = span.fields.get("agent").map(<[u8]>::to_vec);
            }
            SpanKind::Other => {
                let level = data.meta.level().as_str();
                span.describe_other(data.meta.name(), data.meta.target(), Some(level));
            }
            _ => {}
        }
        (context.turn, context.turn_span) = log.open(process, span);
        if kind == SpanKind::Run {
            self.record_subagent(process, &data.parent, &log, agent.as_deref());
            context.run = Some((context.ids.trace, context.ids.span));
        }
        if let Some(Recognized { content, .. }) = recognized {
            if kind == SpanKind::Run {
                self.record_assets(&log, Some(&context), &content);
            }
            self.record_messages(data, &log, &context, &content);
        }
        let span = Some(context);
        Arc::new(Target { log, span })
    }

    /// Records in the parent's session that a subagent started, for readers of that session alone.
    fn record_subagent(
        &self,
        process: &ProcessState,
        parent: &Parent,
        child: &SessionLog,
        agent: Option<&[u8]>,
    ) {
        let Parent::Target(target) = parent else {
            return;
        };
        if target.log.id == child.id {
            return;
        }
        let mut fields = Fields::default();
        if let Some(agent) = agent {
            fields.set("agent", agent);
        }
        fields.set_str("child_session_id", &child.id);
        let span = target.span.as_ref();
        target
            .log
            .event(process, "subagent", span, &fields, Note::default());
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
            Some(recognized) => {
                let outcome = match update.outcome {
                    Outcome::Unset => recognized.outcome,
                    outcome => outcome,
                };
                let fields = &recognized.fields;
                self.record_at(
                    target,
                    Update {
                        fields,
                        outcome,
                        ..update
                    },
                );
            }
            None => self.record_at(target, update),
        }
    }

    /// Writes a scalar outcome of an open span into its fields. `false`: record it as any other field.
    pub fn record_scalar(&self, target: &Target, name: &str, value: Scalar<'_>) -> bool {
        let Target {
            log,
            span: Some(context),
        } = target
        else {
            return false;
        };
        let process = &self.process;
        context.kind.rides_on_close(name)
            && is_short(value.text().len(), process.limits.inline)
            && log.clean_open(process, context, |fields, sanitizer| {
                fields.add_outcome(name, value, sanitizer);
            })
    }

    /// Records on a span that has been opened.
    pub fn record_at(&self, target: &Target, update: Update<'_>) {
        let Target {
            log,
            span: Some(context),
        } = target
        else {
            return;
        };
        let process = &self.process;
        let Update {
            fields: raw,
            usage,
            outcome,
            links,
        } = update;
        let only_fields = usage.is_none() && outcome == Outcome::Unset && links.is_empty();
        if only_fields && log.add_outcomes(process, context, raw) {
            return;
        }
        let role = (context.kind != SpanKind::Other).then_some(context.kind);
        let mut fields = Fields::default();
        let mut cleaned =
            process.sanitize(&log.dir, |sanitizer| fields.add_clean(raw, role, sanitizer));
        if let Some(usage) = usage {
            let cleaned = cleaned.get_or_insert_default();
            cleaned.merge(clean_usage(process, log, usage));
        }
        log.update(process, context, &fields, cleaned, outcome, links);
    }

    /// Writes the close line, unless it has been written.
    pub fn close(&self, data: &SpanData, outcome: Outcome) {
        if let Some(Target {
            log,
            span: Some(context),
        }) = self.target_of(data).map(|it| &**it)
            && data.close()
        {
            log.close(&self.process, context.ids.span, outcome);
        }
    }

    /// Closes a span that the registry has dropped.
    pub fn dropped(&self, data: &SpanData) {
        if std::thread::panicking() && !data.made_in_panic {
            self.record_first_error(data, &Failure::panic(None).to_json());
        }
        self.close(data, Outcome::Unset);
        // Even without a close line: the registry may now reuse the id.
        data.close();
        // A thread's cache may keep the data for long, but must not keep the user's context alive.
        data.otel.clear();
    }

    /// Records an error, JSON or text, on a span whose outcome nothing has recorded yet.
    pub(super) fn record_first_error(&self, data: &SpanData, error: &str) {
        let silent = data.target().is_none_or(|target| {
            let span = target.span.as_ref();
            span.is_none_or(|span| target.log.is_silent(span.ids.span))
        });
        if silent {
            let mut raw = RawFields::new();
            raw.text("error", error);
            self.record(data, Update::fields(&raw));
        }
    }

    /// Where an event belongs: in the enclosing span or session, else in the process's implicit session.
    fn target_in(&self, enclosing: Enclosing) -> Arc<Target> {
        match enclosing {
            Enclosing::Span { data, .. } => match self.target_of(&data) {
                Some(target) => Arc::clone(target),
                None => self.process_target(),
            },
            Enclosing::Session(log) | Enclosing::Implicit(ImplicitSession { log, .. }) => {
                Target::session(log)
            }
            Enclosing::Nothing => self.process_target(),
        }
    }

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
        match (op, enclosing) {
            (Op::Record { fields, usage }, Enclosing::Span { data, exact: true }) => {
                let usage = usage.as_deref();
                let update = Update {
                    usage,
                    ..Update::fields(&fields)
                };
                self.record(&data, update);
                None
            }
            (Op::Finish(outcome), Enclosing::Span { data, exact: true }) => {
                self.close(&data, outcome);
                None
            }
            (Op::Record { .. } | Op::Finish(_), _) => None,
            (Op::Event { kind, fields }, enclosing) => {
                self.event(&self.target_in(enclosing), &kind, fields);
                None
            }
            (Op::Probe, _) => Some(Session::new(self, self.process_target())),
            (Op::Locate, Enclosing::Nothing) => None,
            (Op::Locate, enclosing) => Some(Session::new(self, self.target_in(enclosing))),
        }
    }
}

fn new_open_span(
    data: &SpanData,
    context: &SpanContext,
    placement: &Placement<'_>,
) -> Box<OpenSpan> {
    let trace = Arc::clone(&context.trace);
    let mut span = Box::new(OpenSpan::new(context.kind, context.ids, trace, data.start));
    span.turn = context.turn;
    span.turn_span = context.turn_span;
    span.run_span = context.run.map(|(_, id)| id);
    span.parent_here = placement.above.is_some();
    span.parent_remote = placement.parent_remote;
    if let Some((trace, id)) = placement.link {
        span.link(trace, id);
    }
    span
}

/// The session of a run and, for a subagent, the session and span that started it.
fn add_run_ids(raw: &mut RawFields, parent: &Parent, log: &SessionLog) {
    if raw.get("session_id").is_none() {
        raw.text("session_id", &log.id);
    }
    if let Parent::Target(target) = parent
        && target.log.id != log.id
    {
        raw.text("parent_session_id", &target.log.id);
        if let Some(span) = &target.span {
            let id = hex16(span.ids.span);
            raw.text("parent_span_id", &String::from_utf8_lossy(&id));
        }
    }
}

fn clean_usage(process: &ProcessState, log: &SessionLog, usage: &Usage) -> UsageText {
    let mut text = UsageText::default();
    if let Some(details) = &usage.usage_details {
        let mut raw = RawFields::new();
        raw.json("usage_details", details);
        let cleaned = process.sanitize(&log.dir, |sanitizer| {
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
