//! What the system allows this process.

use std::fs::File;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Sets a soft limit. `u64::MAX` is none.
pub fn limit(resource: Resource, value: u64) {
    let maximum = getrlimit(resource).maximum;
    let current = Some(maximum.map_or(value, |maximum| value.min(maximum)));
    setrlimit(resource, Rlimit { current, maximum }).unwrap();
}

/// Limits the size of files: a write beyond it is an error.
pub fn limit_files(bytes: u64) {
    // SAFETY: ignores a signal, which has no handler here.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    limit(Resource::Fsize, bytes);
}

/// Takes every descriptor that is left.
pub fn fill_files() -> Vec<File> {
    limit(Resource::Nofile, 64);
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    taken
}
