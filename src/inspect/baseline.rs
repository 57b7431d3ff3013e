//! Accepted sessions as a baseline, and the checks of another session against it.
//!
//! A [`Baseline`] is a JSON file with the [`Measures`] of one or more sessions: `{"spanledger_baseline": 1, "sessions":
//! […]}`. [`check`] compares the measures of a session with it, or with limits of the caller's.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::stats::Stats;
use super::summary::{Ending, Outline};
use crate::read::SessionReader;
use crate::session::{Item, Store, Unreadable};
use crate::trace::{Damage, SpanKind};

mod checks;
mod divergence;

pub use checks::{Check, CheckKind, CheckLimits, check};
pub use divergence::divergence;

/// The version of the file.
const VERSION: u64 = 1;

/// How many tool calls of a session are compared in order.
const SEQUENCE: usize = 10_000;

/// What is compared of a session. Its subagents, and theirs, are counted to it, except in `sequence`, `loops` and
/// `ending`, which are its own.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measures {
    /// The session's id.
    pub session_id: String,
    /// Model calls: the steps of the agent's loop.
    pub steps: u64,
    /// Tool calls.
    pub calls: u64,
    /// Input and output tokens; `None` if no call reported any.
    pub tokens: Option<u64>,
    /// US dollars; `None` if nothing is known.
    pub cost_usd: Option<f64>,
    /// The cost of some calls is unknown: `cost_usd` is a lower bound.
    pub cost_partial: bool,
    /// From the first line to the last activity, in milliseconds.
    pub duration_ms: f64,
    /// The tools that were called.
    pub tools: BTreeSet<String>,
    /// The tools in the order of their calls, at most 10,000.
    pub sequence: Vec<String>,
    /// `loop_warning` lines.
    pub loops: u64,
    /// Model and tool calls that failed.
    pub errors: u64,
    /// How it ended.
    pub ending: Ending,
}

impl Measures {
    /// Reads a session and its subagents. Returns what is damaged and what can't be read, too.
    pub fn read(store: &Store, session: &Path) -> io::Result<(Self, Vec<Damage>, Vec<Unreadable>)> {
        let outline = Outline::read(store, session)?;
        let mut stats = Stats::new(Some(super::stats::By::Tool));
        let unreadable = stats.add_family(store, session)?;
        let report = stats.finish();
        let (total, usage) = (&report.total, &report.total.usage);
        let tokens = [usage.input_tokens, usage.output_tokens];
        let measures = Self {
            steps: total.model_calls,
            calls: total.tool_calls,
            tokens: tokens.into_iter().flatten().reduce(u64::saturating_add),
            cost_usd: total.cost.usd(),
            cost_partial: total.cost.is_partial(),
            duration_ms: outline.duration() as f64 / 1e6,
            tools: report.rows.into_iter().map(|(tool, _)| tool).collect(),
            sequence: sequence(session)?,
            loops: outline.loops,
            errors: total.errors,
            ending: outline.ending,
            session_id: outline.summary.session_id,
        };
        Ok((measures, report.damages, unreadable))
    }

    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        json!({
            "session_id": self.session_id,
            "steps": self.steps,
            "calls": self.calls,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "cost_partial": self.cost_partial,
            "duration_ms": self.duration_ms,
            "tools": self.tools,
            "sequence": self.sequence,
            "loops": self.loops,
            "errors": self.errors,
            "ending": self.ending.as_str(),
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let count = |name: &str| value.get(name).and_then(Value::as_u64);
        let number = |name: &str| value.get(name).and_then(Value::as_f64);
        let texts = |name: &str| -> Option<Vec<String>> {
            let list = value.get(name)?.as_array()?.iter();
            list.map(|text| Some(text.as_str()?.to_owned())).collect()
        };
        Some(Self {
            session_id: value.get("session_id")?.as_str()?.to_owned(),
            steps: count("steps")?,
            calls: count("calls")?,
            tokens: count("tokens"),
            cost_usd: number("cost_usd"),
            cost_partial: value.get("cost_partial")?.as_bool()?,
            duration_ms: number("duration_ms")?,
            tools: texts("tools")?.into_iter().collect(),
            sequence: texts("sequence")?,
            loops: count("loops")?,
            errors: count("errors")?,
            ending: Ending::parse(value.get("ending")?.as_str()?)?,
        })
    }
}

/// The tools of a session in the order in which their calls began.
fn sequence(session: &Path) -> io::Result<Vec<String>> {
    let mut calls: Vec<(u64, String)> = Vec::new();
    let reader = SessionReader::open(session)?.with_all_fields();
    reader.each_line(|line| {
        if calls.len() < SEQUENCE
            && line.closes() == Some(SpanKind::Tool)
            && let Item::ToolCall(call) = Item::of(line)
        {
            let tool = call.tool_id().unwrap_or_default().into_owned();
            calls.push((call.start().unwrap_or(0), tool));
        }
        Ok::<(), io::Error>(())
    })?;
    calls.sort_by_key(|(start, _)| *start);
    Ok(calls.into_iter().map(|(_, tool)| tool).collect())
}

/// Accepted sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline {
    /// What was measured of each.
    pub sessions: Vec<Measures>,
}

impl Baseline {
    /// Reads a file. An error says why it is not a baseline, or that a newer version wrote it.
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| io::Error::new(error.kind(), format!("can't read {file}: {error}")))?;
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let malformed = |why: &str| {
            let advice = "`spanledger baseline SESSION -o FILE` writes one";
            invalid(format!("{file} is no baseline: {why}; {advice}"))
        };
        let value: Value =
            serde_json::from_str(&text).map_err(|error| malformed(&error.to_string()))?;
        let version = value.get("spanledger_baseline").and_then(Value::as_u64);
        match version {
            Some(VERSION) => {}
            Some(newer) => {
                let reads = format!("this spanledger reads version {VERSION}");
                return Err(invalid(format!("{file} has version {newer}; {reads}")));
            }
            None => return Err(malformed("it has no number `spanledger_baseline`")),
        }
        let sessions = value.get("sessions").and_then(Value::as_array);
        let sessions = sessions.filter(|sessions| !sessions.is_empty());
        let sessions = sessions.ok_or_else(|| malformed("it has no `sessions`"))?;
        let measures = sessions.iter().enumerate().map(|(at, session)| {
            Measures::from_json(session)
                .ok_or_else(|| malformed(&format!("`sessions[{at}]` lacks a measure")))
        });
        Ok(Self {
            sessions: measures.collect::<Result<_, _>>()?,
        })
    }

    /// As JSON, as the file has it.
    pub fn to_json(&self) -> Value {
        let sessions = self.sessions.iter().map(Measures::to_json);
        json!({
            "spanledger_baseline": VERSION,
            "sessions": sessions.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests;
