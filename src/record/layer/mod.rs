//! The `tracing` layer that an agent installs.
//!
//! A span goes from here to the [`recorder`], which finds its session and redacts its fields, then to
//! `session/spans.rs`, which makes its lines, and then to the ledger, which appends them.

mod allowed;
mod enclosing;
mod events;
mod filter;
mod ops;
mod placement;
mod recent_spans;
mod recognized;
mod recorder;
mod request;
mod span_data;
mod visit;

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

pub use filter::LedgerFilter;

pub(crate) use filter::Choose;
pub(crate) use ops::{ExplicitParent, FILTERED, Op, PendingSpan, make_span, on_current, on_span};
pub(crate) use recent_spans::Key;
pub(crate) use recorder::{Recorder, Update};
pub(crate) use span_data::{Parent, SpanData, Target};

use enclosing::{Enclosing, ImplicitSession, SessionOverride};
use filter::SpanRole;
use ops::{LAYERS, LayerHandle, OpVisitor, take_pending};
use recent_spans::Slot;
use visit::{Collect, FindSessionId};

use crate::record::otel;
use crate::record::raw_fields::RawFields;
use crate::record::recognize::Mapping;
use crate::record::spans::Session;
use crate::trace::{Moment, RemoteContext, SpanKind, is_ours};

/// The layer that [`Builder::build`](crate::Builder::build) returns: it records agent spans, and carries its
/// own filter, so that the filters of other layers don't change the trace.
pub type LedgerLayer<S> = Filtered<RecordingLayer<S>, LedgerFilter, S>;

/// Records agent spans; always wrapped in its filter as [`LedgerLayer`].
pub struct RecordingLayer<S> {
    recorder: Arc<Recorder>,
    filter: LedgerFilter,
    handle: LayerHandle,
    /// `UNKNOWN`, `SOLE` or `SECOND`.
    rank: AtomicU8,
    _subscriber: std::marker::PhantomData<fn(S)>,
}

/// Whether another RecordingLayer shares the subscriber is not known yet.
const UNKNOWN: u8 = 0;
/// No other one does.
const SOLE: u8 = 1;
/// Another one does, so this one stays inactive: a span has room for the data of one.
const SECOND: u8 = 2;

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
        let handle = LayerHandle {
            recorder: Arc::clone(&recorder),
            find: |dispatch, id, implicit| {
                let span = dispatch.downcast_ref::<S>().and_then(|s| s.span(id));
                Enclosing::find(span, implicit)
            },
        };
        Self {
            recorder,
            filter,
            handle,
            rank: AtomicU8::new(UNKNOWN),
            _subscriber: std::marker::PhantomData,
        }
    }

    fn is_second(&self) -> bool {
        self.rank.load(Ordering::Relaxed) == SECOND
    }

    /// Whether another ledger records here, or this process is a fork of the one that records.
    fn is_inactive(&self) -> bool {
        self.is_second() || self.recorder.process.ledger.is_forked()
    }

    /// The same for a new span or event, which is counted as lost if the parent process would record it.
    fn refuses(&self, meta: &Metadata<'_>) -> bool {
        let inactive = self.is_inactive();
        if inactive && !self.is_second() && is_ours(meta) {
            self.recorder.process.refuses();
        }
        inactive
    }

    /// Whether a new span has another ledger's data. Checked once, because not every wrapper of layers
    /// shows the layers in it.
    fn is_taken(&self, id: &Id, ctx: &Context<'_, S>) -> bool {
        if self.rank.load(Ordering::Relaxed) == SOLE {
            return false;
        }
        let taken = ctx.span(id).is_some_and(|span| {
            let extensions = span.extensions();
            extensions.get::<Arc<SpanData>>().is_some()
                || extensions.get::<SessionOverride>().is_some()
        });
        let rank = if taken { SECOND } else { SOLE };
        self.rank.store(rank, Ordering::Relaxed);
        taken
    }

    /// A clone, because the registry must not stay borrowed while it is used.
    fn data_of(span: &SpanRef<'_, S>) -> Option<Arc<SpanData>> {
        span.extensions().get::<Arc<SpanData>>().cloned()
    }

    fn data(&self, ctx: &Context<'_, S>, id: &Id) -> Option<Arc<SpanData>> {
        let key = self.recorder.registrar.key(id);
        recent_spans::find(key).or_else(|| {
            let data = Self::data_of(&ctx.span(id)?)?;
            recent_spans::remember(Slot::Last, key, &data);
            Some(data)
        })
    }

    /// Opens a span that gets lines: an agent span, a recognized one, or a foreign one that the user chose.
    fn open_span(
        &self,
        kind: Option<SpanKind>,
        mapping: Option<Mapping>,
        attrs: &Attributes<'_>,
        (id, ctx): (&Id, &Context<'_, S>),
    ) {
        let (meta, start) = (attrs.metadata(), Moment::now());
        let pending = take_pending(meta);
        let complete = pending.is_some();
        let (raw, explicit) = pending.map_or_else(
            || {
                let mut raw = RawFields::new();
                attrs.record(&mut Collect(&mut raw));
                (raw, None)
            },
            |pending| (pending.fields, pending.parent),
        );
        let is_chosen = mapping.is_none() && kind == Some(SpanKind::Other);
        let kind = kind.or_else(|| mapping.as_ref()?.kind(&raw));
        let needs_session = kind != Some(SpanKind::Run) && !is_chosen;
        let (parent, outside) = match explicit {
            None | Some(ExplicitParent::Span(_)) => (self.parent(needs_session, attrs, ctx), None),
            Some(ExplicitParent::Session(handle)) => self.parent_in(handle),
            Some(ExplicitParent::Remote(remote)) => (Parent::Remote(Box::new(remote)), None),
            Some(ExplicitParent::Detached) => (Parent::Detached, None),
            Some(ExplicitParent::Probe(seen)) => return seen.store(true, Ordering::Relaxed),
        };
        if is_chosen
            && !matches!(parent, Parent::Target(_) | Parent::Session(_))
            && raw.get(field!(Run.session_id)).is_none()
        {
            // Such spans are recorded only inside sessions.
            return;
        }
        let mut data = SpanData::new(kind, mapping, meta, parent, start);
        data.outside = outside;
        otel::find_parent(&self.recorder, &mut data, attrs.is_contextual());
        self.recorder.begin(&mut data, raw, complete);
        otel::create_context(&self.recorder, &mut data);
        if let Some(span) = ctx.span(id) {
            let data = Arc::new(data);
            recent_spans::remember(Slot::Last, self.recorder.registrar.key(id), &data);
            span.extensions_mut().replace(data);
        }
    }

    /// The parent of a new span, by the spans around it. With `needs_session`, an implicit session is
    /// created where no session is.
    fn parent(&self, needs_session: bool, attrs: &Attributes<'_>, ctx: &Context<'_, S>) -> Parent {
        let registrar = self.recorder.registrar;
        let current = attrs.is_contextual().then(|| ctx.current_span());
        let id = attrs.parent().or_else(|| current.as_ref()?.id());
        if let Some(data) = id.and_then(|id| recent_spans::find(registrar.key(id)))
            && let Some(target) = data.target()
        {
            return Parent::Target(Arc::clone(target));
        }
        let around = match attrs.is_contextual() {
            // Not always the span of that id: this skips spans that the filter leaves out.
            true => ctx.lookup_current(),
            false => attrs.parent().and_then(|id| ctx.span(id)),
        };
        let around_key = around.as_ref().map(|span| registrar.key(&span.id()));
        match Enclosing::find(around, needs_session.then_some(&*self.recorder)) {
            Enclosing::Span { data, exact } => {
                let Some(target) = self.recorder.target_of(&data) else {
                    return Parent::Unknown;
                };
                if let Some(key) = around_key.filter(|_| exact) {
                    recent_spans::remember(Slot::Parent, key, &data);
                }
                Parent::Target(Arc::clone(target))
            }
            Enclosing::Session(log) => Parent::Session(log),
            Enclosing::Implicit(session) => Parent::Implicit(session),
            Enclosing::Nothing => Parent::Unknown,
        }
    }

    /// The parent at a session handle. A handle of another ledger stands for the session of that name in
    /// this one, and for a span outside it.
    fn parent_in(&self, handle: Session) -> (Parent, Option<Box<RemoteContext>>) {
        if Arc::ptr_eq(&handle.recorder, &self.recorder) {
            return (Parent::Target(handle.target), None);
        }
        let log = self.recorder.process.session(handle.id());
        (Parent::Session(log), handle.remote_context().map(Box::new))
    }

    /// Notes the session that a foreign span names.
    fn override_session(&self, id: &Id, session: Option<String>, ctx: &Context<'_, S>) {
        let (Some(session), Some(span)) = (session, ctx.span(id)) else {
            return;
        };
        // A span that names the session it is already in stays transparent: what is inside it hangs from
        // the agent span around it.
        let inside = match Enclosing::find(span.parent(), None) {
            Enclosing::Span { data, .. } => self
                .recorder
                .target_of(&data)
                .is_some_and(|target| *target.log.id == *session),
            _ => false,
        };
        let mut extensions = span.extensions_mut();
        if inside {
            extensions.remove::<SessionOverride>();
        } else {
            extensions.replace(SessionOverride(self.recorder.process.session(&session)));
        }
    }

    /// Records a log event, if it is inside a session or names one.
    fn on_log_event(&self, event: &Event<'_>, ctx: &Context<'_, S>) {
        let mut raw = RawFields::new();
        event.record(&mut Collect(&mut raw));
        let enclosing = Enclosing::find(ctx.event_span(event), None);
        let mut target = self.recorder.target_in(&enclosing);
        let mut data = match enclosing {
            Enclosing::Span { data, .. } => Some(data),
            _ => None,
        };
        let is_in = |target: &Arc<Target>, id: &str| *target.log.id == *id;
        if let Some(id) = raw.get(field!(Run.session_id))
            && !target.as_ref().is_some_and(|target| is_in(target, id))
        {
            data = None;
            target = Some(Target::session(self.recorder.process.session(id)));
        }
        if let Some(target) = target {
            self.recorder
                .log(data.as_deref(), &target, event.metadata(), raw);
        }
    }
}

impl<S> tracing_subscriber::Layer<S> for RecordingLayer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_register_dispatch(&self, dispatch: &tracing::Dispatch) {
        // Finds a layer beside this one; `on_layer` only sees those below.
        if LayerHandle::of(dispatch).is_some_and(|found| !std::ptr::eq(found, &self.handle)) {
            self.rank.store(SECOND, Ordering::Relaxed);
        }
    }

    fn on_layer(&mut self, subscriber: &mut S) {
        let below: &dyn Subscriber = subscriber;
        if below.is::<LayerHandle>() {
            *self.rank.get_mut() = SECOND;
        }
    }

    fn on_new_span(&self, attrs: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let meta = attrs.metadata();
        if self.refuses(meta) {
            return;
        }
        match self.filter.role(meta) {
            SpanRole::Foreign => {}
            _ if self.is_taken(id, &ctx) => {}
            SpanRole::Agent(kind) => self.open_span(Some(kind), None, attrs, (id, &ctx)),
            SpanRole::Chosen => self.open_span(Some(SpanKind::Other), None, attrs, (id, &ctx)),
            SpanRole::Recognized(mapping) => {
                self.open_span(None, Some(mapping), attrs, (id, &ctx));
            }
            SpanRole::NamesSession => {
                let mut found = FindSessionId::default();
                attrs.record(&mut found);
                self.override_session(id, found.0, &ctx);
            }
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        if self.is_inactive() {
            return;
        }
        let Some(data) = self.data(&ctx, id) else {
            let mut found = FindSessionId::default();
            values.record(&mut found);
            return self.override_session(id, found.0, &ctx);
        };
        let mut raw = RawFields::new();
        values.record(&mut Collect(&mut raw));
        if raw.is_empty() {
            return;
        }
        let was_held_back = data.target().is_none();
        self.recorder.record(&data, Update::fields(&raw));
        raw.recycle();
        if was_held_back && data.target().is_some() && ctx.current_span().id() == Some(id) {
            // It was entered before it was opened.
            self.recorder.otel.enter(&self.recorder, &data, id);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, ctx: Context<'_, S>) {
        if self.is_inactive() {
            return;
        }
        let (Some(data), Some(followed)) = (self.data(&ctx, id), self.data(&ctx, follows)) else {
            return;
        };
        let target = self.recorder.target_of(&followed);
        if let Some(span) = target.and_then(|target| target.span.as_ref()) {
            let none = RawFields::new();
            let update = Update {
                links: &[span.link()],
                ..Update::fields(&none)
            };
            self.recorder.record(&data, update);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let meta = event.metadata();
        if self.refuses(meta) {
            return;
        }
        let perform = |op: Op| {
            let implicit = self.recorder.implicit_for(&op);
            let enclosing = Enclosing::find(ctx.event_span(event), implicit);
            self.recorder.perform(enclosing, op)
        };
        match meta.target().strip_prefix("spanledger::") {
            Some("hidden") => event.record(&mut OpVisitor(perform)),
            Some(kind) => {
                let mut fields = RawFields::new();
                event.record(&mut Collect(&mut fields));
                fields.rename(field!(Log.message), field!(Message.content));
                let kind = kind.to_owned();
                perform(Op::Event { kind, fields });
            }
            None if self.filter.records_event(meta) => self.on_log_event(event, &ctx),
            None => {}
        }
    }

    fn on_enter(&self, id: &Id, ctx: Context<'_, S>) {
        // Only held-back spans are not open yet.
        let held_back = self.recorder.held_back.load(Ordering::Relaxed) > 0;
        if self.is_inactive() || !held_back && !self.recorder.otel.is_on() {
            return;
        }
        let Some(data) = self.data(&ctx, id) else {
            return;
        };
        if data.target().is_none() {
            if data.enter_unidentified() {
                return;
            }
            self.recorder.target_of(&data);
        }
        self.recorder.otel.enter(&self.recorder, &data, id);
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        if self.recorder.otel.is_on() && !self.is_inactive() {
            otel::detach(self.recorder.registrar.key(id));
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        if self.is_inactive() {
            return;
        }
        if let Some(data) = recent_spans::take(self.recorder.registrar.key(&id)) {
            return self.recorder.dropped(&data);
        }
        let Some(span) = ctx.span(&id) else { return };
        if let Some(data) = Self::data_of(&span) {
            return self.recorder.dropped(&data);
        }
        let extensions = span.extensions();
        let implicit = extensions.get().map(|ImplicitSession { log, .. }| log);
        let log = implicit.or_else(|| extensions.get().map(|SessionOverride(log)| log));
        if let Some(log) = log.map(Arc::clone) {
            drop(extensions);
            log.lock(&self.recorder.process).end_synthetic(None);
        }
    }

    unsafe fn downcast_raw(&self, id: TypeId) -> Option<*const ()> {
        if id == TypeId::of::<Self>() {
            Some(std::ptr::from_ref(self).cast())
        } else if id == TypeId::of::<LayerHandle>() && !self.is_second() {
            Some(std::ptr::from_ref(&self.handle).cast())
        } else {
            None
        }
    }
}
