//! `trace-sqlite`: a table of events, as jutul-agent reads and writes it. The kinds and members of its
//! document come first; our other kinds are further rows, and our other fields further members.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use serde_json::{Map, Value, json};

use super::feed::Fed;
use super::values::text_of;
use super::{Exporter, Rows, Schema, approves};
use crate::session::{Item, Node, NodeState};
use crate::trace::typed::{Compaction, Hitl, ToolCall};
use crate::trace::{Address, Outcome, time_text};

pub(super) const SCHEMA: Schema = Schema {
    version: 0,
    tables: "CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    timestamp TEXT NOT NULL,
    kind TEXT NOT NULL,
    payload_json TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_kind_idx ON events(kind);",
};

const INSERT: &str = "INSERT INTO events (timestamp, kind, payload_json) VALUES (?1, ?2, ?3)";

/// Arguments that were recorded after the call had begun.
const LATE_ARGUMENTS: &str =
    "UPDATE events SET payload_json = json_set(payload_json, '$.args', json(?2))
    WHERE id = (SELECT id FROM events
        WHERE kind = 'tool_call' AND json_extract(payload_json, '$.id') = ?1 ORDER BY id DESC LIMIT 1)";

#[derive(Debug, Default)]
pub(super) struct TraceSqlite {
    /// The tool calls that are open, by their spans.
    open: HashMap<u64, OpenCall>,
    /// The newest call with each recorded id, of those that are open.
    newest: HashMap<String, String>,
    /// Hashes of the ids that calls have.
    ids: HashSet<u64>,
    hasher: RandomState,
}

#[derive(Debug)]
struct OpenCall {
    id: String,
    has_arguments: bool,
}

type Payload = Map<String, Value>;

impl Exporter for TraceSqlite {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        let node = &fed.node;
        let is_closed = node.state == NodeState::Closed;
        let mut payload = payload(node, fed.at);
        match node.item() {
            Item::SegmentHeader(_) => return,
            Item::Run(run) if !is_closed => {
                payload.insert("session_id".into(), (*fed.session_id).into());
                payload.entry("simulator").or_insert(Value::Null);
                insert(node, payload, rows);
                if let Some(title) = run.title() {
                    let title = json!({"session_id": *fed.session_id, "title": title});
                    row(node, "session_title", &title, rows);
                }
                return;
            }
            Item::SessionTitle(_) => {
                payload.insert("session_id".into(), (*fed.session_id).into());
            }
            Item::Message(_) => {
                let content = node.content().map(String::from);
                let content = content.or_else(|| node.get("content").map(text_of));
                payload.insert("content".into(), content.unwrap_or_default().into());
                if node.is_arriving() {
                    payload.remove("text");
                    payload.insert("complete".into(), false.into());
                }
            }
            Item::ModelCall(_) if is_closed => {
                insert(node, payload, rows);
                if let Some(Value::Object(usage)) =
                    node.get("usage").and_then(|usage| usage.value())
                {
                    row(
                        node,
                        "model_usage",
                        &counted(usage, node, fed.at).into(),
                        rows,
                    );
                }
                return;
            }
            Item::ModelUsage(_) => total(&mut payload),
            Item::ToolCall(call) if is_closed => self.tool_result(node, &call, &mut payload, rows),
            Item::ToolCall(call) => self.tool_call(node, &call, &mut payload),
            Item::Compaction(compaction) if is_closed => compacted(&compaction, &mut payload),
            Item::Hitl(hitl) => self.hitl(&hitl, &mut payload),
            Item::Artifact(_) => self.artifact(&mut payload),
            _ => {}
        }
        insert(node, payload, rows);
    }
}

impl TraceSqlite {
    fn tool_call(&mut self, node: &Node, call: &ToolCall<'_>, payload: &mut Payload) {
        let recorded = call.tool_call_id().unwrap_or_default();
        let id = self.unique(&recorded);
        payload.insert("id".into(), id.clone().into());
        payload.insert("name".into(), call.tool_id().unwrap_or_default().into());
        payload.insert("args".into(), arguments(call));
        self.newest.insert(recorded.into_owned(), id.clone());
        let has_arguments = call.args().is_some();
        let open = OpenCall { id, has_arguments };
        self.open.extend(node.span_id.map(|span| (span, open)));
    }

    /// An id that no other call has: `id`, then `id#2`.
    fn unique(&mut self, id: &str) -> String {
        let mut unique = id.to_owned();
        let mut n = 1;
        while !self.ids.insert(self.hasher.hash_one(&unique)) {
            n += 1;
            unique = format!("{id}#{n}");
        }
        unique
    }

    fn tool_result(
        &mut self,
        node: &Node,
        call: &ToolCall<'_>,
        payload: &mut Payload,
        rows: &mut Rows,
    ) {
        let recorded = call.tool_call_id().unwrap_or_default();
        let open = node.span_id.and_then(|span| self.open.remove(&span));
        let id = match open {
            Some(open) => {
                if !open.has_arguments && call.args().is_some() {
                    let values = vec![open.id.clone().into(), arguments(call).to_string().into()];
                    rows.sql(LATE_ARGUMENTS, values);
                }
                open.id
            }
            None => recorded.clone().into_owned(),
        };
        if self.newest.get(&*recorded) == Some(&id) {
            self.newest.remove(&*recorded);
        }
        let is_ok = matches!(node.outcome(), Some(Outcome::Ok | Outcome::Unset) | None);
        payload.insert("tool_call_id".into(), id.into());
        payload.insert("name".into(), call.tool_id().unwrap_or_default().into());
        payload.insert("content".into(), result(node, call, is_ok).into());
        let status = if is_ok { "success" } else { "error" };
        payload.insert("status".into(), status.into());
    }

    /// The id of the newest call with a recorded one.
    fn id_of(&self, recorded: &str) -> String {
        let known = self.newest.get(recorded).cloned();
        known.unwrap_or_else(|| recorded.to_owned())
    }

    fn name_call(&self, payload: &mut Payload) {
        if let Some(Value::String(id)) = payload.get_mut("tool_call_id") {
            *id = self.id_of(id);
        }
    }

    fn artifact(&self, payload: &mut Payload) {
        self.name_call(payload);
        // Only two numbers can be read.
        let is_size = |size: &Value| {
            let sides = size.as_array().filter(|sides| sides.len() == 2);
            sides.is_some_and(|sides| sides.iter().all(Value::is_number))
        };
        if let Some(size) = payload.remove("size_px") {
            let name = if is_size(&size) { "size_px" } else { "size" };
            payload.insert(name.into(), size);
        }
    }

    fn hitl(&self, hitl: &Hitl<'_>, payload: &mut Payload) {
        self.name_call(payload);
        if let Some(decision) = hitl.decision() {
            let decisions = hitl.payload().and_then(|payload| payload.get("decisions"));
            if decisions.is_none() {
                let decision = decision.value().unwrap_or_default();
                payload.insert("payload".into(), json!({"decisions": [decided(decision)]}));
            }
            return;
        }
        let pending = hitl.pending().and_then(|pending| pending.value());
        let value = match pending {
            Some(pending) if pending.get("action_requests").is_some() => pending,
            pending => {
                let pending = pending.unwrap_or_default();
                let args = pending.get("args").unwrap_or(&pending);
                let args = if args.is_object() {
                    args.clone()
                } else {
                    json!({})
                };
                let name = pending.get("name").and_then(Value::as_str);
                let name = name.map(String::from).or(hitl.tool_id().map(String::from));
                let description = pending.get("description").cloned().unwrap_or_default();
                let request = json!({"name": name, "args": args, "description": description});
                json!({"action_requests": [request]})
            }
        };
        payload.insert("value".into(), value);
    }
}

/// A decision in the words of jutul-agent.
fn decided(decision: Value) -> Value {
    if decision.get("type").is_some() {
        return decision;
    }
    match approves(&decision) {
        Some(true) => json!({"type": "approve"}),
        Some(false) => json!({"type": "reject"}),
        None => {
            let text = decision.as_str().map(str::to_owned);
            let text = text.unwrap_or_else(|| decision.to_string());
            json!({"type": "respond", "message": text})
        }
    }
}

/// The result of a call as one text.
fn result(node: &Node, call: &ToolCall<'_>, is_ok: bool) -> String {
    let error = || {
        node.error()
            .or_else(|| node.outcome_name().map(String::from))
    };
    let output = [call.result().or_else(|| call.stdout()), call.stderr()];
    let output: Vec<_> = output.into_iter().flatten().map(text_of).collect();
    let mut texts = output;
    texts.extend(error().filter(|_| !is_ok));
    texts.retain(|text| !text.is_empty());
    texts.join("\n")
}

/// Arguments are an object there.
fn arguments(call: &ToolCall<'_>) -> Value {
    match call.args().and_then(|args| args.value()) {
        Some(args) if args.is_object() => args,
        Some(other) => json!({"input": other}),
        None => match call.command() {
            Some(command) => json!({"command": text_of(command)}),
            None => json!({}),
        },
    }
}

/// Both shapes of a compaction: the document's, and that which transcripts show.
fn compacted(compaction: &Compaction<'_>, payload: &mut Payload) {
    let before = compaction.messages_before();
    let after = compaction.messages_after();
    let both = before.zip(after);
    let fewer = both.map(|(before, after)| before.saturating_sub(after));
    let summarized = compaction.summarized_message_count().or(fewer);
    let kept = payload.remove("kept");
    let offloaded = payload.remove("offloaded");
    let many = |recorded: &Option<Value>| match recorded {
        Some(Value::Array(all)) => Some(all.len() as u64),
        other => other.as_ref()?.as_u64(),
    };
    let is_offloaded = match &offloaded {
        Some(Value::Bool(is)) => *is,
        recorded => many(recorded).map_or(recorded.is_some(), |many| many > 0),
    };
    payload.insert("summarized".into(), summarized.into());
    payload.insert("kept".into(), many(&kept).or(after).into());
    payload.insert("offloaded".into(), is_offloaded.into());
    for (name, recorded) in [("kept_messages", kept), ("offloaded_messages", offloaded)] {
        let lists = recorded.filter(Value::is_array);
        payload.extend(lists.map(|list| (name.to_owned(), list)));
    }
    payload.insert("messages_before".into(), before.into());
    payload.insert("messages_after".into(), after.into());
    payload.insert("manual".into(), compaction.manual().unwrap_or(false).into());
}

/// The usage of a model call, with what the provider reported.
fn counted(mut usage: Payload, node: &Node, at: Address) -> Payload {
    if let Some(model) = node.get("model_id").and_then(|model| model.text()) {
        usage.insert("model_id".into(), model.into());
    }
    usage.insert("spanledger".into(), place(node, at));
    total(&mut usage);
    usage
}

/// Adds the total, and the provider's own members.
fn total(usage: &mut Payload) {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    let sum = count("input_tokens").zip(count("output_tokens"));
    let sum = sum.map(|(input, output)| input.saturating_add(output));
    usage.entry("total_tokens").or_insert_with(|| sum.into());
    if let Some(Value::Object(details)) = usage.remove("usage_details") {
        for (name, value) in details {
            usage.entry(name).or_insert(value);
        }
    }
}

/// All fields of a node, and where it is in the trace.
fn payload(node: &Node, at: Address) -> Payload {
    let mut payload = match node.payload_json() {
        Value::Object(payload) => payload,
        _ => Map::new(),
    };
    payload.insert("spanledger".into(), place(node, at));
    payload
}

fn place(node: &Node, at: Address) -> Value {
    let hex = |id: Option<u64>| id.map(|id| format!("{id:016x}"));
    json!({
        "seg": at.seg,
        "seq": at.seq,
        "turn": node.turn,
        "trace_id": node.trace_id,
        "span_id": hex(node.span_id),
        "parent_span_id": hex(node.parent),
    })
}

/// Adds the row of a node under the name of its line's kind.
fn insert(node: &Node, payload: Payload, rows: &mut Rows) {
    let closes = node
        .kind
        .opens()
        .filter(|_| node.state == NodeState::Closed);
    let kind = closes.map_or(node.kind_name(), |span| span.closing().as_str());
    row(node, kind, &payload.into(), rows);
}

fn row(node: &Node, kind: &str, payload: &Value, rows: &mut Rows) {
    let mut time = time_text(node.end(), 6);
    time.pop();
    time.push_str("+00:00");
    rows.sql(
        INSERT,
        vec![time.into(), kind.into(), payload.to_string().into()],
    );
}
