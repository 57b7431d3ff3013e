//! Decides the session, the trace and the parent of a new span, when it opens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::recorder::Recorder;
use super::span_data::{Parent, SpanData};
use crate::record::session::{Link, OpenSpan, SessionLog, SpanContext, Trace};
use crate::trace::{Ids, RemoteContext, SpanKind, new_session_id, new_trace_id};

/// Where a new span belongs.
pub(super) struct Placement<'a> {
    pub log: Arc<SessionLog>,
    pub trace: Arc<Trace>,
    pub parent: Option<u64>,
    pub parent_remote: bool,
    /// The agent span above it, in the same session.
    pub above: Option<&'a SpanContext>,
    /// The span of another trace that it continues.
    pub link: Option<Link>,
}

impl<'a> Placement<'a> {
    fn root(log: Arc<SessionLog>, trace: Arc<Trace>) -> Self {
        Self {
            log,
            trace,
            parent: None,
            parent_remote: false,
            above: None,
            link: None,
        }
    }

    fn under(log: Arc<SessionLog>, parent: &SpanContext) -> Self {
        Self {
            parent: Some(parent.ids.span),
            ..Self::root(log, Arc::clone(&parent.trace))
        }
    }

    /// The span at this place, not open yet.
    pub fn new_span(&self, data: &SpanData) -> Box<OpenSpan> {
        let above = self.above;
        let at = SpanContext {
            ids: Ids {
                trace: self.trace.id,
                span: data.span_id,
                parent: self.parent,
            },
            trace: Arc::clone(&self.trace),
            kind: data.kind(),
            turn: above.and_then(|above| above.turn),
            turn_span: above.and_then(|above| above.turn_span),
            run: above.and_then(|above| above.run),
        };
        let mut span = OpenSpan::new(at, data.start);
        span.parent_here = above.is_some();
        span.parent_remote = self.parent_remote;
        if let Some(link) = self.link {
            span.link(link);
        }
        span
    }
}

/// The parent that the environment gives to this process (`TRACEPARENT`), read once.
#[derive(Debug, Default)]
pub(crate) struct EnvParent {
    parent: OnceLock<Option<RemoteContext>>,
    used: AtomicBool,
}

impl EnvParent {
    /// The parent, and whether this is its first use: the process was started for its first run, and
    /// later runs only link to it.
    fn get(&self) -> Option<(&RemoteContext, bool)> {
        let parent = self.parent.get_or_init(RemoteContext::from_env).as_ref()?;
        Some((parent, !self.used.swap(true, Ordering::Relaxed)))
    }
}

impl Recorder {
    /// A new trace, or a parent's trace from here on, sent or not as the sampler decides.
    pub fn new_trace(
        &self,
        log: &SessionLog,
        name: &str,
        parent: Option<&RemoteContext>,
    ) -> Arc<Trace> {
        let id = parent.map_or_else(new_trace_id, |parent| parent.trace);
        let (sampled, tracestate) = self.otel.sample(id, parent, name, &log.id);
        Trace::new(&self.process, id, sampled, tracestate)
    }

    /// `session_id` is the span's own field.
    pub(super) fn place<'a>(&self, data: &'a SpanData, session_id: Option<&str>) -> Placement<'a> {
        let is_run = data.kind() == SpanKind::Run;
        let log = self.choose_session(data, session_id);
        match &data.parent {
            Parent::Target(target) => match &target.span {
                Some(parent) if log.id == target.log.id => self.place_under(data, log, parent),
                // A run inside another session's span is a subagent: a session of its own in the
                // same trace.
                Some(parent) if is_run => Placement::under(log, parent),
                // Its `session_id` names another session, where it has no parent.
                _ => self.place_root(data, log, None),
            },
            Parent::Remote(parent) => self.place_root(data, log, Some(parent)),
            Parent::Detached => self.place_root(data, log, None),
            Parent::Implicit(session) if data.outside.is_none() && log.id == session.log.id => {
                Placement::root(log, self.with_room(data, &session.trace))
            }
            Parent::Unknown | Parent::Session(_) | Parent::Implicit(_) => {
                if let Some(parent) = &data.outside {
                    return self.place_root(data, log, Some(parent));
                }
                match is_run.then(|| self.env_parent.get()).flatten() {
                    Some((parent, true)) => self.place_root(data, log, Some(parent)),
                    Some((parent, false)) => Placement {
                        link: Some((parent.trace, parent.span)),
                        ..self.place_root(data, log, None)
                    },
                    None => self.place_root(data, log, None),
                }
            }
        }
    }

    fn choose_session(&self, data: &SpanData, session_id: Option<&str>) -> Arc<SessionLog> {
        match (&data.parent, session_id) {
            (Parent::Target(target), Some(id)) if *id == *target.log.id => Arc::clone(&target.log),
            (_, Some(id)) => self.process.session(id),
            (Parent::Session(log), None) => Arc::clone(log),
            (_, None) if data.kind() == SpanKind::Run => self.process.session(&new_session_id()),
            (Parent::Target(target), None) => Arc::clone(&target.log),
            (Parent::Implicit(session), None) => Arc::clone(&session.log),
            (_, None) => self.process.process_session(),
        }
    }

    /// Under an agent span of the same session. Where its trace is full, beside it in the next trace,
    /// with a link.
    fn place_under<'a>(
        &self,
        data: &SpanData,
        log: Arc<SessionLog>,
        parent: &'a SpanContext,
    ) -> Placement<'a> {
        let trace = match data.kind() {
            _ if !parent.trace.is_full(&self.trace_limits, data.start.steady) => None,
            SpanKind::Turn => Some(self.trace_after(&parent.trace)),
            // A nested run, and the permission of a call, stay in the trace of their parent.
            SpanKind::Run | SpanKind::Permission => None,
            _ => {
                let turn = self.synthetic_turn(data, &log, parent);
                let trace = turn.as_ref().map_or(&parent.trace, |turn| &turn.trace);
                Some(self.with_room(data, trace))
            }
        };
        let placement = match trace.filter(|trace| trace.id != parent.trace.id) {
            Some(trace) => {
                let run = parent.run.filter(|_| data.kind() == SpanKind::Turn);
                Placement {
                    link: Some(run.unwrap_or(parent.link())),
                    ..Placement::root(log, trace)
                }
            }
            None => Placement::under(log, parent),
        };
        Placement {
            above: Some(parent),
            ..placement
        }
    }

    /// The trace, or the one that continues it when it is full.
    fn with_room(&self, data: &SpanData, trace: &Arc<Trace>) -> Arc<Trace> {
        let now = data.start.steady;
        trace.with_room(&self.trace_limits, now, |full| self.trace_after(full))
    }

    /// A trace that continues a full one. It is sent if that one is.
    fn trace_after(&self, full: &Trace) -> Arc<Trace> {
        Trace::new(&self.process, new_trace_id(), full.sampled, None)
    }

    /// The synthetic turn of a span directly in a run without turns. Such a turn is not sent and can't be
    /// a parent, so the spans in it share its trace, each linked to the run.
    fn synthetic_turn(
        &self,
        data: &SpanData,
        log: &Arc<SessionLog>,
        parent: &SpanContext,
    ) -> Option<SpanContext> {
        if parent.kind != SpanKind::Run || parent.turn.is_some() {
            return None;
        }
        if data.kind() == SpanKind::Model && data.mapping.is_some() {
            let next = self.trace_after(&parent.trace);
            let mut session = log.lock(&self.process);
            Some(session.synthetic_turn_for_call(data.start, next, parent.run))
        } else {
            log.lock(&self.process).synthetic_turn(parent.ids.span)
        }
    }

    fn place_root<'a>(
        &self,
        data: &SpanData,
        log: Arc<SessionLog>,
        parent: Option<&RemoteContext>,
    ) -> Placement<'a> {
        let trace = self.new_trace(&log, data.meta.name(), parent);
        Placement {
            parent: parent.map(|parent| parent.span),
            parent_remote: parent.is_some_and(|parent| parent.remote),
            ..Placement::root(log, trace)
        }
    }
}
