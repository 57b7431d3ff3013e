//! Detects that this process was forked without an exec.
//!
//! A forked child shares its parent's descriptors and has a copy of its locks, some of which a thread that
//! does not exist in the child may hold. So a child does not record. It knows by a
//! counter that `pthread_atfork` increments: to ask for the process id is a system call for each line, about 100 ns
//! where a span costs a few microseconds.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// How many forks lie between this process and the one that first called this.
#[inline]
pub(crate) fn fork_generation() -> u64 {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only changes an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
