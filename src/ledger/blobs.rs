//! Values too large for a line: stored once under their digest, before the line that names them.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use super::{Ledger, SyncPolicy};
use crate::trace::{about, make_dir, make_session_dir, new_span_id, open_private, wall_ns};

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
        let dir = session.join("blobs");
        let path = dir.join(sha256);
        // Only a file of the right size counts: a power cut can leave a shorter one.
        if path
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_file() && meta.len() == bytes.len() as u64)
        {
            return Ok(());
        }
        make_session_dir(session)?;
        make_dir(&dir)?;
        let sync = self.config.sync == SyncPolicy::Always;
        let unnamed = dir.join(format!(".{:x}-{:016x}", wall_ns(), new_span_id()));
        let written = open_private(&unnamed, OpenOptions::new().create_new(true).write(true))
            .and_then(|mut file| {
                file.write_all(bytes)?;
                if sync { file.sync_data() } else { Ok(()) }
            })
            .and_then(|()| std::fs::rename(&unnamed, &path).map_err(about(&path)));
        if written.is_err() {
            let _ = std::fs::remove_file(&unnamed);
            return written;
        }
        // Its name has to be on the disk before the line that refers to it.
        self.sync_new_entry(&dir);
        if let Some(syncer) = self.syncer() {
            syncer.blob(path);
        }
        Ok(())
    }
}
