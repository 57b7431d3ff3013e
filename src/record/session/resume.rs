//! What a process needs to resume a session, read from the ends of earlier segments.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::Link;
use super::context_asset::ContextAsset;
use super::history::ChainTip;
use crate::ledger::tail;
use crate::trace::typed::{self, Checkpoint, SpanLink, Turn};
use crate::trace::{Kind, RawLine, SpanKind, segments, whole_lines};

#[derive(Debug, Default)]
pub(crate) struct ResumeState {
    pub started: bool,
    pub next_turn: u32,
    /// The run that was opened last.
    pub last_run: Option<Link>,
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
                Ok(bytes) => state.read_segment(&bytes),
                Err(error) => state.error = Some((path, error)),
            }
        }
        state
    }

    fn read_segment(&mut self, bytes: &[u8]) {
        for bytes in whole_lines(bytes) {
            let kind = Kind::of_line(bytes);
            match kind {
                Kind::SessionStart
                | Kind::SessionResume
                | Kind::TurnStart
                | Kind::Checkpoint
                | Kind::SystemPrompt
                | Kind::ToolCatalog
                | Kind::PermissionRules => {
                    self.started |= kind.opens() == Some(SpanKind::Run);
                    if let Ok(line) = RawLine::parse(bytes) {
                        self.read_line(&line);
                    }
                }
                Kind::MessageAssistant | Kind::MessageReasoning => {
                    self.messages
                        .extend(history_of(bytes).map(|end| (end, true)));
                }
                Kind::MessageUser | Kind::MessageSystem | Kind::MessageTool => {
                    self.messages
                        .extend(history_of(bytes).map(|end| (end, false)));
                }
                _ => {}
            }
        }
    }

    fn read_line(&mut self, line: &RawLine<'_>) {
        let kind = line.kind();
        let index = |number: Option<u64>| number.and_then(|n| u32::try_from(n).ok());
        if kind.opens() == Some(SpanKind::Run) {
            let ids = line.ids().map(|ids| (ids.trace, ids.span));
            self.last_run = ids.or(self.last_run);
        } else if let Some(turn) = Turn::of(line) {
            let next = index(turn.turn_index()).map_or(0, |index| index.saturating_add(1));
            self.next_turn = self.next_turn.max(next);
        } else if let Some(checkpoint) = Checkpoint::of(line) {
            let next = index(checkpoint.next_turn()).unwrap_or(0);
            self.next_turn = self.next_turn.max(next);
            self.read_checkpoint(&checkpoint);
        } else if let Some(asset) = ContextAsset::from_kind(kind)
            && let Some(digest) = typed::ContextAsset::of(line).and_then(|line| line.digest())
        {
            self.current[asset as usize] = Some(digest.to_string());
            self.known.insert(digest.into_owned());
        }
    }

    fn read_checkpoint(&mut self, checkpoint: &Checkpoint<'_>) {
        self.started |= checkpoint.started() == Some(true);
        if let Some(run) = checkpoint.last_run().map(SpanLink::from) {
            let trace = run
                .trace_id()
                .and_then(|id| u128::from_str_radix(&id, 16).ok());
            let span = run
                .span_id()
                .and_then(|id| u64::from_str_radix(&id, 16).ok());
            self.last_run = trace.zip(span).or(self.last_run);
        }
        let known = checkpoint.known_digests();
        let known = known.iter().flat_map(|list| list.items());
        self.known
            .extend(known.filter_map(|digest| Some(digest.text()?.into_owned())));
        let digests = checkpoint.digests();
        for asset in ContextAsset::ALL {
            let digest = digests.and_then(|digests| digests.get(asset.stamp())?.text());
            if let Some(digest) = digest {
                self.current[asset as usize] = Some(digest.into_owned());
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
