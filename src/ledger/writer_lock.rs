//! The writers: each process locks one file, so that other processes can find out whether it lives.

use std::fs::{DirEntry, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::trace::{Root, fork_generation, make_dir, open_private, random_bytes, wall_ns};

/// The lock of this process as a writer. The kernel frees it, however the process ends. While a child that was
/// forked without an exec holds a copy of the descriptor, the lock is free only when that child ends or execs.
#[derive(Debug)]
pub(crate) struct WriterLock {
    pub id: String,
    _file: File,
    path: PathBuf,
    generation: u64,
}

impl WriterLock {
    /// Takes a new id (or the one it had) and locks its file. The file gets its name only when it is locked, so
    /// that no sweep removes it as a dead writer's.
    pub fn take(root: &Root, again: Option<&str>) -> io::Result<Self> {
        let dir = root.writers();
        make_dir(&dir)?;
        let id = again.map_or_else(new_id, str::to_owned);
        let path = dir.join(&id);
        let unnamed = dir.join(format!(".{id}"));
        let mut file = open_private(&unnamed, OpenOptions::new().create_new(true).write(true))?;
        let named = file
            .lock()
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .and_then(|()| std::fs::rename(&unnamed, &path));
        if let Err(error) = named {
            let _ = std::fs::remove_file(&unnamed);
            return Err(error);
        }
        Ok(Self {
            id,
            _file: file,
            path,
            generation: fork_generation(),
        })
    }

    /// Whether the file still has its name: without it other processes take this writer for dead.
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
        // A forked child drops a copy: the parent still writes.
        if self.generation == fork_generation() {
            // A missing file means a dead writer, as a free lock does.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether a writer lives. The check takes a shared lock, so that two checks at a time never see each other as
/// the writer.
pub(crate) fn is_alive(root: &Root, id: &str) -> bool {
    if id.is_empty() || id.contains(['/', '\0']) || id.starts_with('.') {
        return false;
    }
    holds_lock(&root.writers().join(id))
}

fn holds_lock(path: &Path) -> bool {
    match open_private(path, OpenOptions::new().read(true)) {
        // Also where the file system has no locks: better to leave a dead writer's spans open than to close a
        // living one's.
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Removes the files of dead writers. A file that this crate can't have made stays: another name, another
/// owner, anything but a regular file, and everything behind a `writers` that is a symbolic link.
pub(crate) fn sweep(root: &Root) {
    let dir = root.writers();
    let is_own_dir = dir.symlink_metadata().is_ok_and(|dir| dir.is_dir());
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) if is_own_dir => entries,
        _ => return,
    };
    for entry in entries.flatten() {
        if is_own_writer_file(&entry) && !holds_lock(&entry.path()) {
            // A file that can't be removed now is removed by a later start.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_own_writer_file(entry: &DirEntry) -> bool {
    let own_uid = rustix::process::geteuid().as_raw();
    // `DirEntry::metadata` does not follow symbolic links.
    let is_own_file = |file: Metadata| file.is_file() && file.uid() == own_uid;
    entry.file_name().to_str().is_some_and(is_writer_id) && entry.metadata().is_ok_and(is_own_file)
}

/// Whether a name has the shape that `new_id` gives: milliseconds, process id, random digits.
fn is_writer_id(name: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<_> = name.split('-').collect();
    let [ms, pid, random] = parts[..] else {
        return false;
    };
    let is_pid = !pid.is_empty() && pid.len() <= 10 && pid.bytes().all(|b| b.is_ascii_digit());
    ms.len() == 12 && is_hex(ms) && is_pid && random.len() == 10 && is_hex(random)
}

#[cfg(test)]
mod tests;
