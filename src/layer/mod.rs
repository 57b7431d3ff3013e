//! From `tracing` to events: the layer an agent adds.

mod bridge;
mod cell;
mod filter;
mod find;
mod happened;
mod last;
mod recognised;
mod recorder;
mod settle;
mod visit;

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

pub use filter::LedgerFilter;

pub(crate) use bridge::{Given, Handoff, Op, hand_over, on_current, on_outcome, on_span};
#[cfg(feature = "mirror")]
pub(crate) use cell::Spot;
pub(crate) use cell::{Parent, Place};
pub(crate) use filter::Choose;
#[cfg(feature = "mirror")]
pub(crate) use last::Key;
pub(crate) use last::Registrar;
pub(crate) use recorder::{Located, Recorder};
pub(crate) use settle::Roots;

use bridge::{Bridge, LAYERS, Unhide, take_handoff};
use cell::{Anchor, Cell, Route};
use find::{Around, anchor, walk};
use visit::{Collect, FindText};

use crate::event::{Outcome, RawFields, RemoteContext, SpanKind};
use crate::ledger::Moment;
use crate::recognise::{Callsites, Reading, Seen};

/// The layer that [`Builder::build`](crate::Builder::build) returns: it records agent spans, and
/// carries its own filter, so that neighbours' filters don't change the trace.
pub type LedgerLayer<S> = Filtered<RecordingLayer<S>, LedgerFilter, S>;

/// A span that is being made.
struct New<'a, 'b, S> {
    attrs: &'a Attributes<'b>,
    id: &'a Id,
    ctx: &'a Context<'a, S>,
}

/// Records agent spans; always wrapped in its filter as [`LedgerLayer`].
pub struct RecordingLayer<S> {
    recorder: Arc<Recorder>,
    filter: LedgerFilter,
    callsites: Callsites,
    bridge: Bridge,
    /// Another ledger's layer is in the same subscriber, below or beside. A span has room for one.
    second: AtomicBool,
    /// None is.
    first: AtomicBool,
    /// To ask a neighbour whether it sends agent spans too, once.
    #[cfg(feature = "neighbour")]
    dispatch: std::sync::OnceLock<tracing::dispatcher::WeakDispatch>,
    #[cfg(feature = "neighbour")]
    asked: AtomicBool,
    _subscriber: std::marker::PhantomData<fn(S)>,
}

impl<S> std::fmt::Debug for RecordingLayer<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingLayer").finish_non_exhaustive()
    }
}

impl<S> Drop for RecordingLayer<S> {
    fn drop(&mut self) {
        LAYERS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S> RecordingLayer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    pub(crate) fn new(recorder: Arc<Recorder>, filter: LedgerFilter) -> Self {
        LAYERS.fetch_add(1, Ordering::Relaxed);
        let bridge = Bridge {
            recorder: Arc::clone(&recorder),
            find: |dispatch, id, anchoring| {
                let span = dispatch.downcast_ref::<S>().and_then(|s| s.span(id));
                walk(span, |outermost| match anchoring {
                    Some(recorder) => anchor(recorder, outermost),
                    None => Around::Nothing,
                })
            },
        };
        Self {
            recorder,
            filter,
            callsites: Callsites::new(),
            bridge,
            second: AtomicBool::new(false),
            first: AtomicBool::new(false),
            #[cfg(feature = "neighbour")]
            dispatch: std::sync::OnceLock::new(),
            #[cfg(feature = "neighbour")]
            asked: AtomicBool::new(false),
            _subscriber: std::marker::PhantomData,
        }
    }

    fn is_second(&self) -> bool {
        self.second.load(Ordering::Relaxed)
    }

    /// Whether a new span is another ledger's already.
    #[inline]
    fn is_taken(&self, id: &Id, ctx: &Context<'_, S>) -> bool {
        !self.first.load(Ordering::Relaxed) && self.looks_taken(id, ctx)
    }

    /// Not all that holds layers says what else it holds: so it is looked for in the first span that
    /// has something of ours.
    #[cold]
    fn looks_taken(&self, id: &Id, ctx: &Context<'_, S>) -> bool {
        let taken = ctx.span(id).is_some_and(|span| {
            let extensions = span.extensions();
            extensions.get::<Arc<Cell>>().is_some() || extensions.get::<Route>().is_some()
        });
        let found = if taken { &self.second } else { &self.first };
        found.store(true, Ordering::Relaxed);
        taken
    }

    /// A copy: what is done with it must not happen while the registry holds it borrowed.
    fn cell_of(span: &SpanRef<'_, S>) -> Option<Arc<Cell>> {
        span.extensions().get::<Arc<Cell>>().cloned()
    }

    fn cell(&self, ctx: &Context<'_, S>, id: &Id) -> Option<Arc<Cell>> {
        let key = self.recorder.registrar.key(id);
        if let Some(cell) = last::find(key) {
            return Some(cell);
        }
        let cell = Self::cell_of(&ctx.span(id)?)?;
        last::remember(key, &cell);
        Some(cell)
    }

    /// Opens a new span, in the context it is made in.
    fn begin(&self, mut cell: Cell, raw: RawFields, at_once: bool, new: New<'_, '_, S>) {
        let New { attrs, id, ctx } = new;
        #[cfg(feature = "mirror")]
        cell.look_outside(&self.recorder, attrs.is_contextual());
        #[cfg(not(feature = "mirror"))]
        let _ = attrs;
        self.recorder.begin(&mut cell, raw, at_once);
        #[cfg(feature = "mirror")]
        if self.recorder.context {
            cell.begin_context(&self.recorder);
        }
        if let Some(span) = ctx.span(id) {
            let cell = Arc::new(cell);
            last::remember(self.recorder.registrar.key(id), &cell);
            span.extensions_mut().replace(cell);
        }
    }

    /// Makes an agent span current for the OpenTelemetry API.
    #[cfg(feature = "mirror")]
    fn enter_context(&self, cell: &Cell, id: &Id) {
        if let Some(context) = cell.give_context(&self.recorder) {
            self.attach(context, id);
        }
    }

    #[cfg(feature = "mirror")]
    fn attach(&self, context: opentelemetry::Context, id: &Id) {
        crate::otel::attach(self.recorder.registrar.key(id), context);
        #[cfg(feature = "neighbour")]
        if !self.asked.load(Ordering::Relaxed) && !self.asked.swap(true, Ordering::Relaxed) {
            let dispatch = self.dispatch.get().and_then(|dispatch| dispatch.upgrade());
            let sends = |dispatch| tracing_opentelemetry::get_otel_context(id, &dispatch).is_some();
            if dispatch.is_some_and(sends) {
                self.recorder.sent_twice.store(true, Ordering::Relaxed);
            }
        }
    }

    /// What a new span hangs from: if it is one that `anchors`, an implicit session at least.
    fn parent(&self, anchors: bool, attrs: &Attributes<'_>, ctx: &Context<'_, S>) -> Parent {
        let place_of = |cell: &Arc<Cell>| cell.place().cloned();
        let remembered = |id: &Id| last::with(self.recorder.registrar.key(id), place_of)?;
        let current = attrs.is_contextual().then(|| ctx.current_span());
        let id = attrs.parent().or_else(|| current.as_ref()?.id());
        if let Some(place) = id.and_then(remembered) {
            return Parent::Place(place);
        }
        let around = match attrs.is_contextual() {
            // Not always that of the id: one that the filter leaves out is passed over.
            true => ctx.lookup_current(),
            false => attrs.parent().and_then(|id| ctx.span(id)),
        };
        // Nearly always: an agent span that is open.
        if let Some(span) = &around
            && let Some(cell) = Self::cell_of(span)
            && let Some(place) = cell.place()
        {
            last::remember_around(self.recorder.registrar.key(&span.id()), &cell);
            return Parent::Place(place.clone());
        }
        let near = walk(around, |outermost| {
            if !anchors {
                return Around::Nothing;
            }
            anchor(&self.recorder, outermost)
        });
        match near.what {
            Around::Agent(cell) => match self.recorder.place_of(&cell) {
                Some(place) => Parent::Place(place.clone()),
                None => Parent::Root,
            },
            Around::Session(log) => Parent::Session(log),
            Around::Anchored(anchor) => Parent::Anchored(anchor),
            Around::Nothing => Parent::Root,
        }
    }

    /// What a new span hangs from by its maker's word. Where a handle of another ledger is, that is the
    /// session of that name here, and a span that is none of ours.
    fn given(&self, given: Given) -> (Parent, Option<Box<RemoteContext>>) {
        match given {
            Given::Parent(parent) => (parent, None),
            Given::At(at) if Arc::ptr_eq(&at.recorder, &self.recorder) => {
                (Parent::Place(at.place), None)
            }
            Given::At(at) => {
                let log = self.recorder.ledger.session(&at.place.log().id);
                (Parent::Session(log), at.remote_context().map(Box::new))
            }
        }
    }

    /// A span of others: it carries the session on, and may name one.
    fn on_foreign_span(&self, attrs: &Attributes<'_>, id: &Id, ctx: &Context<'_, S>) {
        let mut found = None;
        attrs.record(&mut FindText {
            name: "session_id",
            found: &mut found,
        });
        self.route(id, found, ctx);
    }

    /// A span of another library that is taken for one of the six.
    fn on_recognised_span(&self, reading: &Reading, new: New<'_, '_, S>) {
        let start = Moment::now();
        let mut raw = RawFields::new();
        new.attrs.record(&mut Collect(&mut raw));
        let kind = reading.kind(&raw);
        let parent = self.parent(kind != Some(SpanKind::Run), new.attrs, new.ctx);
        let meta = new.attrs.metadata();
        let cell = Cell::recognised(reading.clone(), kind, meta, start, parent);
        self.begin(cell, raw, false, new);
    }

    fn on_our_span(&self, kind: SpanKind, new: New<'_, '_, S>) {
        let New { attrs, id, ctx } = new;
        let meta = attrs.metadata();
        let anchors = !matches!(kind, SpanKind::Run | SpanKind::Other);
        let start = Moment::now();
        if let Some(handoff) = take_handoff(meta) {
            let (parent, outside) = match handoff.parent {
                Some(given) => self.given(given),
                None => (self.parent(anchors, attrs, ctx), None),
            };
            let mut cell = Cell::new(kind, meta, start, parent);
            cell.outside = outside;
            return self.begin(cell, handoff.fields, true, new);
        }
        let mut raw = RawFields::new();
        attrs.record(&mut Collect(&mut raw));
        let parent = self.parent(anchors, attrs, ctx);
        if kind == SpanKind::Other
            && !matches!(parent, Parent::Place(_) | Parent::Session(_))
            && raw.get("session_id").is_none()
        {
            // Lines for other spans are kept inside sessions.
            return self.on_foreign_span(attrs, id, ctx);
        }
        let cell = Cell::new(kind, meta, start, parent);
        self.begin(cell, raw, false, new);
    }

    fn route(&self, id: &Id, session: Option<String>, ctx: &Context<'_, S>) {
        let (Some(session), Some(span)) = (session, ctx.span(id)) else {
            return;
        };
        // Naming the session that it is in anyway must not cut what is inside off from the
        // agent span around.
        let inside = match walk(span.parent(), |_| Around::Nothing).what {
            Around::Agent(cell) => self
                .recorder
                .place_of(&cell)
                .is_some_and(|place| *place.log().id == *session),
            _ => false,
        };
        let mut extensions = span.extensions_mut();
        if inside {
            extensions.remove::<Route>();
        } else {
            extensions.replace(Route(self.recorder.ledger.session(&session)));
        }
    }
}

impl<S> tracing_subscriber::Layer<S> for RecordingLayer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_register_dispatch(&self, dispatch: &tracing::Dispatch) {
        #[cfg(feature = "neighbour")]
        let _ = self.dispatch.set(dispatch.downgrade());
        // Only now can it be told of one that is beside.
        if Bridge::of(dispatch).is_some_and(|found| !std::ptr::eq(found, &self.bridge)) {
            self.second.store(true, Ordering::Relaxed);
        }
    }

    fn on_layer(&mut self, subscriber: &mut S) {
        let below: &dyn Subscriber = subscriber;
        *self.second.get_mut() = below.is::<Bridge>();
    }

    fn on_new_span(&self, attrs: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        if self.is_second() {
            return;
        }
        let meta = attrs.metadata();
        let new = New {
            attrs,
            id,
            ctx: &ctx,
        };
        let look = || self.filter.see(meta);
        self.callsites.with(meta, look, |seen| match seen {
            Seen::Foreign => {}
            _ if self.is_taken(id, &ctx) => {}
            Seen::Ours(kind) => self.on_our_span(*kind, new),
            Seen::Chosen => self.on_our_span(SpanKind::Other, new),
            Seen::Recognised(reading) => self.on_recognised_span(reading, new),
            Seen::Routes => self.on_foreign_span(attrs, id, &ctx),
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        if self.is_second() {
            return;
        }
        let key = self.recorder.registrar.key(id);
        let done = |cell: &Arc<Cell>| self.recorder.record_outcomes(cell, values);
        if last::with(key, done) == Some(true) {
            return;
        }
        match self.cell(&ctx, id) {
            Some(cell) => {
                let mut raw = RawFields::new();
                values.record(&mut Collect(&mut raw));
                if raw.is_empty() {
                    return;
                }
                #[cfg(feature = "mirror")]
                let waits = self.recorder.context && cell.place().is_none();
                self.recorder.record(&cell, &raw, None, Outcome::Unset, &[]);
                // It was entered before it could be opened.
                #[cfg(feature = "mirror")]
                if waits && cell.place().is_some() && ctx.current_span().id() == Some(id) {
                    self.enter_context(&cell, id);
                }
            }
            None => {
                let mut found = None;
                values.record(&mut FindText {
                    name: "session_id",
                    found: &mut found,
                });
                self.route(id, found, &ctx);
            }
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, ctx: Context<'_, S>) {
        if self.is_second() {
            return;
        }
        let (Some(cell), Some(followed)) = (self.cell(&ctx, id), self.cell(&ctx, follows)) else {
            return;
        };
        let place = self.recorder.place_of(&followed);
        if let Some(at) = place.and_then(Place::at) {
            let link = (at.ids.trace, at.ids.span);
            if !cell.add_pending_link(link) {
                let none = RawFields::new();
                self.recorder
                    .record(&cell, &none, None, Outcome::Unset, &[link]);
            }
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        if self.is_second() {
            return;
        }
        let meta = event.metadata();
        let near = |anchoring: bool| {
            walk(ctx.event_span(event), |outermost| match anchoring {
                true => anchor(&self.recorder, outermost),
                false => Around::Nothing,
            })
        };
        if meta.target() == "spanledger::hidden" {
            let mut unhide = Unhide::default();
            event.record(&mut unhide);
            if let Some(op) = unhide.op.take() {
                unhide.answer = self.recorder.perform(near(op.anchors()), op);
                event.record(&mut unhide);
            }
            return;
        }
        let mut raw = RawFields::new();
        if let Some(kind) = meta.target().strip_prefix("spanledger::") {
            event.record(&mut Collect(&mut raw));
            raw.rename("message", "content");
            let kind = kind.to_owned();
            let op = Op::Event { kind, fields: raw };
            self.recorder.perform(near(true), op);
            return;
        }
        if !self.filter.records_event(meta) {
            return;
        }
        event.record(&mut Collect(&mut raw));
        let (cell, place) = match near(false).what {
            Around::Agent(cell) => match self.recorder.place_of(&cell) {
                Some(place) => (Some(Arc::clone(&cell)), Some(place.clone())),
                None => return,
            },
            Around::Session(log) | Around::Anchored(Anchor { log, .. }) => {
                (None, Some(Place::Session(log)))
            }
            Around::Nothing => (None, None),
        };
        // A session id routes any event, also out of the session it happened in.
        let (cell, place) = match (raw.get("session_id"), place) {
            (Some(id), Some(place)) if *id == *place.log().id => (cell, place),
            (Some(id), _) => {
                let log = self.recorder.ledger.session(id);
                (None, Place::Session(log))
            }
            (None, Some(place)) => (cell, place),
            (None, None) => return,
        };
        self.recorder
            .log(cell.as_ref(), &place, *meta.level(), meta.target(), raw);
    }

    fn on_enter(&self, id: &Id, ctx: Context<'_, S>) {
        if self.is_second() {
            return;
        }
        // All but a span that was held back are open already. One that still has to say what it is
        // often does so inside.
        let bridged = cfg!(feature = "mirror") && self.recorder.context;
        if !bridged && self.recorder.held_back.load(Ordering::Relaxed) == 0 {
            return;
        }
        #[cfg(feature = "mirror")]
        {
            let key = self.recorder.registrar.key(id);
            if let Some(Some(context)) = last::with(key, |cell| cell.context()) {
                return self.attach(context, id);
            }
        }
        let Some(span) = ctx.span(id) else { return };
        let extensions = span.extensions();
        let Some(cell) = extensions.get::<Arc<Cell>>() else {
            return;
        };
        #[cfg(feature = "mirror")]
        if let Some(context) = cell.context() {
            drop(extensions);
            return self.attach(context, id);
        }
        let wanted = match cell.place() {
            Some(_) => bridged,
            None => !cell.waits_inside(),
        };
        if !wanted {
            return;
        }
        let cell = Arc::clone(cell);
        drop(extensions);
        self.recorder.place_of(&cell);
        #[cfg(feature = "mirror")]
        if bridged {
            self.enter_context(&cell, id);
        }
    }

    #[cfg(feature = "mirror")]
    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        if self.recorder.context && !self.is_second() {
            crate::otel::detach(self.recorder.registrar.key(id));
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        if self.is_second() {
            return;
        }
        if let Some(cell) = last::take(self.recorder.registrar.key(&id)) {
            return self.recorder.dropped(&cell);
        }
        let Some(span) = ctx.span(&id) else { return };
        let extensions = span.extensions();
        if let Some(cell) = extensions.get().map(Arc::<Cell>::clone) {
            drop(extensions);
            return self.recorder.dropped(&cell);
        }
        let anchored = extensions.get().map(|Anchor { log, .. }| log);
        let session = anchored.or_else(|| extensions.get().map(|Route(log)| log));
        if let Some(log) = session.map(Arc::clone) {
            drop(extensions);
            self.recorder.over(&log);
        }
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            Some(std::ptr::from_ref(self).cast())
        } else if id == TypeId::of::<Bridge>() && !self.is_second() {
            Some(std::ptr::from_ref(&self.bridge).cast())
        } else {
            None
        }
    }
}
