//! What the layer knows of a span: little, since the session's log owns the rest.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use tracing::Metadata;

use crate::event::{RawFields, RemoteContext, SpanKind};
use crate::ledger::{At, End, Moment, SessionLog, Trace, fork_generation};
use crate::recognise::Reading;

/// Where a child or an event belongs. Each child takes a copy of its parent's, so all that it says
/// is counted once.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Span(Arc<Spot>),
    /// A session, and no span in it.
    Session(Arc<SessionLog>),
}

/// A span, in its session.
#[derive(Debug)]
pub(crate) struct Spot {
    pub log: Arc<SessionLog>,
    pub at: At,
}

impl Place {
    pub fn span(log: Arc<SessionLog>, at: At) -> Self {
        Self::Span(Arc::new(Spot { log, at }))
    }

    pub fn log(&self) -> &Arc<SessionLog> {
        match self {
            Self::Span(spot) => &spot.log,
            Self::Session(log) => log,
        }
    }

    pub fn at(&self) -> Option<&At> {
        match self {
            Self::Span(spot) => Some(&spot.at),
            Self::Session(_) => None,
        }
    }
}

/// The trace that agent spans without a run share under one foreign span.
#[derive(Clone, Debug)]
pub(crate) struct Anchor {
    pub log: Arc<SessionLog>,
    pub trace: Arc<Trace>,
}

/// A foreign span whose `session_id` field routes what happens inside it.
#[derive(Clone, Debug)]
pub(crate) struct Route(pub Arc<SessionLog>);

/// What a span hangs from.
#[derive(Clone, Debug, Default)]
pub(crate) enum Parent {
    /// Nothing that is known here: a new trace, unless one comes from outside.
    #[default]
    Root,
    /// Nothing, since the user said so.
    Detached,
    /// An agent span, in a session.
    Place(Place),
    /// A span of another process.
    Remote(Box<RemoteContext>),
    /// A session without a span of its own.
    Session(Arc<SessionLog>),
    /// The implicit session of a foreign span.
    Anchored(Anchor),
}

/// What is known when a span is made, as for most, or decided once later. A `OnceLock` alone would
/// do, but to fill one costs a synchronisation that nobody else can see yet.
#[derive(Debug)]
struct Decided<T> {
    now: Option<T>,
    later: OnceLock<T>,
}

impl<T> Decided<T> {
    fn now(value: T) -> Self {
        Self {
            now: Some(value),
            later: OnceLock::new(),
        }
    }

    fn later() -> Self {
        Self {
            now: None,
            later: OnceLock::new(),
        }
    }

    fn get(&self) -> Option<&T> {
        self.now.as_ref().or_else(|| self.later.get())
    }

    fn get_or_init(&self, decide: impl FnOnce() -> T) -> &T {
        match &self.now {
            Some(value) => value,
            None => self.later.get_or_init(decide),
        }
    }

    /// Has no effect if it was decided before.
    fn set(&self, value: T) {
        self.get_or_init(|| value);
    }
}

/// An agent span, kept in the registry's extensions for as long as the span lives. A thread that
/// remembers it may keep it for longer.
#[derive(Debug)]
pub(crate) struct Cell {
    /// Not known yet of a recognised span that has not said what it is.
    kind: Decided<SpanKind>,
    /// How the fields of a span of another library are read.
    pub reading: Option<Reading>,
    pub meta: &'static Metadata<'static>,
    pub generation: u64,
    pub start: Moment,
    pub span: u64,
    pub parent: Parent,
    /// The span of an OpenTelemetry context that was current when it was made, if no agent span
    /// was around it; or of another ledger, if its maker said so.
    pub outside: Option<Box<RemoteContext>>,
    /// The thread was unwinding already when the span was made: its end proves nothing.
    pub made_in_panic: bool,
    place: Decided<Place>,
    /// What was given before the open line could be written.
    pending: Mutex<Option<Box<Pending>>>,
    /// Entered before it had said what it is.
    entered: AtomicBool,
    closed: AtomicBool,
    #[cfg(feature = "mirror")]
    context: Mutex<Option<opentelemetry::Context>>,
    /// How far a recognised model call has told its conversation.
    pub talk: Mutex<Option<Box<Talk>>>,
}

/// What is kept of a span until its open line can say what was opened.
#[derive(Debug)]
struct Pending {
    fields: RawFields,
    links: Vec<(u128, u64)>,
}

thread_local! {
    /// The spans whose open lines this thread is about to write, by id: one that was held back, and
    /// seldom another.
    static OPENING: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// That a thread opens a span which was held back. A sampler is asked meanwhile, which is the user's
/// and may say something: inside that very span, if it has been entered.
struct Opening(u64);

impl Opening {
    fn begin(span: u64) -> Self {
        let _ = OPENING.try_with(|opening| opening.borrow_mut().push(span));
        Self(span)
    }

    fn is(span: u64) -> bool {
        let is = OPENING.try_with(|opening| opening.borrow().contains(&span));
        is.unwrap_or(false)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let _ = OPENING.try_with(|opening| opening.borrow_mut().retain(|span| *span != self.0));
    }
}

/// What a model call was told, and what it has answered so far.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    pub heard: Option<End>,
    pub answers: Vec<u128>,
}

impl Cell {
    pub fn new(
        kind: SpanKind,
        meta: &'static Metadata<'static>,
        start: Moment,
        parent: Parent,
    ) -> Self {
        Self {
            kind: Decided::now(kind),
            reading: None,
            meta,
            generation: fork_generation(),
            start,
            span: crate::event::new_span_id(),
            parent,
            outside: None,
            made_in_panic: std::thread::panicking(),
            place: Decided::later(),
            pending: Mutex::new(None),
            talk: Mutex::default(),
            entered: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            #[cfg(feature = "mirror")]
            context: Mutex::default(),
        }
    }

    /// A span of another library, of a kind that may not be known yet.
    pub fn recognised(
        reading: Reading,
        kind: Option<SpanKind>,
        meta: &'static Metadata<'static>,
        start: Moment,
        parent: Parent,
    ) -> Self {
        Self {
            kind: kind.map_or_else(Decided::later, Decided::now),
            reading: Some(reading),
            ..Self::new(SpanKind::Other, meta, start, parent)
        }
    }

    /// What it is; as long as nobody knows, none of the six.
    pub fn kind(&self) -> SpanKind {
        self.kind.get().copied().unwrap_or(SpanKind::Other)
    }

    /// What it is from now on, going by these fields.
    pub fn settle_kind(&self, raw: &RawFields) -> SpanKind {
        *self.kind.get_or_init(|| {
            let said = self.reading.as_ref().and_then(|reading| reading.kind(raw));
            said.unwrap_or_else(|| Reading::kind_by_name(self.meta))
        })
    }

    /// Notes that it is entered. Whether its open line has to wait all the same: for a span that
    /// still has to say what it is, as it often does inside.
    pub fn waits_inside(&self) -> bool {
        let waits = self.kind.get().is_none();
        if waits {
            self.entered.store(true, Ordering::Relaxed);
        }
        waits
    }

    /// Notes the span of the OpenTelemetry API that it is made in, where no agent span is around.
    #[cfg(feature = "mirror")]
    pub fn look_outside(&mut self, recorder: &Arc<super::Recorder>, contextual: bool) {
        use crate::otel::Current;
        let said = matches!(
            self.parent,
            Parent::Place(_) | Parent::Remote(_) | Parent::Detached
        );
        if said || self.outside.is_some() {
            return;
        }
        match crate::otel::current() {
            Some(Current::Agent(within)) if !within.is_of(recorder) => {
                let other_ledgers = RemoteContext::of(within.at());
                self.outside = Some(Box::new(other_ledgers));
            }
            // A span that is said to have another parent, another session or none is not meant to
            // hang from the agent span that happens to be current.
            Some(Current::Agent(_)) if !contextual || matches!(self.parent, Parent::Session(_)) => {
            }
            // The context came here without the span: to another thread, say.
            Some(Current::Agent(within)) => self.parent = Parent::Place(within.place()),
            Some(Current::Other(span)) => self.outside = Some(Box::new(span)),
            None => {}
        }
    }

    /// Makes it a context of the OpenTelemetry API, if it is open already.
    #[cfg(feature = "mirror")]
    pub fn begin_context(&mut self, recorder: &Arc<super::Recorder>) {
        if let Some(Place::Span(spot)) = self.place() {
            let context = crate::otel::context_here(recorder, spot);
            self.context = Mutex::new(Some(context));
        }
    }

    /// The context of the OpenTelemetry API that it is, once it is open.
    #[cfg(feature = "mirror")]
    pub fn give_context(&self, recorder: &Arc<super::Recorder>) -> Option<opentelemetry::Context> {
        if let Some(context) = self.context() {
            return Some(context);
        }
        let Some(Place::Span(spot)) = self.place() else {
            return None;
        };
        // Made before the lock is taken, and dropped after: both may run what is somebody else's.
        let context = crate::otel::context_here(recorder, spot);
        if let Some(mut kept) = self.lock_context() {
            return Some(kept.get_or_insert_with(|| context.clone()).clone());
        }
        Some(context)
    }

    /// The same, if it was needed before.
    #[cfg(feature = "mirror")]
    pub fn context(&self) -> Option<opentelemetry::Context> {
        self.lock_context()?.clone()
    }

    /// Lets go of it.
    #[cfg(feature = "mirror")]
    pub fn forget_context(&self) {
        let context = self.lock_context().and_then(|mut kept| kept.take());
        drop(context);
    }

    /// It is held for no longer than a copy takes. Where it can't be had, one is made anew.
    #[cfg(feature = "mirror")]
    fn lock_context(&self) -> Option<MutexGuard<'_, Option<opentelemetry::Context>>> {
        self.lock_here(&self.context)
    }

    /// A forked child does not wait for a lock: whoever held it may be gone.
    fn lock_here<'a, T>(&self, mutex: &'a Mutex<T>) -> Option<MutexGuard<'a, T>> {
        if self.generation == fork_generation() {
            return Some(mutex.lock().unwrap_or_else(PoisonError::into_inner));
        }
        match mutex.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// What waits for the open line. Nothing is to be had while this very thread writes that.
    fn lock_pending(&self) -> Option<MutexGuard<'_, Option<Box<Pending>>>> {
        (!Opening::is(self.span)).then(|| self.lock_here(&self.pending))?
    }

    /// Where it is, once its open line has been written.
    pub fn place(&self) -> Option<&Place> {
        self.place.get()
    }

    /// The same of a span whose fields are taken as they are given.
    pub fn plain_spot(&self) -> Option<&Arc<Spot>> {
        match self.place()? {
            Place::Span(spot) if self.reading.is_none() => Some(spot),
            _ => None,
        }
    }

    /// Notes where it is, its open line having been written before anybody else knew of it.
    pub fn opened(&mut self, place: Place) {
        self.place = Decided::now(place);
    }

    /// Keeps its fields until there are more.
    pub fn hold_back(&mut self, fields: RawFields) {
        let links = Vec::new();
        self.pending = Mutex::new(Some(Box::new(Pending { fields, links })));
    }

    /// Runs `open` with the fields and links so far, the first time; later callers wait for it and
    /// see the place it made.
    pub fn open_once(
        &self,
        open: impl FnOnce(RawFields, &[(u128, u64)]) -> Place,
    ) -> Option<&Place> {
        if self.place.get().is_none()
            && let Some(mut pending) = self.lock_pending()
            && let Some(pending) = pending.take()
        {
            let _opening = Opening::begin(self.span);
            let Pending { fields, links } = *pending;
            self.place.set(open(fields, &links));
        }
        self.place()
    }

    /// Adds to the fields of a span that has no open line yet. `false`: it has one.
    pub fn add_pending(&self, fields: &RawFields) -> bool {
        if self.place.get().is_some() {
            return false;
        }
        let mut pending = self.lock_pending();
        match pending.as_deref_mut() {
            Some(Some(pending)) => {
                pending.fields.append(fields);
                true
            }
            _ => false,
        }
    }

    /// Keeps a link until there is an open line. `false`: there is one.
    pub fn add_pending_link(&self, link: (u128, u64)) -> bool {
        let mut pending = self.lock_pending();
        let Some(Some(pending)) = pending.as_deref_mut() else {
            return false;
        };
        pending.links.push(link);
        true
    }

    /// Whether the open line can say what was opened.
    pub fn is_identified(&self) -> bool {
        match self.lock_pending().as_deref() {
            Some(Some(pending)) => self.is_identified_by(&pending.fields),
            _ => true,
        }
    }

    /// The same, by these fields.
    pub fn is_identified_by(&self, raw: &RawFields) -> bool {
        let there =
            |name: &str| raw.get(name).is_some() || self.meta.fields().field(name).is_none();
        match &self.reading {
            None => self.kind().identity().is_none_or(there),
            Some(reading) => {
                let kind = self.kind.get().copied().or_else(|| reading.kind(raw));
                kind.is_some_and(|kind| {
                    self.entered.load(Ordering::Relaxed) || reading.identity(kind).is_none_or(there)
                })
            }
        }
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Notes that the span is gone.
    pub fn end(&self) {
        if !self.is_closed() {
            self.closed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether this is the first to close it.
    pub fn close_first(&self) -> bool {
        !self.closed.swap(true, Ordering::Relaxed)
    }
}
