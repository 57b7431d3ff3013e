//! Ctrl-C, for a command that goes on until somebody has seen enough.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long it may go unnoticed.
pub(super) const STEP: Duration = Duration::from_millis(100);

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn ask(_: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// From now on SIGINT and SIGTERM ask for an end instead of making one: whoever prints finishes
/// the line first. A second one ends the process as ever.
pub(super) fn heed() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: all zeroes is a valid `sigaction`; the handler only stores to an atomic.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ask as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Whether an end was asked for.
pub(super) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Waits for so long, or until an end is asked for.
pub(super) fn sleep(time: Duration) {
    let until = Instant::now() + time;
    while !asked() {
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return;
        }
        std::thread::sleep(rest.min(STEP));
    }
}
