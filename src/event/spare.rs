//! Buffers that a thread has used and keeps, so that a span costs no allocation for them.

use std::cell::RefCell;
use std::thread::LocalKey;

/// Buffers with more room than this are not kept.
pub(crate) const LARGEST: usize = 64 * 1024;
/// How many a thread keeps.
const MOST: usize = 4;

pub(crate) struct Spare<T>(RefCell<Vec<T>>);

impl<T> Spare<T> {
    pub const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    pub fn take(kept: &'static LocalKey<Self>) -> Option<T> {
        kept.try_with(|spare| spare.0.try_borrow_mut().ok()?.pop())
            .ok()
            .flatten()
    }

    /// Keeps an emptied buffer, unless there are enough or the thread is ending.
    pub fn give(kept: &'static LocalKey<Self>, buffer: T) {
        let _ = kept.try_with(|spare| {
            if let Ok(mut spare) = spare.0.try_borrow_mut()
                && spare.len() < MOST
            {
                spare.push(buffer);
            }
        });
    }
}
