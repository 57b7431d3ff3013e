//! `session-log`: one `session.iterate.v1` row for each run that ended, for DuckDB. Every row has every
//! key, because DuckDB derives the columns of a file from its rows.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Value, json};

use super::feed::Fed;
use super::{Exporter, Rows};
use crate::session::{Item, Node, NodeState, Role};
use crate::trace::typed::{IterateResult, Run, Verdict};
use crate::trace::{Outcome, time_text};

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
            Item::ModelCall(call) => {
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

fn attempt(node: &Node, verdict: &Verdict<'_>) -> Value {
    let span = verdict.span_id().map(String::from);
    let span = span.or_else(|| node.parent.map(|id| format!("{id:016x}")));
    json!({
        "iteration": verdict.iteration().unwrap_or(0),
        "verdict_kind": verdict.verdict_kind().unwrap_or_default(),
        // A null in thousands of rows would hide the column's type.
        "error": verdict.error().unwrap_or_default(),
        "span_id": span.unwrap_or_default(),
    })
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
    fn row(mut self, node: &Node, run: &Run<'_>) -> Value {
        let ok = node.outcome() == Some(Outcome::Ok);
        let verdict = if ok { "accepted" } else { "infra_error" };
        let span = node.span_id.map(|id| format!("{id:016x}"));
        if self.attempts.is_empty() {
            self.attempts.push(json!({
                "iteration": 0,
                "verdict_kind": verdict,
                "error": if ok { String::new() } else { failure(node) },
                "span_id": span.unwrap_or_default(),
            }));
        }
        let attempts = self.attempts.len() as u64;
        let text = |value: Option<Cow<'_, str>>| value.map(String::from);
        let agent = text(run.agent());
        let mut row = json!({
            "schema": "session.iterate.v1",
            "session_id": node.trace_id,
            "timestamp": time_text(node.end(), 6),
            "daemon": agent,
            "kind": text(run.run_name()).or(agent.clone()),
            "model": self.model.or(text(run.model_id())),
            "provider": self.provider.or(text(run.provider_id())),
            "prompt": self.prompt.unwrap_or_default(),
            "iterations": attempts,
            "max_iterations": attempts,
            "final_verdict": verdict,
            "attempts": self.attempts,
            "artifact": null,
            "grounded_in_roster": null,
            "duration_ms": node.duration.unwrap_or(0) / 1_000_000,
        });
        let known = self.result.as_ref().and_then(Value::as_object);
        for (name, value) in known
            .into_iter()
            .flatten()
            .filter(|(_, value)| !value.is_null())
        {
            row[name] = value.clone();
        }
        row
    }
}

/// Why a run failed, beginning with a word and a colon, by which queries group errors.
fn failure(node: &Node) -> String {
    let error = node.error();
    let outcome = node.outcome_name().unwrap_or_default();
    match error {
        Some(error) if error.contains(": ") => error,
        Some(error) => format!("error: {error}"),
        None => format!("{outcome}: the run did not end well"),
    }
}
