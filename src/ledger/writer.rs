//! Who writes: one locked file per process, so that anybody can tell whether a writer lives.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::clock::wall_ns;
use super::file_size::survive;
use super::fork::{close_in_child, fork_generation, keep_in_child};
use super::root::{Root, make_dir, open_private};
use crate::event::random_bytes;

/// The lock that says this process lives. It is freed by the kernel, however the process ends.
#[derive(Debug)]
pub(crate) struct WriterLock {
    pub id: String,
    file: Option<File>,
    path: PathBuf,
    generation: u64,
}

impl WriterLock {
    /// Takes a new id (or the one it had) and locks its file. The file gets its name only when it is locked, so
    /// that nobody who tidies up can take it for a dead writer's.
    pub fn take(root: &Root, again: Option<&str>) -> io::Result<Self> {
        let dir = root.writers();
        make_dir(&dir)?;
        let id = again.map_or_else(new_id, str::to_owned);
        let path = dir.join(&id);
        let unnamed = dir.join(format!(".{id}"));
        let mut file = open_private(&unnamed, OpenOptions::new().create_new(true).write(true))?;
        // Before it is locked: a fork in between must not take the lock along.
        close_in_child(file.as_raw_fd());
        let named = file
            .lock()
            .and_then(|()| survive(|| writeln!(file, "{}", std::process::id())))
            .and_then(|()| std::fs::rename(&unnamed, &path));
        if let Err(error) = named {
            let _ = std::fs::remove_file(&unnamed);
            keep_in_child(file.as_raw_fd());
            return Err(error);
        }
        Ok(Self {
            id,
            file: Some(file),
            path,
            generation: fork_generation(),
        })
    }

    /// Whether the file still has its name: without it others take this writer for dead.
    pub fn is_named(&self) -> bool {
        self.path.exists()
    }
}

fn new_id() -> String {
    let random = u64::from_ne_bytes(random_bytes()) & 0xff_ffff_ffff;
    let ms = wall_ns() / 1_000_000;
    format!("{ms:012x}-{}-{random:010x}", std::process::id())
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        if self.generation == fork_generation() {
            keep_in_child(file.as_raw_fd());
            // A missing file says "dead" just as a free lock does.
            let _ = std::fs::remove_file(&self.path);
        } else {
            // Already closed by the fork handler; the number may be somebody else's by now.
            std::mem::forget(file);
        }
    }
}

/// Whether a writer lives. Testers share the lock, so that two of them never take each other
/// for the writer.
pub(crate) fn is_alive(root: &Root, id: &str) -> bool {
    if id.is_empty() || id.contains(['/', '\0']) || id.starts_with('.') {
        return false;
    }
    holds_lock(&root.writers().join(id))
}

fn holds_lock(path: &Path) -> bool {
    match open_private(path, OpenOptions::new().read(true)) {
        Ok(file) => match file.try_lock_shared() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            // A file system without locks: better to leave a dead writer's spans open than to
            // close a living one's.
            Err(TryLockError::Error(_)) => true,
        },
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Removes the files of writers that are gone. What can't be removed now can be later.
pub(crate) fn sweep(root: &Root) {
    let Ok(entries) = std::fs::read_dir(root.writers()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let named = !name.to_string_lossy().starts_with('.');
        if named && !holds_lock(&entry.path()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
