//! Replaces the C library's `fsync` and `fdatasync` in this executable, and records which files are
//! synced.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// What was on the disk when a sync returned.
#[derive(Clone, Debug)]
pub struct Synced {
    /// The path of the file at that time.
    pub path: PathBuf,
    pub inode: u64,
    pub size: u64,
    pub thread: String,
}

static CALLS: Mutex<Vec<Synced>> = Mutex::new(Vec::new());
static MORE: Condvar = Condvar::new();

/// All that was synced below a directory, in order.
pub fn below(dir: &Path) -> Vec<Synced> {
    let calls = CALLS.lock().unwrap();
    let here = calls.iter().filter(|synced| synced.path.starts_with(dir));
    here.cloned().collect()
}

/// Waits until enough was synced below a directory.
pub fn wait(dir: &Path, enough: impl Fn(&[Synced]) -> bool) {
    let mut calls = CALLS.lock().unwrap();
    loop {
        let here = calls.iter().filter(|synced| synced.path.starts_with(dir));
        if enough(&here.cloned().collect::<Vec<_>>()) {
            return;
        }
        let (more, waited) = MORE.wait_timeout(calls, Duration::from_secs(60)).unwrap();
        assert!(!waited.timed_out(), "nothing more is synced: {more:?}");
        calls = more;
    }
}

fn listen(fd: libc::c_int, call: libc::c_long) -> libc::c_int {
    // SAFETY: the descriptor is open for as long as the caller waits, and stays the caller's.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    // What is written from here on may be on the disk or not.
    let meta = file.metadata();
    // SAFETY: the caller's own argument.
    let done = unsafe { libc::syscall(call, fd) } as libc::c_int;
    if let (Ok(path), Ok(meta), 0) = (path, meta, done) {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        CALLS.lock().unwrap().push(Synced {
            path,
            inode: meta.ino(),
            size: meta.len(),
            thread,
        });
        MORE.notify_all();
    }
    done
}

// The linker prefers these to the C library's functions of the same name.

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: libc::c_int) -> libc::c_int {
    listen(fd, libc::SYS_fdatasync)
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: libc::c_int) -> libc::c_int {
    listen(fd, libc::SYS_fsync)
}
