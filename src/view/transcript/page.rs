//! What a transcript consists of, before it is HTML or Markdown.

use std::io;

use super::super::describe::DetailKind;
use super::super::header::Fact;
use super::super::style::Tone;
use crate::inspect::{AttemptArtifact, Attempts};
use crate::session::HiddenNodes;
use crate::trace::Damage;

/// The top of a transcript.
pub(super) struct Head {
    pub title: String,
    pub facts: Vec<Fact>,
    /// The only turn that is wanted.
    pub only: Option<u32>,
}

/// The title of a turn, in the timeline's words.
#[derive(Default)]
pub(super) struct TurnHead {
    /// None: what happened between turns.
    pub index: Option<u32>,
    pub text: String,
    /// The time of models, tools and people.
    pub split: String,
    /// Tokens, cost, models and tools.
    pub facts: Vec<String>,
    /// Why it failed, and where.
    pub failure: Option<(String, String)>,
}

/// A text, and how much of it is left out.
pub(super) struct Body {
    pub text: String,
    pub note: Option<String>,
}

impl Row {
    /// Whether one of its facts is its bad outcome, such as `DENIED by manifest`.
    pub fn is_outcome(&self, fact: &str) -> bool {
        let rest = self
            .outcome
            .as_deref()
            .and_then(|outcome| fact.strip_prefix(outcome));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

/// How a row looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    User,
    Assistant,
    Reasoning,
    Tool,
    Other,
}

/// A node of a turn.
pub(super) struct Row {
    pub address: String,
    pub look: Look,
    /// The word for a bad outcome, such as `DENIED`.
    pub outcome: Option<String>,
    pub hidden: bool,
    pub label: String,
    pub tone: Tone,
    pub subject: String,
    /// A short input.
    pub input: Option<String>,
    /// Duration, outcome, usage, rules and so on.
    pub facts: Vec<String>,
    /// The time since the start of the turn, or the time of day between turns.
    pub when: String,
    /// Its part of the turn's time, in thousandths: start and length.
    pub bar: Option<(u64, u64)>,
    pub message: Option<Body>,
    pub details: Vec<(&'static str, DetailKind, Body)>,
    /// The other fields.
    pub fields: Vec<String>,
    pub figure: Option<Figure>,
}

/// The file of an artifact, and the code that made it.
pub(super) struct Figure {
    pub path: String,
    /// An image, small enough to be part of the page: its media type and its bytes.
    pub image: Option<(&'static str, Vec<u8>)>,
    /// Where the file is in a bundle.
    pub file: Option<String>,
    /// Why the file is not shown.
    pub note: Option<String>,
    pub code: Option<Body>,
}

/// Reads the figure of an attempt, each when it is written.
pub(super) type Figures<'a> = &'a mut dyn FnMut(&AttemptArtifact) -> Figure;

/// A transcript in one format, written from top to bottom.
pub(super) trait Page {
    fn head(&mut self, head: &Head) -> io::Result<()>;
    fn turn(&mut self, head: &TurnHead) -> io::Result<()>;
    fn end_turn(&mut self, hidden: Option<HiddenNodes>) -> io::Result<()>;
    /// Begins a row. Rows and subagents until its end are inside it.
    fn row(&mut self, row: &Row) -> io::Result<()>;
    fn end_row(&mut self) -> io::Result<()>;
    /// Begins the session of a subagent.
    fn subagent(&mut self, title: &str) -> io::Result<()>;
    fn end_subagent(&mut self) -> io::Result<()>;
    /// What could not be shown.
    fn problem(&mut self, text: &str) -> io::Result<()>;
    fn attempts(&mut self, attempts: &Attempts, figures: Figures<'_>) -> io::Result<()>;
    fn end(&mut self, damages: &[Damage]) -> io::Result<()>;
}
