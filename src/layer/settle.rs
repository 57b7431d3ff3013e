//! Where a span belongs: which session, in which trace, under which span. Decided when it opens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::cell::{Cell, Parent};
use super::recorder::Recorder;
use crate::event::{RemoteContext, SpanKind, new_session_id, new_trace_id};
use crate::ledger::{At, Core, SessionLog, Trace, TraceLimits, fork_generation};

/// How traces begin.
#[derive(Debug)]
pub(crate) struct Roots {
    limits: TraceLimits,
    #[cfg(feature = "mirror")]
    sampler: crate::otel::Sampling,
    /// What the environment gives as parent, once it was looked for.
    env: OnceLock<Option<RemoteContext>>,
    env_taken: AtomicBool,
}

/// What was decided.
pub(super) struct Settled<'a> {
    pub log: Arc<SessionLog>,
    pub trace: Arc<Trace>,
    pub parent: Option<u64>,
    pub parent_remote: bool,
    /// The agent span above it, in the same session.
    pub above: Option<&'a At>,
    /// What it goes on from, in another trace.
    pub link: Option<(u128, u64)>,
}

impl<'a> Settled<'a> {
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

    fn under(log: Arc<SessionLog>, at: &At) -> Self {
        Self {
            parent: Some(at.ids.span),
            ..Self::root(log, Arc::clone(&at.trace))
        }
    }
}

impl Recorder {
    /// A trace that begins here.
    pub fn new_trace(&self, log: &SessionLog, name: &str) -> Arc<Trace> {
        self.trace_under(log, name, new_trace_id(), None)
    }

    /// A trace as the sampler wants it, under a span that is none of ours or under none.
    fn trace_under(
        &self,
        log: &SessionLog,
        name: &str,
        id: u128,
        parent: Option<&RemoteContext>,
    ) -> Arc<Trace> {
        #[cfg(feature = "mirror")]
        let (sampled, tracestate) = self.roots.sampler.decide(id, parent, name, &log.id);
        // Without a sampler, what the caller decided holds.
        #[cfg(not(feature = "mirror"))]
        let (sampled, tracestate) = {
            let _ = (log, name);
            let sampled = parent.is_none_or(RemoteContext::sampled);
            (sampled, parent.and_then(|parent| parent.tracestate.clone()))
        };
        Trace::new(self.ledger.core(), id, sampled, tracestate)
    }

    pub(super) fn settle<'a>(
        &self,
        core: &Core,
        cell: &'a Cell,
        given: Option<&str>,
    ) -> Settled<'a> {
        let run = cell.kind() == SpanKind::Run;
        let named = |id: &str| self.ledger.session(id);
        let log = match (&cell.parent, given) {
            (Parent::Place(place), Some(id)) if *id == *place.log().id => {
                self.ledger.here(place.log()).into_owned()
            }
            (_, Some(id)) => named(id),
            (Parent::Session(log), None) => self.ledger.here(log).into_owned(),
            (_, None) if run => named(&new_session_id()),
            (Parent::Place(place), None) => self.ledger.here(place.log()).into_owned(),
            (Parent::Anchored(anchor), None) => self.ledger.here(&anchor.log).into_owned(),
            (_, None) => core.process_session(),
        };
        match &cell.parent {
            Parent::Place(place) => match place.at() {
                Some(at) if log.id == place.log().id => self.settle_under(cell, log, at),
                // A run inside another session's span is a subagent: a session of its own in the
                // same trace.
                Some(at) if run => Settled::under(log, at),
                // Routed elsewhere: what it hangs from there nobody said.
                _ => self.settle_root(cell, log, None),
            },
            Parent::Remote(parent) => self.settle_root(cell, log, Some(parent)),
            Parent::Detached => self.settle_root(cell, log, None),
            Parent::Anchored(anchor) if cell.outside.is_none() && log.id == anchor.log.id => {
                Settled::root(log, self.with_room(cell, &anchor.trace))
            }
            Parent::Root | Parent::Session(_) | Parent::Anchored(_) => {
                if let Some(parent) = &cell.outside {
                    return self.settle_root(cell, log, Some(parent));
                }
                let env = run.then(|| self.roots.env_parent()).flatten();
                match env {
                    Some((parent, true)) => self.settle_root(cell, log, Some(parent)),
                    Some((parent, false)) => Settled {
                        link: Some((parent.trace, parent.span)),
                        ..self.settle_root(cell, log, None)
                    },
                    None => self.settle_root(cell, log, None),
                }
            }
        }
    }

    /// Under an agent span of the same session, or beside it in the trace that its full one goes on
    /// in, with a link.
    fn settle_under<'a>(&self, cell: &Cell, log: Arc<SessionLog>, at: &'a At) -> Settled<'a> {
        let trace = match cell.kind() {
            _ if !at.trace.is_full(&self.roots.limits, cell.start.steady) => None,
            SpanKind::Turn => Some(self.trace_after(&at.trace)),
            // A run, and what was decided about a call, stay where they are.
            SpanKind::Run | SpanKind::Permission => None,
            _ => {
                let turn = self.made_up_turn(cell, &log, at);
                let trace = turn.as_ref().map_or(&at.trace, |turn| &turn.trace);
                Some(self.with_room(cell, trace))
            }
        };
        match trace.filter(|trace| trace.id != at.trace.id) {
            Some(trace) => {
                let run = at.run.filter(|_| cell.kind() == SpanKind::Turn);
                Settled {
                    above: Some(at),
                    link: Some(run.unwrap_or((at.ids.trace, at.ids.span))),
                    ..Settled::root(log, trace)
                }
            }
            None => Settled {
                above: Some(at),
                ..Settled::under(log, at)
            },
        }
    }

    /// The trace, or the one that it goes on in when it is full.
    fn with_room(&self, cell: &Cell, trace: &Arc<Trace>) -> Arc<Trace> {
        let (limits, now) = (&self.roots.limits, cell.start.steady);
        trace.with_room(limits, now, |full| self.trace_after(full))
    }

    /// A trace to go on in. It is the same work: it is sent if what came before was.
    fn trace_after(&self, full: &Trace) -> Arc<Trace> {
        Trace::new(self.ledger.core(), new_trace_id(), full.sampled, None)
    }

    /// The turn of what lies directly in a run whose turns are made up. Such a turn is not sent and
    /// can be nobody's parent, so what is in it shares its trace, each linked to the run.
    fn made_up_turn(&self, cell: &Cell, log: &Arc<SessionLog>, at: &At) -> Option<At> {
        let outside_turns = at.kind == SpanKind::Run && at.turn.is_none();
        if !outside_turns || cell.generation != fork_generation() {
            return None;
        }
        if cell.kind() == SpanKind::Model && cell.reading.is_some() {
            let next = self.trace_after(&at.trace);
            let here = at.generation == fork_generation();
            Some(log.make_up_turn(self.ledger.core(), cell.start, next, at.run, here))
        } else {
            log.made_up_turn(at.ids.span)
        }
    }

    fn settle_root<'a>(
        &self,
        cell: &Cell,
        log: Arc<SessionLog>,
        parent: Option<&RemoteContext>,
    ) -> Settled<'a> {
        let id = parent.map_or_else(new_trace_id, |parent| parent.trace);
        let trace = self.trace_under(&log, cell.meta.name(), id, parent);
        Settled {
            parent: parent.map(|parent| parent.span),
            parent_remote: parent.is_some_and(|parent| parent.remote),
            ..Settled::root(log, trace)
        }
    }
}

impl Roots {
    pub fn new(
        limits: TraceLimits,
        #[cfg(feature = "mirror")] sampler: crate::otel::Sampling,
    ) -> Self {
        Self {
            limits,
            #[cfg(feature = "mirror")]
            sampler,
            env: OnceLock::new(),
            env_taken: AtomicBool::new(false),
        }
    }

    /// What the environment gives as parent, and whether this is the first run that asks: a process
    /// is started for one thing, and what it does after that only comes from there.
    fn env_parent(&self) -> Option<(&RemoteContext, bool)> {
        let parent = self.env.get_or_init(RemoteContext::from_env).as_ref()?;
        Some((parent, !self.env_taken.swap(true, Ordering::Relaxed)))
    }
}
