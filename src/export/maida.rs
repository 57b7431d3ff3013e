//! `maida`: a run directory for each run that no other run contains, as Maida 0.5 reads them: `runs/<trace>/meta.json`
//! and `spans.jsonl`.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::feed::Fed;
use super::values::{hex, is_ok, json_text, text_of};
use super::{Exporter, Rows};
use crate::session::{Item, Node, NodeState, Role};
use crate::trace::time_text;
use crate::trace::typed::{ErrorInfo, LoopWarning, ModelCall, StateUpdate, ToolCall};

#[derive(Debug, Default)]
pub(super) struct Maida {
    /// By the span of the run. What belongs to no run has one too.
    runs: HashMap<Option<u64>, OpenRun>,
}

#[derive(Debug)]
struct OpenRun {
    trace_id: String,
    root: String,
    name: Option<String>,
    started: u64,
    last: u64,
    counts: [u64; 4],
    /// Spans that are open.
    open: BTreeMap<u64, Value>,
    prompt: Option<String>,
    /// A model call that is over, and its turn. Its answer may follow.
    call: Option<(Value, Option<u32>)>,
}

impl Exporter for Maida {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        let node = &fed.node;
        let is_shown = node.span_id.is_some() || node.trace_id.is_some();
        if !self.runs.contains_key(&fed.run) && !is_shown {
            return;
        }
        let new = || OpenRun::new(fed);
        let run = self.runs.entry(fed.run).or_insert_with(new);
        run.add(node, rows);
        if node.state == NodeState::Closed && node.span_id.is_some() && node.span_id == fed.run {
            let status = if is_ok(node) { "ok" } else { "error" };
            run.meta(status, Some(node), rows);
            self.runs.remove(&fed.run);
        }
    }

    fn end(&mut self, rows: &mut Rows) {
        let mut runs: Vec<_> = std::mem::take(&mut self.runs).into_iter().collect();
        runs.sort_by_key(|(span, _)| *span);
        for (span, mut run) in runs {
            run.flush(rows);
            for open in std::mem::take(&mut run.open).into_values() {
                run.write(&open, rows);
            }
            if span.is_none() {
                let root = run.made_up_root();
                run.write(&root, rows);
            }
            run.meta("running", None, rows);
        }
    }
}

fn digest(text: &str, digits: usize) -> String {
    let hex = crate::trace::hex(&Sha256::digest(text.as_bytes()));
    hex[..digits].to_owned()
}

impl OpenRun {
    fn new(fed: &Fed) -> Self {
        let node = &fed.node;
        let trace = node.trace_id.as_deref().filter(|id| id.len() == 32);
        let is_root = fed.run.is_some() && node.parent.is_none();
        let made_up = || digest(&format!("{}/{trace:?}/{:?}", fed.session_id, fed.run), 32);
        let name = match node.item() {
            Item::Run(run) => run.run_name().or_else(|| run.agent()).map(String::from),
            _ => None,
        };
        let trace_id = trace.filter(|_| is_root).map_or_else(made_up, String::from);
        Self {
            root: fed.run.map_or_else(|| digest(&trace_id, 16), hex),
            trace_id,
            name,
            started: node.start,
            last: node.start,
            counts: [0; 4],
            open: BTreeMap::new(),
            prompt: None,
            call: None,
        }
    }

    fn add(&mut self, node: &Node, rows: &mut Rows) {
        self.last = self.last.max(node.end());
        let closed = node.state == NodeState::Closed;
        match node.item() {
            Item::Message(_) => self.message(node),
            Item::ModelCall(call) if closed => {
                self.close(node, rows);
                self.counts[0] += 1;
                let span = model_call(self.span(node, rows), &call, self.prompt.as_deref());
                self.call = Some((span, node.turn));
            }
            Item::ToolCall(call) if closed => {
                self.close(node, rows);
                self.counts[1] += 1;
                self.write(&tool_call(self.span(node, rows), node, &call), rows);
            }
            Item::StateUpdate(update) => {
                self.write(&state(self.span(node, rows), node, &update), rows)
            }
            Item::LoopWarning(warning) => {
                self.counts[3] += 1;
                self.write(&loop_warning(self.span(node, rows), node, &warning), rows);
            }
            Item::ErrorEvent(_) => {
                self.counts[2] += 1;
                let mut span = self.span(node, rows);
                span["name"] = "error".into();
                fail(&mut span, node);
                self.write(&span, rows);
            }
            _ if closed => {
                self.close(node, rows);
                let span = self.span(node, rows);
                self.write(&span, rows);
            }
            _ => {
                let open = node.span_id.filter(|_| node.state == NodeState::Open);
                if let Some(id) = open {
                    self.flush(rows);
                    self.open.insert(id, self.span(node, rows));
                }
            }
        }
    }

    fn close(&mut self, node: &Node, rows: &mut Rows) {
        self.flush(rows);
        node.span_id.map(|id| self.open.remove(&id));
    }

    /// Keeps the prompt for the next model call, or adds an answer to the last one.
    fn message(&mut self, node: &Node) {
        let Some(text) = node.content() else {
            return;
        };
        match (node.role(), &mut self.call) {
            (Some(Role::User), _) => self.prompt = Some(text.into_owned()),
            (Some(Role::Assistant), Some((span, turn))) if *turn == node.turn => {
                push_event(
                    span,
                    "gen_ai.assistant.message",
                    node.start,
                    json!({"content": text}),
                );
            }
            _ => {}
        }
    }

    /// The span of a node, or one without a duration for an event.
    fn span(&self, node: &Node, rows: &Rows) -> Value {
        let id = node.span_id.map(hex);
        let id = id.unwrap_or_else(|| digest(&format!("{}/{}", self.trace_id, rows.at), 16));
        let parent = node.within().map_or_else(|| self.root.clone(), hex);
        let parent = (id != self.root).then_some(parent);
        let item = node.item();
        let name = item.name().map(String::from);
        let name = name.unwrap_or_else(|| node.kind_name().to_owned());
        let mut meta = rows.address();
        meta["turn"] = node.turn.into();
        let end = (node.state != NodeState::Open).then(|| time_text(node.end(), 6));
        let duration = match node.state {
            NodeState::Event => Some(0),
            _ => node.duration.map(|ns| ns / 1_000_000),
        };
        let mut span = json!({
            "trace_id": self.trace_id,
            "span_id": id,
            "parent_span_id": parent,
            "name": name,
            "kind": "INTERNAL",
            "start_time": time_text(node.start, 6),
            "end_time": end,
            "duration_ms": duration,
            "attributes": {"maida.meta": meta.to_string()},
            "events": [],
            "status_code": if node.state == NodeState::Open { "UNSET" } else { "OK" },
            "status_description": "",
        });
        if !is_ok(node) {
            fail(&mut span, node);
        }
        span
    }

    /// The root of what was recorded outside of every run.
    fn made_up_root(&self) -> Value {
        json!({
            "trace_id": self.trace_id,
            "span_id": self.root,
            "parent_span_id": null,
            "name": "session",
            "kind": "INTERNAL",
            "start_time": time_text(self.started, 6),
            "end_time": null,
            "duration_ms": null,
            "attributes": {},
            "events": [],
            "status_code": "UNSET",
            "status_description": "",
        })
    }

    fn write(&mut self, span: &Value, rows: &mut Rows) {
        self.flush(rows);
        rows.append(format!("runs/{}/spans.jsonl", self.trace_id), span, None);
    }

    /// Writes the model call whose answer was waited for.
    fn flush(&mut self, rows: &mut Rows) {
        if let Some((span, _)) = self.call.take() {
            rows.append(format!("runs/{}/spans.jsonl", self.trace_id), &span, None);
        }
    }

    fn meta(&self, status: &str, ended: Option<&Node>, rows: &mut Rows) {
        let [llm_calls, tool_calls, errors, loop_warnings] = self.counts;
        let document = json!({
            "spec_version": "0.2.0",
            "trace_id": self.trace_id,
            "run_name": self.name,
            "started_at": time_text(self.started, 6),
            "ended_at": ended.map(|node| time_text(node.end(), 6)),
            "duration_ms": ended.and_then(|node| Some(node.duration? / 1_000_000)),
            "status": status,
            "counts": {
                "llm_calls": llm_calls,
                "tool_calls": tool_calls,
                "errors": errors,
                "loop_warnings": loop_warnings,
            },
        });
        rows.replace(format!("runs/{}/meta.json", self.trace_id), &document);
    }
}

fn push_event(span: &mut Value, name: &str, time: u64, attributes: Value) {
    let event = json!({"name": name, "timestamp": time_text(time, 6), "attributes": attributes});
    let events = span["events"].as_array_mut();
    events
        .into_iter()
        .for_each(|events| events.push(event.clone()));
}

fn fail(span: &mut Value, node: &Node) {
    let info = node.get("error").map(ErrorInfo::from);
    let outcome = node.outcome_name().unwrap_or("error".into());
    let kind = info
        .as_ref()
        .and_then(|info| info.error_type())
        .unwrap_or(outcome);
    let attributes = &mut span["attributes"];
    attributes["maida.error_type"] = kind.as_ref().into();
    attributes["maida.error_message"] = node.error().unwrap_or_else(|| kind.to_string()).into();
    if let Some(stack) = info.and_then(|info| info.stack()) {
        attributes["maida.error_stack"] = text_of(stack).into();
    }
    span["status_code"] = "ERROR".into();
    span["status_description"] = span["attributes"]["maida.error_message"].clone();
}

fn model_call(mut span: Value, call: &ModelCall<'_>, prompt: Option<&str>) -> Value {
    span["kind"] = "CLIENT".into();
    let start = span["start_time"].clone();
    let model = call.model_id().unwrap_or_default();
    let usage = call.usage().unwrap_or_default();
    let attributes = [
        ("gen_ai.operation.name", json!("chat")),
        (
            "gen_ai.system",
            json!(call.provider_id().unwrap_or("unknown".into())),
        ),
        ("gen_ai.request.model", json!(model)),
        ("gen_ai.request.temperature", json!(call.temperature())),
        ("gen_ai.usage.input_tokens", json!(usage.input_tokens)),
        ("gen_ai.usage.output_tokens", json!(usage.output_tokens)),
        ("gen_ai.usage.total_tokens", json!(usage.total_tokens)),
    ];
    let known = attributes.into_iter().filter(|(_, value)| !value.is_null());
    let known: Map<_, _> = known
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    span["attributes"]
        .as_object_mut()
        .into_iter()
        .for_each(|all| all.extend(known.clone()));
    if let Some(prompt) = prompt {
        span["events"] = json!([{"name": "gen_ai.user.message", "timestamp": start, "attributes": {"content": prompt}}]);
    }
    span
}

fn tool_call(mut span: Value, node: &Node, call: &ToolCall<'_>) -> Value {
    span["attributes"]["maida.tool_name"] = call.tool_id().unwrap_or_default().into();
    if let Some(args) = call.args() {
        push_event(
            &mut span,
            "maida.tool.args",
            node.start,
            json!({"args": json_text(args)}),
        );
    }
    if let Some(result) = call.result().or_else(|| call.stdout()) {
        push_event(
            &mut span,
            "maida.tool.result",
            node.end(),
            json!({"result": text_of(result)}),
        );
    }
    span
}

fn state(mut span: Value, node: &Node, update: &StateUpdate<'_>) -> Value {
    span["name"] = "state".into();
    let values = [("state", update.state()), ("diff", update.diff())].into_iter();
    let values =
        values.filter_map(|(name, value)| Some((name.to_owned(), json_text(value?).into())));
    let values: Map<String, Value> = values.collect();
    push_event(&mut span, "state", node.start, values.into());
    span
}

fn loop_warning(mut span: Value, node: &Node, warning: &LoopWarning<'_>) -> Value {
    span["name"] = "loop_warning".into();
    let attributes = json!({
        "pattern": warning.pattern(),
        "repetitions": warning.repetitions(),
        "window_size": warning.window_size(),
    });
    push_event(&mut span, "maida.loop.warning", node.start, attributes);
    span
}
