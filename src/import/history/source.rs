//! The source of a session, kept as a blob: redacted and written piece by piece.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest, Sha256};

use super::History;
use crate::trace::{Kind, hex, make_dir, make_session_dir, open_private};

/// Of a longer source the beginning is kept.
const LONGEST: u64 = 256 << 20;
/// How much is redacted at once, in bytes, if lines are not longer.
const PIECE: usize = 1 << 20;

/// A blob that is being written.
pub(in crate::import) struct SourceBlob {
    file: BufWriter<File>,
    unnamed: PathBuf,
    hash: Sha256,
    left: u64,
}

impl History<'_> {
    /// Keeps files of lines, one behind the other.
    pub fn keep_lines(&mut self, paths: &[&Path]) -> io::Result<()> {
        let mut blob = self.begin_source()?;
        for path in paths {
            let mut reader = BufReader::new(File::open(path)?).take(LONGEST);
            let mut piece = Vec::new();
            while reader.read_until(b'\n', &mut piece)? > 0 {
                if !piece.ends_with(b"\n") {
                    piece.push(b'\n');
                }
                if piece.len() >= PIECE {
                    self.add_source(&mut blob, &String::from_utf8_lossy(&piece))?;
                    piece.clear();
                }
            }
            self.add_source(&mut blob, &String::from_utf8_lossy(&piece))?;
        }
        self.end_source(blob)
    }

    /// Begins a blob. What was not ended is removed with the directory of the session.
    pub fn begin_source(&mut self) -> io::Result<SourceBlob> {
        let session = self.writer.dir();
        let dir = session.join("blobs");
        make_session_dir(session)?;
        make_dir(&dir)?;
        let unnamed = dir.join(".source");
        let file = open_private(&unnamed, OpenOptions::new().create_new(true).write(true))?;
        Ok(SourceBlob {
            file: BufWriter::new(file),
            unnamed,
            hash: Sha256::new(),
            left: LONGEST,
        })
    }

    /// Adds whole lines.
    pub fn add_source(&self, blob: &mut SourceBlob, text: &str) -> io::Result<()> {
        if text.len() as u64 > blob.left {
            blob.left = 0;
            return Ok(());
        }
        blob.left -= text.len() as u64;
        let clean = self.shared.text(text);
        blob.hash.update(clean.as_bytes());
        blob.file.write_all(clean.as_bytes())
    }

    /// Names the blob, and the source with it.
    pub fn end_source(&mut self, blob: SourceBlob) -> io::Result<()> {
        let sha256 = hex(&blob.hash.finalize());
        blob.file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        std::fs::rename(&blob.unnamed, blob.unnamed.with_file_name(&sha256))?;
        let import = json!({"format": self.source, "source_id": self.id, "raw_blob": sha256});
        self.event(Kind::Import, self.last, import)
    }
}
