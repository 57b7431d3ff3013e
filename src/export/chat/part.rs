//! Parts of messages, as the AI SDK validates them: each state of a part has its own members, and no other.

use serde_json::{Map, Value, json};

use super::super::approves;
use super::super::values::text_of;
use crate::session::{Node, NodeState, Role};
use crate::trace::typed::{Message, ToolCall};
use crate::trace::{Outcome, RawValue};

#[derive(Clone, Debug)]
pub(in super::super) struct Part {
    pub data: Value,
    pub created: u64,
    pub updated: u64,
    /// A span of a tool call has this part.
    pub has_span: bool,
    /// The text is still arriving. A later line has all of it.
    pub arriving: bool,
}

impl Part {
    pub fn new(data: Value, now: u64) -> Self {
        Self {
            data,
            created: now,
            updated: now,
            has_span: false,
            arriving: false,
        }
    }

    pub fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap_or_default()
    }

    pub fn tool_call_id(&self) -> Option<&str> {
        self.data["toolCallId"].as_str()
    }

    pub fn tool_state(&self) -> Option<&str> {
        self.tool_call_id().and(self.data["state"].as_str())
    }

    /// The characters of a text, or of the JSON of another part.
    pub fn chars(&self) -> usize {
        match self.data["text"].as_str() {
            Some(text) => text.chars().count(),
            None => self.data.to_string().chars().count(),
        }
    }
}

/// The part of a tool call. A call that a crash interrupted stays in the state that it was in.
pub(super) fn tool(node: &Node, call: &ToolCall<'_>, approval: Option<&Value>) -> Value {
    let input = call.args().and_then(|args| args.value());
    let command = || Some(json!({"command": text_of(call.command()?)}));
    let id = call.tool_call_id().unwrap_or_default();
    let name = call.tool_id().unwrap_or_default();
    let input = input.or_else(command).unwrap_or_else(|| json!({}));
    let mut part = json!({
        "type": format!("tool-{name}"),
        "toolCallId": id,
        "state": "input-available",
        "input": input,
    });
    if let Some(title) = call.title() {
        part["title"] = title.into();
    }
    let waits = node.state == NodeState::Open;
    match node.outcome() {
        outcome if waits || outcome == Some(Outcome::Interrupted) => {
            if let Some(approval) = approval {
                let is_answered = approval.get("approved").is_some();
                let state = if is_answered {
                    "approval-responded"
                } else {
                    "approval-requested"
                };
                part["state"] = state.into();
                part["approval"] = approval.clone();
            }
        }
        Some(Outcome::Ok | Outcome::Unset) | None => {
            part["state"] = "output-available".into();
            part["output"] = output(call);
        }
        Some(Outcome::Denied) => {
            let denied = approval.filter(|approval| approval["approved"] == false);
            let reason = node.error().unwrap_or_else(|| "denied".to_owned());
            let unknown = || json!({"id": id, "approved": false, "reason": reason});
            part["state"] = "output-denied".into();
            part["approval"] = denied.cloned().unwrap_or_else(unknown);
        }
        Some(_) => {
            let outcome = || node.outcome_name().unwrap_or_default().into_owned();
            part["state"] = "output-error".into();
            part["errorText"] = node.error().unwrap_or_else(outcome).into();
        }
    }
    part
}

fn output(call: &ToolCall<'_>) -> Value {
    if let Some(result) = call.result() {
        return result.value().unwrap_or_default();
    }
    let streams = [
        ("stdout", call.stdout()),
        ("stderr", call.stderr()),
        ("exit_code", call.exit_code()),
    ];
    let streams = streams.into_iter();
    let known: Map<String, Value> = streams
        .filter_map(|(name, value)| Some((name.to_owned(), value?.value()?)))
        .collect();
    match known.is_empty() {
        true => Value::Null,
        false => known.into(),
    }
}

/// A question about a tool call, with the answer if that allows or denies the call.
pub(super) fn approval(id: &str, decision: Option<Value>) -> Value {
    let mut approval = json!({"id": id});
    if let Some(approved) = decision.as_ref().and_then(approves) {
        approval["approved"] = approved.into();
    }
    approval
}

/// The parts of a message: those that were recorded, else its text; and its attachments.
pub(super) fn of_message(node: &Node) -> Vec<Value> {
    let message: Message<'_> = node.view();
    let recorded = message.parts().into_iter();
    let mut parts: Vec<Value> = recorded
        .flat_map(|parts| parts.items())
        .map(super::recorded::part)
        .collect();
    let is_reasoning = node.role() == Some(Role::Reasoning);
    let kind = if is_reasoning { "reasoning" } else { "text" };
    let content = node.content().map(String::from);
    let content = content.or_else(|| node.get("content").map(text_of));
    let is_told = parts.iter().any(|part| part["type"] == kind);
    if let Some(text) = content.filter(|text| !is_told && (!text.is_empty() || parts.is_empty())) {
        let state = if node.is_arriving() {
            "streaming"
        } else {
            "done"
        };
        parts.insert(0, json!({"type": kind, "text": text, "state": state}));
    }
    let attachments = message.attachments().into_iter();
    parts.extend(attachments.flat_map(|all| all.items()).map(attachment));
    parts
}

/// An attached file. Without an address, its digest names it.
fn attachment(file: RawValue<'_>) -> Value {
    let text = |name: &str| file.get(name).and_then(|value| value.text());
    let digest = || Some(format!("urn:sha256:{}", text("sha256").or_else(|| text("blob"))?).into());
    match (text("media_type"), text("url").or_else(digest)) {
        (Some(media), Some(url)) => {
            let mut part = json!({"type": "file", "mediaType": media, "url": url});
            if let Some(name) = text("name") {
                part["filename"] = name.into();
            }
            part
        }
        _ => json!({"type": "data-attachment", "data": file.value()}),
    }
}

/// What else was recorded about a message.
pub(super) fn describe(node: &Node, metadata: &mut Map<String, Value>) {
    let value = |name: &str| node.get(name).and_then(|value| value.value());
    for name in ["abort_reason", "snapshot_id", "replaces", "metadata"] {
        metadata.extend(value(name).map(|value| (name.to_owned(), value)));
    }
    // `queued_at` means that a message still waits.
    metadata.extend(value("queued_at").map(|at| ("was_queued_at".to_owned(), at)));
    metadata
        .extend(value("trigger").map(|source| ("trigger".to_owned(), json!({"source": source}))));
    if node.is_incomplete() {
        metadata.insert("complete".into(), false.into());
    }
}
