//! The source of a session, kept as a blob: redacted and written piece by piece.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Fields, History};
use crate::trace::{Dir, Kind, NEW_FILE, hex};

/// Of a longer source the beginning is kept.
const LONGEST: u64 = 256 << 20;
/// About so many bytes are redacted at once. Texts of 1 MiB are searched once more, because they may hold too many
/// places to look at.
const PIECE: usize = 1 << 19;

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
            let mut reader = BufReader::new(File::open(path)?).take(LONGEST);
            let (mut piece, mut scan) = (Vec::new(), Scan::default());
            while read_piece(&mut reader, &mut scan, &mut piece)? {
                self.add_source(&mut blob, &String::from_utf8_lossy(&piece))?;
                piece.clear();
            }
            if scan.last != b'\n' {
                self.add_source(&mut blob, "\n")?;
            }
        }
        self.end_source(blob)
    }

    /// Keeps a short text.
    pub fn keep_source(&mut self, text: &str) -> io::Result<()> {
        let mut blob = self.begin_source()?;
        self.add_source(&mut blob, text)?;
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

    /// Adds whole values.
    fn add_source(&self, blob: &mut SourceBlob, text: &str) -> io::Result<()> {
        match blob.left {
            0 => Ok(()),
            _ => blob.write(self.shared.json_file(text).as_bytes()),
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
        let import = json!({"format": self.source, "source_id": self.id, "raw_blob": sha256});
        self.event(Kind::Import, self.last, import)
    }
}

/// Where a reader is in a text of JSON.
#[derive(Default)]
struct Scan {
    in_string: bool,
    is_escaped: bool,
    /// The byte before, other than a space.
    last: u8,
}

impl Scan {
    /// Whether the text can be cut after this byte: an object ends there, and a secret is inside of one.
    fn take(&mut self, byte: u8) -> bool {
        let before = self.last;
        if !matches!(byte, b' ' | b'\t' | b'\r') {
            self.last = byte;
        }
        match byte {
            // No string has one.
            b'\n' => self.in_string = false,
            _ if std::mem::take(&mut self.is_escaped) => {}
            b'\\' => self.is_escaped = self.in_string,
            b'"' => self.in_string = !self.in_string,
            _ => {}
        }
        !self.in_string && before == b'}' && matches!(byte, b',' | b'\n')
    }
}

/// Reads a piece of about [`PIECE`] bytes, and more if it can't be cut there. Returns whether there is one.
fn read_piece(reader: &mut impl BufRead, scan: &mut Scan, piece: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(!piece.is_empty());
        }
        let room = PIECE.saturating_sub(piece.len());
        let cut = bytes
            .iter()
            .enumerate()
            .position(|(at, byte)| scan.take(*byte) && at >= room);
        let length = cut.map_or(bytes.len(), |at| at + 1);
        piece.extend_from_slice(&bytes[..length]);
        reader.consume(length);
        if cut.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_cut_between_objects() {
        let item = r#"{"a":"},{\"","b":[1,2]}"#;
        let text = vec![item; 3 * PIECE / item.len()].join(",");
        let (mut reader, mut scan) = (text.as_bytes(), Scan::default());
        let (mut all, mut piece) = (String::new(), Vec::new());
        let mut pieces = 0;
        while read_piece(&mut reader, &mut scan, &mut piece).unwrap() {
            let piece = String::from_utf8(std::mem::take(&mut piece)).unwrap();
            let inside = piece.trim_end_matches(',');
            assert!(inside.starts_with(item) && inside.ends_with(item));
            assert!(piece.len() <= PIECE + item.len());
            pieces += 1;
            all += &piece;
        }
        assert!(pieces > 2 && all == text, "{pieces} pieces");
    }
}
