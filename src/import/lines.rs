//! JSON lines of a source, with errors that name file and line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::ImportError;

/// A longer line is refused.
const LONGEST: u64 = 256 << 20;

/// Reads a file of JSON objects, one a line.
pub(super) struct JsonLines {
    path: PathBuf,
    reader: BufReader<File>,
    number: u64,
    line: Vec<u8>,
}

impl JsonLines {
    pub fn open(path: &Path) -> Result<Self, ImportError> {
        let file = open(path).map_err(|error| ImportError::new(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::new(file),
            number: 0,
            line: Vec::new(),
        })
    }

    /// The next object. Empty lines are passed over. A last line without a newline that is no JSON was being
    /// written when its process stopped, and is passed over too.
    pub fn next(&mut self) -> Result<Option<Map<String, Value>>, ImportError> {
        loop {
            self.line.clear();
            let mut limited = (&mut self.reader).take(LONGEST);
            let read = limited.read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| self.error(error))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            let whole = self.line.ends_with(b"\n");
            if !whole && read as u64 == LONGEST {
                return Err(self.error(format!("longer than {} MB", LONGEST >> 20)));
            }
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            return match serde_json::from_slice(&self.line) {
                Ok(Value::Object(object)) => Ok(Some(object)),
                Ok(_) => Err(self.error("not a JSON object")),
                Err(_) if !whole => Ok(None),
                Err(error) => Err(self.error(error)),
            };
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

fn open(path: &Path) -> io::Result<File> {
    // To open a pipe would wait for a writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    File::open(path)
}

/// The first object of a file: its first line, or the whole file.
pub(super) fn first_object(path: &Path) -> Option<Map<String, Value>> {
    let first = JsonLines::open(path).ok()?.next();
    match first {
        Ok(Some(first)) => Some(first),
        _ => read_object(path).ok().map(|(_, object)| object),
    }
}

/// Whether a file begins with these bytes.
pub(super) fn begins_with(path: &Path, bytes: &[u8]) -> bool {
    let mut first = vec![0; bytes.len()];
    let read = open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == bytes
}

/// A file that is one JSON object, and its text.
pub(super) fn read_object(path: &Path) -> Result<(String, Map<String, Value>), ImportError> {
    let long = path.metadata().is_ok_and(|meta| meta.len() > LONGEST);
    if long {
        let why = format!("longer than {} MB", LONGEST >> 20);
        return Err(ImportError::new(path, why));
    }
    let text = read_text(path)?;
    let failed = |error: serde_json::Error| ImportError {
        line: Some(error.line() as u64),
        ..ImportError::new(path, error)
    };
    match serde_json::from_str(&text).map_err(failed)? {
        Value::Object(object) => Ok((text, object)),
        _ => Err(ImportError::new(path, "not a JSON object")),
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
