//! `atif`: the agent trajectory format of Harbor, ATIF-v1.7. A document for each session, with the trajectories of its
//! subagents inside.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::conversation::{Call, Conversation, Entry};
use super::feed::Fed;
use super::{Exporter, Rows};
use crate::read::session_dir;
use crate::session::Role;
use crate::trace::{Usage, time_text};

const SCHEMA: &str = "ATIF-v1.7";

#[derive(Debug)]
pub(super) struct Atif {
    /// The directory with the sessions.
    root: PathBuf,
    conversation: Conversation,
}

impl Atif {
    pub fn new(session: &Path) -> Self {
        let root = session.parent().and_then(Path::parent).unwrap_or(session);
        Self {
            root: root.to_owned(),
            conversation: Conversation::default(),
        }
    }
}

impl Exporter for Atif {
    fn add(&mut self, fed: &Fed, _: &mut Rows) {
        self.conversation.add(fed);
    }

    fn end(&mut self, rows: &mut Rows) {
        let mut known = HashSet::from([self.conversation.session_id.clone()]);
        let conversation = std::mem::take(&mut self.conversation);
        rows.text(trajectory(conversation, &self.root, &mut known).0);
    }
}

/// A trajectory as JSON, and what it and its subagents used. Each step becomes text at once: a long session's steps as
/// values would take several times the memory.
fn trajectory(mut of: Conversation, root: &Path, known: &mut HashSet<String>) -> (String, Usage) {
    let mut total = Usage::default();
    let mut subagents: Vec<String> = Vec::new();
    let mut embedded = HashSet::new();
    let mut cost = 0.0;
    for id in of.entries.iter().flat_map(started) {
        // A session that can't be read, or is embedded further out, is only named.
        let child = known.insert(id.clone()).then(|| session_dir(root, id));
        if let Some(Ok(child)) = child.map(|dir| Conversation::read(&dir)) {
            let (inside, used) = trajectory(child, root, known);
            cost += used.cost_usd.unwrap_or(0.0);
            subagents.push(inside);
            embedded.insert(id.clone());
        }
    }
    let mut steps = Steps::default();
    if let Some(text) = &of.system {
        steps.push(json!({"source": "system", "message": text}));
    }
    for entry in std::mem::take(&mut of.entries) {
        entry.usage.iter().for_each(|usage| total.add(usage));
        steps.push(step(&entry, &embedded));
    }
    if steps.count == 0 {
        steps.push(json!({"source": "system", "message": ""}));
    }
    if cost > 0.0 {
        total.cost_usd = Some(total.cost_usd.unwrap_or(0.0) + cost);
    }
    let head = json!({
        "schema_version": SCHEMA,
        "session_id": of.session_id,
        "trajectory_id": of.session_id,
        "agent": agent(&of),
        "final_metrics": without_nulls(json!({
            "total_prompt_tokens": total.input_tokens,
            "total_completion_tokens": total.output_tokens,
            "total_cached_tokens": total.cache_read_tokens,
            "total_cost_usd": total.cost_usd,
            "total_steps": steps.count,
        })),
    });
    let mut document = head.to_string();
    document.pop();
    document.push_str(",\"steps\":[");
    document.push_str(&steps.json);
    document.push(']');
    if !subagents.is_empty() {
        document.push_str(",\"subagent_trajectories\":[");
        document.push_str(&subagents.join(","));
        document.push(']');
    }
    document.push('}');
    (document, total)
}

/// The steps of a trajectory as JSON, with commas between them.
#[derive(Default)]
struct Steps {
    json: String,
    count: usize,
}

impl Steps {
    fn push(&mut self, mut step: Value) {
        if self.count > 0 {
            self.json.push(',');
        }
        self.count += 1;
        step["step_id"] = self.count.into();
        self.json.push_str(&step.to_string());
    }
}

/// The subagents that were started in a step.
fn started(entry: &Entry) -> impl Iterator<Item = &String> {
    let calls = entry.calls.iter().flat_map(|call| &call.subagents);
    calls.chain(&entry.subagents)
}

fn agent(of: &Conversation) -> Value {
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
        Some(Role::User) => "user",
        Some(Role::System) => "system",
        _ => "agent",
    };
    let flag = |set: bool| set.then_some(true);
    let extra = without_nulls(json!({
        "address": entry.at.map(|at| at.to_string()),
        "hidden": flag(entry.hidden),
        "incomplete": flag(entry.incomplete),
        "summary": flag(entry.is_summary),
        "unread_subagents": unread(started(entry), embedded),
    }));
    let mut step = json!({
        "source": source,
        "message": entry.text,
        "timestamp": time_text(entry.time, 6),
        "extra": extra,
    });
    // Only steps of the agent may have these.
    if source != "agent" {
        return step;
    }
    if let Some(model) = &entry.model {
        step["model_name"] = model.as_str().into();
    }
    if !entry.reasoning.is_empty() {
        step["reasoning_content"] = entry.reasoning.as_str().into();
    }
    let calls = entry.calls.iter().map(
        |call| json!({"tool_call_id": call.id, "function_name": call.name, "arguments": call.args}),
    );
    if !entry.calls.is_empty() {
        step["tool_calls"] = calls.collect();
    }
    let results = entry.calls.iter().filter_map(|call| result(call, embedded));
    let outside = references(&entry.subagents, embedded);
    let outside = outside.map(|refs| json!({"subagent_trajectory_ref": refs}));
    let results: Vec<_> = results.chain(outside).collect();
    if !results.is_empty() {
        step["observation"] = json!({"results": results});
    }
    if let Some(usage) = &entry.usage {
        step["metrics"] = without_nulls(json!({
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.cache_read_tokens,
            "cost_usd": usage.cost_usd,
        }));
    }
    step
}

/// The result of a call that ended or started a subagent.
fn result(call: &Call, embedded: &HashSet<String>) -> Option<Value> {
    let refs = references(&call.subagents, embedded);
    if call.output.is_none() && refs.is_none() {
        return None;
    }
    let mut result = json!({"source_call_id": call.id, "content": call.output});
    if let Some(refs) = refs {
        result["subagent_trajectory_ref"] = refs;
    }
    if !call.ok {
        result["extra"] = json!({"is_error": true, "outcome": call.outcome});
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
