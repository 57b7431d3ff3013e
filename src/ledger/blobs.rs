//! Values too large for a line: stored once under their digest, before the line that names them.

use std::io::{self, Write};
use std::path::Path;

use super::{Ledger, SyncPolicy};
use crate::trace::{Dir, NEW_FILE, about, new_span_id, wall_ns};

impl Ledger {
    /// Stores a blob of a session. A failure is counted and noted, and warned of once.
    pub fn store_blob(&self, session: &Path, sha256: &str, bytes: &[u8]) -> io::Result<()> {
        let stored = self.write_blob(session, sha256, bytes);
        if let Err(error) = &stored {
            let error = format!("store a blob in {}: {error}", session.display());
            self.note_error(&error);
            self.counters().count_failed(1);
            self.counters().warn_once(&error);
        }
        stored
    }

    fn write_blob(&self, session: &Path, sha256: &str, bytes: &[u8]) -> io::Result<()> {
        let path = session.join("blobs").join(sha256);
        // Only a file of the right size counts: a power cut can leave a shorter one.
        if path
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_file() && meta.len() == bytes.len() as u64)
        {
            return Ok(());
        }
        let dir = Dir::make(session, 2)?.make_dir("blobs")?;
        let sync = self.config.sync == SyncPolicy::Always;
        let unnamed = format!(".{:x}-{:016x}", wall_ns(), new_span_id());
        let written = dir
            .file(&unnamed, NEW_FILE)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                if sync { file.sync_data() } else { Ok(()) }
            })
            .and_then(|()| dir.rename(&unnamed, &dir, sha256).map_err(about(&path)));
        if written.is_err() {
            let _ = dir.remove(&unnamed);
            return written;
        }
        // Its name has to be on the disk before the line that refers to it.
        self.sync_new_entry(&session.join("blobs"));
        if let Some(syncer) = self.syncer() {
            syncer.blob(path);
        }
        Ok(())
    }
}
