//! `trajectory`: a file of steps, as aec-bench reads them. A step is one model call with the tool
//! calls that it asked for; step 0 has the system prompt and what the user wrote.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use super::feed::Fed;
use super::values::{hex, object, text_of};
use super::{Exporter, Options, Rows};
use crate::session::{Item, Node, NodeState, Role};
use crate::trace::typed::{ModelCall, ToolCall};
use crate::trace::{Kind, RawValue, time_text};

/// So many model calls are remembered for the tools and messages that follow them.
const RECENT: usize = 256;

#[derive(Debug)]
pub(super) struct Trajectory {
    /// Whether the header is still to be written.
    header: bool,
    /// The last model calls.
    calls: VecDeque<Call>,
    /// The calls that asked for the tools that are open.
    tools: HashMap<u64, Call>,
}

/// A model call.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    span_id: Option<u64>,
    step: u64,
    call_type: Option<&'static str>,
}

impl Exporter for Trajectory {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        let node = &fed.node;
        if std::mem::take(&mut self.header) {
            rows.once(&json!({"version": 1, "format": "aec-bench-trajectory"}));
        }
        match node.item() {
            Item::ModelCall(call) => self.model_call(node, &call),
            Item::ToolCall(call) if node.state == NodeState::Open => {
                let asked = call.model_span_id();
                let asked = asked.and_then(|id| u64::from_str_radix(&id, 16).ok());
                let by = self.call(asked);
                self.tools.extend(node.span_id.map(|id| (id, by)));
                rows.row(&tool_call(node, &call, by, rows));
            }
            Item::ToolCall(call) => {
                let by = node.span_id.and_then(|id| self.tools.remove(&id));
                let by = by.unwrap_or_else(|| self.call(None));
                rows.row(&tool_result(node, &call, by, rows));
            }
            Item::ContextAsset(asset) if node.kind == Kind::SystemPrompt => {
                if let Some(body) = asset.body() {
                    rows.row(&entry(
                        node,
                        Call::default(),
                        "system",
                        &text_of(body),
                        rows,
                    ));
                }
            }
            Item::Message(_) => self.message(node, rows),
            _ => {}
        }
    }
}

impl Trajectory {
    pub fn new(options: Options) -> Self {
        Self {
            header: !options.no_header,
            calls: VecDeque::new(),
            tools: HashMap::new(),
        }
    }

    fn model_call(&mut self, node: &Node, call: &ModelCall<'_>) {
        if node.state != NodeState::Open {
            return;
        }
        let step = self.call(None).step + 1;
        let call_type = match call.purpose().as_deref() {
            Some("warmup") => Some("warmup"),
            Some("subagent") => Some("subagent"),
            _ => None,
        };
        let span_id = node.span_id;
        self.calls.push_back(Call {
            span_id,
            step,
            call_type,
        });
        if self.calls.len() > RECENT {
            self.calls.pop_front();
        }
    }

    /// A model call by its span, or the last one.
    fn call(&self, span: Option<u64>) -> Call {
        let named = |call: &&Call| span.is_some() && call.span_id == span;
        let call = self.calls.iter().rev().find(named);
        call.or(self.calls.back()).copied().unwrap_or_default()
    }

    fn message(&mut self, node: &Node, rows: &mut Rows) {
        let (by, role) = match node.role() {
            Some(Role::User) => (Call::default(), "user"),
            Some(Role::System) => (Call::default(), "system"),
            Some(Role::Assistant) => (self.call(node.parent), "assistant"),
            Some(Role::Reasoning) => (self.call(node.parent), "reasoning"),
            // The results of tools have rows of their own.
            _ => return,
        };
        let Some(content) = node.content() else {
            return;
        };
        let mut row = entry(node, by, role, &content, rows);
        if node.is_incomplete() {
            row["metadata"]["complete"] = false.into();
        }
        rows.row(&row);
    }
}

/// The members that all entries have.
fn entry(node: &Node, by: Call, role: &str, content: &str, rows: &Rows) -> Value {
    let mut row = bare(node, by, role, rows);
    row["content"] = content.into();
    row
}

fn bare(node: &Node, by: Call, role: &str, rows: &Rows) -> Value {
    let mut metadata = rows.address();
    for name in ["message_id", "tool_call_id"] {
        if let Some(id) = node.get(name).and_then(|id| id.text()) {
            metadata[name] = id.into();
        }
    }
    if let Some(id) = node.span_id {
        metadata["span_id"] = hex(id).into();
    }
    let mut row = json!({
        "step": by.step,
        "role": role,
        "timestamp": time_text(node.end(), 6),
        "metadata": metadata,
    });
    if let Some(call_type) = by.call_type {
        row["call_type"] = call_type.into();
    }
    row
}

fn tool_call(node: &Node, call: &ToolCall<'_>, by: Call, rows: &Rows) -> Value {
    let mut row = bare(node, by, "tool_call", rows);
    row["timestamp"] = time_text(node.start, 6).into();
    row["tool_name"] = call.tool_id().unwrap_or_default().into();
    let arguments = call.args().and_then(|args| object(args));
    let command = call.command().map(text_of).or_else(|| {
        let command = arguments.as_ref()?.get("command")?.as_str()?;
        Some(command.to_owned())
    });
    if let Some(command) = command {
        row["command"] = command.into();
    }
    match (arguments, call.args()) {
        (Some(arguments), _) => row["arguments"] = arguments.into(),
        // Only an object may stand there.
        (None, Some(args)) => row["content"] = text_of(args).into(),
        _ => {}
    }
    row
}

fn tool_result(node: &Node, call: &ToolCall<'_>, by: Call, rows: &Rows) -> Value {
    let mut row = bare(node, by, "tool_result", rows);
    row["tool_name"] = call.tool_id().unwrap_or_default().into();
    set_output(&mut row, node, call);
    if let Some(code) = call.exit_code().and_then(exit_code) {
        row["exit_code"] = code.into();
    }
    if let Some(duration) = node.duration {
        row["duration_ms"] = (duration / 1_000_000).into();
    }
    let media = call.media().into_iter();
    let media: Vec<Value> = media
        .flat_map(|media| media.items())
        .map(|one| text_of(one).into())
        .collect();
    if !media.is_empty() {
        row["media"] = media.into();
    }
    if let Some(outcome) = node.outcome_name() {
        row["metadata"]["outcome"] = outcome.into();
    }
    row
}

/// What a tool printed, or its result and its error. Beside what it printed, these stand elsewhere.
fn set_output(row: &mut Value, node: &Node, call: &ToolCall<'_>) {
    if let Some(stdout) = call.stdout().or(call.result()) {
        row["stdout"] = text_of(stdout).into();
    }
    if let Some(result) = call.result().filter(|_| call.stdout().is_some()) {
        row["content"] = text_of(result).into();
    }
    if let Some(stderr) = call.stderr().map(text_of).or_else(|| node.error()) {
        row["stderr"] = stderr.into();
    }
    if let Some(error) = node.get("error").filter(|_| call.stderr().is_some()) {
        row["metadata"]["error"] = error.value().unwrap_or_default();
    }
}

/// An exit code, given as a number or as a text.
fn exit_code(value: RawValue<'_>) -> Option<i64> {
    value
        .text()
        .map_or_else(|| value.json().parse().ok(), |text| text.parse().ok())
}
