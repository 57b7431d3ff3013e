//! Ctrl-C, for commands that run until then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often commands check it.
pub(super) const STEP: Duration = Duration::from_millis(100);

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn ask(_: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Installs handlers: from now on the first SIGINT or SIGTERM only sets a flag, so that the command can
/// finish its line. A second one ends the process.
pub(super) fn install() {
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

/// Whether a signal has arrived.
pub(super) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
