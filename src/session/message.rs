//! The parts of a message.

use std::borrow::Cow;
use std::fmt;

use super::node::Node;
use crate::trace::RawValue;
use crate::trace::typed::Message;

/// A part of a message, as OpenTelemetry's conventions for generative AI name them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// The model calls a tool.
    ToolCall {
        /// The id of the call.
        id: Cow<'a, str>,
        /// The tool.
        name: Cow<'a, str>,
    },
    /// The result of a call.
    ToolResponse {
        /// The id of the call.
        id: Cow<'a, str>,
    },
    /// Any other part, by its type.
    Other(Cow<'a, str>),
}

impl<'a> Part<'a> {
    fn new(part: RawValue<'a>) -> Self {
        let text = |name: &str| part.get(name).and_then(|value| value.text());
        let kind = text("type").unwrap_or_default();
        let id = || text("id").unwrap_or_default();
        match kind.as_ref() {
            "text" => Self::Text(text("content").or_else(|| text("text")).unwrap_or_default()),
            "tool_call" => Self::ToolCall {
                id: id(),
                name: text("name").unwrap_or_default(),
            },
            "tool_call_response" => Self::ToolResponse { id: id() },
            _ => Self::Other(kind),
        }
    }
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("text"),
            Self::ToolCall { name, .. } => write!(f, "calls {name}"),
            Self::ToolResponse { id } => write!(f, "to {id}"),
            Self::Other(kind) => f.write_str(kind),
        }
    }
}

impl Node {
    /// The parts of a message, if it has any.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let parts = self.view::<Message<'_>>().parts().into_iter();
        parts.flat_map(|parts| parts.items()).map(Part::new)
    }
}
