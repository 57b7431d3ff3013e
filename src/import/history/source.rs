//! The source of a session, kept as a blob: redacted and written piece by piece.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::lines::open;
use super::{Fields, History};
use crate::redact::JsonFile;
use crate::trace::{Dir, Kind, NEW_FILE, hex};

/// Of a longer source the beginning is kept.
const LONGEST: u64 = 256 << 20;
/// So much of a long line is redacted at once.
const PIECE: u64 = 1 << 19;

/// What a blob is called while it is being written.
const UNNAMED: &str = ".source";

/// A blob that is being written.
pub(in crate::import) struct SourceBlob {
    file: BufWriter<File>,
    dir: Dir,
    hash: Sha256,
    left: u64,
}

impl SourceBlob {
    /// Adds text that was redacted.
    fn write(&mut self, clean: &[u8]) -> io::Result<()> {
        if clean.len() as u64 > self.left {
            self.left = 0;
            return Ok(());
        }
        self.left -= clean.len() as u64;
        self.hash.update(clean);
        self.file.write_all(clean)
    }
}

impl History<'_> {
    /// Keeps files of JSON, one behind the other.
    pub fn keep_files(&mut self, paths: &[&Path]) -> io::Result<()> {
        let mut blob = self.begin_source()?;
        for path in paths {
            self.add_json(&mut blob, BufReader::new(open(path)?))?;
        }
        self.end_source(blob)
    }

    /// Keeps lines of JSON of a file, given by where they begin and end.
    pub fn keep_lines(&mut self, path: &Path, lines: &[Range<u64>]) -> io::Result<()> {
        let mut blob = self.begin_source()?;
        let mut file = File::open(path)?;
        for range in lines {
            file.seek(SeekFrom::Start(range.start))?;
            let length = range.end - range.start;
            self.add_json(&mut blob, BufReader::new(&file).take(length))?;
        }
        self.end_source(blob)
    }

    /// Keeps a text of JSON.
    pub fn keep_source(&mut self, text: &str) -> io::Result<()> {
        let mut blob = self.begin_source()?;
        self.add_json(&mut blob, text.as_bytes())?;
        self.end_source(blob)
    }

    /// Begins a blob. What was not ended is removed with the directory of the session.
    pub fn begin_source(&mut self) -> io::Result<SourceBlob> {
        let dir = Dir::make(self.writer.dir(), 2)?.make_dir("blobs")?;
        let file = dir.file(UNNAMED, NEW_FILE)?;
        Ok(SourceBlob {
            file: BufWriter::new(file),
            dir,
            hash: Sha256::new(),
            left: LONGEST,
        })
    }

    /// Adds a file of JSON, and a newline if it ends without one.
    fn add_json(&self, blob: &mut SourceBlob, reader: impl BufRead) -> io::Result<()> {
        let (mut reader, mut file) = (reader.take(LONGEST), JsonFile::default());
        let mut piece = Vec::new();
        let mut ends_line = true;
        while blob.left > 0 && read_piece(&mut reader, &mut piece)? {
            let clean = self
                .shared
                .redact_file(&mut file, &String::from_utf8_lossy(&piece));
            blob.write(clean.as_bytes())?;
            ends_line = piece.ends_with(b"\n");
            piece.clear();
        }
        blob.write(self.shared.redact_rest(file).as_bytes())?;
        match ends_line {
            true => Ok(()),
            false => blob.write(b"\n"),
        }
    }

    /// Adds a row of a database as a line of JSON. Long values become blobs of their own.
    pub fn add_row(&self, blob: &mut SourceBlob, row: &Fields) -> io::Result<()> {
        if blob.left == 0 {
            return Ok(());
        }
        let mut line = vec![b'{'];
        line.append(&mut self.shared.members(self.writer.dir(), row));
        line.pop_if(|last| *last == b',');
        line.extend_from_slice(b"}\n");
        blob.write(&line)
    }

    /// Names the blob, and the source with it.
    pub fn end_source(&mut self, blob: SourceBlob) -> io::Result<()> {
        let sha256 = hex(&blob.hash.finalize());
        blob.file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        blob.dir.rename(UNNAMED, &blob.dir, &sha256)?;
        self.raw_blob = Some(sha256.clone());
        let import = json!({"format": self.source, "source_id": self.id, "raw_blob": sha256});
        self.event(Kind::Import, self.last, import)
    }
}

/// Reads a line, or of a long one the next part of about [`PIECE`] bytes, cut between characters. Returns whether there
/// is one.
fn read_piece(reader: &mut impl BufRead, piece: &mut Vec<u8>) -> io::Result<bool> {
    reader.take(PIECE).read_until(b'\n', piece)?;
    if piece.len() as u64 == PIECE && !piece.ends_with(b"\n") {
        // A character has up to three bytes behind its first.
        for _ in 0..3 {
            if let Some(byte @ 0x80..=0xbf) = reader.fill_buf()?.first() {
                piece.push(*byte);
                reader.consume(1);
            }
        }
    }
    Ok(!piece.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_cut_between_characters() {
        let line = format!("{}\n", "aé€\u{1f600}".repeat(PIECE as usize / 4));
        let text = format!("short\n{line}{line}end");
        let (mut reader, mut all, mut piece) = (text.as_bytes(), String::new(), Vec::new());
        let mut pieces = 0;
        while read_piece(&mut reader, &mut piece).unwrap() {
            all += std::str::from_utf8(&piece).unwrap();
            piece.clear();
            pieces += 1;
        }
        assert!(pieces > 6 && all == text, "{pieces} pieces");
    }
}
