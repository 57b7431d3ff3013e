//! What a fork without exec means for a writer.
//!
//! A child shares its parent's file descriptions, locks included: unlocking in the child would
//! free the parent's lock, and a child that merely keeps the descriptor would keep a dead
//! parent's lock alive. So the child's handler closes (never unlocks) every inherited lock and
//! raises the generation; state of an older generation is left alone for ever, since a thread
//! that no longer exists may have held its mutexes.

use std::fs::File;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);

const SLOTS: usize = 256;
static LOCKS: [AtomicI32; SLOTS] = [const { AtomicI32::new(-1) }; SLOTS];

/// How many forks lie between this process and the one that first used the crate.
#[inline]
pub(crate) fn fork_generation() -> u64 {
    static ONCE: Once = Once::new();
    // Before anything that a child must not share can depend on it.
    ONCE.call_once(|| {
        // SAFETY: the handler touches atomics and closes descriptors, nothing else.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for slot in &LOCKS {
        let fd = slot.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: close is async-signal-safe; the descriptor is a lock file's, and whoever
            // owns it in this process's memory is leaked together with its generation.
            unsafe { libc::close(fd) };
        }
    }
}

/// Makes a forked child close `fd`. With every slot taken the child keeps it: the parent's
/// death is then noticed only when the child has gone too.
pub(crate) fn close_in_child(fd: RawFd) {
    let free = |slot: &&AtomicI32| {
        slot.compare_exchange(-1, fd, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    };
    let _ = LOCKS.iter().find(free);
}

/// Takes `fd` off the list, before it is closed here.
pub(crate) fn keep_in_child(fd: RawFd) {
    for slot in &LOCKS {
        let _ = slot.compare_exchange(fd, -1, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A file that is locked for a while: a child that is forked meanwhile would keep the lock for as long as
/// it lives.
#[derive(Debug)]
pub(crate) struct Lockable(File);

impl Lockable {
    /// Before it is locked.
    pub fn new(file: File) -> Self {
        close_in_child(file.as_raw_fd());
        Self(file)
    }
}

impl Deref for Lockable {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Lockable {
    fn drop(&mut self) {
        keep_in_child(self.0.as_raw_fd());
    }
}
