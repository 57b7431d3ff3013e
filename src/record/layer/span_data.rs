//! What the layer keeps for each agent span. The session's log owns the rest.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use serde_json::{Map, Value};
use tracing::Metadata;

use super::enclosing::ImplicitSession;
use crate::gen_ai::ChainTip;
use crate::record::otel::SpanOtel;
use crate::record::raw_fields::RawFields;
use crate::record::recognize::Mapping;
use crate::record::session::{Link, SessionLog, SpanContext};
use crate::trace::{Moment, RemoteContext, SpanKind, lock, new_span_id};

/// Where an event or a child span belongs: a session and, if there is one, a span in it.
#[derive(Debug)]
pub(crate) struct Target {
    pub log: Arc<SessionLog>,
    pub span: Option<SpanContext>,
}

impl Target {
    /// A session, and no span in it.
    pub fn session(log: Arc<SessionLog>) -> Arc<Self> {
        Arc::new(Self { log, span: None })
    }

    /// The span as other processes know it.
    pub fn remote_context(&self) -> Option<RemoteContext> {
        let SpanContext { ids, trace, .. } = self.span.as_ref()?;
        Some(RemoteContext {
            trace: ids.trace,
            span: ids.span,
            sampled: trace.sampled,
            remote: true,
            tracestate: trace.tracestate.clone(),
        })
    }
}

/// The parent of a new span.
#[derive(Clone, Debug)]
pub(crate) enum Parent {
    /// None is known here: the span starts a trace, unless an OpenTelemetry context or the environment
    /// names a parent.
    Unknown,
    /// None, because the user asked for that.
    Detached,
    /// An agent span of this ledger, or the session of a handle.
    Target(Arc<Target>),
    /// A span of another process.
    Remote(Box<RemoteContext>),
    /// A session that a foreign span names.
    Session(Arc<SessionLog>),
    /// The implicit session of a foreign span.
    Implicit(ImplicitSession),
}

/// An agent span. The registry's extensions hold it for as long as the span lives; a thread's cache of
/// recent spans may hold it longer.
#[derive(Debug)]
pub(crate) struct SpanData {
    /// Unknown until a recognized span has recorded its operation.
    kind: OnceLock<SpanKind>,
    /// How the fields of another library's span are read.
    pub mapping: Option<Mapping>,
    pub meta: &'static Metadata<'static>,
    pub start: Moment,
    pub span_id: u64,
    pub parent: Parent,
    /// A parent outside this ledger, used where `parent` is unknown: the current OpenTelemetry span, or
    /// the span of another ledger's session handle.
    pub outside: Option<Box<RemoteContext>>,
    /// The thread was already unwinding when the span was made, so its end does not mean that it failed.
    pub made_in_panic: bool,
    target: OnceLock<Arc<Target>>,
    /// What was recorded before the open line could be written.
    pending: Mutex<Option<Box<Pending>>>,
    entered: AtomicBool,
    closed: AtomicBool,
    pub otel: SpanOtel,
    /// What a recognized model call has recorded of its conversation so far.
    pub conversation: Mutex<Option<Box<Conversation>>>,
}

#[derive(Debug)]
struct Pending {
    fields: RawFields,
    links: Vec<Link>,
}

#[derive(Debug, Default)]
pub(crate) struct Conversation {
    /// The last message of the request.
    pub request_end: Option<ChainTip>,
    /// Digests of the answers.
    pub answers: Vec<u128>,
    /// The members of a recognized call's request, as they are recorded.
    pub body: Map<String, Value>,
}

thread_local! {
    /// Ids of the held-back spans whose open lines this thread is writing. A user's sampler runs
    /// meanwhile and may record on such a span, whose lock this thread already holds.
    static OPENING: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

struct Opening(u64);

impl Opening {
    fn begin(span_id: u64) -> Self {
        let _ = OPENING.try_with(|opening| opening.borrow_mut().push(span_id));
        Self(span_id)
    }

    fn includes(span_id: u64) -> bool {
        let includes = OPENING.try_with(|opening| opening.borrow().contains(&span_id));
        includes.unwrap_or(false)
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let _ = OPENING.try_with(|opening| opening.borrow_mut().retain(|id| *id != self.0));
    }
}

impl SpanData {
    /// `kind` is `None` for a recognized span that has not recorded its operation yet.
    pub fn new(
        kind: Option<SpanKind>,
        mapping: Option<Mapping>,
        meta: &'static Metadata<'static>,
        parent: Parent,
        start: Moment,
    ) -> Self {
        Self {
            kind: kind.map_or_else(OnceLock::new, OnceLock::from),
            mapping,
            meta,
            start,
            span_id: new_span_id(),
            parent,
            outside: None,
            made_in_panic: std::thread::panicking(),
            target: OnceLock::new(),
            pending: Mutex::new(None),
            entered: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            otel: SpanOtel::default(),
            conversation: Mutex::default(),
        }
    }

    /// The kind; `Other` as long as it is unknown.
    pub fn kind(&self) -> SpanKind {
        self.kind.get().copied().unwrap_or(SpanKind::Other)
    }

    /// Decides the kind for good, by these fields or else by the span's name.
    pub fn decide_kind(&self, raw: &RawFields) -> SpanKind {
        *self.kind.get_or_init(|| {
            let by_fields = self.mapping.as_ref().and_then(|mapping| mapping.kind(raw));
            by_fields.unwrap_or_else(|| Mapping::kind_by_name(self.meta))
        })
    }

    /// Notes that the span was entered. `true`: its open line still has to wait, because spans of unknown
    /// kind often record it inside.
    pub fn enter_unidentified(&self) -> bool {
        let waits = self.kind.get().is_none();
        if waits {
            self.entered.store(true, Ordering::Relaxed);
        }
        waits
    }

    /// Where the span is, once its open line has been written.
    pub fn target(&self) -> Option<&Arc<Target>> {
        self.target.get()
    }

    /// Sets the target of a span that is opened as it is made.
    pub fn opened(&mut self, target: Arc<Target>) {
        self.target = OnceLock::from(target);
    }

    /// Holds the open line back until more fields are recorded.
    pub fn hold_back(&mut self, fields: RawFields) {
        let links = Vec::new();
        self.pending = Mutex::new(Some(Box::new(Pending { fields, links })));
    }

    /// `None` while this thread itself is writing the open line.
    fn lock_pending(&self) -> Option<MutexGuard<'_, Option<Box<Pending>>>> {
        (!Opening::includes(self.span_id)).then(|| lock(&self.pending))
    }

    /// Runs `open` with the fields and links so far, once; concurrent callers wait for the target.
    pub fn open_once(
        &self,
        open: impl FnOnce(RawFields, &[Link]) -> Arc<Target>,
    ) -> Option<&Arc<Target>> {
        if self.target().is_none()
            && let Some(mut pending) = self.lock_pending()
            && let Some(pending) = pending.take()
        {
            let _opening = Opening::begin(self.span_id);
            let Pending { fields, links } = *pending;
            let target = open(fields, &links);
            self.target.get_or_init(|| target);
        }
        self.target()
    }

    /// Adds fields and links to a span that has no open line yet. `false`: it has one.
    pub fn add_pending(&self, fields: &RawFields, links: &[Link]) -> bool {
        if self.target().is_some() {
            return false;
        }
        let mut pending = self.lock_pending();
        let Some(Some(pending)) = pending.as_deref_mut() else {
            return false;
        };
        pending.fields.append(fields);
        pending.links.extend_from_slice(links);
        true
    }

    /// Whether a held-back open line could now identify the span.
    pub fn is_identified(&self) -> bool {
        match self.lock_pending().as_deref() {
            Some(Some(pending)) => self.is_identified_by(&pending.fields),
            _ => true,
        }
    }

    /// Whether an open line with these fields would identify the span.
    pub fn is_identified_by(&self, raw: &RawFields) -> bool {
        let known =
            |name: &str| raw.get(name).is_some() || self.meta.fields().field(name).is_none();
        match &self.mapping {
            None => self.kind().identity().is_none_or(known),
            Some(mapping) => {
                let kind = self.kind.get().copied().or_else(|| mapping.kind(raw));
                kind.is_some_and(|kind| {
                    self.entered.load(Ordering::Relaxed) || mapping.identity(kind).is_none_or(known)
                })
            }
        }
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Marks the span closed. `true`: it was not before.
    pub fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::Relaxed)
    }
}
