//! The agent span that a thread made last, or was last asked about. Most of what is said of a span
//! is said right after it was made, and where it was: found here, that takes none of the registry's
//! atomics, which cost more than what is then done with it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::span::Id;

use super::cell::Cell;

/// Tells the spans of one subscriber from those of another, for as long as the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registrar(u64);

impl Registrar {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub fn key(self, id: &Id) -> Key {
        Key(self, id.into_u64())
    }
}

/// A span. The registry gives an id to another one, some day, when it has let go of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(Registrar, u64);

struct Last {
    key: Key,
    cell: Arc<Cell>,
}

impl Last {
    /// One that has been closed may be another's of the same id by now.
    fn is(&self, key: Key) -> bool {
        self.key == key && !self.cell.is_closed()
    }
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// Remembers a span until the thread makes another, or closes it.
pub(super) fn remember(key: Key, cell: &Arc<Cell>) {
    let cell = Arc::clone(cell);
    let before =
        LAST.try_with(|last| Some(last.try_borrow_mut().ok()?.replace(Last { key, cell })));
    // With it may go what is somebody else's, and does something: not under the borrow.
    drop(before);
}

/// Does something with the span, if it is remembered. It must not run what is somebody else's.
pub(super) fn with<T>(key: Key, f: impl FnOnce(&Cell) -> T) -> Option<T> {
    LAST.try_with(|last| {
        let last = last.try_borrow().ok()?;
        let last = last.as_ref().filter(|last| last.is(key))?;
        Some(f(&last.cell))
    })
    .ok()?
}

/// The span, if it is remembered.
pub(super) fn find(key: Key) -> Option<Arc<Cell>> {
    LAST.try_with(|last| {
        let last = last.try_borrow().ok()?;
        let last = last.as_ref().filter(|last| last.is(key))?;
        Some(Arc::clone(&last.cell))
    })
    .ok()?
}

/// The same, and forgets it.
pub(super) fn take(key: Key) -> Option<Arc<Cell>> {
    let taken = LAST.try_with(|last| last.try_borrow_mut().ok()?.take_if(|last| last.key == key));
    let last = taken.ok()??;
    last.is(key).then_some(last.cell)
}
