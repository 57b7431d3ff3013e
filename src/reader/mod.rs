//! Reading a session's lines: segments one by one, damage told and passed over.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::ledger::{Line, NotALine, segments};

/// What stands at one place of a segment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Item {
    /// A line.
    Line(Line),
    /// Bytes that are no line: the rest of a write that failed half-way, or damage.
    Damaged {
        /// The segment's file.
        path: PathBuf,
        /// Where they begin.
        offset: u64,
        /// How many they are, newline included.
        bytes: u64,
        /// What is wrong with them.
        why: NotALine,
    },
    /// What follows the last newline: not a line yet, or never if its writer is gone.
    Tail {
        /// The segment's file.
        path: PathBuf,
        /// Where it begins.
        offset: u64,
        /// How many bytes there are.
        bytes: u64,
    },
}

/// Reads one segment from the beginning.
///
/// ```no_run
/// use spanledger::reader::{Item, Segment};
/// for item in Segment::open("sessions/ses_1/trace.0001.jsonl")? {
///     if let Item::Line(line) = item? {
///         println!("{} {}", line.address(), line.kind);
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    reader: BufReader<File>,
    offset: u64,
    buf: Vec<u8>,
}

impl Segment {
    /// Opens a segment's file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_owned();
        Ok(Self {
            reader: BufReader::with_capacity(1 << 16, File::open(&path)?),
            path,
            offset: 0,
            buf: Vec::new(),
        })
    }
}

impl Iterator for Segment {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.buf.clear();
        match self.reader.read_until(b'\n', &mut self.buf) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        let (offset, bytes) = (self.offset, self.buf.len() as u64);
        self.offset += bytes;
        if self.buf.last() != Some(&b'\n') {
            let path = self.path.clone();
            return Some(Ok(Item::Tail {
                path,
                offset,
                bytes,
            }));
        }
        Some(Ok(match Line::parse(&self.buf) {
            Ok(line) => Item::Line(line),
            Err(why) => Item::Damaged {
                path: self.path.clone(),
                offset,
                bytes,
                why,
            },
        }))
    }
}

/// All lines of a session directory, segment after segment. Damage is passed over.
///
/// ```no_run
/// let lines = spanledger::reader::lines("sessions/ses_1")?;
/// let tools = lines.iter().filter(|line| line.kind == "tool_call").count();
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn lines(session: impl AsRef<Path>) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (_, path) in segments(session.as_ref())? {
        for item in Segment::open(path)? {
            if let Item::Line(line) = item? {
                lines.push(line);
            }
        }
    }
    Ok(lines)
}

/// The directory of a session under a root, whatever its id looks like.
///
/// ```
/// let dir = spanledger::reader::session_dir("/traces", "../x");
/// assert!(dir.starts_with("/traces/sessions"));
/// ```
pub fn session_dir(root: impl AsRef<Path>, session_id: &str) -> PathBuf {
    crate::ledger::Root::new(root.as_ref().to_owned()).session(session_id)
}
