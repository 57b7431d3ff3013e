//! Small file systems in a mount namespace of the test's own thread: invisible to others, and
//! removed with the thread. Needs root.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file system in memory.
pub struct Tmpfs {
    path: PathBuf,
    options: String,
}

impl Tmpfs {
    /// Mounts one of so many bytes on `path`. Prints why and returns `None` if that is not permitted.
    pub fn mount(path: &Path, bytes: u64) -> Option<Self> {
        let mounted = Self {
            path: path.to_owned(),
            options: format!("size={bytes},mode=0700"),
        };
        match private_namespace().and_then(|()| mounted.call(0)) {
            Ok(()) => Some(mounted),
            Err(error) => {
                eprintln!(
                    "skipped: no tmpfs can be mounted here ({error}); the fallback, if there is one, runs instead"
                );
                None
            }
        }
    }

    pub fn set_read_only(&self, read_only: bool) {
        let flags = if read_only { libc::MS_RDONLY } else { 0 };
        self.call(libc::MS_REMOUNT | flags).unwrap();
    }

    /// Takes all the space that is left, as a file beside the trace. Removing it gives it back.
    pub fn fill(&self) -> PathBuf {
        let ballast = self.path.join("ballast");
        let mut file = std::fs::File::create(&ballast).unwrap();
        let page = [0; 4096];
        while io::Write::write_all(&mut file, &page).is_ok() {}
        ballast
    }

    fn call(&self, flags: libc::c_ulong) -> io::Result<()> {
        let target = CString::new(self.path.as_os_str().as_bytes())?;
        let options = CString::new(self.options.as_str())?;
        let name = c"tmpfs".as_ptr();
        // SAFETY: every pointer is a string that ends with a zero and lives through the call.
        let done =
            unsafe { libc::mount(name, target.as_ptr(), name, flags, options.as_ptr().cast()) };
        result(done)
    }
}

/// A read-only view of a directory at another path.
pub struct ReadOnly {
    view: tempfile::TempDir,
}

impl ReadOnly {
    /// Mounts one. Prints why and returns `None` if that is not permitted.
    pub fn of(path: &Path) -> Option<Self> {
        let view = tempfile::tempdir().unwrap();
        let mount = || {
            private_namespace()?;
            let to = CString::new(view.path().as_os_str().as_bytes())?;
            let from = CString::new(path.as_os_str().as_bytes())?;
            let bind = |flags| {
                let none = std::ptr::null();
                let flags = libc::MS_BIND | flags;
                // SAFETY: the paths are strings that end with a zero; the rest is not used.
                result(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), none, flags, none.cast()) })
            };
            bind(0)?;
            bind(libc::MS_REMOUNT | libc::MS_RDONLY)
        };
        match mount() {
            Ok(()) => Some(Self { view }),
            Err(error) => {
                eprintln!(
                    "skipped: nothing can be mounted here ({error}); the fallback, if there is one, runs instead"
                );
                None
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.view.path()
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        if let Ok(path) = CString::new(self.view.path().as_os_str().as_bytes()) {
            // SAFETY: a string that ends with a zero. What is mounted there goes with the thread.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

/// Mounts of this thread, and of the processes it starts, are its own from here on.
fn private_namespace() -> io::Result<()> {
    // SAFETY: changes what this thread sees of the file system, nothing in memory.
    result(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let flags = libc::MS_PRIVATE | libc::MS_REC;
    let none = std::ptr::null();
    // SAFETY: the target is a string; the rest is not used for these flags.
    result(unsafe { libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) })
}

fn result(done: libc::c_int) -> io::Result<()> {
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
