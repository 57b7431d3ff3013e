//! What a process needs to resume a session, read from the ends of earlier segments.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::Link;
use super::context_asset::ContextAsset;
use crate::gen_ai::{ChainTip, PastTip};
use crate::ledger::{SegmentEnd, segment_end};
use crate::trace::typed::{self, Checkpoint, RequestPart, Span, SpanLink, Turn};
use crate::trace::{Kind, RawLine, SpanKind, segments, whole_lines};

#[derive(Debug, Default)]
pub(crate) struct ResumeState {
    pub started: bool,
    pub next_turn: u32,
    /// The run that was opened last.
    pub last_run: Option<Link>,
    pub current: [Option<String>; 3],
    pub known: HashSet<String>,
    /// The context was compacted, and no model call has opened since.
    pub compacted: bool,
    pub messages: Vec<PastTip>,
    /// The digests of parts of requests that were stored.
    pub parts: Vec<u128>,
    /// What could not be read, and why.
    pub error: Option<(PathBuf, io::Error)>,
}

/// About how much is read of earlier segments, on the agent's thread.
const MOST_READ: u64 = 8 << 20;
/// What opening a segment costs, beside its bytes.
const OPENING: u64 = 64 << 10;

impl ResumeState {
    /// A session that can't be read starts as a new one until it can: recording goes on. Only the newest
    /// segments are read: their checkpoints have the state of those before.
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
        let mut tails = Vec::new();
        let mut left = MOST_READ;
        for (_, path) in found.into_iter().rev() {
            match segment_end(&path, left) {
                Ok(tail) => {
                    left = left.saturating_sub(OPENING + tail.bytes.len() as u64);
                    tails.push(tail);
                }
                Err(error) => state.error = Some((path, error)),
            }
            if left < MOST_READ / 4 {
                break;
            }
        }
        for tail in tails.iter().rev() {
            state.read_segment(tail);
        }
        state
    }

    fn read_segment(&mut self, tail: &SegmentEnd) {
        for bytes in whole_lines(&tail.bytes) {
            let kind = Kind::of_line(bytes);
            // Without a checkpoint, every line may be the only one of its turn.
            if !tail.has_state {
                self.started = true;
                self.see_turn(RawLine::parse(bytes).ok().and_then(|line| line.turn));
            }
            match kind {
                Kind::SessionStart
                | Kind::SessionResume
                | Kind::TurnStart
                | Kind::Checkpoint
                | Kind::SystemPrompt
                | Kind::ToolCatalog
                | Kind::PermissionRules
                | Kind::ContextCompaction => {
                    self.started |= kind.opens() == Some(SpanKind::Run);
                    if let Ok(line) = RawLine::parse(bytes) {
                        self.read_line(&line);
                    }
                }
                Kind::MessageAssistant | Kind::MessageReasoning => self.read_tip(bytes, true),
                Kind::MessageUser | Kind::MessageSystem | Kind::MessageTool => {
                    self.read_tip(bytes, false);
                }
                Kind::RequestPart => {
                    let part = RawLine::parse(bytes);
                    let part = part.ok().and_then(|line| RequestPart::of(&line));
                    let digest = part.and_then(|part| part.digest());
                    let digest = digest.and_then(|hex| u128::from_str_radix(&hex, 16).ok());
                    self.parts.extend(digest);
                }
                kind if kind.opens() == Some(SpanKind::Model) => self.compacted = false,
                _ => {}
            }
        }
    }

    /// The chain tip that a message's line carries. Inside a text the quotes would be escaped.
    fn read_tip(&mut self, line: &[u8], from_model: bool) {
        const NAME: &[u8] = b"\"history\":\"";
        let digits = memmem::rfind(line, NAME).and_then(|at| {
            let start = at + NAME.len();
            std::str::from_utf8(line.get(start..start + 32)?).ok()
        });
        self.messages
            .extend(digits.and_then(parse_tip).map(|tip| PastTip {
                tip,
                from_model,
                answered: false,
            }));
    }

    fn see_turn(&mut self, turn: Option<u32>) {
        let next = turn.map_or(0, |turn| turn.saturating_add(1));
        self.next_turn = self.next_turn.max(next);
    }

    fn read_line(&mut self, line: &RawLine<'_>) {
        let kind = line.kind();
        let index = |number: Option<u64>| number.and_then(|n| u32::try_from(n).ok());
        if kind.opens() == Some(SpanKind::Run) {
            let ids = line.ids().map(|ids| (ids.trace, ids.span));
            self.last_run = ids.or(self.last_run);
        } else if let Some(turn) = Turn::of(line) {
            self.see_turn(index(turn.turn_index()));
        } else if let Some(checkpoint) = Checkpoint::of(line) {
            let next = index(checkpoint.next_turn()).unwrap_or(0);
            self.next_turn = self.next_turn.max(next);
            self.read_checkpoint(&checkpoint);
        } else if let Some(asset) = ContextAsset::from_kind(kind)
            && let Some(digest) = typed::ContextAsset::of(line).and_then(|line| line.digest())
        {
            self.current[asset as usize] = Some(digest.to_string());
            self.known.insert(digest.into_owned());
        } else if kind == Kind::ContextCompaction {
            let outcome = Span::from(line.payload()).outcome();
            self.compacted |= outcome.is_some_and(|outcome| !outcome.is_error());
        }
    }

    fn read_checkpoint(&mut self, checkpoint: &Checkpoint<'_>) {
        self.started |= checkpoint.started() == Some(true);
        self.compacted = checkpoint.compacted() == Some(true);
        let history = checkpoint.history();
        for past in history.iter().flat_map(|list| list.items()) {
            let tip = past.get("tip").and_then(|tip| parse_tip(&tip.text()?));
            let answered = past.get("answered").and_then(|answered| answered.bool());
            self.messages.extend(tip.map(|tip| PastTip {
                tip,
                from_model: false,
                answered: answered.unwrap_or(false),
            }));
        }
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

fn parse_tip(digits: &str) -> Option<ChainTip> {
    u128::from_str_radix(digits, 16).ok().map(ChainTip)
}
