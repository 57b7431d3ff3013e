//! `maida`: a run directory for each run that no other run contains, as Maida 0.5 reads them: `runs/<trace>/meta.json`
//! and `spans.jsonl`.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::answers::Answers;
use super::feed::Fed;
use super::values::{hex, is_event, is_ok, json_text, text_of, unshown_output};
use super::{Exporter, Rows};
use crate::session::{Item, Node, NodeState, Role};
use crate::trace::typed::{ErrorInfo, LoopWarning, ModelCall, StateUpdate, ToolCall};
use crate::trace::{Kind, time_text};

#[derive(Debug, Default)]
pub(super) struct Maida {
    /// The runs that are not over, by their spans. What belongs to no run has one too.
    runs: HashMap<Option<u64>, OpenRun>,
    /// The process, from the header of the segment.
    process: Option<Value>,
}

#[derive(Debug)]
struct OpenRun {
    trace_id: String,
    root: String,
    name: Option<String>,
    started: u64,
    last: u64,
    counts: [u64; 4],
    /// Spans that are open. Some may end after the run.
    open: BTreeMap<u64, Value>,
    /// All spans: a parent must be among them.
    spans: HashSet<u64>,
    prompt: Option<String>,
    answers: Answers,
    ended: Option<Ended>,
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    status: &'static str,
    time: u64,
    duration_ms: u64,
}

impl Exporter for Maida {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        let node = &fed.node;
        if node.kind == Kind::Segment {
            self.process = node.get("process").and_then(|process| process.value());
            return;
        }
        if !self.runs.contains_key(&fed.run) && node.span_id.is_none() && !is_event(node) {
            return;
        }
        let new = || OpenRun::new(fed);
        let run = self.runs.entry(fed.run).or_insert_with(new);
        run.spans.extend(node.span_id);
        let is_root = node.span_id.is_some() && node.span_id == fed.run;
        if is_root && node.state == NodeState::Closed {
            run.end(node, self.process.as_ref(), rows);
        } else {
            run.add(node, rows);
        }
        if run.ended.is_some() && run.open.is_empty() {
            run.finish(rows);
            self.runs.remove(&fed.run);
        }
    }

    fn end(&mut self, rows: &mut Rows) {
        let mut runs: Vec<_> = std::mem::take(&mut self.runs).into_iter().collect();
        runs.sort_by_key(|(span, _)| *span);
        for (span, mut run) in runs {
            if span.is_none() {
                run.end_made_up(rows);
            }
            run.finish(rows);
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
            spans: HashSet::new(),
            prompt: None,
            answers: Answers::default(),
            ended: None,
        }
    }

    fn add(&mut self, node: &Node, rows: &mut Rows) {
        self.last = self.last.max(node.end());
        let closed = node.state == NodeState::Closed;
        match node.item() {
            Item::Message(_) if node.role() == Some(Role::User) => {
                self.prompt = node.content().map(String::from).or(self.prompt.take());
            }
            Item::Message(_) if node.role() == Some(Role::Assistant) => self.answers.add(node),
            Item::ModelCall(call) if closed => {
                self.close(node, rows);
                self.counts[0] += 1;
                let span = model_call(self.span(node, rows), &call, self.prompt.as_deref());
                self.answers.end(node, failed_call(span, node), rows.at);
            }
            Item::ToolCall(call) if closed => {
                self.close(node, rows);
                self.counts[1] += 1;
                let span = tool_call(self.span(node, rows), node, &call);
                self.write(&failed_call(span, node), rows);
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
                self.write(&failed_part(span, node), rows);
            }
            item => {
                let open = node.span_id.filter(|_| node.state == NodeState::Open);
                if let Some(id) = open {
                    self.flush(rows);
                    self.open.insert(id, self.span(node, rows));
                }
                if matches!(item, Item::ModelCall(_)) {
                    self.answers.open(node);
                }
            }
        }
    }

    /// The run's own span closes.
    fn end(&mut self, node: &Node, process: Option<&Value>, rows: &mut Rows) {
        self.last = self.last.max(node.end());
        self.close(node, rows);
        let mut root = self.span(node, rows);
        let own = node.get("process").and_then(|process| process.value());
        root["attributes"]["maida.run_name"] = self.name.as_deref().into();
        for name in ["platform", "cwd", "argv"] {
            let known = own
                .as_ref()
                .or(process)
                .and_then(|process| process.get(name));
            if let Some(known) = known {
                root["attributes"][format!("maida.{name}")] = known.clone();
            }
        }
        let ok = is_ok(node);
        self.counts[2] += u64::from(!ok);
        self.write(&failed_part(root, node), rows);
        self.ended = Some(Ended {
            status: if ok { "ok" } else { "error" },
            time: node.end(),
            duration_ms: node.duration.unwrap_or(0) / 1_000_000,
        });
    }

    /// Ends what belongs to no run, if none of its spans is open.
    fn end_made_up(&mut self, rows: &mut Rows) {
        if self.open.is_empty() {
            self.ended = Some(Ended {
                status: if self.counts[2] == 0 { "ok" } else { "error" },
                time: self.last,
                duration_ms: self.last.saturating_sub(self.started) / 1_000_000,
            });
        }
        let root = self.made_up_root();
        self.write(&root, rows);
    }

    /// Writes what is left of the run.
    fn finish(&mut self, rows: &mut Rows) {
        self.flush(rows);
        for open in std::mem::take(&mut self.open).into_values() {
            self.write(&open, rows);
        }
        self.meta(rows);
    }

    fn close(&mut self, node: &Node, rows: &mut Rows) {
        self.flush(rows);
        node.span_id.map(|id| self.open.remove(&id));
    }

    /// The span of a node, or one without a duration for an event.
    fn span(&self, node: &Node, rows: &Rows) -> Value {
        let id = node.span_id.map(hex);
        let id = id.unwrap_or_else(|| digest(&format!("{}/{}", self.trace_id, rows.at), 16));
        // A span of another run can't be the parent.
        let parent = node.within().filter(|span| self.spans.contains(span));
        let parent = parent.map_or_else(|| self.root.clone(), hex);
        let parent = (id != self.root).then_some(parent);
        let item = node.item();
        let name = item.name().map(String::from);
        let name = name.unwrap_or_else(|| node.kind_name().to_owned());
        let mut meta = rows.address();
        meta["turn"] = node.turn.into();
        if let Item::ToolCall(call) = &item {
            unshown_output(call).for_each(|(name, value)| meta[name] = value);
        }
        let end = (node.state != NodeState::Open).then(|| time_text(node.end(), 6));
        let duration = match node.state {
            NodeState::Event => Some(0),
            _ => node.duration.map(|ns| ns / 1_000_000),
        };
        json!({
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
        })
    }

    /// The root of what was recorded outside of every run.
    fn made_up_root(&self) -> Value {
        let ended = self.ended;
        json!({
            "trace_id": self.trace_id,
            "span_id": self.root,
            "parent_span_id": null,
            "name": "session",
            "kind": "INTERNAL",
            "start_time": time_text(self.started, 6),
            "end_time": ended.map(|ended| time_text(ended.time, 6)),
            "duration_ms": ended.map(|ended| ended.duration_ms),
            "attributes": {},
            "events": [],
            "status_code": match ended.map(|ended| ended.status) {
                Some("ok") => "OK",
                Some(_) => "ERROR",
                None => "UNSET",
            },
            "status_description": "",
        })
    }

    fn write(&mut self, span: &Value, rows: &mut Rows) {
        self.flush(rows);
        rows.append(format!("runs/{}/spans.jsonl", self.trace_id), span, None);
    }

    /// Writes the model call whose answer was waited for.
    fn flush(&mut self, rows: &mut Rows) {
        if let Some(mut call) = self.answers.take() {
            if let Some(answer) = call.answer {
                let content = json!({"content": answer});
                let name = "gen_ai.assistant.message";
                push_event(&mut call.row, name, call.answered, content);
            }
            rows.append(
                format!("runs/{}/spans.jsonl", self.trace_id),
                &call.row,
                None,
            );
        }
    }

    fn meta(&self, rows: &mut Rows) {
        let ended = self.ended;
        let [llm_calls, tool_calls, errors, loop_warnings] = self.counts;
        let document = json!({
            "spec_version": "0.2.0",
            "trace_id": self.trace_id,
            "run_name": self.name,
            "started_at": time_text(self.started, 6),
            "ended_at": ended.map(|ended| time_text(ended.time, 6)),
            "duration_ms": ended.map(|ended| ended.duration_ms),
            "status": ended.map_or("running", |ended| ended.status),
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

/// The members that say how a node failed.
fn error_attributes(node: &Node) -> Map<String, Value> {
    let info = node.get("error").map(ErrorInfo::from);
    let outcome = node.outcome_name().unwrap_or("error".into());
    let kind = info.as_ref().and_then(|info| info.error_type());
    let kind = kind.unwrap_or(outcome);
    let message = node.error().unwrap_or_else(|| kind.to_string());
    let stack = info.as_ref().and_then(|info| info.stack());
    super::values::known(json!({
        "maida.error_type": kind,
        "maida.error_message": message,
        "maida.error_stack": stack.map(text_of),
    }))
}

fn fail(span: &mut Value, node: &Node) {
    let error = error_attributes(node);
    span["status_code"] = "ERROR".into();
    span["status_description"] = error["maida.error_message"].clone();
    if let Some(attributes) = span["attributes"].as_object_mut() {
        attributes.extend(error);
    }
}

/// A call, with its error if it failed.
fn failed_call(mut span: Value, node: &Node) -> Value {
    if !is_ok(node) {
        fail(&mut span, node);
    }
    span
}

/// A span that is no call, with its error if it failed. Attributes would make an error of its own of the span.
fn failed_part(mut span: Value, node: &Node) -> Value {
    if !is_ok(node) {
        let error = error_attributes(node);
        span["status_code"] = "ERROR".into();
        span["status_description"] = error["maida.error_message"].clone();
        push_event(&mut span, "exception", node.end(), error.into());
    }
    span
}

fn model_call(mut span: Value, call: &ModelCall<'_>, prompt: Option<&str>) -> Value {
    span["kind"] = "CLIENT".into();
    let start = span["start_time"].clone();
    let model = call.model_id().unwrap_or_default();
    let usage = call.usage().unwrap_or_default();
    let known = super::values::known(json!({
        "gen_ai.operation.name": "chat",
        "gen_ai.system": call.provider_id().unwrap_or("unknown".into()),
        "gen_ai.request.model": model,
        "gen_ai.request.temperature": call.temperature(),
        "gen_ai.response.finish_reasons": call.finish_reason().or_else(|| call.stop_reason()),
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.total_tokens": usage.total_tokens,
    }));
    if let Some(attributes) = span["attributes"].as_object_mut() {
        attributes.extend(known);
    }
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
            json!({"result": json_text(result)}),
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
