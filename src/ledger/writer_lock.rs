//! The writers: each process locks one file, so that other processes can find out whether it lives.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use rustix::fs::OFlags;

use crate::trace::{
    Dir, NEW_FILE, Root, fork_generation, is_own, open_private, random_bytes, wall_ns,
};

/// The lock of this process as a writer. The kernel frees it, however the process ends. While a child that was
/// forked without an exec holds a copy of the descriptor, the lock is free only when that child ends or execs.
#[derive(Debug)]
pub(crate) struct WriterLock {
    pub id: String,
    _file: File,
    writers: PathBuf,
    generation: u64,
}

impl WriterLock {
    /// Takes a new id (or the one it had) and locks its file. The file gets its name only when it is locked, so
    /// that no sweep removes it as a dead writer's.
    pub fn take(root: &Root, again: Option<&str>) -> io::Result<Self> {
        let dir = Dir::make(&root.writers(), 1)?;
        let id = again.map_or_else(new_id, str::to_owned);
        let unnamed = format!(".{id}");
        let mut file = dir.file(&unnamed, NEW_FILE)?;
        let named = file
            .lock()
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .and_then(|()| dir.rename(&unnamed, &dir, &id));
        if let Err(error) = named {
            let _ = dir.remove(&unnamed);
            return Err(error);
        }
        Ok(Self {
            writers: root.writers(),
            id,
            _file: file,
            generation: fork_generation(),
        })
    }

    /// Whether the file still has its name: without it other processes take this writer for dead.
    pub fn is_named(&self) -> bool {
        self.writers.join(&self.id).exists()
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
            let _ = Dir::open(&self.writers, 1).and_then(|writers| writers.remove(&self.id));
        }
    }
}

/// Whether a writer lives. The check takes a shared lock, so that two checks at a time never see each other as
/// the writer.
pub(crate) fn is_alive(root: &Root, id: &str) -> bool {
    if id.is_empty() || id.contains(['/', '\0']) || id.starts_with('.') {
        return false;
    }
    match open_private(&root.writers().join(id), OFlags::RDONLY) {
        Ok(file) => holds_lock(&file),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Also where the file system has no locks: better to leave a dead writer's spans open than to close a living
/// one's.
fn holds_lock(file: &File) -> bool {
    file.try_lock_shared().is_err()
}

/// Removes the files of dead writers. A file that this crate can't have made stays: another name, another
/// owner, anything but a regular file, and everything behind a `writers` that is a symbolic link.
pub(crate) fn sweep(root: &Root) {
    let Ok(writers) = Dir::open(&root.writers(), 1) else {
        return;
    };
    for name in writers.names().unwrap_or_default() {
        let opens = || writers.file(&name, OFlags::RDONLY);
        let is_dead =
            |file: File| file.metadata().is_ok_and(|meta| is_own(&meta)) && !holds_lock(&file);
        if name.to_str().is_some_and(is_writer_id) && opens().is_ok_and(is_dead) {
            // A file that can't be removed now is removed by a later start.
            let _ = writers.remove(&name);
        }
    }
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
