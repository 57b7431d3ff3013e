//! An entry of a conversation: a message, or a model call with its answer and its tools.

use serde_json::{Map, Value, json};

use super::super::feed::Fed;
use super::super::values::{arguments, is_ok, output_text};
use crate::request::{Message, kind};
use crate::session::{Node, Role};
use crate::trace::typed::{ModelCall, ToolCall};
use crate::trace::{Address, Outcome, RawValue, Usage};

/// Something that was said.
#[derive(Debug)]
pub(in super::super) struct Entry {
    /// Counts entries, rewinds and compactions in their order.
    pub(super) number: u64,
    pub role: Role,
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<Call>,
    /// Results of tools that belong to no call.
    pub results: Vec<String>,
    /// Files that came with it.
    pub attachments: Vec<Value>,
    /// Its parts that are images or documents.
    media: Vec<Value>,
    /// Other data about its messages and its model call.
    pub metadata: Map<String, Value>,
    /// Subagents that were started outside of a tool call.
    pub subagents: Vec<String>,
    pub model: Option<String>,
    /// The model's variant, such as a reasoning effort.
    pub variant: Option<String>,
    /// None if there is no model call, or it did not end.
    pub model_end: Option<ModelEnd>,
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

/// How a model call ended.
#[derive(Debug)]
pub(in super::super) struct ModelEnd {
    pub usage: Option<Usage>,
    pub finish_reason: Option<String>,
    pub time: u64,
}

impl ModelEnd {
    pub(super) fn of(node: &Node, call: &ModelCall<'_>) -> Self {
        Self {
            usage: call.usage(),
            finish_reason: call.finish_reason().map(String::from),
            time: node.end(),
        }
    }
}

/// A tool call.
#[derive(Debug)]
pub(in super::super) struct Call {
    pub id: String,
    pub name: String,
    pub args: Map<String, Value>,
    pub time: u64,
    /// The id that was recorded. It may repeat.
    pub(super) given: String,
    /// None if it did not end.
    pub end: Option<CallEnd>,
    pub subagents: Vec<String>,
}

impl Call {
    pub(super) fn of(id: String, node: &Node, call: &ToolCall<'_>) -> Self {
        Self {
            id,
            name: call.tool_id().unwrap_or_default().into_owned(),
            args: arguments(call),
            time: node.start,
            given: call.tool_call_id().unwrap_or_default().into_owned(),
            end: None,
            subagents: Vec::new(),
        }
    }
}

/// How a tool call ended.
#[derive(Debug)]
pub(in super::super) struct CallEnd {
    pub output: String,
    pub ok: bool,
    pub outcome: Option<String>,
    pub exit_code: Option<Value>,
    /// Other data about the call.
    pub metadata: Option<Value>,
    pub time: u64,
}

impl CallEnd {
    pub(super) fn of(node: &Node, call: &ToolCall<'_>) -> Self {
        Self {
            output: output_text(node, call),
            ok: is_ok(node),
            outcome: node.outcome_name().map(String::from),
            exit_code: call.exit_code().and_then(|code| code.value()),
            metadata: node.get("metadata").and_then(|data| data.value()),
            time: node.end(),
        }
    }

    /// The end of a call whose result is in a message.
    pub(super) fn of_message(fed: &Fed, part: &Value) -> Self {
        let response = &part["response"];
        let text = response.as_str().map(String::from);
        let ok = part["is_error"] != true;
        let outcome = if ok { Outcome::Unset } else { Outcome::Error };
        Self {
            output: text.unwrap_or_else(|| response.to_string()),
            ok,
            outcome: Some(outcome.as_str().to_owned()),
            exit_code: None,
            metadata: None,
            time: fed.node.start,
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
            results: Vec::new(),
            attachments: Vec::new(),
            media: Vec::new(),
            metadata: Map::new(),
            subagents: Vec::new(),
            model: None,
            variant: None,
            model_end: None,
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

    /// Whether nothing is in it yet.
    pub(super) fn is_blank(&self) -> bool {
        self.bytes == 0 && self.calls.is_empty() && self.message_ids.is_empty()
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

    /// Whether something came back, and nothing more is to come.
    pub(super) fn has_all_results(&self) -> bool {
        let has_results = !self.calls.is_empty() || !self.results.is_empty();
        has_results && self.calls.iter().all(|call| call.end.is_some())
    }

    /// The span of a call that a message asked for has opened.
    pub(super) fn open_announced(&mut self, id: &str, node: &Node, call: &ToolCall<'_>) {
        if let Some(known) = self.calls.iter_mut().find(|known| known.id == id) {
            *known = Call::of(id.to_owned(), node, call);
        }
    }

    /// Adds images and documents among the parts of a message.
    pub(super) fn add_media(&mut self, parts: &[Value]) {
        for part in parts.iter().filter(|part| is_media(part)) {
            self.bytes += part.to_string().len();
            self.media.push(part.clone());
        }
    }

    /// Adds files.
    pub(super) fn add_attachments(&mut self, files: Option<RawValue<'_>>) {
        let Some(files) = files else { return };
        if let Some(Value::Array(list)) = files.value() {
            self.bytes += files.json().len();
            self.attachments.extend(list);
        }
    }

    /// Adds data about it. A member that is there is replaced.
    pub(super) fn add_metadata(&mut self, metadata: Option<RawValue<'_>>) {
        if let Some(Value::Object(members)) = metadata.and_then(|data| data.value()) {
            self.metadata.extend(members);
        }
    }

    /// The images and documents that a request can carry.
    fn media(&self) -> impl Iterator<Item = Value> {
        let parts = self.media.iter().cloned();
        let images = self.attachments.iter().filter_map(image);
        let is_user = self.role == Role::User;
        parts.chain(images).filter(move |_| is_user)
    }

    /// Whether a model would be sent it now.
    pub fn is_in_context(&self) -> bool {
        !self.hidden
            && (!self.text.is_empty()
                || !self.calls.is_empty()
                || !self.results.is_empty()
                || self.media().next().is_some())
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
        parts.extend(self.media());
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
        // What belongs to no call was sent as a message of the user.
        results.extend(self.results.iter().map(|text| Message::text("user", text)));
        let own = (!parts.is_empty()).then(|| Message::new(role, parts));
        own.into_iter().chain(results).collect()
    }
}

pub(super) fn is_media(part: &Value) -> bool {
    matches!(kind(part), "image" | "image_url" | "document")
}

/// An attached image that a model can be sent: others can't be read from where the model is.
fn image(file: &Value) -> Option<Value> {
    let media_type = file["media_type"].as_str()?;
    let url = file["url"].as_str()?;
    let is_sent = ["https:", "http:", "data:"]
        .iter()
        .any(|scheme| url.starts_with(scheme));
    (media_type.starts_with("image/") && is_sent)
        .then(|| json!({"type": "image_url", "image_url": {"url": url}}))
}
