//! What a comparison says of one turn.

use serde_json::{Value, json};

use crate::trace::{Address, Usage, named_enum};

named_enum! {
    /// How two things compare.
    #[non_exhaustive]
    pub enum Change {
        /// They are the same.
        Same = "same",
        /// They differ.
        Changed = "changed",
        /// Only the first session has it.
        OnlyA = "only_a",
        /// Only the second session has it.
        OnlyB = "only_b",
    }
}

impl Change {
    /// Which of the sessions has something alone, in a word.
    pub(super) fn which(self) -> &'static str {
        match self {
            Self::OnlyA => "first",
            _ => "second",
        }
    }

    /// What only one session has, as what the first and what the second has.
    pub(super) fn sides<T>(self, of: Option<T>) -> (Option<T>, Option<T>) {
        match self {
            Self::OnlyB => (None, of),
            _ => (of, None),
        }
    }
}

named_enum! {
    /// What is compared.
    #[non_exhaustive]
    pub enum RowKind {
        /// The system prompt.
        SystemPrompt = "system_prompt",
        /// The tool catalog.
        ToolCatalog = "tool_catalog",
        /// The permission rules.
        PermissionRules = "permission_rules",
        /// A message of the user, or another one that goes into a model call.
        Input = "input",
        /// A model call and its answer.
        Model = "model",
        /// A tool call and its result.
        Tool = "tool",
        /// A subagent, compared as a session of its own.
        Subagent = "subagent",
    }
}

/// What one session has of a row.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Side {
    /// The line.
    pub address: Option<Address>,
    /// The model, the tool, the author or the agent.
    pub title: String,
    /// What was sent: the arguments of a tool; the session of a subagent.
    pub input: String,
    /// What came back or was said: an answer, a result, a message, a digest. Long texts are cut.
    pub text: String,
    /// Tokens and cost.
    pub usage: Option<Usage>,
    /// How long it took, in nanoseconds.
    pub duration: Option<u64>,
}

impl Side {
    fn to_json(&self) -> Value {
        json!({
            "address": self.address.map(|at| at.to_string()),
            "title": self.title,
            "input": (!self.input.is_empty()).then_some(&self.input),
            "text": self.text,
            "usage": self.usage.as_ref().map(Usage::to_json),
            "duration_ns": self.duration,
        })
    }
}

/// One thing in both sessions, or in one of them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiffRow {
    /// What it is.
    pub kind: RowKind,
    /// How it compares.
    pub change: Change,
    /// In the first session.
    pub a: Option<Side>,
    /// In the second session.
    pub b: Option<Side>,
    /// What differs, or what was passed over: retries, another order.
    pub notes: Vec<String>,
}

impl DiffRow {
    /// What only one session has.
    pub(super) fn only(kind: RowKind, change: Change, side: Side) -> Self {
        let (a, b) = change.sides(Some(side));
        Self {
            kind,
            change,
            a,
            b,
            notes: Vec::new(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "kind": self.kind.as_str(),
            "change": self.change.as_str(),
            "a": self.a.as_ref().map(Side::to_json),
            "b": self.b.as_ref().map(Side::to_json),
            "notes": self.notes,
        })
    }
}

/// A turn of one session, or a pair of turns.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TurnDiff {
    /// Its index in the first session.
    pub a: Option<u32>,
    /// Its index in the second session.
    pub b: Option<u32>,
    /// Whether only one session has it.
    pub alone: bool,
    /// What it used and how long it took, in the first and the second session.
    pub used: [Option<(Usage, Option<u64>)>; 2],
    /// What was compared, in order.
    pub rows: Vec<DiffRow>,
    /// The divergence is here.
    pub diverges: bool,
}

impl TurnDiff {
    /// Its index in the first session, or in the second if only that has it.
    pub fn index(&self) -> Option<u32> {
        self.a.or(self.b)
    }

    /// Whether nothing in it differs.
    pub fn is_equal(&self) -> bool {
        !self.alone && !self.diverges && self.rows.iter().all(|row| row.change == Change::Same)
    }

    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        let used = |at: usize| {
            self.used[at]
                .as_ref()
                .map(|(usage, duration)| json!({"usage": usage.to_json(), "duration_ns": duration}))
        };
        json!({
            "a": self.a,
            "b": self.b,
            "equal": self.is_equal(),
            "used": {"a": used(0), "b": used(1)},
            "rows": self.rows.iter().map(DiffRow::to_json).collect::<Vec<_>>(),
        })
    }
}
