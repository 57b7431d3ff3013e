//! Who, what, how much, and how it stands: small whatever the trace.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::standing::{Mishap, OpenSpan, Status, Writer};
use crate::event::{Marks, Totals};
use crate::reader::Address;

mod fold;

/// What the lines of a session add up to. Feed it every line, or the first and the last ones: the
/// totals that ride on some of them make up for what lies between.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The session's id, as it was given.
    pub session_id: String,
    /// The agent of its first run.
    pub agent: Option<String>,
    /// The provider, newest first.
    pub provider_id: Option<String>,
    /// The model, newest first.
    pub model_id: Option<String>,
    /// The model's variant.
    pub variant: Option<String>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// What people call it.
    pub title: Option<String>,
    /// The directory the agent works in.
    pub workspace_root: Option<String>,
    /// The session that it was last started from as a subagent.
    pub parent_session_id: Option<String>,
    parents: Vec<String>,
    /// The session it was branched from.
    pub branched_from: Option<String>,
    /// What the user said first, cut.
    pub first_message: Option<String>,
    /// How many runs it had.
    pub runs: u64,
    /// When its first line was written, in nanoseconds since 1970.
    pub first: u64,
    /// When something last happened in it: its last line, unless that was written in the place of
    /// a writer that had died.
    pub last: u64,
    /// Sessions that began inside it.
    pub branches: Vec<String>,
    /// The writers of its segments, by number.
    pub writers: BTreeMap<u32, Writer>,
    /// The segment of its newest run.
    run_seg: Option<u32>,
    /// What is open, by span id.
    pub open: BTreeMap<String, OpenSpan>,
    /// Decisions that a person owes, by interrupt id.
    pub pending: BTreeMap<String, Address>,
    /// What it said of itself last.
    pub said: Option<String>,
    /// How the last run ended: its outcome and stop reason.
    pub ended: Option<(String, Option<String>)>,
    /// The first thing that went wrong.
    pub first_error: Option<Mishap>,
    /// The last thing that went wrong.
    pub last_error: Option<Mishap>,
    /// Events that the trace says are missing.
    pub missing: u64,
    /// Where it says so, with the cause.
    pub gaps: Vec<(Address, String)>,
    /// By writer, named by the segment it counts from: what it counted is told in each of its segments.
    totals: BTreeMap<u32, Totals>,
    /// The same way.
    marks: BTreeMap<u32, Marks>,
    /// Lines were left out and nobody has told yet what they were marked with.
    untold: bool,
    /// Nobody ever did.
    marks_unknown: bool,
    before_skip: BTreeMap<String, OpenSpan>,
}

impl Summary {
    /// Who wrote its newest run; without one, whoever came last.
    pub fn writer(&self) -> Option<&Writer> {
        let run = self.run_seg.and_then(|seg| self.writers.get(&seg));
        run.or_else(|| self.writers.values().next_back())
    }

    /// All sessions that it ever was a subagent of: each run may have another one.
    pub fn parents(&self) -> &[String] {
        &self.parents
    }

    /// What was masked, cut and lost, and whether that is all of it. It isn't where lines were
    /// left out and their writer, an older one, did not count.
    pub fn marks(&self) -> (Marks, bool) {
        let mut sum = Marks::default();
        for marks in self.marks.values() {
            sum.add(marks);
        }
        (sum, !self.untold && !self.marks_unknown)
    }

    /// What the writers counted, added up.
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for totals in self.totals.values() {
            sum.add(totals);
        }
        sum
    }

    /// How it stands, where `alive` tells whether a writer lives. A dead writer beats its last
    /// word.
    pub fn status(&self, alive: impl Fn(&str) -> bool) -> Status {
        let lives = |seg: u32| {
            self.writers
                .get(&seg)
                .is_some_and(|writer| alive(&writer.id))
        };
        let live_open: Vec<_> = self.open.values().filter(|span| lives(span.seg)).collect();
        if live_open.is_empty() {
            return match &self.ended {
                _ if !self.open.is_empty() => Status::Interrupted,
                Some((outcome, _)) if outcome == "interrupted" => Status::Interrupted,
                Some((outcome, _)) if outcome == "error" => Status::Error,
                _ => Status::Ended,
            };
        }
        if !self.pending.is_empty() {
            return Status::Waiting;
        }
        let said = self.said.as_deref().and_then(Status::parse);
        if let Some(said) = said.filter(|said| *said != Status::Busy) {
            return said;
        }
        let at_work =
            |span: &&OpenSpan| !matches!(span.kind.as_str(), "session_start" | "session_resume");
        if live_open.iter().any(at_work) {
            Status::Busy
        } else {
            Status::Idle
        }
    }

    /// The open span that lies deepest: what it is doing right now.
    pub fn deepest(&self) -> Option<&OpenSpan> {
        let parents = self.open.values().filter_map(|span| span.parent.as_ref());
        let parents: HashSet<_> = parents.collect();
        let leaves = self.open.iter().filter(|(id, _)| !parents.contains(id));
        // Nothing hangs from a turn that was made up, and it says less than what is done in it.
        leaves
            .map(|(_, span)| span)
            .max_by_key(|span| (span.kind != "turn_start", span.since))
    }

    /// The same as JSON, with stable names; what isn't known is null.
    pub fn to_json(&self, status: Status) -> Value {
        let totals = self.totals();
        let time = |ns: u64| (ns > 0).then(|| crate::ledger::time_text(ns, 6));
        let mishap = |mishap: &Option<Mishap>| {
            mishap.as_ref().map(|mishap| {
                json!({
                    "address": mishap.address.to_string(),
                    "what": mishap.what,
                    "message": mishap.message,
                })
            })
        };
        let open = self.open.iter().map(|(id, span)| {
            json!({
                "span_id": id,
                "address": span.address.to_string(),
                "kind": span.kind,
                "name": span.name,
                "input": span.input,
                "since": time(span.since),
            })
        });
        let newest = self.writer();
        let (marks, known) = self.marks();
        json!({
            "session_id": self.session_id,
            "status": status.as_str(),
            "agent": self.agent,
            "provider_id": self.provider_id,
            "model_id": self.model_id,
            "variant": self.variant,
            "temperature": self.temperature,
            "title": self.title,
            "workspace_root": self.workspace_root,
            "parent_session_id": self.parent_session_id,
            "branched_from": self.branched_from,
            "branches": self.branches,
            "first_message": self.first_message,
            "runs": self.runs,
            "turns": totals.turns,
            "model_calls": totals.model_calls,
            "tool_calls": totals.tool_calls,
            "errors": totals.errors,
            "usage": totals.usage.to_json(),
            "first": time(self.first),
            "last": time(self.last),
            "ended": self.ended.as_ref().map(|(outcome, reason)| json!({"outcome": outcome, "stop_reason": reason})),
            "open": open.collect::<Vec<_>>(),
            "pending": self.pending.keys().collect::<Vec<_>>(),
            "first_error": mishap(&self.first_error),
            "last_error": mishap(&self.last_error),
            "missing_events": marks.missing,
            "masked": known.then_some(marks.masked),
            "cut": known.then_some(marks.cut),
            "gaps": self.gaps.iter().map(|(at, cause)| json!({"address": at.to_string(), "cause": cause})).collect::<Vec<_>>(),
            "process": newest.map(Writer::process),
            "spanledger": newest.map(|writer| &writer.version),
        })
    }
}
