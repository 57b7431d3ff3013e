//! Values too large for a line: stored once under their digest, before the line that names them.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::clock::wall_ns;
use super::file_size::survive;
use super::root::{make_dir, open_private};
use super::sync::sync_dir;
use crate::event::new_span_id;
use crate::redact::{Store, StoreFailed};

/// For what belongs to no session and has to stay in its line.
pub(crate) struct NoStore;

impl Store for NoStore {
    fn put(&mut self, _: &str, _: &[u8]) -> Result<(), StoreFailed> {
        Err(StoreFailed)
    }
}

/// The blobs of one session.
pub(crate) struct Blobs<'a> {
    session: &'a Path,
    sync: bool,
    /// Blobs written since, for those who sync later.
    pub fresh: Vec<PathBuf>,
    /// Why the last one could not be stored.
    pub error: Option<String>,
}

impl<'a> Blobs<'a> {
    pub fn new(session: &'a Path, sync: bool) -> Self {
        Self {
            session,
            sync,
            fresh: Vec::new(),
            error: None,
        }
    }

    fn write(&mut self, sha256: &str, bytes: &[u8]) -> io::Result<()> {
        let dir = self.session.join("blobs");
        let path = dir.join(sha256);
        // Only a file of the right size counts: a power cut can leave a shorter one.
        if std::fs::metadata(&path).is_ok_and(|meta| meta.len() == bytes.len() as u64) {
            return Ok(());
        }
        make_dir(&dir)?;
        let unnamed = dir.join(format!(".{:x}-{:016x}", wall_ns(), new_span_id()));
        let written = open_private(&unnamed, OpenOptions::new().create_new(true).write(true))
            .and_then(|mut file| {
                survive(|| file.write_all(bytes))?;
                if self.sync { file.sync_data() } else { Ok(()) }
            })
            .and_then(|()| std::fs::rename(&unnamed, &path));
        if written.is_err() {
            let _ = std::fs::remove_file(&unnamed);
            return written;
        }
        // Its name has to be on the disk before the line that says it.
        if self.sync
            && let Err(error) = sync_dir(&dir)
        {
            self.error = Some(format!("sync {}: {error}", dir.display()));
        }
        self.fresh.push(path);
        Ok(())
    }
}

impl Store for Blobs<'_> {
    fn put(&mut self, sha256: &str, bytes: &[u8]) -> Result<(), StoreFailed> {
        self.write(sha256, bytes).map_err(|error| {
            self.error = Some(format!("blob of {}: {error}", self.session.display()));
            StoreFailed
        })
    }
}
