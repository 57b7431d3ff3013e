//! Messages: who wrote them, and their parts.

use std::borrow::Cow;
use std::fmt;

use super::node::Node;
use crate::trace::typed::Message;
use crate::trace::{Kind, RawValue};

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The model, in reasoning that is not part of its answer.
    Reasoning,
    /// The system.
    System,
    /// Tools: their results, as the model was sent them.
    Tool,
}

/// A part of a message, as OpenTelemetry's conventions for generative AI name them.
#[derive(Clone, Debug)]
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
        /// The arguments.
        arguments: Option<RawValue<'a>>,
    },
    /// The result of a call.
    ToolResponse {
        /// The id of the call.
        id: Cow<'a, str>,
        /// The result.
        response: Option<RawValue<'a>>,
    },
    /// Any other part.
    Other {
        /// Its type.
        kind: Cow<'a, str>,
        /// All of it.
        part: RawValue<'a>,
    },
}

impl<'a> From<RawValue<'a>> for Part<'a> {
    fn from(part: RawValue<'a>) -> Self {
        let text = |name: &str| part.get(name).and_then(|value| value.text());
        let kind = text("type").unwrap_or_default();
        let id = || text("id").unwrap_or_default();
        match kind.as_ref() {
            "text" => Self::Text(text("content").or_else(|| text("text")).unwrap_or_default()),
            "tool_call" => Self::ToolCall {
                id: id(),
                name: text("name").unwrap_or_default(),
                arguments: part.get("arguments"),
            },
            "tool_call_response" => Self::ToolResponse {
                id: id(),
                response: part.get("response").or_else(|| part.get("result")),
            },
            _ => Self::Other { kind, part },
        }
    }
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("text"),
            Self::ToolCall { name, .. } => write!(f, "calls {name}"),
            Self::ToolResponse { id, .. } => write!(f, "to {id}"),
            Self::Other { kind, .. } => f.write_str(kind),
        }
    }
}

impl Node {
    /// The author of a message; none if this is no message.
    pub fn role(&self) -> Option<Role> {
        Some(match self.kind {
            Kind::MessageUser => Role::User,
            Kind::MessageAssistant | Kind::MessageDelta => Role::Assistant,
            Kind::MessageReasoning => Role::Reasoning,
            Kind::MessageSystem => Role::System,
            Kind::MessageTool => Role::Tool,
            _ => return None,
        })
    }

    /// The parts of a message, if it has any.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let parts = self.view::<Message<'_>>().parts().into_iter();
        parts.flat_map(|parts| parts.items()).map(Part::from)
    }
}

#[cfg(test)]
mod tests;
