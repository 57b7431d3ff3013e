//! What earlier segments of a session say to one who goes on with it, read from their ends.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use memchr::memmem;

use super::digested::Digested;
use super::format::Line;
use super::history::End;
use super::root::segments;

#[derive(Debug, Default)]
pub(crate) struct Past {
    pub started: bool,
    pub next_turn: u32,
    /// The run that was opened last: its trace and span.
    pub last_run: Option<(u128, u64)>,
    pub current: [Option<String>; 3],
    pub known: HashSet<String>,
    /// How far a conversation was with each message, and whether that was the model's.
    pub messages: Vec<(End, bool)>,
    /// What could not be read, and why.
    pub error: Option<(PathBuf, io::Error)>,
}

impl Past {
    /// A session that can't be read starts as a new one until it can: recording goes on whatever
    /// happens.
    pub fn read(session: &Path) -> Self {
        let mut past = Self::default();
        let found = match segments(session) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return past,
            Err(error) => {
                past.error = Some((session.to_owned(), error));
                return past;
            }
        };
        for (_, path) in found {
            match tail(&path) {
                Ok(bytes) => past.take(&bytes),
                Err(error) => past.error = Some((path, error)),
            }
        }
        past
    }

    fn take(&mut self, bytes: &[u8]) {
        for bytes in lines(bytes) {
            let run = match kind_of(bytes) {
                Some(b"session_start" | b"session_resume") => true,
                Some(
                    b"turn_start" | b"checkpoint" | b"system_prompt" | b"tool_catalog"
                    | b"permission_rules",
                ) => false,
                Some(kind) if kind.starts_with(b"message_") => {
                    let from_model = matches!(kind, b"message_assistant" | b"message_reasoning");
                    self.messages
                        .extend(history_of(bytes).map(|end| (end, from_model)));
                    continue;
                }
                _ => continue,
            };
            self.started |= run;
            if let Ok(line) = Line::parse(bytes) {
                self.take_line(&line);
            }
        }
    }

    fn take_line(&mut self, line: &Line) {
        let number = |name: &str| line.payload.get(name).and_then(|v| v.as_u64());
        let text = |name: &str| line.payload.get(name).and_then(|v| v.as_str());
        match line.kind.as_str() {
            "session_start" | "session_resume" => {
                let ids = line.ids().map(|ids| (ids.trace, ids.span));
                self.last_run = ids.or(self.last_run);
            }
            "turn_start" => {
                let turn = number("turn_index").and_then(|n| u32::try_from(n).ok());
                self.next_turn = self.next_turn.max(turn.map_or(0, |n| n.saturating_add(1)));
            }
            "checkpoint" => {
                let next = number("next_turn").and_then(|n| u32::try_from(n).ok());
                self.next_turn = self.next_turn.max(next.unwrap_or(0));
                self.started |= line.payload.get("started") == Some(&true.into());
                let hex = |name: &str| line.payload.get("last_run")?.get(name)?.as_str();
                let trace = hex("trace_id").and_then(|id| u128::from_str_radix(id, 16).ok());
                let span = hex("span_id").and_then(|id| u64::from_str_radix(id, 16).ok());
                self.last_run = trace.zip(span).or(self.last_run);
                let known = line.payload.get("known_digests").and_then(|v| v.as_array());
                let known = known.into_iter().flatten().filter_map(|v| v.as_str());
                self.known.extend(known.map(str::to_owned));
                for (slot, digested) in self.current.iter_mut().zip(Digested::ALL) {
                    let digest = line
                        .payload
                        .get("digests")
                        .and_then(|v| v.get(digested.stamp()));
                    if let Some(digest) = digest.and_then(|v| v.as_str()) {
                        *slot = Some(digest.to_owned());
                    }
                }
            }
            kind => {
                let slot = Digested::ALL.iter().position(|d| d.kind() == kind);
                if let (Some(slot), Some(digest)) = (slot, text("digest")) {
                    self.current[slot] = Some(digest.to_owned());
                    self.known.insert(digest.to_owned());
                }
            }
        }
    }
}

/// The whole lines of a piece of a segment. What follows the last newline is none.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    bytes[..end].split_inclusive(|b| *b == b'\n')
}

/// Every line that is read is asked for its kind.
static KIND: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new(b",\"kind\":\""));

/// The kind of a line, without parsing it. Nothing a user wrote can stand before it.
pub(crate) fn kind_of(line: &[u8]) -> Option<&[u8]> {
    let head = &line[..line.len().min(200)];
    let start = KIND.find(head)? + KIND.needle().len();
    let len = memchr::memchr(b'"', &head[start..])?;
    Some(&head[start..start + len])
}

/// How far the conversation was, where a message's line says so. Inside a text the quotes would be
/// escaped.
fn history_of(line: &[u8]) -> Option<End> {
    const NAME: &[u8] = b"\"history\":\"";
    let start = memmem::rfind(line, NAME)? + NAME.len();
    let digits = std::str::from_utf8(line.get(start..start + 32)?).ok()?;
    u128::from_str_radix(digits, 16).ok().map(End)
}

/// The end of a segment: from its last checkpoint, or all of it.
pub(crate) fn tail(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut reach = 2 << 20;
    loop {
        let from = size.saturating_sub(reach);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.by_ref().take(reach).read_to_end(&mut bytes)?;
        if from > 0 {
            // The first piece is the end of a line that began before.
            let first = memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |at| at + 1);
            bytes.drain(..first);
        }
        if let Some(at) = last_checkpoint(&bytes) {
            bytes.drain(..at);
            return Ok(bytes);
        }
        if from == 0 {
            return Ok(bytes);
        }
        reach *= 4;
    }
}

/// Where the last whole checkpoint line begins.
fn last_checkpoint(bytes: &[u8]) -> Option<usize> {
    let whole = memchr::memrchr(b'\n', bytes)? + 1;
    for at in memmem::rfind_iter(&bytes[..whole], b",\"kind\":\"checkpoint\",") {
        let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |newline| newline + 1);
        // A text inside a payload can hold these words, but not as the line's kind.
        let end = memchr::memchr(b'\n', &bytes[at..]).map_or(whole, |len| at + len + 1);
        if kind_of(&bytes[start..end]) == Some(b"checkpoint")
            && Line::parse(&bytes[start..end]).is_ok()
        {
            return Some(start);
        }
    }
    None
}
