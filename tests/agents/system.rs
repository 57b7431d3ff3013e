//! What the system allows this process.

use std::fs::File;

/// Sets a soft limit. `u64::MAX` is none.
pub fn limit(resource: libc::__rlimit_resource_t, value: u64) {
    let mut limits = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limits` is a valid place to write to and to read from.
    unsafe {
        assert_eq!(libc::getrlimit(resource, &mut limits), 0);
        limits.rlim_cur = value.min(limits.rlim_max);
        assert_eq!(libc::setrlimit(resource, &limits), 0);
    }
}

/// Limits the size of files: a write beyond it is an error.
pub fn limit_files(bytes: u64) {
    // SAFETY: ignores a signal, which has no handler here.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    limit(libc::RLIMIT_FSIZE, bytes);
}

/// Takes every descriptor that is left.
pub fn fill_files() -> Vec<File> {
    limit(libc::RLIMIT_NOFILE, 64);
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken
}
