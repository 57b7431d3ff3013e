//! JSON lines of a source, with errors that name file and line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{Import, ImportError, TornLine, json};
use crate::trace::hex;

/// A longer line is refused.
pub(super) const LONGEST: u64 = if cfg!(test) { 1 << 20 } else { 256 << 20 };

/// So much of a file is read to know its format. As values it takes about twelve times as much memory.
const LONGEST_FIRST: u64 = 2 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a file of gzip begins with.
const GZIP: &[u8] = b"\x1f\x8b";

/// Where a line is in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub offset: u64,
    pub length: u32,
    pub number: u32,
}

impl Place {
    /// An error about the line.
    pub fn error(self, path: &Path, why: impl std::fmt::Display) -> ImportError {
        ImportError {
            line: Some(self.number.into()),
            ..ImportError::new(path, why)
        }
    }
}

/// Reads a file of JSON objects, one a line.
pub(super) struct JsonLines<'a> {
    import: &'a Import,
    path: PathBuf,
    reader: BufReader<File>,
    number: u64,
    line: Vec<u8>,
    /// Where the line begins in the file.
    start: u64,
    /// Where the next one begins.
    end: u64,
}

impl<'a> JsonLines<'a> {
    pub fn open(import: &'a Import, path: &Path) -> Result<Self, ImportError> {
        let opened = open(path).and_then(|mut file| Ok((file.stream_position()?, file)));
        let (start, file) = opened.map_err(|error| ImportError::new(path, error))?;
        Ok(Self {
            import,
            path: path.to_owned(),
            reader: BufReader::new(file),
            number: 0,
            line: Vec::new(),
            start,
            end: start,
        })
    }

    /// The next object. Empty lines are passed over. A last line without a newline that is no JSON was being
    /// written when its process stopped: it is left out, and reported with the sessions.
    pub fn next(&mut self) -> Result<Option<Map<String, Value>>, ImportError> {
        if !self.advance()? {
            return Ok(None);
        }
        match json::from_slice(&self.line) {
            Ok(Value::Object(object)) => Ok(Some(object)),
            Ok(_) => Err(self.error("not a JSON object")),
            Err(_) if !self.line.ends_with(b"\n") => {
                self.leave_out();
                Ok(None)
            }
            Err(error) => Err(self.error(error)),
        }
    }

    /// The same, as text, and where it begins in the file.
    pub fn next_text(&mut self) -> Result<Option<(u64, &str)>, ImportError> {
        if !self.advance()? {
            return Ok(None);
        }
        let whole = self.line.ends_with(b"\n");
        if let Err(error) = serde_json::from_slice::<IgnoredAny>(&self.line) {
            if whole {
                return Err(self.error(error));
            }
            self.leave_out();
            return Ok(None);
        }
        match std::str::from_utf8(&self.line) {
            Ok(text) => Ok(Some((self.start, text))),
            Err(error) => Err(self.error(error)),
        }
    }

    fn leave_out(&self) {
        self.import.note_torn_line(TornLine {
            path: self.path.clone(),
            line: self.number,
        });
    }

    /// Reads the next line that is not empty.
    fn advance(&mut self) -> Result<bool, ImportError> {
        loop {
            self.line.clear();
            let mut limited = (&mut self.reader).take(LONGEST);
            let read = limited.read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| self.error(error))?;
            if read == 0 {
                return Ok(false);
            }
            self.number += 1;
            self.start = self.end;
            self.end += read as u64;
            if !self.line.ends_with(b"\n") && read as u64 == LONGEST {
                return Err(self.error(format!("longer than {} MB", LONGEST >> 20)));
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    /// Where the line that was read last is in the file.
    pub fn place(&self) -> Place {
        Place {
            offset: self.start,
            length: self.line.len() as u32,
            number: u32::try_from(self.number).unwrap_or(u32::MAX),
        }
    }

    /// An error about the line that was read last.
    pub fn error(&self, why: impl std::fmt::Display) -> ImportError {
        ImportError {
            line: Some(self.number),
            ..ImportError::new(&self.path, why)
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens a file at its first byte, or behind its byte order mark.
pub(super) fn open(path: &Path) -> io::Result<File> {
    // To open a pipe would wait for a writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut file = File::open(path)?;
    let mut first = Vec::new();
    (&mut file).take(3).read_to_end(&mut first)?;
    if first.starts_with(GZIP) {
        let why = "it is compressed with gzip; unpack it with gunzip";
        return Err(io::Error::other(why));
    }
    if first != BYTE_ORDER_MARK {
        file.rewind()?;
    }
    Ok(file)
}

/// Whether a source can be read and has something in it.
pub(super) fn check(path: &Path) -> Result<(), ImportError> {
    let check = || {
        if path.metadata()?.is_dir() {
            return Ok(());
        }
        let mut byte = [0];
        match open(path)?.read(&mut byte)? {
            0 => Err(io::Error::other("the file is empty")),
            _ => Ok(()),
        }
    };
    check().map_err(|error| ImportError::new(path, error))
}

/// The objects on the first lines of a file, as far as they are within [`LONGEST_FIRST`].
pub(super) fn first_objects(path: &Path) -> impl Iterator<Item = Map<String, Value>> + use<> {
    let file = open(path).ok();
    let mut reader = file.map(|file| BufReader::new(file).take(LONGEST_FIRST));
    let mut line = Vec::new();
    std::iter::from_fn(move || {
        let reader = reader.as_mut()?;
        line.clear();
        while line.trim_ascii().is_empty() {
            line.clear();
            if reader.read_until(b'\n', &mut line).ok()? == 0 {
                return None;
            }
        }
        match json::from_slice(&line).ok()? {
            Value::Object(object) => Some(object),
            _ => None,
        }
    })
}

/// Whether a file begins with these bytes.
pub(super) fn begins_with(path: &Path, bytes: &[u8]) -> bool {
    let mut first = vec![0; bytes.len()];
    let read = open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == bytes
}

/// When a file was last changed, in nanoseconds since 1970: the time of entries that have none.
pub(super) fn file_time(path: &Path) -> u64 {
    let modified = path.metadata().and_then(|meta| meta.modified());
    let since = modified.map(|time| time.duration_since(UNIX_EPOCH).unwrap_or_default());
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// The digest of a file.
pub(super) fn file_digest(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = BufReader::new(open(path)?);
    loop {
        let piece = file.fill_buf()?;
        let length = piece.len();
        if length == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(piece);
        file.consume(length);
    }
}

/// A whole file of text, at most so long as a blob may be.
pub(super) fn read_text(path: &Path) -> Result<String, ImportError> {
    let read = || {
        let mut bytes = Vec::new();
        open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
        io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().map_err(|error| ImportError::new(path, error))
}
