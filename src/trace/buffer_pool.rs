//! A buffer that each thread keeps for its next use, so that a span costs no allocation for it.

use std::cell::Cell;
use std::thread::LocalKey;

/// Buffers with more room than this are not kept.
pub(crate) const LARGEST: usize = 64 * 1024;

/// A pool of one: the buffer that was given back last. Code that finds it empty allocates.
pub(crate) struct BufferPool<T>(Cell<Option<T>>);

impl<T> BufferPool<T> {
    pub const fn new() -> Self {
        Self(Cell::new(None))
    }

    #[inline]
    pub fn take(kept: &'static LocalKey<Self>) -> Option<T> {
        kept.try_with(|pool| pool.0.take()).ok().flatten()
    }

    /// Keeps an emptied buffer, unless the thread is ending.
    #[inline]
    pub fn give(kept: &'static LocalKey<Self>, buffer: T) {
        let _ = kept.try_with(|pool| pool.0.set(Some(buffer)));
    }
}
