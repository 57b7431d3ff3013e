//! Spans of other libraries: their kinds here, and our names of their fields.
//!
//! A callsite is recognized if it declares `gen_ai.operation.name`, as the GenAI conventions of
//! OpenTelemetry ask for, or if a [`Rule`] of the user's matches its metadata. That is decided once
//! for a callsite. What the span is comes from the operation's value, which may be recorded late:
//!
//! | operation | becomes |
//! |---|---|
//! | `invoke_agent`, `invoke_workflow` | a run; a session of its own where none is above, called by `gen_ai.conversation.id` if that is given |
//! | `chat`, `generate_content`, `text_completion`, `embeddings` | a model call |
//! | `execute_tool` | a tool call |
//! | anything else | a span under its own name |
//!
//! Names of the last versions of the conventions are understood; what has no name here is kept
//! under its own. Messages, instructions and tool definitions become events, each message once.

mod gen_ai;
mod rule;

use std::sync::Arc;

use tracing::Metadata;

use crate::gen_ai::{Content, OPERATION, identity, kind_of};
use crate::record::raw_fields::RawFields;
use crate::trace::{Outcome, SpanKind};

pub use rule::Rule;

/// Which callsites of others are recognized.
#[derive(Clone, Debug)]
pub(crate) struct Recognizer {
    pub gen_ai: bool,
    pub rules: Vec<Arc<Rule>>,
}

impl Default for Recognizer {
    fn default() -> Self {
        Self {
            gen_ai: true,
            rules: Vec::new(),
        }
    }
}

impl Recognizer {
    /// How spans of this callsite are read, if they are.
    pub fn mapping(&self, meta: &Metadata<'_>) -> Option<Mapping> {
        if let Some(rule) = self.rules.iter().find(|rule| rule.matches(meta)) {
            return Some(Mapping::Rule(Arc::clone(rule)));
        }
        let declared = || meta.fields().field(OPERATION).is_some();
        (self.gen_ai && declared()).then_some(Mapping::GenAi)
    }
}

/// How the spans of a callsite are read.
#[derive(Clone, Debug)]
pub(crate) enum Mapping {
    /// By the conventions: the operation determines the kind.
    GenAi,
    /// By a rule of the user's, and by the conventions for fields that it does not name.
    Rule(Arc<Rule>),
}

/// The fields of a recognized span under our names.
#[derive(Debug)]
pub(crate) struct Recognized {
    pub fields: RawFields,
    pub content: Content,
    pub outcome: Outcome,
}

impl Mapping {
    /// The kind of the span, once that is known.
    pub fn kind(&self, raw: &RawFields) -> Option<SpanKind> {
        match self {
            Self::GenAi => raw.get(OPERATION).map(kind_of),
            Self::Rule(rule) => Some(rule.kind()),
        }
    }

    /// The kind of a span that never recorded its operation: by the conventions its name begins with it.
    pub fn kind_by_name(meta: &Metadata<'_>) -> SpanKind {
        kind_of(meta.name().split(' ').next().unwrap_or_default())
    }

    /// The field that identifies what was opened, by the library's name.
    pub fn identity(&self, kind: SpanKind) -> Option<&str> {
        let by_rule = match self {
            Self::Rule(rule) => kind.identity().and_then(|ours| rule.theirs(ours)),
            Self::GenAi => None,
        };
        by_rule.or_else(|| identity(kind))
    }

    /// Separates fields: content, outcome, and the rest under our names.
    pub fn read(&self, kind: SpanKind, mut raw: RawFields) -> Recognized {
        if let Self::Rule(rule) = self {
            rule.rename(&mut raw);
        }
        gen_ai::read(kind, raw)
    }
}
