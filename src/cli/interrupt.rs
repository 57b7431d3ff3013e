//! Ctrl-C, for commands that run until then.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// How often commands check it.
pub(super) const STEP: Duration = Duration::from_millis(100);

/// The signal that arrived, or 0.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

extern "C" fn ask(signal: libc::c_int) {
    SIGNAL.store(signal, Ordering::Relaxed);
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
    SIGNAL.load(Ordering::Relaxed) != 0
}

/// The exit code of a command that a signal ended before it was done: 130 after Ctrl-C.
pub(super) fn exit_code() -> u8 {
    128 + SIGNAL.load(Ordering::Relaxed) as u8
}
