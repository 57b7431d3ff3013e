//! A file that is locked for a while.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;

/// An exclusive lock on a file, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct FileLock(File);

impl FileLock {
    /// Locks a file. `None`: another process holds the lock.
    pub fn try_new(file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Replaces what is in the file. Not by its path, where another file may be by now.
    pub fn write(&self, text: &str) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.write_all_at(text.as_bytes(), 0)
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing is not enough: a process forked meanwhile has the descriptor, too.
        let _ = self.0.unlock();
    }
}
