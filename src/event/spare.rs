//! Buffers that a thread has used and keeps, so that a span costs no allocation for them.

use std::cell::Cell;
use std::thread::LocalKey;

/// Buffers with more room than this are not kept.
pub(crate) const LARGEST: usize = 64 * 1024;

/// The one that was used last, if nobody has it. There is a moment between two that need one, and
/// whoever else needs one meanwhile allocates it.
pub(crate) struct Spare<T>(Cell<Option<T>>);

impl<T> Spare<T> {
    pub const fn new() -> Self {
        Self(Cell::new(None))
    }

    #[inline]
    pub fn take(kept: &'static LocalKey<Self>) -> Option<T> {
        kept.try_with(|spare| spare.0.take()).ok().flatten()
    }

    /// Keeps an emptied buffer, unless the thread is ending.
    #[inline]
    pub fn give(kept: &'static LocalKey<Self>, buffer: T) {
        let _ = kept.try_with(|spare| spare.0.set(Some(buffer)));
    }
}
