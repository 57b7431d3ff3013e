//! How bytes get into the file of a segment. Tests put a faulty disk in its place.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};

use rustix::fs::OFlags;

use crate::trace::{Dir, NEW_FILE};

pub(crate) trait Storage: Debug + Send + Sync {
    /// Creates a file that is not there yet, to be appended to.
    fn create(&self, dir: &Dir, name: &str) -> io::Result<File> {
        dir.file(name, NEW_FILE | OFlags::APPEND)
    }

    /// Appends as much as can be written at once.
    fn append(&self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    /// Cuts the end off.
    fn truncate(&self, file: &File, size: u64) -> io::Result<()> {
        file.set_len(size)
    }

    /// Waits until the disk has it.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}

/// The file system.
#[derive(Debug)]
pub(crate) struct Disk;

impl Storage for Disk {}
