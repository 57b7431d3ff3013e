//! A thread's cache of the agent span that it made or used last, and of that span's parent. Most records
//! target one of them, and the registry's lookup costs four atomic operations.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::span::Id;

use super::span_data::SpanData;

/// Distinguishes the spans of one subscriber from those of another, for as long as the process lives.
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

/// A span. The registry reuses the id once the span is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(Registrar, u64);

struct Entry {
    key: Key,
    data: Arc<SpanData>,
}

impl Entry {
    /// A closed span's id may already belong to another span.
    fn is(&self, key: Key) -> bool {
        self.key == key && !self.data.is_closed()
    }
}

/// Which entry of the cache.
#[derive(Clone, Copy)]
pub(super) enum Slot {
    Last,
    Parent,
}

thread_local! {
    static CACHE: RefCell<[Option<Entry>; 2]> = const { RefCell::new([None, None]) };
}

/// Entries are dropped after the borrow ends, because that may run code of the user's.
fn change<T>(f: impl FnOnce(&mut [Option<Entry>; 2]) -> T) -> Option<T> {
    CACHE
        .try_with(|cache| Some(f(&mut *cache.try_borrow_mut().ok()?)))
        .ok()?
}

/// Caches a span until the thread caches another or closes it.
pub(super) fn remember(slot: Slot, key: Key, data: &Arc<SpanData>) {
    let data = Arc::clone(data);
    drop(change(|cache| {
        cache[slot as usize].replace(Entry { key, data })
    }));
}

/// The span, if it is cached.
pub(super) fn find(key: Key) -> Option<Arc<SpanData>> {
    let find = |cache: &[Option<Entry>; 2]| {
        let entry = cache.iter().flatten().find(|entry| entry.is(key))?;
        Some(Arc::clone(&entry.data))
    };
    CACHE
        .try_with(|cache| find(&*cache.try_borrow().ok()?))
        .ok()?
}

/// Removes the span from the cache and returns it.
pub(super) fn take(key: Key) -> Option<Arc<SpanData>> {
    let taken = change(|cache| {
        cache
            .each_mut()
            .map(|entry| entry.take_if(|entry| entry.key == key))
    })?;
    let mut open = taken.into_iter().flatten().filter(|entry| entry.is(key));
    Some(open.next()?.data)
}
