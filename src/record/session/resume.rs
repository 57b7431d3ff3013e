//! What a process needs to resume a session, read from the ends of earlier segments.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::context_asset::ContextAsset;
use super::history::ChainTip;
use crate::ledger::tail;
use crate::trace::{Line, kind_of, segments, whole_lines};

#[derive(Debug, Default)]
pub(crate) struct ResumeState {
    pub started: bool,
    pub next_turn: u32,
    /// The run that was opened last: its trace and span.
    pub last_run: Option<(u128, u64)>,
    pub current: [Option<String>; 3],
    pub known: HashSet<String>,
    /// The chain tip of each message, and whether the model wrote it.
    pub messages: Vec<(ChainTip, bool)>,
    /// What could not be read, and why.
    pub error: Option<(PathBuf, io::Error)>,
}

impl ResumeState {
    /// A session that can't be read starts as a new one until it can: recording goes on.
    pub fn read(session: &Path) -> Self {
        let mut state = Self::default();
        let found = match segments(session) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return state,
            Err(error) => {
                state.error = Some((session.to_owned(), error));
                return state;
            }
        };
        for (_, path) in found {
            match tail(&path) {
                Ok(bytes) => state.take(&bytes),
                Err(error) => state.error = Some((path, error)),
            }
        }
        state
    }

    fn take(&mut self, bytes: &[u8]) {
        for bytes in whole_lines(bytes) {
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
                for (slot, asset) in self.current.iter_mut().zip(ContextAsset::ALL) {
                    let digest = line
                        .payload
                        .get("digests")
                        .and_then(|v| v.get(asset.stamp()));
                    if let Some(digest) = digest.and_then(|v| v.as_str()) {
                        *slot = Some(digest.to_owned());
                    }
                }
            }
            kind => {
                let slot = ContextAsset::ALL.iter().position(|d| d.kind() == kind);
                if let (Some(slot), Some(digest)) = (slot, text("digest")) {
                    self.current[slot] = Some(digest.to_owned());
                    self.known.insert(digest.to_owned());
                }
            }
        }
    }
}

/// The chain tip that a message's line carries. Inside a text the quotes would be escaped.
fn history_of(line: &[u8]) -> Option<ChainTip> {
    const NAME: &[u8] = b"\"history\":\"";
    let start = memmem::rfind(line, NAME)? + NAME.len();
    let digits = std::str::from_utf8(line.get(start..start + 32)?).ok()?;
    u128::from_str_radix(digits, 16).ok().map(ChainTip)
}
