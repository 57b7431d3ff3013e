//! The way from our functions to the layer, past every neighbour.
//!
//! `Span::record` can only fill fields that the span declared, and every layer would see them.
//! So our functions reach the layer by downcast and hand over an [`Op`]. Where something between
//! hides the layer (a `reload` wrapper does), the op travels inside an event's field instead,
//! wrapped so that neighbours can print nothing but its size.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Dispatch, Span, span};

use super::cell::{Cell, Parent};
use super::find::{Around, Near};
use super::last;
use super::recorder::{Located, Recorder};
use crate::event::{Outcome, Plain, RawFields, Usage};

/// What a function of ours asks of the layer.
#[derive(Debug)]
pub(crate) enum Op {
    /// Fields recorded on a span.
    Record {
        fields: RawFields,
        usage: Option<Box<Usage>>,
        outcome: Outcome,
    },
    /// The close line, now.
    Finish(Outcome),
    /// An event.
    Event { kind: String, fields: RawFields },
    /// Where are we?
    Locate,
    /// Who is listening?
    Probe,
}

impl Op {
    /// Whether it needs a session even where none is around.
    pub fn anchors(&self) -> bool {
        matches!(self, Self::Event { .. })
    }
}

/// Reaches the layer from a dispatcher. `find` knows the subscriber's type.
pub(crate) struct Bridge {
    pub recorder: Arc<Recorder>,
    /// Looks around a span; where nothing is found, the recorder's implicit session is put there.
    pub find: fn(&Dispatch, &span::Id, Option<&Recorder>) -> Near,
}

impl Bridge {
    pub fn of(dispatch: &Dispatch) -> Option<&Self> {
        dispatch.downcast_ref()
    }

    fn near(&self, dispatch: &Dispatch, id: &span::Id, op: &Op) -> Near {
        if let Some(cell) = last::find(self.recorder.registrar.key(id)) {
            let what = Around::Agent(cell);
            return Near { what, exact: true };
        }
        let anchoring = op.anchors().then_some(&*self.recorder);
        (self.find)(dispatch, id, anchoring)
    }
}

/// How many layers of ours exist: with none, nothing is sent anywhere.
pub(crate) static LAYERS: AtomicUsize = AtomicUsize::new(0);

/// Performs `op` on a span.
pub(crate) fn on_span(span: &Span, op: Op) -> Option<Located> {
    if LAYERS.load(Ordering::Relaxed) == 0 {
        return None;
    }
    span.with_subscriber(|(id, dispatch)| match Bridge::of(dispatch) {
        Some(bridge) => {
            let near = bridge.near(dispatch, id, &op);
            bridge.recorder.perform(near, op)
        }
        None => {
            let hidden = Hidden::new(op);
            tracing::dispatcher::with_default(dispatch, || {
                let hidden: &(dyn Error + 'static) = &hidden;
                tracing::info!(target: "spanledger::hidden", parent: id.clone(), hidden);
            });
            hidden.answer()
        }
    })?
}

/// Records a plain value that says how a span went, straight into the fields of a span that the thread
/// remembers. `false`: it has to be recorded as any other. `give` hands the value over, and says whether it
/// was taken.
pub(crate) fn on_outcome(
    span: &Span,
    name: &str,
    give: impl FnOnce(&mut dyn FnMut(Plain<'_>) -> bool) -> bool,
) -> bool {
    if LAYERS.load(Ordering::Relaxed) == 0 {
        return true;
    }
    let done = span.with_subscriber(|(id, dispatch)| {
        let recorder = &Bridge::of(dispatch)?.recorder;
        let spot = |cell: &Arc<Cell>| cell.plain_spot().cloned();
        let spot = last::with(recorder.registrar.key(id), spot)??;
        let rides = spot.at.kind.rides_on_close(name);
        Some(rides && give(&mut |value| recorder.add_outcome(&spot, name, value)))
    });
    done.flatten().unwrap_or(false)
}

/// Performs `op` where the current thread is.
pub(crate) fn on_current(op: Op) -> Option<Located> {
    if LAYERS.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // Inside `get_default` the thread has no dispatcher to send an event to: leave it first.
    let dispatch = tracing::dispatcher::get_default(Dispatch::clone);
    if let Some(bridge) = Bridge::of(&dispatch) {
        let near = match dispatch.current_span().id() {
            Some(id) => bridge.near(&dispatch, id, &op),
            None => Near::default(),
        };
        return bridge.recorder.perform(near, op);
    }
    let hidden = Hidden::new(op);
    {
        let hidden: &(dyn Error + 'static) = &hidden;
        tracing::info!(target: "spanledger::hidden", hidden);
    }
    hidden.answer()
}

/// An op on its way inside an event's field.
pub(crate) struct Hidden {
    op: Mutex<Option<Op>>,
    answer: Mutex<Option<Located>>,
}

impl Hidden {
    fn new(op: Op) -> Self {
        Self {
            op: Mutex::new(Some(op)),
            answer: Mutex::new(None),
        }
    }

    fn answer(self) -> Option<Located> {
        self.answer
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", size_of::<Op>())
    }
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Error for Hidden {}

/// Takes the op out of an event's field, or puts the answer in.
#[derive(Default)]
pub(crate) struct Unhide {
    pub op: Option<Op>,
    pub answer: Option<Located>,
}

impl Visit for Unhide {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_error(&mut self, _: &Field, value: &(dyn Error + 'static)) {
        let Some(hidden) = value.downcast_ref::<Hidden>() else {
            return;
        };
        match self.answer.take() {
            Some(located) => {
                *hidden.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(located);
            }
            None => {
                self.op = hidden
                    .op
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take()
            }
        }
    }
}

/// What a constructor gives to the span it is about to make.
#[derive(Debug)]
pub(crate) struct Handoff {
    pub name: &'static str,
    pub fields: RawFields,
    /// Where it hangs, if not where the thread is.
    pub parent: Option<Given>,
}

/// What a user says that a span hangs from.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Parent(Parent),
    /// Where a handle is, which may be another ledger's.
    At(Box<Located>),
}

thread_local! {
    /// Nothing that the end of a thread takes away: a span that is made while it ends has its fields, too.
    static HANDOFF: RefCell<Option<ManuallyDrop<Handoff>>> = const { RefCell::new(None) };
}

/// What is seldom there: to take it as it is would be to copy it in any case.
fn take_boxed<T>(slot: &mut Option<T>) -> Option<Box<T>> {
    match slot.is_some() {
        true => slot.take().map(Box::new),
        false => None,
    }
}

/// Makes a span whose fields no neighbour sees.
pub(crate) fn hand_over(handoff: Handoff, make: impl FnOnce() -> Span) -> Span {
    /// What was being handed over meanwhile: a neighbour may make a span when it sees one made.
    struct Before(Option<Box<ManuallyDrop<Handoff>>>);
    impl Drop for Before {
        fn drop(&mut self) {
            let left = HANDOFF.try_with(|slot| {
                let mut slot = slot.borrow_mut();
                let left = take_boxed(&mut slot);
                if let Some(before) = self.0.take() {
                    *slot = Some(*before);
                }
                left
            });
            drop(
                left.unwrap_or_default()
                    .map(|left| ManuallyDrop::into_inner(*left)),
            );
        }
    }
    let before = HANDOFF.try_with(|slot| {
        let mut slot = slot.borrow_mut();
        let before = take_boxed(&mut slot);
        *slot = Some(ManuallyDrop::new(handoff));
        before
    });
    // Nobody may be listening; the next span on this thread must not find it.
    let _before = Before(before.unwrap_or_default());
    make()
}

/// What was handed over for the span of this name, if it came from one of our constructors.
pub(crate) fn take_handoff(meta: &tracing::Metadata<'_>) -> Option<Handoff> {
    if meta.target() != "spanledger" {
        return None;
    }
    let handed = HANDOFF.try_with(|slot| {
        let mut slot = slot.borrow_mut();
        slot.take_if(|handoff| handoff.name == meta.name())
    });
    handed.ok().flatten().map(ManuallyDrop::into_inner)
}
