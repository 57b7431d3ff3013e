//! Who, what, how much, and how it stands: small whatever the trace.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::standing::{Mishap, OpenSpan, Status, Writer};
use crate::event::{Marks, SpanKind, Totals, Usage};
use crate::ledger::parse_time;
use crate::reader::{Address, RawLine, RawValue};

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
    /// By writer, named by the first segment that it counted in: it tells all of it in each of them.
    totals: BTreeMap<u32, Totals>,
    /// The same way.
    marks: BTreeMap<u32, Marks>,
    /// Lines were left out and nobody has told yet what they were marked with.
    untold: bool,
    /// Nobody ever did.
    marks_unknown: bool,
    before_skip: BTreeMap<String, OpenSpan>,
}

const SHORT: usize = 200;

fn short(text: &str) -> String {
    text.chars().take(SHORT).collect()
}

impl Summary {
    /// Takes one line.
    pub fn take(&mut self, line: &RawLine<'_>) {
        if self.session_id.is_empty() {
            self.session_id = line.session_id.clone().into_owned();
        }
        let ts = parse_time(line.ts).unwrap_or(0);
        if self.first == 0 {
            self.first = ts;
        }
        let kind = line.kind.as_ref();
        // Whoever closes what the dead left open, however much later, does not make it young.
        if self.last == 0 || !matches!(kind, "segment" | "checkpoint" | "interrupted") {
            self.last = self.last.max(ts);
        }
        if let Some(span) = SpanKind::from_open_kind(kind) {
            self.opened(line, span, ts);
        } else if SpanKind::is_close_kind(kind) {
            self.closed(line);
        } else {
            self.event(line);
        }
        let mut marks = Marks::default();
        marks.count(line.as_bytes());
        if marks != Marks::default() {
            self.marks_of(line.seg).add(&marks);
        }
    }

    /// Who wrote its newest run; without one, whoever came last.
    pub fn writer(&self) -> Option<&Writer> {
        let run = self.run_seg.and_then(|seg| self.writers.get(&seg));
        run.or_else(|| self.writers.values().next_back())
    }

    /// All sessions that it ever was a subagent of: each run may have another one.
    pub fn parents(&self) -> &[String] {
        &self.parents
    }

    fn ran_under(&mut self, parent: Option<String>) {
        let new =
            parent.filter(|parent| !self.parents.contains(parent) && *parent != self.session_id);
        self.parents.extend(new);
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
        let is_parent = |id: &String| {
            self.open
                .values()
                .any(|span| span.parent.as_ref() == Some(id))
        };
        let leaves = self.open.iter().filter(|(id, _)| !is_parent(id));
        // Nothing hangs from a turn that was made up, and it says less than what is done in it.
        leaves
            .map(|(_, span)| span)
            .max_by_key(|span| (span.kind != "turn_start", span.since))
    }

    /// The first segment that a segment's writer counted together with it.
    fn first_of(&self, seg: u32) -> u32 {
        let Some(writer) = self.writers.get(&seg) else {
            return seg;
        };
        let counted =
            |other: &Writer| (&other.id, other.counts_from) == (&writer.id, writer.counts_from);
        let first = self.writers.iter().find(|(_, other)| counted(other));
        first.map_or(seg, |(seg, _)| *seg)
    }

    fn totals_of(&mut self, seg: u32) -> &mut Totals {
        let first = self.first_of(seg);
        self.totals.entry(first).or_default()
    }

    fn marks_of(&mut self, seg: u32) -> &mut Marks {
        let first = self.first_of(seg);
        self.marks.entry(first).or_default()
    }

    /// Takes over what a writer tells of its marks up to here.
    fn told_marks(&mut self, seg: u32, totals: &Value) {
        let Some(told) = Marks::from_totals(totals) else {
            return;
        };
        self.untold = false;
        let marks = self.marks_of(seg);
        // A gap that was written just before it was told may not be counted yet.
        marks.masked = marks.masked.max(told.masked);
        marks.cut = marks.cut.max(told.cut);
        marks.gaps = marks.gaps.max(told.gaps);
        marks.missing = marks.missing.max(told.missing);
    }

    fn field(line: &RawLine<'_>, name: &str) -> Option<String> {
        let value = line.payload().get(name)?;
        value.text().map(std::borrow::Cow::into_owned)
    }

    fn opened(&mut self, line: &RawLine<'_>, kind: SpanKind, ts: u64) {
        let fields: Vec<(&str, RawValue<'_>)> = line.payload().members().collect();
        let get = |name: &str| {
            fields
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        let text = |name: &str| Some(get(name)?.text()?.into_owned());
        let name = match kind {
            SpanKind::Run => text("agent"),
            SpanKind::Turn => line.turn.map(|turn| turn.to_string()),
            SpanKind::Model => text("model_id"),
            SpanKind::Tool | SpanKind::Permission => text("tool_id"),
            SpanKind::Compaction => None,
            SpanKind::Other => text("name"),
        };
        let late = get("late").is_some();
        match kind {
            SpanKind::Run => {
                self.runs += u64::from(!late);
                self.run_seg = Some(line.seg);
                self.ended = None;
                self.agent = self.agent.take().or_else(|| text("agent"));
                for (slot, name) in [
                    (&mut self.provider_id, "provider_id"),
                    (&mut self.model_id, "model_id"),
                    (&mut self.variant, "variant"),
                    (&mut self.title, "title"),
                    (&mut self.workspace_root, "workspace_root"),
                    (&mut self.parent_session_id, "parent_session_id"),
                ] {
                    *slot = text(name).or_else(|| slot.take());
                }
                self.ran_under(text("parent_session_id"));
                let number = |name: &str| get(name)?.f64();
                self.temperature = number("temperature").or(self.temperature);
                let branched = get("branched_from").and_then(|from| from.get("session_id"));
                if let Some(from) = branched.and_then(|id| id.text()) {
                    self.branched_from = Some(from.into_owned());
                }
            }
            SpanKind::Turn if !late => {
                let totals = self.totals_of(line.seg);
                totals.turns = totals.turns.saturating_add(1);
            }
            SpanKind::Model if self.model_id.is_none() => {
                self.model_id.clone_from(&name);
                self.provider_id = text("provider_id").or_else(|| self.provider_id.take());
            }
            _ => {}
        }
        let input = ["command", "args"].into_iter().find_map(|key| {
            let value = get(key)?;
            Some(short(&value.text().unwrap_or_else(|| value.json().into())))
        });
        if let Some(id) = line.span_id {
            let since = text("start")
                .and_then(|text| parse_time(&text))
                .unwrap_or(ts);
            self.open.insert(
                id.to_owned(),
                OpenSpan {
                    address: line.address(),
                    kind: line.kind.clone().into_owned(),
                    name: name.unwrap_or_default(),
                    input,
                    since,
                    seg: line.seg,
                    parent: line.parent_span_id.map(str::to_owned),
                },
            );
        }
    }

    /// What a span is called may come late: libraries declare it empty and record it inside.
    fn updated(&mut self, line: &RawLine<'_>) {
        let text = |name: &str| Self::field(line, name);
        let open = line.span_id.and_then(|id| self.open.get_mut(id));
        let Some(span) = open else { return };
        let name = match span.kind.as_str() {
            "model_call" => "model_id",
            "tool_call" | "permission_request" => "tool_id",
            _ => return,
        };
        if let Some(name) = text(name) {
            span.name = name;
        }
        let payload = line.payload();
        let input = ["command", "args"].iter().find_map(|key| payload.get(key));
        if let Some(input) = input {
            span.input = Some(short(&input.text().unwrap_or_else(|| input.json().into())));
        }
        if span.kind == "model_call" {
            self.model_id = self.model_id.take().or_else(|| text("model_id"));
            self.provider_id = self.provider_id.take().or_else(|| text("provider_id"));
        }
    }

    fn closed(&mut self, line: &RawLine<'_>) {
        let text = |name: &str| Self::field(line, name);
        let Some(kind) = line.closes() else { return };
        if kind == SpanKind::Model && self.model_id.is_none() {
            self.model_id = text("model_id");
            self.provider_id = self.provider_id.take().or_else(|| text("provider_id"));
        }
        let seg = line
            .span_id
            .and_then(|id| self.open.remove(id))
            .map_or(line.seg, |span| span.seg);
        let outcome = text("outcome").unwrap_or_default();
        if kind == SpanKind::Run {
            self.ended = Some((outcome.clone(), text("stop_reason")));
            // Its open line may be among those that were left out.
            self.ran_under(text("parent_session_id"));
        }
        if outcome == "error" {
            let what = text("tool_id")
                .or_else(|| text("model_id"))
                .or_else(|| text("agent"))
                .or_else(|| text("name"));
            self.mishap(line, what.unwrap_or_else(|| line.kind.clone().into_owned()));
        }
        let told = match kind {
            SpanKind::Run | SpanKind::Turn => line.payload().get("totals"),
            _ => None,
        };
        let told = told.and_then(|value| value.value());
        if let Some(told) = &told {
            self.told_marks(line.seg, told);
        }
        let totals = self.totals_of(seg);
        if let Some(told) = told.as_ref().and_then(Totals::from_json) {
            // Its writer counted everything up to here, seen by us or not.
            *totals = told;
            return;
        }
        match kind {
            SpanKind::Model => totals.model_calls = totals.model_calls.saturating_add(1),
            SpanKind::Tool => totals.tool_calls = totals.tool_calls.saturating_add(1),
            _ => {}
        }
        totals.errors = totals.errors.saturating_add(u64::from(outcome == "error"));
        if kind == SpanKind::Model
            && let Some(Value::Object(usage)) = line.payload().get("usage").and_then(|v| v.value())
        {
            totals.add_usage(&Usage::from_json(&usage));
        }
    }

    fn mishap(&mut self, line: &RawLine<'_>, what: String) {
        let error = line.payload().get("error");
        let message = error.and_then(|error| {
            let part = |name| error.get(name).and_then(|value| value.text());
            part("message")
                .or_else(|| part("error_type"))
                .or_else(|| error.text())
                .map(std::borrow::Cow::into_owned)
        });
        let mishap = Mishap {
            address: line.address(),
            what,
            message: short(&message.unwrap_or_default()),
        };
        self.first_error.get_or_insert_with(|| mishap.clone());
        self.last_error = Some(mishap);
    }

    /// Lines are left out here: what the ones before said to be open may be over.
    pub fn skip(&mut self) {
        self.marks_unknown |= std::mem::replace(&mut self.untold, true);
        self.before_skip = std::mem::take(&mut self.open);
    }

    /// What its writer counted up to here, and what was open: seen by us or not.
    fn checkpoint(&mut self, line: &RawLine<'_>) {
        let Some(Value::Object(said)) = line.payload().as_value() else {
            return;
        };
        if let Some(told) = said.get("totals").and_then(Totals::from_json) {
            *self.totals_of(line.seg) = told;
        }
        if let Some(totals) = said.get("totals") {
            self.told_marks(line.seg, totals);
        }
        let listed = said.get("open").and_then(Value::as_array);
        let others = self.open.iter().filter(|(_, span)| span.seg != line.seg);
        let mut open: BTreeMap<_, _> = others
            .map(|(id, span)| (id.clone(), span.clone()))
            .collect();
        for span in listed.into_iter().flatten() {
            let text = |name: &str| Some(span.get(name)?.as_str()?.to_owned());
            let Some(id) = text("span_id") else { continue };
            let known = self
                .open
                .get(&id)
                .or_else(|| self.before_skip.get(&id))
                .cloned();
            let seq = span.get("seq").and_then(Value::as_u64).unwrap_or(0);
            let span = known.unwrap_or_else(|| OpenSpan {
                address: Address { seg: line.seg, seq },
                kind: text("kind").unwrap_or_default(),
                name: text("name").unwrap_or_default(),
                input: None,
                since: text("start")
                    .and_then(|text| parse_time(&text))
                    .unwrap_or(0),
                seg: line.seg,
                parent: text("parent_span_id"),
            });
            open.insert(id, span);
        }
        self.open = open;
    }

    fn event(&mut self, line: &RawLine<'_>) {
        let text = |name: &str| Self::field(line, name);
        match line.kind.as_ref() {
            "segment" => {
                let process = line.payload().get("process").map_or("null", |v| v.json());
                let counts_from = line.payload().get("counts_from").and_then(|v| v.u64());
                self.writers.insert(
                    line.seg,
                    Writer {
                        id: text("writer").unwrap_or_default(),
                        process: process.into(),
                        version: text("spanledger").unwrap_or_default(),
                        implicit: text("implicit"),
                        counts_from,
                    },
                );
            }
            "checkpoint" => self.checkpoint(line),
            "span_update" => self.updated(line),
            "message_user" if self.first_message.is_none() => {
                self.first_message = text("content").map(|content| short(&content));
            }
            "session_title" => self.title = text("title"),
            "session_update" => {
                self.model_id = text("model_id").or_else(|| self.model_id.take());
                self.provider_id = text("provider_id").or_else(|| self.provider_id.take());
            }
            "session_status" => self.said = text("status"),
            "hitl_request" => {
                if let Some(id) = text("interrupt_id") {
                    self.pending.insert(id, line.address());
                }
            }
            "hitl_response" => {
                if let Some(id) = text("interrupt_id") {
                    self.pending.remove(&id);
                }
            }
            "branch" => self.branches.extend(text("child_session_id")),
            "error" => {
                let totals = self.totals_of(line.seg);
                totals.errors = totals.errors.saturating_add(1);
                self.mishap(line, "error".into());
            }
            "gap" => {
                let count = line.payload().get("count").and_then(|value| value.u64());
                self.missing = self.missing.saturating_add(count.unwrap_or(0));
                self.marks_of(line.seg).gap(count.unwrap_or(0));
                self.gaps
                    .push((line.address(), text("cause").unwrap_or_default()));
            }
            _ => {}
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seg: u32, seq: u64, kind: &str, payload: Value) -> String {
        let ts = "2026-11-16T00:31:05.123456Z";
        json!({"v": 1, "seg": seg, "seq": seq, "ts": ts, "kind": kind, "session_id": "s", "payload": payload})
            .to_string()
    }

    #[test]
    fn a_writer_with_two_segments_is_counted_once() {
        let totals =
            |turns| json!({"totals": {"turns": turns, "usage": {"input_tokens": 10 * turns}}});
        let lines = [
            line(1, 1, "segment", json!({"writer": "a"})),
            line(1, 2, "turn_end", totals(3)),
            // The same process went on in another segment, and another process joined.
            line(2, 1, "segment", json!({"writer": "a"})),
            line(2, 2, "turn_end", totals(5)),
            line(3, 1, "segment", json!({"writer": "b"})),
            line(3, 2, "turn_end", totals(2)),
        ];
        let mut summary = Summary::default();
        for line in &lines {
            summary.take(&RawLine::parse(line.as_bytes()).unwrap());
        }
        let totals = summary.totals();
        assert_eq!((totals.turns, totals.usage.input_tokens), (7, Some(70)));
    }
}
