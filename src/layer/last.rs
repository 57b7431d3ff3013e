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

/// What a thread remembers.
struct Lasts {
    /// The span that was made last, or asked about.
    said: Option<Last>,
    /// The span that the last one was made in.
    around: Option<Last>,
}

impl Lasts {
    fn find(&self, key: Key) -> Option<&Arc<Cell>> {
        let both = [&self.said, &self.around].into_iter().flatten();
        let mut found = both.filter(|last| last.is(key));
        Some(&found.next()?.cell)
    }

    fn take(&mut self, key: Key) -> [Option<Last>; 2] {
        [&mut self.said, &mut self.around].map(|last| last.take_if(|last| last.key == key))
    }
}

thread_local! {
    static LASTS: RefCell<Lasts> = const {
        RefCell::new(Lasts {
            said: None,
            around: None,
        })
    };
}

/// What is dropped may be the last of something that is somebody else's, and does something: that
/// never happens under the borrow.
fn change<T>(f: impl FnOnce(&mut Lasts) -> T) -> Option<T> {
    LASTS
        .try_with(|lasts| lasts.try_borrow_mut().ok().map(|mut lasts| f(&mut lasts)))
        .ok()?
}

/// Remembers a span until the thread makes another, or closes it.
pub(super) fn remember(key: Key, cell: &Arc<Cell>) {
    let cell = Arc::clone(cell);
    drop(change(|lasts| lasts.said.replace(Last { key, cell })));
}

/// Remembers a span that another was made in: there will be more.
pub(super) fn remember_around(key: Key, cell: &Arc<Cell>) {
    let cell = Arc::clone(cell);
    drop(change(|lasts| lasts.around.replace(Last { key, cell })));
}

/// Does something with the span, if it is remembered. It must not run what is somebody else's.
pub(super) fn with<T>(key: Key, f: impl FnOnce(&Arc<Cell>) -> T) -> Option<T> {
    LASTS
        .try_with(|lasts| lasts.try_borrow().ok()?.find(key).map(f))
        .ok()?
}

/// The span, if it is remembered.
pub(super) fn find(key: Key) -> Option<Arc<Cell>> {
    with(key, Arc::clone)
}

/// The same, and forgets it.
pub(super) fn take(key: Key) -> Option<Arc<Cell>> {
    let taken = change(|lasts| lasts.take(key))?;
    let mut open = taken.into_iter().flatten().filter(|last| last.is(key));
    Some(open.next()?.cell)
}
