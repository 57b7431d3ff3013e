//! `session-log`: one `session.iterate.v1` row for each run that ended, for DuckDB. Every row has every
//! key, because DuckDB derives the columns of a file from its rows.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Value, json};

use super::feed::Fed;
use super::values::{hex, is_ok};
use super::{Exporter, Rows};
use crate::session::{Item, Node, NodeState, Role};
use crate::trace::time_text;
use crate::trace::typed::{IterateResult, ModelCall, Run, Verdict};

/// A longer prompt is cut.
const PROMPT_CHARS: usize = 4000;

#[derive(Debug, Default)]
pub(super) struct SessionLog {
    /// The runs that are open, by their spans.
    runs: HashMap<Option<u64>, Loop>,
}

/// What the row of a run is made of.
#[derive(Debug, Default)]
struct Loop {
    prompt: Option<String>,
    model: Option<String>,
    provider: Option<String>,
    attempts: Vec<Value>,
    result: Option<Value>,
}

impl Exporter for SessionLog {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        let node = &fed.node;
        let run = self.runs.entry(fed.run).or_default();
        match node.item() {
            // A run inside another one is part of it.
            Item::Run(ended) if node.state == NodeState::Closed && node.span_id == fed.run => {
                let run = self.runs.remove(&fed.run).unwrap_or_default();
                rows.once(&run.row(node, &ended));
            }
            Item::ModelCall(call) if is_main(&call) => {
                run.model = call.model_id().map(String::from).or(run.model.take());
                run.provider = call.provider_id().map(String::from).or(run.provider.take());
            }
            Item::Message(_) if node.role() == Some(Role::User) && run.prompt.is_none() => {
                run.prompt = node.content().map(|text| cut(&text));
            }
            Item::Verdict(verdict) => run.attempts.push(attempt(node, &verdict)),
            Item::IterateResult(result) => run.result = Some(iterate_result(&result)),
            _ => {}
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(PROMPT_CHARS).collect()
}

/// Whether a call is the loop's own, and not one for a title or of an advisor.
fn is_main(call: &ModelCall<'_>) -> bool {
    matches!(call.purpose().as_deref(), None | Some("main"))
}

fn attempt(node: &Node, verdict: &Verdict<'_>) -> Value {
    let span = verdict.span_id().map(String::from);
    let span = span.or_else(|| node.parent.map(hex));
    json!({
        "iteration": verdict.iteration().unwrap_or(0),
        "verdict_kind": verdict.verdict_kind().unwrap_or_default(),
        "error": verdict_error(node),
        "span_id": span.unwrap_or_default(),
    })
}

/// Why a verdict rejected: a text as it is, an object in words. A null in thousands of rows would hide the
/// column's type.
fn verdict_error(node: &Node) -> String {
    match node.get("error").and_then(|error| error.value()) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(_) => grouped(node.error().unwrap_or_default()),
    }
}

/// The members of a row that a recorded result decides.
fn iterate_result(result: &IterateResult<'_>) -> Value {
    let prompt = result.prompt().and_then(|prompt| prompt.text());
    json!({
        "daemon": result.daemon(),
        "kind": result.kind(),
        "prompt": prompt.map(|text| cut(&text)),
        "iterations": result.iterations(),
        "max_iterations": result.max_iterations(),
        "final_verdict": result.final_verdict(),
        "artifact": result.artifact().and_then(|artifact| artifact.value()),
        "grounded_in_roster": result.grounded(),
    })
}

impl Loop {
    /// The verdict of a run that recorded no result. A rejection is the last word of a run that ended well: it
    /// stopped trying.
    fn final_verdict(&self, is_ok: bool) -> &'static str {
        let last = self.attempts.last();
        match last.and_then(|attempt| attempt["verdict_kind"].as_str()) {
            Some("accepted") => "accepted",
            Some("infra_error") => "infra_error",
            _ if !is_ok => "infra_error",
            Some(_) => "max_iter_exhausted",
            None => "accepted",
        }
    }

    /// Adds the attempt that no verdict was recorded for: the only one of a run, or the one that failed.
    fn add_missing_attempt(&mut self, node: &Node, verdict: &str) {
        let failed = verdict == "infra_error";
        let last = self.attempts.last();
        if last.is_some_and(|last| !failed || last["verdict_kind"] == verdict) {
            return;
        }
        let iteration = last.and_then(|last| last["iteration"].as_u64());
        self.attempts.push(json!({
            "iteration": iteration.map_or(0, |last| last + 1),
            "verdict_kind": verdict,
            "error": if failed { failure(node) } else { String::new() },
            "span_id": node.span_id.map(hex).unwrap_or_default(),
        }));
    }

    fn row(mut self, node: &Node, run: &Run<'_>) -> Value {
        let mut known = self.result.take().unwrap_or_default();
        let verdict = match known["final_verdict"].as_str() {
            Some(verdict) => verdict.to_owned(),
            None => self.final_verdict(is_ok(node)).to_owned(),
        };
        self.add_missing_attempt(node, &verdict);
        let attempts = self.attempts.len() as u64;
        let text = |value: Option<Cow<'_, str>>| value.map(String::from);
        let agent = text(run.agent()).unwrap_or_default();
        let model = self.model.or(text(run.model_id()));
        let provider = self.provider.or(text(run.provider_id()));
        let mut row = json!({
            "schema": "session.iterate.v1",
            "session_id": node.trace_id.as_deref().unwrap_or_default(),
            "timestamp": time_text(node.end(), 6),
            "daemon": agent,
            "kind": text(run.run_name()).unwrap_or(agent.clone()),
            "model": model.unwrap_or_default(),
            "provider": provider.unwrap_or_default(),
            "prompt": self.prompt.unwrap_or_default(),
            "iterations": attempts,
            "max_iterations": attempts,
            "final_verdict": verdict,
            "attempts": self.attempts,
            "artifact": null,
            "grounded_in_roster": null,
            "duration_ms": node.duration.unwrap_or(0) / 1_000_000,
        });
        let known = known.as_object_mut().map(std::mem::take);
        for (name, value) in known.unwrap_or_default() {
            if !value.is_null() {
                row[name] = value;
            }
        }
        row
    }
}

/// Why a run failed.
fn failure(node: &Node) -> String {
    let outcome = node.outcome_name().unwrap_or_default();
    match node.error() {
        Some(error) => grouped(error),
        None => format!("{outcome}: no error was recorded"),
    }
}

/// An error that begins with words and a colon, by which queries group errors.
fn grouped(error: String) -> String {
    match error.contains(": ") {
        true => error,
        false => format!("error: {error}"),
    }
}
