//! `agentdbg`: a run directory for each run that no other run contains, as AgentDbg 0.3 reads them:
//! `runs/<run>/run.json` and `events.jsonl`.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::answers::Answers;
use super::feed::Fed;
use super::values::{hex, is_event, is_ok, unshown_output};
use super::{Exporter, Rows};
use crate::session::{Item, Node, NodeState, Role};
use crate::trace::typed::{LoopWarning, ModelCall, StateUpdate, ToolCall};
use crate::trace::{Address, Kind, RawValue, time_text};

const SPEC: &str = "0.1";

#[derive(Debug, Default)]
pub(super) struct AgentDbg {
    /// The runs that are not over, by their spans. What belongs to no run has one too.
    runs: HashMap<Option<u64>, OpenRun>,
    /// The process, from the header of the segment.
    process: Option<Value>,
}

/// The run that events belong to.
#[derive(Debug)]
struct OpenRun {
    id: String,
    /// It stands for what belongs to no run of the session.
    made_up: bool,
    /// Something of it was written.
    begun: bool,
    name: Option<String>,
    started: u64,
    counts: Counts,
    last: u64,
    /// What the user wrote last.
    prompt: Option<String>,
    answers: Answers,
    /// Its spans that are open. Some may end after the run.
    open: HashSet<u64>,
    ended: Option<Ended>,
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    status: &'static str,
    time: u64,
    duration_ms: u64,
}

#[derive(Debug, Default)]
struct Counts {
    llm_calls: u64,
    tool_calls: u64,
    errors: u64,
    loop_warnings: u64,
}

impl Exporter for AgentDbg {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        let node = &fed.node;
        if node.kind == Kind::Segment {
            self.process = node.get("process").and_then(|process| process.value());
            return;
        }
        // An event that is not shown needs no run.
        let needs_run = node.span_id.is_some() || is_shown(node);
        if !needs_run && !self.runs.contains_key(&fed.run) {
            return;
        }
        let new = || OpenRun::new(fed);
        let run = self.runs.entry(fed.run).or_insert_with(new);
        run.note_span(node);
        if !run.begun && is_shown(node) {
            run.start(node, self.process.as_ref(), rows);
        }
        run.add(node, rows);
        let is_its_own = node.span_id.is_some() && node.span_id == fed.run;
        if is_its_own && node.state == NodeState::Closed {
            run.end(node, rows);
        }
        run.update(node, rows);
        if run.ended.is_some() && run.open.is_empty() {
            run.flush(rows);
            self.runs.remove(&fed.run);
        }
    }

    fn end(&mut self, rows: &mut Rows) {
        for run in self.runs.values_mut().filter(|run| run.begun) {
            run.flush(rows);
            run.document(rows);
        }
    }
}

/// Whether a node becomes an event, so that it needs a run.
fn is_shown(node: &Node) -> bool {
    match node.item() {
        Item::Run(_) | Item::ModelCall(_) | Item::ToolCall(_) => true,
        _ => is_event(node),
    }
}

impl OpenRun {
    fn new(fed: &Fed) -> Self {
        let node = &fed.node;
        let trace = node.trace_id.as_deref().unwrap_or_default();
        let name = match node.item() {
            Item::Run(run) => run.run_name().or_else(|| run.agent()).map(String::from),
            _ => None,
        };
        Self {
            id: match fed.run {
                Some(_) => uuid(&format!("{trace}/{:?}", fed.run)),
                None => uuid(&format!("{}/", fed.session_id)),
            },
            made_up: fed.run.is_none(),
            begun: false,
            name,
            started: node.start,
            counts: Counts::default(),
            last: node.start,
            prompt: None,
            answers: Answers::default(),
            open: HashSet::new(),
            ended: None,
        }
    }

    /// Keeps account of the spans that are open.
    fn note_span(&mut self, node: &Node) {
        let Some(id) = node.span_id else {
            return;
        };
        match node.state {
            NodeState::Open => self.open.insert(id),
            _ => self.open.remove(&id),
        };
    }

    fn add(&mut self, node: &Node, rows: &mut Rows) {
        self.last = self.last.max(node.end());
        let closed = node.state == NodeState::Closed;
        match node.item() {
            Item::Message(_) if node.role() == Some(Role::User) => {
                self.prompt = node.content().map(String::from);
            }
            Item::Message(_) if node.role() == Some(Role::Assistant) => self.answers.add(node),
            Item::ModelCall(call) if closed => {
                self.flush(rows);
                self.counts.llm_calls += 1;
                let event = self.event("LLM_CALL", node, rows);
                let event = llm_call(event, node, &call, self.prompt.as_deref());
                self.answers.end(node, event, rows.at);
            }
            Item::ToolCall(call) if closed => {
                self.counts.tool_calls += 1;
                let event = self.event("TOOL_CALL", node, rows);
                self.write(&tool_call(event, node, &call), rows);
            }
            Item::ModelCall(_) => {
                self.flush(rows);
                self.answers.open(node);
            }
            Item::ToolCall(_) | Item::Turn(_) => self.flush(rows),
            Item::StateUpdate(update) => {
                let event = self.event("STATE_UPDATE", node, rows);
                self.write(&state(event, &update), rows);
            }
            Item::LoopWarning(warning) => {
                self.counts.loop_warnings += 1;
                let event = self.event("LOOP_WARNING", node, rows);
                let event = loop_warning(event, &warning, &self.id);
                self.write(&event, rows);
            }
            Item::ErrorEvent(_) => self.error(node, rows),
            _ => {}
        }
    }

    fn start(&mut self, node: &Node, process: Option<&Value>, rows: &mut Rows) {
        let mut event = self.event("RUN_START", node, rows);
        // An imported run has the process that it ran in; the header has the one that imported it.
        let own = node.get("process").and_then(|process| process.value());
        let process = own.as_ref().or(process);
        let of = |name: &str| process.and_then(|process| process.get(name)).cloned();
        event["duration_ms"] = Value::Null;
        event["parent_id"] = Value::Null;
        event["ts"] = time_text(self.started, 3).into();
        event["payload"] = json!({
            "run_name": self.name,
            "python_version": null,
            "platform": of("platform"),
            "cwd": of("cwd"),
            "argv": of("argv").unwrap_or_else(|| json!([])),
        });
        self.begun = true;
        self.write(&event, rows);
        self.document(rows);
    }

    /// The event of a line, without its payload.
    fn event(&self, kind: &str, node: &Node, rows: &Rows) -> Value {
        let mut meta = rows.address();
        if let Some(id) = node.span_id {
            meta["span_id"] = hex(id).into();
        }
        if let Some(turn) = node.turn {
            meta["turn"] = turn.into();
        }
        json!({
            "spec_version": SPEC,
            "event_id": event_id(&self.id, kind, rows.at),
            "run_id": self.id,
            "parent_id": self.run_start(),
            "event_type": kind,
            "ts": time_text(node.end(), 3),
            "duration_ms": node.duration.map(|ns| ns / 1_000_000),
            "name": self.name.as_deref().unwrap_or("run"),
            "payload": {},
            "meta": meta,
        })
    }

    /// The id of the event that the others are inside of.
    fn run_start(&self) -> String {
        uuid(&format!("{}/start", self.id))
    }

    fn write(&mut self, event: &Value, rows: &mut Rows) {
        self.flush(rows);
        rows.append(self.file("events.jsonl"), event, Some(rows.at));
    }

    /// Writes the model call whose answer was waited for.
    fn flush(&mut self, rows: &mut Rows) {
        if let Some(mut call) = self.answers.take() {
            call.row["payload"]["response"] = call.answer.into();
            rows.append(self.file("events.jsonl"), &call.row, Some(call.at));
        }
    }

    fn file(&self, name: &str) -> String {
        format!("runs/{}/{name}", self.id)
    }

    fn error(&mut self, node: &Node, rows: &mut Rows) {
        self.counts.errors += 1;
        let mut event = self.event("ERROR", node, rows);
        event["duration_ms"] = Value::Null;
        event["payload"] = error(node);
        event["name"] = event["payload"]["error_type"].clone();
        self.write(&event, rows);
    }

    fn end(&mut self, node: &Node, rows: &mut Rows) {
        let ok = is_ok(node);
        if !ok {
            self.error(node, rows);
        }
        let status = if ok { "ok" } else { "error" };
        let duration = node.duration.unwrap_or(0) / 1_000_000;
        let mut event = self.event("RUN_END", node, rows);
        event["payload"] = json!({
            "status": status,
            "summary": {
                "llm_calls": self.counts.llm_calls,
                "tool_calls": self.counts.tool_calls,
                "errors": self.counts.errors,
                "duration_ms": duration,
            },
        });
        self.write(&event, rows);
        self.ended = Some(Ended {
            status,
            time: node.end(),
            duration_ms: duration,
        });
        self.document(rows);
    }

    /// How the run ended, if it did. What belongs to no run is over when none of its spans is open.
    fn ended(&self) -> Option<Ended> {
        let is_over = self.made_up && self.open.is_empty();
        let over = || Ended {
            status: if self.counts.errors == 0 {
                "ok"
            } else {
                "error"
            },
            time: self.last,
            duration_ms: self.last.saturating_sub(self.started) / 1_000_000,
        };
        self.ended.or_else(|| is_over.then(over))
    }

    /// Writes the run's own file again after a node that changes it: what belongs to no run has no end of its own,
    /// and spans may end after their run.
    fn update(&self, node: &Node, rows: &mut Rows) {
        let is_first = self.open.len() == 1 && node.state == NodeState::Open;
        let changes = match self.made_up {
            true => self.open.is_empty() || is_first,
            false => self.ended.is_some(),
        };
        if self.begun && changes {
            self.document(rows);
        }
    }

    /// The run's own file.
    fn document(&self, rows: &mut Rows) {
        let ended = self.ended();
        let document = json!({
            "spec_version": SPEC,
            "run_id": self.id,
            "run_name": self.name,
            "started_at": time_text(self.started, 3),
            "ended_at": ended.map(|ended| time_text(ended.time, 3)),
            "duration_ms": ended.map(|ended| ended.duration_ms),
            "status": ended.map_or("running", |ended| ended.status),
            "counts": {
                "llm_calls": self.counts.llm_calls,
                "tool_calls": self.counts.tool_calls,
                "errors": self.counts.errors,
                "loop_warnings": self.counts.loop_warnings,
            },
            "last_event_ts": ended.map(|_| time_text(self.last, 3)),
        });
        rows.replace(self.file("run.json"), &document);
    }
}

fn llm_call(mut event: Value, node: &Node, call: &ModelCall<'_>, prompt: Option<&str>) -> Value {
    let usage = call.usage().unwrap_or_default();
    let model = call.model_id().unwrap_or_default();
    event["payload"] = json!({
        "model": model,
        "prompt": call.request().and_then(|request| request.value()).or_else(|| prompt.map(Value::from)),
        "response": null,
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens.or_else(|| Some(usage.input_tokens? + usage.output_tokens?)),
        },
        "provider": call.provider_id().unwrap_or("unknown".into()),
        "temperature": call.temperature(),
        "stop_reason": call.finish_reason().or_else(|| call.stop_reason()),
        "status": status(node),
        "error": error_of_call(node),
    });
    event["name"] = model.into();
    event
}

fn tool_call(mut event: Value, node: &Node, call: &ToolCall<'_>) -> Value {
    let tool = call.tool_id().unwrap_or_default();
    let value = |value: Option<RawValue<'_>>| value.and_then(|value| value.value());
    event["payload"] = json!({
        "tool_name": tool,
        "args": value(call.args()),
        "result": value(call.result().or_else(|| call.stdout())),
        "status": status(node),
        "error": error_of_call(node),
    });
    event["name"] = tool.into();
    unshown_output(call).for_each(|(name, value)| event["meta"][name] = value);
    event
}

fn status(node: &Node) -> &'static str {
    if is_ok(node) { "ok" } else { "error" }
}

fn error_of_call(node: &Node) -> Value {
    if is_ok(node) {
        Value::Null
    } else {
        error(node)
    }
}

/// An error in the shape that events and calls share.
fn error(node: &Node) -> Value {
    let mut error = match node.get("error").and_then(|error| error.value()) {
        Some(Value::Object(error)) => error,
        _ => serde_json::Map::new(),
    };
    let outcome = node.outcome_name().unwrap_or("error".into());
    let or = |known: Option<&Value>, default: &str| match known {
        Some(known) if !known.is_null() => known.clone(),
        _ => default.into(),
    };
    error.insert("error_type".into(), or(error.get("error_type"), &outcome));
    error.insert("message".into(), or(error.get("message"), &outcome));
    error.insert(
        "stack".into(),
        error.get("stack").cloned().unwrap_or_default(),
    );
    error.into()
}

fn state(mut event: Value, update: &StateUpdate<'_>) -> Value {
    let value = |value: Option<RawValue<'_>>| value.and_then(|value| value.value());
    event["payload"] = json!({"state": value(update.state()), "diff": value(update.diff())});
    event["name"] = "state".into();
    event["duration_ms"] = Value::Null;
    event
}

fn loop_warning(mut event: Value, warning: &LoopWarning<'_>, run: &str) -> Value {
    let evidence = warning.evidence().into_iter();
    let evidence = evidence.flat_map(|evidence| evidence.items());
    let ids = evidence.filter_map(|one| one.text()?.parse::<Address>().ok());
    let pattern = warning.pattern().unwrap_or_default();
    event["name"] = pattern.chars().take(80).collect::<String>().into();
    event["duration_ms"] = Value::Null;
    event["payload"] = json!({
        "pattern": pattern,
        "repetitions": warning.repetitions(),
        "window_size": warning.window_size(),
        "evidence_event_ids": ids.map(|at| event_id(run, "TOOL_CALL", at)).collect::<Vec<_>>(),
    });
    event
}

fn event_id(run: &str, kind: &str, at: Address) -> String {
    match kind {
        "RUN_START" => uuid(&format!("{run}/start")),
        _ => uuid(&format!("{run}/{kind}/{at}")),
    }
}

/// A UUID in the form of version 4, the same for the same text.
fn uuid(of: &str) -> String {
    let digest = Sha256::digest(of.as_bytes());
    let mut bytes: [u8; 16] = std::array::from_fn(|at| digest[at]);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = crate::trace::hex(&bytes);
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}
