//! From spans to lines: everything the layer does with them that doesn't depend on the subscriber.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::span::Record;

use super::bridge::Op;
use super::cell::{Anchor, Cell, Parent, Place, Spot};
use super::find::{Around, Near};
use super::last::Registrar;
use super::settle::{Roots, Settled};
use super::visit::{Glance, Outcomes};
use crate::event::{
    Cleaner, Failure, Fields, Ids, Outcome, Plain, RawFields, RemoteContext, SpanKind, Usage,
    UsageText, is_short,
};
use crate::ledger::{At, Core, Ledger, Note, OpenSpan, SessionLog, fork_generation};

/// A place, and who records there.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub recorder: Arc<Recorder>,
    pub place: Place,
}

impl Located {
    /// The span here, as other processes know it.
    pub fn remote_context(&self) -> Option<RemoteContext> {
        self.place.at().map(RemoteContext::of)
    }

    /// The span here, as a context of the OpenTelemetry API.
    #[cfg(feature = "mirror")]
    pub fn otel_context(&self) -> opentelemetry::Context {
        match &self.place {
            Place::Span(spot) => crate::otel::context_here(&self.recorder, spot),
            Place::Session(_) => opentelemetry::Context::new(),
        }
    }
}

impl RemoteContext {
    /// A span of ours.
    pub(crate) fn of(at: &At) -> Self {
        Self {
            trace: at.ids.trace,
            span: at.ids.span,
            sampled: at.trace.sampled,
            remote: true,
            tracestate: at.trace.tracestate.clone(),
        }
    }
}

/// What one ledger records, whichever layer or handle it comes from.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub ledger: Ledger,
    pub registrar: Registrar,
    pub roots: Roots,
    /// Whether agent spans are current for the OpenTelemetry API too.
    pub context: bool,
    /// How many spans still wait to say what they are.
    pub held_back: AtomicUsize,
    /// A neighbour sends agent spans too.
    #[cfg(feature = "neighbour")]
    pub sent_twice: std::sync::atomic::AtomicBool,
}

impl Recorder {
    /// The span's place; its open line is written now if it wasn't yet.
    pub fn place_of<'a>(&self, cell: &'a Cell) -> Option<&'a Place> {
        cell.open_once(|raw, links| {
            let place = self.open(cell, raw, Some(links));
            self.held_back.fetch_sub(1, Ordering::Relaxed);
            place
        })
    }

    /// Opens a new span, or holds its open line back until that can say what was opened.
    pub fn begin(&self, cell: &mut Cell, raw: RawFields, at_once: bool) {
        if at_once || cell.is_identified_by(&raw) {
            let place = self.open(cell, raw, None);
            cell.opened(place);
        } else {
            self.held_back.fetch_add(1, Ordering::Relaxed);
            cell.hold_back(raw);
        }
    }

    /// Writes the open line of a span, which may have been held back and got links meanwhile.
    fn open(&self, cell: &Cell, raw: RawFields, held_back: Option<&[(u128, u64)]>) -> Place {
        let core = self.ledger.core();
        let (mut raw, told) = self.read(cell, raw);
        let kind = cell.kind();
        let given = raw.get("session_id").map(str::to_owned);
        let Settled {
            log,
            trace,
            parent,
            parent_remote,
            above,
            link,
        } = self.settle(core, cell, given.as_deref());
        let ids = Ids {
            trace: trace.id,
            span: cell.span,
            parent,
        };
        let mut at = At {
            ids,
            trace,
            turn: above.and_then(|at| at.turn),
            kind,
            turn_span: above.and_then(|at| at.turn_span),
            run: above.and_then(|at| at.run),
            generation: cell.generation,
        };
        // A copy that came through a fork is its maker's to open, too.
        if cell.generation != fork_generation() {
            return Place::span(log, at);
        }
        let trace = Arc::clone(&at.trace);
        let mut span = Box::new(OpenSpan::new(kind, ids, trace, cell.start));
        span.turn = at.turn;
        span.turn_span = at.turn_span;
        span.run_span = at.run.map(|(_, id)| id);
        span.parent_here = above.is_some_and(|above| above.generation == fork_generation());
        span.parent_remote = parent_remote;
        if let Some((trace, id)) = link {
            span.link(trace, id);
        }
        if let Some(told) = &told {
            span.outcome = told.outcome;
            self.tell_before(cell, &log, &at, above, told);
        }
        span.just_made = held_back.is_none() && raw.is_short(core.limits.inline);
        for (trace, id) in held_back.unwrap_or_default() {
            span.link(*trace, *id);
        }
        if kind == SpanKind::Run {
            if given.is_none() {
                raw.text("session_id", &log.id);
            }
            if let Parent::Place(place) = &cell.parent
                && place.log().id != log.id
            {
                raw.text("parent_session_id", &place.log().id);
                if let Some(at) = place.at() {
                    let hex = crate::event::hex16(at.ids.span);
                    raw.text("parent_span_id", &String::from_utf8_lossy(&hex));
                }
            }
        }
        let role = (kind != SpanKind::Other).then_some(kind);
        let usage = core.clean(&log.dir, |cleaner| {
            span.fields.add_clean(&raw, role, cleaner)
        });
        span.usage = usage;
        if kind == SpanKind::Run {
            span.fields.set("process", core.process().as_bytes());
        }
        if kind == SpanKind::Other {
            span.describe_other(
                cell.meta.name(),
                cell.meta.target(),
                Some(cell.meta.level().as_str()),
            );
        }
        let agent = match kind {
            SpanKind::Run => span.fields.get("agent").map(<[u8]>::to_vec),
            _ => None,
        };
        (at.turn, at.turn_span) = log.open(core, span);
        if kind == SpanKind::Run {
            self.tell_parent(core, &cell.parent, &log, agent.as_deref());
            at.run = Some((ids.trace, ids.span));
        }
        if let Some(told) = told {
            if kind == SpanKind::Run {
                self.tell_in_force(&log, Some(&at), &told.content);
            }
            self.tell_messages(cell, &log, &at, &told.content);
        }
        Place::span(log, at)
    }

    /// Says in the parent's session that a subagent began: whoever reads that one alone must see
    /// where the work went on.
    fn tell_parent(&self, core: &Core, parent: &Parent, child: &SessionLog, agent: Option<&[u8]>) {
        let Parent::Place(place) = parent else { return };
        if place.log().id == child.id {
            return;
        }
        let mut fields = Fields::default();
        if let Some(agent) = agent {
            fields.set("agent", agent);
        }
        fields.set_str("child_session_id", &child.id);
        let (log, at) = (self.ledger.here(place.log()), place.at());
        log.event(core, "subagent", at, &fields, Note::default());
    }

    /// Fields recorded on a span.
    pub fn record(
        &self,
        cell: &Cell,
        raw: &RawFields,
        usage: Option<&Usage>,
        outcome: Outcome,
        links: &[(u128, u64)],
    ) {
        let plain = usage.is_none() && outcome == Outcome::Unset && links.is_empty();
        if plain && cell.add_pending(raw) {
            if cell.is_identified() {
                self.place_of(cell);
            }
            return;
        }
        let Some(Place::Span(spot)) = self.place_of(cell) else {
            return;
        };
        let Spot { log, at } = &**spot;
        let read = self.read_later(cell, &self.ledger.here(log), at, raw);
        let (raw, outcome) = match &read {
            Some(told) if outcome == Outcome::Unset => (&told.fields, told.outcome),
            Some(told) => (&told.fields, outcome),
            None => (raw, outcome),
        };
        self.record_at(log, at, raw, usage, outcome, links);
    }

    /// Writes what most spans record, how they went, straight into the fields of an open one.
    /// `false`: there is more to do.
    pub fn record_outcomes(&self, cell: &Cell, values: &Record<'_>) -> bool {
        let Some(spot) = cell.plain_spot() else {
            return false;
        };
        let (core, Spot { log, at }) = (self.ledger.core(), &**spot);
        Glance::at(values, at.kind).is_some_and(|length| is_short(length, core.limits.inline))
            && self
                .ledger
                .here(log)
                .clean_open(core, at, |fields, cleaner| {
                    values.record(&mut Outcomes { fields, cleaner });
                })
    }

    /// The same for one value, under one of the names that wait for the close line.
    pub fn add_outcome(&self, spot: &Spot, name: &str, value: Plain<'_>) -> bool {
        let (core, Spot { log, at }) = (self.ledger.core(), spot);
        let (Plain::Text(text) | Plain::Json(text)) = value;
        let add = |fields: &mut Fields, cleaner: &mut Cleaner<'_>| {
            fields.add_outcome(name, value, cleaner);
        };
        is_short(text.len(), core.limits.inline) && self.ledger.here(log).clean_open(core, at, add)
    }

    /// What is recorded on a span that has been opened.
    pub fn record_at(
        &self,
        log: &Arc<SessionLog>,
        at: &At,
        raw: &RawFields,
        usage: Option<&Usage>,
        outcome: Outcome,
        links: &[(u128, u64)],
    ) {
        let core = self.ledger.core();
        let log = self.ledger.here(log);
        let plain = usage.is_none() && outcome == Outcome::Unset && links.is_empty();
        if plain && log.add_outcomes(core, at, raw) {
            return;
        }
        let role = (at.kind != SpanKind::Other).then_some(at.kind);
        let mut fields = Fields::default();
        let mut cleaned = core.clean(&log.dir, |cleaner| fields.add_clean(raw, role, cleaner));
        if let Some(usage) = usage {
            let cleaned = cleaned.get_or_insert_default();
            cleaned.merge(clean_usage(core, &log, usage));
        }
        log.update(core, at, &fields, cleaned, outcome, links);
    }

    /// The close line, the first time.
    pub fn close(&self, cell: &Cell, outcome: Outcome) {
        // A span that came through a fork is its maker's to close: the copy here proves nothing.
        if cell.generation != fork_generation() {
            return;
        }
        let Some(Place::Span(spot)) = self.place_of(cell) else {
            return;
        };
        let Spot { log, at } = &**spot;
        if cell.close_first() {
            log.close(self.ledger.core(), at.ids.span, outcome);
        }
    }

    /// The registry let go of the span.
    pub fn dropped(&self, cell: &Cell) {
        if std::thread::panicking() && !cell.made_in_panic {
            let mut raw = RawFields::new();
            raw.json_text("error", &Failure::panic(None).to_json());
            self.record_if_silent(cell, &raw);
        }
        self.close(cell, Outcome::Unset);
        // Whatever became of its line: the registry may give its id to another now.
        cell.end();
        // A thread may remember the cell for long, but must not keep what is the user's.
        #[cfg(feature = "mirror")]
        if self.context {
            cell.forget_context();
        }
    }

    pub(super) fn record_if_silent(&self, cell: &Cell, raw: &RawFields) {
        // In a forked child nobody may wait for its parent's locks.
        if cell.generation != fork_generation() {
            return;
        }
        let open = cell.place().and_then(|place| {
            let at = place.at()?;
            Some(place.log().is_silent(at.ids.span))
        });
        if open.unwrap_or(true) {
            self.record(cell, raw, None, Outcome::Unset, &[]);
        }
    }

    /// Where something near `near` belongs; an implicit session where nothing is.
    fn place_near(&self, near: Near) -> Place {
        match near.what {
            Around::Agent(cell) => match self.place_of(&cell) {
                Some(place) => place.clone(),
                None => self.nowhere(),
            },
            Around::Session(log) | Around::Anchored(Anchor { log, .. }) => Place::Session(log),
            Around::Nothing => self.nowhere(),
        }
    }

    fn nowhere(&self) -> Place {
        Place::Session(self.ledger.core().process_session())
    }

    pub fn perform(self: &Arc<Self>, near: Near, op: Op) -> Option<Located> {
        if self.ledger.is_disabled() {
            return None;
        }
        match (op, near) {
            (
                Op::Record {
                    fields,
                    usage,
                    outcome,
                },
                Near {
                    what: Around::Agent(cell),
                    exact: true,
                },
            ) => {
                self.record(&cell, &fields, usage.as_deref(), outcome, &[]);
                None
            }
            (
                Op::Finish(outcome),
                Near {
                    what: Around::Agent(cell),
                    exact: true,
                },
            ) => {
                self.close(&cell, outcome);
                None
            }
            (Op::Record { .. } | Op::Finish(_), _) => None,
            (Op::Event { kind, fields }, near) => {
                let place = self.place_near(near);
                self.event(&place, &kind, fields);
                None
            }
            (Op::Probe, _) => Some(Located {
                recorder: Arc::clone(self),
                place: self.nowhere(),
            }),
            (
                Op::Locate,
                Near {
                    what: Around::Nothing,
                    ..
                },
            ) => None,
            (Op::Locate, near) => Some(Located {
                recorder: Arc::clone(self),
                place: self.place_near(near),
            }),
        }
    }
}

fn clean_usage(core: &Core, log: &SessionLog, usage: &Usage) -> UsageText {
    let mut text = UsageText::default();
    if let Some(details) = &usage.usage_details {
        let mut raw = RawFields::new();
        raw.json("usage_details", details);
        let cleaned = core.clean(&log.dir, |cleaner| {
            Fields::default().add_clean(&raw, Some(SpanKind::Model), cleaner)
        });
        text = cleaned.map_or_else(UsageText::default, |text| *text);
    }
    text.usage.merge(&Usage {
        usage_details: None,
        ..usage.clone()
    });
    text
}
