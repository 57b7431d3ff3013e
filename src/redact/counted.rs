//! How many bytes were looked at, so that tests can tell what grows with what.

#[cfg(test)]
thread_local! {
    /// By this thread, so far.
    pub(super) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts bytes that are looked at; nothing but in tests.
#[inline]
pub(super) fn count(_bytes: usize) {
    #[cfg(test)]
    LOOKED_AT.set(LOOKED_AT.get() + _bytes);
}
