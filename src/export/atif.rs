//! `atif`: the agent trajectory format of Harbor, ATIF-v1.7. A document for each session, with the trajectories of its
//! subagents inside.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::conversation::{About, Call, Conversation, Entry};
use super::feed::Fed;
use super::{Exporter, Format, Rows, Sink, export_session};
use crate::read::{SessionReader, session_dir};
use crate::session::Role;
use crate::trace::{Address, Usage, time_text};

const SCHEMA: &str = "ATIF-v1.7";
/// The counts of tokens that ATIF has members for.
const OWN_COUNTS: [&str; 3] = ["input_tokens", "output_tokens", "cache_read_tokens"];
/// Members of a step that an import keeps as metadata.
const COPIED: &str = "is_copied_context";
const CALL_COUNT: &str = "llm_call_count";

#[derive(Debug)]
pub(super) struct Atif {
    /// The directory with the sessions.
    root: PathBuf,
    conversation: Conversation,
    /// None in the first pass.
    writer: Option<Writer>,
    /// All sessions that are in the document.
    embedded: HashSet<String>,
    /// Those of them whose trajectories follow the steps of this one, and their order.
    inside: HashSet<String>,
    order: Vec<String>,
    used: Usage,
}

/// Writes the steps.
#[derive(Debug)]
struct Writer {
    /// What is not written yet.
    out: String,
    steps: usize,
}

impl Atif {
    pub fn new(session: &Path) -> Self {
        let root = session.parent().and_then(Path::parent).unwrap_or(session);
        Self::with(root.to_owned(), HashSet::new())
    }

    /// A trajectory in a document that has these sessions.
    fn with(root: PathBuf, embedded: HashSet<String>) -> Self {
        Self {
            root,
            conversation: Conversation::default(),
            writer: None,
            embedded,
            inside: HashSet::new(),
            order: Vec::new(),
            used: Usage::default(),
        }
    }

    fn write(&mut self, rows: &mut Rows) {
        let complete = self.conversation.complete();
        let Some(mut writer) = self.writer.take() else {
            return;
        };
        for entry in complete {
            let end = entry.model_end.as_ref();
            let usage = end.and_then(|end| end.usage.as_ref());
            usage.into_iter().for_each(|usage| self.used.add(usage));
            self.embed(&entry);
            writer.step(step(&entry, &self.inside));
        }
        if !writer.out.is_empty() {
            rows.text(std::mem::take(&mut writer.out));
        }
        self.writer = Some(writer);
    }

    /// Notes the subagents of an entry whose trajectories are to be added. A session that can't be read, or is
    /// embedded further out, is only named.
    fn embed(&mut self, entry: &Entry) {
        for id in started(entry) {
            let is_readable = || SessionReader::open(session_dir(&self.root, id)).is_ok();
            if !self.embedded.contains(id) && is_readable() {
                self.embedded.insert(id.clone());
                self.inside.insert(id.clone());
                self.order.push(id.clone());
            }
        }
    }

    fn metrics(&self, steps: usize) -> Value {
        without_nulls(json!({
            "total_prompt_tokens": self.used.input_tokens,
            "total_completion_tokens": self.used.output_tokens,
            "total_cached_tokens": self.used.cache_read_tokens,
            "total_cost_usd": self.used.cost_usd,
            "total_steps": steps,
        }))
    }
}

impl Exporter for Atif {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        self.conversation.add(fed);
        self.write(rows);
    }

    fn end(&mut self, rows: &mut Rows) {
        self.conversation.finish();
        self.write(rows);
        if let Some(writer) = &mut self.writer {
            if writer.steps == 0 {
                writer.step(json!({"source": "system", "message": ""}));
            }
            writer.out.push(']');
        }
    }

    fn again(&mut self) -> bool {
        if self.writer.is_some() {
            return false;
        }
        let about = &self.conversation.about;
        self.embedded.insert(about.session_id.clone());
        self.writer = Some(Writer::new(about));
        self.conversation.begin_again();
        true
    }

    /// Writes the trajectories of subagents, and the metrics, which count their cost.
    fn embed_others(&mut self, write: &mut Sink<'_>) -> io::Result<()> {
        let Some(Writer { mut out, steps }) = self.writer.take() else {
            return Ok(());
        };
        let subagents = std::mem::take(&mut self.order);
        for (at, id) in subagents.iter().enumerate() {
            out.push_str(match at {
                0 => ",\"subagent_trajectories\":[",
                _ => ",",
            });
            write_text(std::mem::take(&mut out), write)?;
            let mut inside = Self::with(self.root.clone(), std::mem::take(&mut self.embedded));
            let session = session_dir(&self.root, id);
            export_session(Format::Atif, &session, &mut inside, write)?;
            self.embedded = inside.embedded;
            if let Some(cost) = inside.used.cost_usd {
                *self.used.cost_usd.get_or_insert_default() += cost;
            }
        }
        if !subagents.is_empty() {
            out.push(']');
        }
        out.push_str(&format!(",\"final_metrics\":{}}}", self.metrics(steps)));
        write_text(out, write)
    }
}

fn write_text(text: String, write: &mut Sink<'_>) -> io::Result<()> {
    let mut rows = Rows::at(Address { seg: 1, seq: 1 });
    rows.text(text);
    write(rows, None)
}

impl Writer {
    fn new(about: &About) -> Self {
        let mut head = json!({
            "schema_version": SCHEMA,
            "session_id": about.session_id,
            "trajectory_id": about.session_id,
            "agent": agent(about),
        });
        if let Some(metadata) = &about.metadata {
            head["extra"] = json!({"metadata": metadata});
        }
        let head = head.to_string();
        let head = head.strip_suffix('}').unwrap_or(&head);
        let mut writer = Self {
            out: format!("{head},\"steps\":["),
            steps: 0,
        };
        if let Some(text) = &about.system {
            writer.step(json!({"source": "system", "message": text}));
        }
        writer
    }

    fn step(&mut self, mut step: Value) {
        if self.steps > 0 {
            self.out.push(',');
        }
        self.steps += 1;
        step["step_id"] = self.steps.into();
        self.out.push_str(&step.to_string());
    }
}

/// The subagents that were started in a step.
fn started(entry: &Entry) -> impl Iterator<Item = &String> {
    let calls = entry.calls.iter().flat_map(|call| &call.subagents);
    calls.chain(&entry.subagents)
}

fn agent(of: &About) -> Value {
    let mut agent = json!({
        "name": of.agent.as_deref().unwrap_or("unknown"),
        "version": of.version.as_deref().unwrap_or("unknown"),
    });
    if let Some(model) = &of.model {
        agent["model_name"] = model.as_str().into();
    }
    let tools = of.tools.iter().filter(|tool| tool.is_object());
    let tools: Vec<_> = tools.cloned().collect();
    if !tools.is_empty() {
        agent["tool_definitions"] = tools.into();
    }
    agent
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    value
}

fn step(entry: &Entry, embedded: &HashSet<String>) -> Value {
    let source = match entry.role {
        Role::User => "user",
        Role::System | Role::Tool => "system",
        _ => "agent",
    };
    let mut step = json!({
        "source": source,
        "message": entry.text,
        "timestamp": time_text(entry.time, 6),
        "extra": extra(entry, embedded),
    });
    if entry
        .metadata
        .get(COPIED)
        .is_some_and(|copied| *copied == true)
    {
        step[COPIED] = true.into();
    }
    let results = entry.calls.iter().filter_map(|call| result(call, embedded));
    let others = entry.results.iter().map(|text| json!({"content": text}));
    let outside = references(&entry.subagents, embedded);
    let outside = outside.map(|refs| json!({"subagent_trajectory_ref": refs}));
    let results: Vec<_> = results.chain(others).chain(outside).collect();
    if !results.is_empty() {
        step["observation"] = json!({"results": results});
    }
    // Only steps of the agent may have more.
    if source == "agent" {
        of_agent(entry, &mut step);
    }
    step
}

fn of_agent(entry: &Entry, step: &mut Value) {
    if let Some(model) = &entry.model {
        step["model_name"] = model.as_str().into();
    }
    if let Some(variant) = &entry.variant {
        step["reasoning_effort"] = variant.as_str().into();
    }
    let several = |count: &&Value| count.as_u64().is_some_and(|count| count > 1);
    if let Some(count) = entry.metadata.get(CALL_COUNT).filter(several) {
        step[CALL_COUNT] = count.clone();
    }
    if !entry.reasoning.is_empty() {
        step["reasoning_content"] = entry.reasoning.as_str().into();
    }
    if !entry.calls.is_empty() {
        step["tool_calls"] = entry.calls.iter().map(tool_call).collect();
    }
    let end = entry.model_end.as_ref();
    if let Some(usage) = end.and_then(|end| end.usage.as_ref()) {
        step["metrics"] = metrics(usage);
    }
}

/// What a step has no member for.
fn extra(entry: &Entry, embedded: &HashSet<String>) -> Value {
    let flag = |set: bool| set.then_some(true);
    let end = entry.model_end.as_ref();
    let time = |time: u64| time_text(time, 6);
    let ended_at = end.map(|end| time(end.time));
    let ended_at = ended_at.filter(|ended_at| *ended_at != time(entry.time));
    let mut metadata = entry.metadata.clone();
    metadata.retain(|name, _| name != COPIED && name != CALL_COUNT);
    without_nulls(json!({
        "address": entry.at.to_string(),
        "hidden": flag(entry.hidden),
        "incomplete": flag(entry.incomplete),
        "summary": flag(entry.is_summary),
        "unread_subagents": unread(started(entry), embedded),
        "attachments": (!entry.attachments.is_empty()).then_some(&entry.attachments),
        "metadata": (!metadata.is_empty()).then_some(metadata),
        "finish_reason": end.and_then(|end| end.finish_reason.as_deref()),
        "ended_at": ended_at,
    }))
}

fn tool_call(call: &Call) -> Value {
    let end = call.end.as_ref();
    json!({
        "tool_call_id": call.id,
        "function_name": call.name,
        "arguments": call.args,
        "extra": without_nulls(json!({
            "started_at": time_text(call.time, 6),
            "metadata": end.and_then(|end| end.metadata.as_ref()),
        })),
    })
}

fn metrics(usage: &Usage) -> Value {
    let counts = Usage::COUNTS.into_iter().zip(usage.counts());
    let others = counts.filter(|(name, count)| count.is_some() && !OWN_COUNTS.contains(name));
    let others = others.map(|(name, count)| (name.to_owned(), json!(count)));
    let mut extra: Map<String, Value> = others.collect();
    if let Some(details) = &usage.usage_details {
        extra.insert("usage_details".to_owned(), details.clone());
    }
    without_nulls(json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
        "cost_usd": usage.cost_usd,
        "extra": (!extra.is_empty()).then_some(extra),
    }))
}

/// The result of a call that ended or started a subagent.
fn result(call: &Call, embedded: &HashSet<String>) -> Option<Value> {
    let refs = references(&call.subagents, embedded);
    let end = call.end.as_ref();
    if end.is_none() && refs.is_none() {
        return None;
    }
    let mut result = json!({"source_call_id": call.id, "content": end.map(|end| &end.output)});
    if let Some(refs) = refs {
        result["subagent_trajectory_ref"] = refs;
    }
    if let Some(end) = end {
        result["extra"] = without_nulls(json!({
            "is_error": (!end.ok).then_some(true),
            "outcome": end.outcome,
            "exit_code": end.exit_code,
            "ended_at": time_text(end.time, 6),
        }));
    }
    Some(result)
}

fn references(ids: &[String], embedded: &HashSet<String>) -> Option<Value> {
    let known = ids.iter().filter(|id| embedded.contains(*id));
    let refs: Vec<_> = known
        .map(|id| json!({"trajectory_id": id, "session_id": id}))
        .collect();
    (!refs.is_empty()).then(|| refs.into())
}

fn unread<'a>(ids: impl Iterator<Item = &'a String>, embedded: &HashSet<String>) -> Option<Value> {
    let ids: Vec<_> = ids.filter(|id| !embedded.contains(*id)).collect();
    (!ids.is_empty()).then(|| json!(ids))
}
