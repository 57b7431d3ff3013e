//! How the functions of this crate reach the layer, unseen by other layers.
//!
//! `Span::record` can only fill fields that the span declared, and every layer sees them. So these functions
//! find the layer by downcast and pass it an [`Op`]. Where a wrapper hides the layer (`reload` does), the op
//! travels in the field of an event instead, in an [`OpEnvelope`] of which other layers can print only the
//! size.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tracing::field::{Field, Visit};
use tracing::{Dispatch, Span, span};

use super::enclosing::Enclosing;
use super::recent_spans;
use super::recorder::Recorder;
use crate::ledger::warn_once;
use crate::record::raw_fields::RawFields;
use crate::record::spans::Session;
use crate::trace::{Failure, Outcome, RemoteContext, Usage};

/// A request to the layer.
#[derive(Debug)]
pub(crate) enum Op {
    /// Record fields on a span.
    Record {
        fields: RawFields,
        usage: Option<Box<Usage>>,
    },
    /// Write the close line now.
    Finish {
        outcome: Outcome,
        error: Option<Failure>,
    },
    /// Record the body of a model call's request, as JSON.
    Request { body: String },
    /// Record the body of its answer, as JSON.
    Response { body: String },
    /// Record an event.
    Event { kind: String, fields: RawFields },
    /// Return a handle to the enclosing session.
    Locate,
    /// Return a handle to any session, to learn which ledger records here.
    Probe,
}

/// What a dispatcher gives by downcast: the recorder, and a search that knows the subscriber's type.
pub(crate) struct LayerHandle {
    pub recorder: Arc<Recorder>,
    pub find: fn(&Dispatch, &span::Id, Option<&Recorder>) -> Enclosing,
}

impl LayerHandle {
    pub fn of(dispatch: &Dispatch) -> Option<&Self> {
        dispatch.downcast_ref()
    }

    fn perform(&self, dispatch: &Dispatch, id: Option<&span::Id>, op: Op) -> Option<Session> {
        let enclosing = id.map_or(Enclosing::Nothing, |id| {
            match recent_spans::find(self.recorder.registrar.key(id)) {
                Some(data) => Enclosing::Span { data, exact: true },
                None => (self.find)(dispatch, id, self.recorder.implicit_for(&op)),
            }
        });
        self.recorder.perform(enclosing, op)
    }
}

/// How many layers exist. With none, ops are dropped at once.
pub(crate) static LAYERS: AtomicUsize = AtomicUsize::new(0);

/// Performs `op` on a span.
pub(crate) fn on_span(span: &Span, op: Op) -> Option<Session> {
    if LAYERS.load(Ordering::Relaxed) == 0 {
        return None;
    }
    span.with_subscriber(|(id, dispatch)| perform(dispatch, Some(id), op))?
}

/// Performs `op` at the current span of this thread.
pub(crate) fn on_current(op: Op) -> Option<Session> {
    if LAYERS.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // A clone, because events sent inside `get_default` reach no dispatcher.
    let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
    perform(&dispatch, dispatch.current_span().id(), op)
}

fn perform(dispatch: &Dispatch, id: Option<&span::Id>, op: Op) -> Option<Session> {
    if let Some(layer) = LayerHandle::of(dispatch) {
        return layer.perform(dispatch, id, op);
    }
    let envelope = OpEnvelope {
        op: Cell::new(Some(op)),
        answer: Cell::new(None),
    };
    tracing::dispatcher::with_default(dispatch, || {
        let op: &(dyn Error + 'static) = &envelope;
        tracing::info!(target: "spanledger::hidden", parent: id.cloned(), op);
    });
    envelope.answer.into_inner()
}

/// An op in the field of an event, and the layer's answer.
pub(crate) struct OpEnvelope {
    op: Cell<Option<Op>>,
    answer: Cell<Option<Session>>,
}

impl fmt::Debug for OpEnvelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", size_of::<Op>())
    }
}

impl fmt::Display for OpEnvelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Error for OpEnvelope {}

/// Performs the op that an event carries.
pub(crate) struct OpVisitor<F>(pub F);

impl<F: FnMut(Op) -> Option<Session>> Visit for OpVisitor<F> {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_error(&mut self, _: &Field, value: &(dyn Error + 'static)) {
        if let Some(envelope) = value.downcast_ref::<OpEnvelope>()
            && let Some(op) = envelope.op.take()
        {
            envelope.answer.set((self.0)(op));
        }
    }
}

/// What a constructor passes to the layer with the span that it is about to make.
#[derive(Debug)]
pub(crate) struct PendingSpan {
    pub name: &'static str,
    pub fields: RawFields,
    pub parent: Option<ExplicitParent>,
}

/// The parent that a constructor was given, in place of the current span.
#[derive(Clone, Debug)]
pub(crate) enum ExplicitParent {
    /// A `tracing` span; every layer sees it.
    Span(Span),
    /// Where a session handle is, maybe in another ledger.
    Session(Session),
    /// A span of another process.
    Remote(RemoteContext),
    /// None.
    Detached,
    /// Nothing is recorded of the span: it shows which layers see agent spans. Set by our layer.
    Probe(Arc<AtomicBool>),
}

type Slot = Cell<Option<ManuallyDrop<PendingSpan>>>;

thread_local! {
    /// `ManuallyDrop` because a thread-local without a destructor still works while the thread ends.
    static PENDING: Slot = const { Cell::new(None) };
}

/// Makes a span whose fields no other layer sees.
pub(crate) fn make_span(pending: PendingSpan, make: impl Fn() -> Span) -> Span {
    /// Removes what the layer left, and restores what was there: another layer may make an agent span
    /// when it sees one made.
    struct Restore(Option<ManuallyDrop<PendingSpan>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let left = PENDING.with(|slot| slot.replace(self.0.take()));
            drop(left.map(ManuallyDrop::into_inner));
        }
    }
    let pending = Some(ManuallyDrop::new(pending));
    let _restore = Restore(PENDING.with(|slot| slot.replace(pending)));
    let span = make();
    if !is_cached_as_disabled(&span) {
        return span;
    }
    let span = make();
    match span.is_disabled() {
        true => warn_filtered(),
        false => IS_FILTERED.store(false, Ordering::Relaxed),
    }
    span
}

/// The cache of `tracing` was rebuilt in vain: a filter disables agent spans.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);

/// Why agent spans are not recorded although the layer is installed.
pub(crate) const FILTERED: &str = "a global filter, or one on spanledger's own layer, disables the target \
     `spanledger`; filter your fmt layer instead: `fmt::layer().with_filter(..)`";

/// Warns once for the process.
#[cold]
fn warn_filtered() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    warn_once(
        &WARNED,
        &format!("agent spans are not recorded: {FILTERED}"),
    );
}

/// Whether a new span is disabled only because `tracing` cached that, and no longer is. With a single
/// subscriber that is not the global one, `tracing` asks the thread that first reaches a callsite, for all
/// threads; a thread without a subscriber would disable the callsite for good.
fn is_cached_as_disabled(span: &Span) -> bool {
    if !span.is_disabled() {
        if IS_FILTERED.load(Ordering::Relaxed) {
            IS_FILTERED.store(false, Ordering::Relaxed);
        }
        return false;
    }
    let has_layer = LAYERS.load(Ordering::Relaxed) > 0
        && tracing::dispatcher::get_default(|dispatch| {
            LayerHandle::of(dispatch).is_some_and(|layer| !layer.recorder.process.disabled)
        });
    let is_new = has_layer && !IS_FILTERED.swap(true, Ordering::Relaxed);
    if is_new {
        tracing::callsite::rebuild_interest_cache();
    }
    is_new
}

/// What a constructor of ours passed for the span with this metadata.
pub(crate) fn take_pending(meta: &tracing::Metadata<'_>) -> Option<PendingSpan> {
    if meta.target() != "spanledger" {
        return None;
    }
    PENDING.with(|slot| {
        let pending = slot.take()?;
        if pending.name == meta.name() {
            return Some(ManuallyDrop::into_inner(pending));
        }
        slot.set(Some(pending));
        None
    })
}
