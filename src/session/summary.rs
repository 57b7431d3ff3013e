//! What a session is, what it used and its status: a few hundred bytes, however long the trace.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::failure::OpenFailures;
use super::status::{ErrorRef, OpenSpan, Reported, Status, StatusReport, WaitsFor, Writer};
use crate::trace::{Address, Kind, Marks, Outcome, SpanKind, Totals, time_text};

mod fold;

/// What the lines of a session add up to. Feed it every line, or the first and last ones: some lines
/// have totals that count those between.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The session's id.
    pub session_id: String,
    /// The agent of its first run.
    pub agent: Option<String>,
    /// The newest provider.
    pub provider_id: Option<String>,
    /// The newest model.
    pub model_id: Option<String>,
    /// The model's variant.
    pub variant: Option<String>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Its title.
    pub title: Option<String>,
    /// The directory the agent works in.
    pub workspace_root: Option<String>,
    /// The directory that its newest run writes results to.
    pub output_dir: Option<String>,
    /// The session that it was last started from as a subagent.
    pub parent_session_id: Option<String>,
    parents: Vec<String>,
    /// The session it was branched from.
    pub branched_from: Option<String>,
    /// The message of that session that it continues from.
    pub branched_from_message: Option<String>,
    /// The user's first message, truncated.
    pub first_message: Option<String>,
    /// How many runs it had.
    pub runs: u64,
    /// When its first line was written, in nanoseconds since 1970.
    pub first: u64,
    /// When something last happened in it. Lines that recovery wrote don't count.
    pub last: u64,
    /// Sessions that began inside it.
    pub branches: Vec<String>,
    /// The writers of its segments, by number.
    pub writers: BTreeMap<u32, Writer>,
    /// The segment of its newest run.
    run_seg: Option<u32>,
    /// Its open spans, by id.
    pub open: BTreeMap<String, OpenSpan>,
    /// Questions that wait for a person, by interrupt id.
    pub pending: BTreeMap<String, Address>,
    /// The status that the agent last reported.
    pub reported: Option<Reported>,
    /// How the last run ended: its outcome and stop reason.
    pub ended: Option<(String, Option<String>)>,
    /// The trace of its newest run; without a run, of its first line that has one.
    pub trace_id: Option<String>,
    /// The subagents that it started.
    pub subagents: Vec<String>,
    /// Its first error.
    pub first_error: Option<ErrorRef>,
    /// Its last error.
    pub last_error: Option<ErrorRef>,
    /// How many events are missing, by the gaps that were read.
    pub missing: u64,
    /// The gaps that were read, with their causes.
    pub gaps: Vec<(Address, String)>,
    /// Failures inside spans that are open.
    failures: OpenFailures,
    /// By the segment from which a writer counts.
    totals: BTreeMap<u32, Totals>,
    /// By the segment from which a writer counts.
    marks: BTreeMap<u32, Marks>,
    /// Lines were skipped, and no later line has counted their marks yet.
    uncounted: bool,
    /// Lines were skipped whose marks no line has counted.
    marks_unknown: bool,
    before_skip: BTreeMap<String, OpenSpan>,
}

impl Summary {
    /// The writer of its newest run; without a run, its last writer.
    pub fn writer(&self) -> Option<&Writer> {
        let run = self.run_seg.and_then(|seg| self.writers.get(&seg));
        run.or_else(|| self.writers.values().next_back())
    }

    /// All sessions that it was a subagent of. Each run may have another one.
    pub fn parents(&self) -> &[String] {
        &self.parents
    }

    /// What was masked, truncated and lost, and whether that is all of it. It is not if lines were
    /// skipped whose writer, an older version, did not count.
    pub fn marks(&self) -> (Marks, bool) {
        let mut sum = Marks::default();
        for marks in self.marks.values() {
            sum.add(marks);
        }
        (sum, !self.uncounted && !self.marks_unknown)
    }

    /// Why the session exists although no run named it: `process` for spans and events of a process
    /// outside all others, `anchor` for those inside a span that is no agent span.
    pub fn implicit(&self) -> Option<&str> {
        let writer = self.writer().filter(|_| self.runs == 0)?;
        writer.implicit.as_deref()
    }

    /// What the writers counted, added up. A failure that was passed on from span to span is one error,
    /// if its lines were read.
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for totals in self.totals.values() {
            sum.add(totals);
        }
        sum
    }

    /// Its status. `alive` returns whether a writer is alive. If it is not, the status that it last
    /// reported does not count.
    pub fn status(&self, alive: impl Fn(&str) -> bool) -> Status {
        let lives = |seg: u32| {
            self.writers
                .get(&seg)
                .is_some_and(|writer| alive(&writer.id))
        };
        let live_open: Vec<_> = self.open.values().filter(|span| lives(span.seg)).collect();
        if live_open.is_empty() {
            let ended = self.ended.as_ref();
            return match ended.and_then(|(outcome, _)| Outcome::parse(outcome)) {
                _ if !self.open.is_empty() => Status::Interrupted,
                Some(Outcome::Interrupted) => Status::Interrupted,
                Some(outcome) if outcome.is_error() => Status::Error,
                _ => Status::Ended,
            };
        }
        if !self.pending.is_empty() {
            return Status::Waiting;
        }
        let reported = self.reported.as_ref();
        let reported = reported.and_then(|reported| Status::parse(&reported.status));
        if let Some(reported) = reported.filter(|status| *status != Status::Busy) {
            return reported;
        }
        let is_run = |span: &&OpenSpan| span.kind.opens() == Some(SpanKind::Run);
        match live_open.iter().all(is_run) {
            true => Status::Idle,
            false => Status::Busy,
        }
    }

    /// Why it has the status that [`status`](Self::status) returned.
    pub fn report(&self, status: Status) -> StatusReport {
        let reported = self.reported.as_ref();
        let reported = reported.filter(|reported| reported.status == status.as_str());
        let waits_for = match reported.and_then(|reported| reported.waiting_for.as_deref()) {
            Some("user_input") if self.pending.is_empty() => WaitsFor::UserInput,
            _ => WaitsFor::Approval,
        };
        let told = reported.and_then(|reported| reported.message.clone());
        let error = self.last_error.as_ref().filter(|_| status == Status::Error);
        StatusReport {
            status,
            waits_for: (status == Status::Waiting).then_some(waits_for),
            attempt: reported.and_then(|reported| reported.attempt),
            next_at: reported.and_then(|reported| reported.next_at.clone()),
            message: told.or_else(|| Some(error?.message.clone())),
        }
    }

    /// The deepest open span: what it is doing right now.
    pub fn deepest(&self) -> Option<&OpenSpan> {
        let parents = self.open.values().filter_map(|span| span.parent.as_ref());
        let parents: HashSet<_> = parents.collect();
        let leaves = self.open.iter().filter(|(id, _)| !parents.contains(id));
        // A synthetic turn has no children; the spans of its time describe more.
        leaves
            .map(|(_, span)| span)
            .max_by_key(|span| (span.kind != Kind::TurnStart, span.since))
    }

    /// As JSON, with stable names. What isn't known is null.
    pub fn to_json(&self, status: Status) -> Value {
        let totals = self.totals();
        let time = |ns: u64| (ns > 0).then(|| time_text(ns, 6));
        let error = |error: &Option<ErrorRef>| error.as_ref().map(ErrorRef::to_json);
        let open = self.open.iter().map(|(id, span)| {
            json!({
                "span_id": id,
                "address": span.address.to_string(),
                "kind": span.kind.as_str(),
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
            "output_dir": self.output_dir,
            "trace_id": self.trace_id,
            "implicit": self.implicit(),
            "parent_session_id": self.parent_session_id,
            "branched_from": self.branched_from,
            "branched_from_message": self.branched_from_message,
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
            "first_error": error(&self.first_error),
            "last_error": error(&self.last_error),
            "missing_events": marks.missing,
            "masked": known.then_some(marks.masked),
            "cut": known.then_some(marks.cut),
            "gaps": self.gaps.iter().map(|(at, cause)| json!({"address": at.to_string(), "cause": cause})).collect::<Vec<_>>(),
            "process": newest.map(Writer::process_json),
            "spanledger": newest.map(|writer| &writer.version),
        })
    }
}
