//! An entry of a conversation: a message, or a model call with its answer and its tools.

use serde_json::{Map, Value, json};

use super::super::feed::Fed;
use super::super::values::{is_ok, output_text};
use crate::request::Message;
use crate::session::{Node, Role};
use crate::trace::typed::ToolCall;
use crate::trace::{Address, Usage};

/// Something that was said.
#[derive(Debug)]
pub(in super::super) struct Entry {
    /// Counts entries, rewinds and compactions in their order.
    pub(super) number: u64,
    pub role: Role,
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<Call>,
    /// Subagents that were started outside of a tool call.
    pub subagents: Vec<String>,
    pub model: Option<String>,
    pub usage: Option<Usage>,
    pub time: u64,
    pub at: Address,
    /// A rewind, an edit or a compaction has removed it from the context.
    pub hidden: bool,
    /// It was not received to its end.
    pub incomplete: bool,
    /// It replaces the entries before it.
    pub is_summary: bool,
    pub(super) message_ids: Vec<String>,
    /// How many of its calls are open: the model's, and those of tools.
    pub(super) open: usize,
    pub(super) bytes: usize,
}

/// A tool call.
#[derive(Debug)]
pub(in super::super) struct Call {
    pub id: String,
    pub name: String,
    pub args: Map<String, Value>,
    /// None if it did not end.
    pub end: Option<CallEnd>,
    pub subagents: Vec<String>,
}

/// How a tool call ended.
#[derive(Debug)]
pub(in super::super) struct CallEnd {
    pub output: String,
    pub ok: bool,
    pub outcome: Option<String>,
}

impl CallEnd {
    pub(super) fn of(node: &Node, call: &ToolCall<'_>) -> Self {
        Self {
            output: output_text(node, call),
            ok: is_ok(node),
            outcome: node.outcome_name().map(String::from),
        }
    }
}

impl Entry {
    pub(super) fn new(fed: &Fed, role: Role, number: u64) -> Self {
        Self {
            number,
            role,
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            subagents: Vec::new(),
            model: None,
            usage: None,
            time: fed.node.start,
            at: fed.at,
            hidden: false,
            incomplete: false,
            is_summary: false,
            message_ids: Vec::new(),
            open: 0,
            bytes: 0,
        }
    }

    /// Adds a paragraph.
    pub(super) fn add_text(&mut self, role: Role, text: &str) {
        self.bytes += text.len();
        let into = match role {
            Role::Reasoning => &mut self.reasoning,
            _ => &mut self.text,
        };
        if !into.is_empty() {
            into.push_str("\n\n");
        }
        into.push_str(text);
    }

    /// Whether it has tool calls, and all of them ended.
    pub(super) fn has_all_results(&self) -> bool {
        !self.calls.is_empty() && self.calls.iter().all(|call| call.end.is_some())
    }

    /// Whether a model would be sent it now.
    pub fn is_in_context(&self) -> bool {
        !self.hidden && (!self.text.is_empty() || !self.calls.is_empty())
    }

    /// What was said, and the results of the calls in it.
    pub fn into_messages(self) -> Vec<Message> {
        let role = match self.role {
            Role::User => "user",
            Role::System => "system",
            _ => "assistant",
        };
        let mut parts = Vec::new();
        if !self.text.is_empty() {
            parts.push(json!({"type": "text", "content": self.text}));
        }
        let mut results = Vec::new();
        for call in self.calls {
            let mut part = json!({"type": "tool_call", "id": call.id, "name": call.name});
            part["arguments"] = call.args.into();
            parts.push(part);
            let mut result = json!({"type": "tool_call_response", "id": call.id});
            if call.end.as_ref().is_some_and(|end| !end.ok) {
                result["is_error"] = true.into();
            }
            result["response"] = call.end.map(|end| end.output).into();
            results.push(Message::new("tool", vec![result]));
        }
        let own = Message::new(role, parts);
        [own].into_iter().chain(results).collect()
    }
}
