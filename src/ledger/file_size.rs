//! The process's file size limit (`RLIMIT_FSIZE`): a write beyond it fails, and must not kill.

/// The size that a file of this process may have.
pub(crate) fn size_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the answer.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    if !known || limit.rlim_cur == libc::RLIM_INFINITY {
        u64::MAX
    } else {
        limit.rlim_cur
    }
}

/// Runs `write` so that running into the limit is an error like any other. The kernel also sends
/// SIGXFSZ, to the thread that wrote, which ends a process that does not handle it: it is held
/// back here, and taken away if this write brought it.
pub(crate) fn survive<T>(write: impl FnOnce() -> T) -> T {
    if size_limit() == u64::MAX {
        return write();
    }
    // SAFETY: the sets are valid places to write to and were emptied before use; the mask is
    // this thread's own and is put back as it was.
    unsafe {
        let mut signal: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut signal);
        libc::sigaddset(&mut signal, libc::SIGXFSZ);
        let was_pending = is_pending();
        if libc::pthread_sigmask(libc::SIG_BLOCK, &signal, &mut before) != 0 {
            return write();
        }
        let result = write();
        if !was_pending && is_pending() {
            let mut taken = 0;
            libc::sigwait(&signal, &mut taken);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    }
}

fn is_pending() -> bool {
    // SAFETY: `pending` is a valid place for the answer.
    unsafe {
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&mut pending) == 0 && libc::sigismember(&pending, libc::SIGXFSZ) == 1
    }
}
