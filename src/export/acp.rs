//! `acp`: the messages of the Agent Client Protocol that a client would have seen, as JSON-RPC lines. Messages that
//! the agent recorded itself are written as they were.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::feed::Fed;
use super::values::{CallIds, hex, is_ok, output_text, text_of};
use super::{Exporter, Rows};
use crate::session::{Action, Item, Node, NodeState, Role};
use crate::trace::typed::{Compaction, Message, ModelCall, Permission, Rpc, ToolCall};
use crate::trace::{Outcome, RawValue, time_text};

const KINDS: [&str; 9] = [
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
];
const OPTION_KINDS: [&str; 4] = ["allow_once", "allow_always", "reject_once", "reject_always"];

#[derive(Debug, Default)]
pub(super) struct Acp {
    calls: CallIds,
    /// Prompts without an answer, by run and turn.
    prompts: HashMap<(Option<u64>, Option<u32>), String>,
    cost: f64,
    /// The agent has recorded the conversation of the protocol.
    is_recorded: bool,
}

impl Exporter for Acp {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        let node = &fed.node;
        if let Item::Rpc(rpc) = node.item() {
            let method = rpc.method().unwrap_or_default();
            self.is_recorded |= method == "initialize"
                || method.starts_with("session/") && method != "session/cancel";
            rows.row(&recorded(&rpc, rows));
            return;
        }
        if self.is_recorded {
            return;
        }
        let update = match node.item() {
            Item::Message(message) => {
                let updates = self.message(fed, &message, rows);
                updates
                    .into_iter()
                    .for_each(|update| notify(fed, update, rows));
                None
            }
            Item::ToolCall(call) => Some(self.tool_call(node, &call)),
            Item::Permission(permission) if node.state == NodeState::Closed => {
                self.permission(fed, &permission, rows);
                None
            }
            Item::ModelCall(call) if node.state == NodeState::Closed => self.usage(&call),
            Item::Compaction(compaction) => Some(compaction_update(node, &compaction)),
            Item::Run(run) if node.state == NodeState::Open => {
                run.title().map(|title| info(node, &title))
            }
            Item::SessionTitle(title) => title.title().map(|title| info(node, &title)),
            Item::Turn(_) if node.state == NodeState::Closed => {
                self.answer((fed.run, node.turn), node, rows);
                None
            }
            Item::Run(_) if node.state == NodeState::Closed && node.span_id == fed.run => {
                let open = self.prompts.keys().filter(|(run, _)| *run == fed.run);
                let mut open: Vec<_> = open.copied().collect();
                open.sort();
                open.into_iter()
                    .for_each(|key| self.answer(key, node, rows));
                None
            }
            _ => None,
        };
        if let Some(update) = update {
            notify(fed, update, rows);
        }
    }
}

fn notify(fed: &Fed, update: Value, rows: &mut Rows) {
    let mut row = json!({"jsonrpc": "2.0", "method": "session/update"});
    let params = &mut row["params"];
    params["sessionId"] = (*fed.session_id).into();
    params["update"] = update;
    params["_meta"] = meta(&fed.node, rows);
    rows.row(&row);
}

/// A message that the agent recorded. Its address stands beside the members of JSON-RPC, so that
/// none of them is changed.
fn recorded(rpc: &Rpc<'_>, rows: &Rows) -> Value {
    let mut row = json!({"jsonrpc": "2.0"});
    let answer = rpc.result().is_some() || rpc.error().is_some();
    let method = rpc.method().filter(|_| !answer);
    if let Some(id) = rpc.id().and_then(|id| id.value()) {
        row["id"] = id;
    }
    if let Some(method) = method {
        row["method"] = method.into();
    }
    for (name, value) in [
        ("params", rpc.params()),
        ("result", rpc.result()),
        ("error", rpc.error()),
    ] {
        if let Some(value) = value.and_then(|value| value.value()) {
            row[name] = value;
        }
    }
    row["_meta"] = rows.address();
    row["_meta"]["direction"] = rpc.direction().into();
    row
}

/// What the protocol has no member for.
fn meta(node: &Node, rows: &Rows) -> Value {
    let mut meta = rows.address();
    meta["time"] = time_text(node.end(), 6).into();
    if let Some(id) = node.span_id {
        meta["span_id"] = hex(id).into();
    }
    if let Some(outcome) = node.outcome_name() {
        meta["outcome"] = outcome.into();
    }
    if node.is_incomplete() {
        meta["complete"] = false.into();
    }
    meta
}

impl Acp {
    /// Begins a prompt, or returns the updates for a message: one for each block of its content.
    fn message(&mut self, fed: &Fed, message: &Message<'_>, rows: &mut Rows) -> Vec<Value> {
        let node = &fed.node;
        let key = (fed.run, node.turn);
        let blocks = content_blocks(node, message);
        let kind = match node.role() {
            Some(Role::User) if !self.prompts.contains_key(&key) && !blocks.is_empty() => {
                let id = rows.at.to_string();
                let params = json!({"sessionId": &*fed.session_id, "prompt": blocks, "_meta": meta(node, rows)});
                rows.row(&json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}));
                self.prompts.insert(key, id);
                return Vec::new();
            }
            Some(Role::User) => "user_message_chunk",
            Some(Role::Assistant) => "agent_message_chunk",
            Some(Role::Reasoning) => "agent_thought_chunk",
            _ => return Vec::new(),
        };
        let update = |block| {
            let mut update = json!({"sessionUpdate": kind, "content": block});
            if let Some(id) = message.message_id() {
                update["messageId"] = id.into();
            }
            update
        };
        blocks.into_iter().map(update).collect()
    }

    /// Answers a prompt when its turn or run has ended.
    fn answer(&mut self, key: (Option<u64>, Option<u32>), node: &Node, rows: &mut Rows) {
        let Some(id) = self.prompts.remove(&key) else {
            return;
        };
        let meta = meta(node, rows);
        let row = match stop_reason(node) {
            Ok(reason) => {
                json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": reason, "_meta": meta}})
            }
            Err(message) => {
                let error = json!({"code": -32603, "message": message, "data": {"_meta": meta}});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        rows.row(&row);
    }

    fn tool_call(&mut self, node: &Node, call: &ToolCall<'_>) -> Value {
        let kind = call
            .tool_kind()
            .filter(|kind| KINDS.contains(&kind.as_ref()));
        let kind = kind.unwrap_or("other".into());
        if node.state != NodeState::Open {
            let status = if is_ok(node) { "completed" } else { "failed" };
            let output = json!({"type": "text", "text": output_text(node, call)});
            let mut update = json!({
                "sessionUpdate": "tool_call_update",
                "toolCallId": self.calls.close(node, call),
                "kind": kind,
                "status": status,
                "content": [{"type": "content", "content": output}],
            });
            if let Some(raw) = call
                .result()
                .or_else(|| call.stdout())
                .and_then(|raw| raw.value())
            {
                update["rawOutput"] = raw;
            }
            return update;
        }
        let tool = call.tool_id().unwrap_or_default();
        let locations = call.locations().into_iter();
        let locations = locations.flat_map(|all| all.items()).filter_map(location);
        let mut update = json!({
            "sessionUpdate": "tool_call",
            "toolCallId": self.calls.open(node, call),
            "title": call.title().unwrap_or_else(|| tool.clone()),
            "name": tool,
            "kind": kind,
            "status": "in_progress",
            "locations": locations.collect::<Vec<_>>(),
        });
        if let Some(raw) = call.args().and_then(|args| args.value()) {
            update["rawInput"] = raw;
        }
        update
    }

    /// The question to a person and the answer. The decisions of rules are not sent.
    fn permission(&mut self, fed: &Fed, permission: &Permission<'_>, rows: &mut Rows) {
        if Action::of(permission) != Some(Action::Ask) {
            return;
        }
        let node = &fed.node;
        let known = self.calls.of(node.within()).map(String::from);
        let call = known.or_else(|| permission.tool_call_id().map(String::from));
        let offered = permission.options().into_iter();
        let mut options: Vec<_> = offered.flat_map(|all| all.items()).map(option).collect();
        if options.is_empty() {
            options = OPTION_KINDS
                .map(|kind| json!({"optionId": kind, "name": kind, "kind": kind}))
                .into();
        }
        let id = hex(node.span_id.unwrap_or(0));
        let params = json!({
            "sessionId": &*fed.session_id,
            "toolCall": {"toolCallId": call.unwrap_or_default()},
            "options": options,
            "_meta": meta(node, rows),
        });
        rows.row(&json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}));
        let decision = permission.decision().map(text_of);
        let chosen = decision.and_then(|decision| chosen(&options, &decision));
        let outcome = match chosen {
            Some(option) => json!({"outcome": "selected", "optionId": option}),
            None => json!({"outcome": "cancelled"}),
        };
        let mut meta = meta(node, rows);
        meta["decided_by"] = permission.decided_by().into();
        rows.row(
            &json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome, "_meta": meta}}),
        );
    }

    /// How full the context is. Only known with the size of the model's window.
    fn usage(&mut self, call: &ModelCall<'_>) -> Option<Value> {
        let usage = call.usage()?;
        self.cost += usage.cost_usd.unwrap_or(0.0);
        let used = usage.input_tokens? + usage.output_tokens.unwrap_or(0);
        let mut update =
            json!({"sessionUpdate": "usage_update", "used": used, "size": call.context_window()?});
        if self.cost > 0.0 {
            update["cost"] = json!({"amount": self.cost, "currency": "USD"});
        }
        Some(update)
    }
}

fn info(node: &Node, title: &str) -> Value {
    json!({"sessionUpdate": "session_info_update", "title": title, "updatedAt": time_text(node.start, 6)})
}

fn compaction_update(node: &Node, compaction: &Compaction<'_>) -> Value {
    let status = match node.outcome() {
        None => "in_progress",
        Some(Outcome::Cancelled | Outcome::Interrupted) => "cancelled",
        Some(Outcome::Ok | Outcome::Unset) => "completed",
        _ => "failed",
    };
    let mut update = json!({
        "sessionUpdate": "compaction_update",
        "compactionId": hex(node.span_id.unwrap_or(0)),
        "status": status,
    });
    if let Some(summary) = compaction.summary() {
        update["summary"] = json!([{"type": "text", "text": text_of(summary)}]);
    }
    if let Some(error) = node.error() {
        update["error"] = error.into();
    }
    update
}

/// Why a turn or a run ended, or the error that ended it.
fn stop_reason(node: &Node) -> Result<&'static str, String> {
    let reason = node.get("stop_reason").and_then(|reason| reason.text());
    let known = match reason.as_deref() {
        Some("max_tokens" | "length") => Some("max_tokens"),
        Some("max_turn_requests" | "max_turns") => Some("max_turn_requests"),
        Some("refusal" | "content_filter") => Some("refusal"),
        Some("cancelled") => Some("cancelled"),
        Some("end_turn") => Some("end_turn"),
        _ => None,
    };
    match (known, node.outcome()) {
        (Some(reason), _) => Ok(reason),
        (None, Some(Outcome::Cancelled | Outcome::Interrupted)) => Ok("cancelled"),
        (None, _) if is_ok(node) => Ok("end_turn"),
        _ => Err(node.error().unwrap_or_else(|| "the turn failed".into())),
    }
}

/// The text of a message and a link to each file that is attached.
fn content_blocks(node: &Node, message: &Message<'_>) -> Vec<Value> {
    let attachments = message.attachments().into_iter();
    let links = attachments.flat_map(|all| all.items()).map(resource_link);
    let links: Vec<_> = links.collect();
    let text = node.content();
    let text = text.filter(|text| !text.is_empty() || links.is_empty());
    let text = text.map(|text| json!({"type": "text", "text": text}));
    text.into_iter().chain(links).collect()
}

fn resource_link(attachment: RawValue<'_>) -> Value {
    let text = |name: &str| attachment.get(name).map(text_of);
    let name = text("name").unwrap_or_else(|| "attachment".into());
    let uri = text("url").or_else(|| {
        text("blob")
            .or_else(|| text("sha256"))
            .map(|sha256| format!("sha256:{sha256}"))
    });
    let mut link =
        json!({"type": "resource_link", "uri": uri.unwrap_or_else(|| name.clone()), "name": name});
    if let Some(media_type) = text("media_type") {
        link["mimeType"] = media_type.into();
    }
    if let Some(bytes) = attachment.get("bytes").and_then(|bytes| bytes.u64()) {
        link["size"] = bytes.into();
    }
    link
}

/// A file that a tool touches: a path, or an object with one.
fn location(value: RawValue<'_>) -> Option<Value> {
    let path = value.text().or_else(|| value.get("path")?.text())?;
    let mut location = json!({"path": path});
    let line = value
        .get("line")
        .and_then(|line| u32::try_from(line.u64()?).ok());
    if let Some(line) = line {
        location["line"] = line.into();
    }
    Some(location)
}

/// An answer that was offered: a word, or an object as the protocol has it.
fn option(value: RawValue<'_>) -> Value {
    let text = |name: &str| value.get(name).and_then(|text| text.text());
    let id = text("optionId")
        .or_else(|| text("id"))
        .or_else(|| value.text());
    let id = id.unwrap_or_else(|| value.json().into());
    let name = text("name").unwrap_or_else(|| id.clone());
    let kind = text("kind").unwrap_or_else(|| id.clone());
    json!({"optionId": id, "name": name, "kind": option_kind(&kind)})
}

fn option_kind(word: &str) -> &'static str {
    let refuses = ["reject", "deny", "no"]
        .iter()
        .any(|no| word.starts_with(no));
    match (refuses, word.contains("always")) {
        (false, false) => "allow_once",
        (false, true) => "allow_always",
        (true, false) => "reject_once",
        (true, true) => "reject_always",
    }
}

/// The id of the option that a decision names.
fn chosen(options: &[Value], decision: &str) -> Option<Value> {
    let id = |option: &Value| option["optionId"].clone();
    let named = options.iter().find(|option| option["optionId"] == decision);
    let named = named.or_else(|| {
        options
            .iter()
            .find(|option| option["kind"] == option_kind(decision))
    });
    named.map(id)
}

/// The member that has the address of a line.
pub(super) fn place(row: RawValue<'_>) -> Option<RawValue<'_>> {
    let inside = |name: &str| row.get(name)?.get("_meta");
    row.get("_meta")
        .or_else(|| inside("params"))
        .or_else(|| inside("result"))
        .or_else(|| row.get("error")?.get("data")?.get("_meta"))
}
