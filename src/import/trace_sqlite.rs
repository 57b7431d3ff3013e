//! `trace-sqlite`: a table of events, as our export and jutul-agent write it.
//!
//! A row of ours has the member `spanledger`, with the ids of its line and what the line has in place of the
//! members that the export changed: it becomes the same line again. Rows of jutul-agent have neither spans nor
//! turns, which are made from their order.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::database::Database;
use super::history::{Fields, History, SourceBlob, Span};
use super::time::iso_time;
use super::{Import, ImportError};
use crate::trace::{
    ErrorChain, Ids, Kind, LineMeta, Outcome, RawValue, SpanKind, Usage, event_kind, parse_time,
    time_text,
};

const FORMAT: &str = "trace-sqlite";

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let database = Database::open(import, path)?;
    database.need("events", &["id", "timestamp", "kind", "payload_json"])?;
    let id = session_id(&database, path)?;
    let mut history = History::new(import, FORMAT, &id);
    let source = history.begin_source();
    let mut reader = Reader {
        history,
        source: source.map_err(|error| ImportError::new(path, error))?,
        rows: 0,
        begun: false,
        open: HashMap::new(),
        opened: 0,
        error: None,
        tools: HashMap::new(),
    };
    let query = "SELECT id, timestamp, kind, payload_json FROM events ORDER BY id";
    database.each(query, &[], |row| reader.row(row))?;
    let finished = reader.finish();
    Ok(vec![
        finished.map_err(|error| ImportError::new(path, error))?,
    ])
}

/// The session's id: that of its first run, else the name of its directory.
fn session_id(database: &Database, path: &Path) -> Result<String, ImportError> {
    let mut id = None;
    let query = "SELECT payload_json FROM events WHERE kind IN ('session_start', 'session_resume') ORDER BY id LIMIT 1";
    database.each(query, &[], |row| {
        let payload = text(&row, "payload_json").and_then(|text| serde_json::from_str(text).ok());
        let payload: Value = payload.unwrap_or_default();
        id = payload["session_id"].as_str().map(str::to_owned);
        Ok(())
    })?;
    let full = path.canonicalize().ok();
    let name = full
        .as_deref()
        .and_then(|path| match path.file_name()?.to_str()? {
            "trace.sqlite" => path.parent()?.file_name()?.to_str(),
            _ => path.file_stem()?.to_str(),
        });
    let named = id.filter(|id| !id.is_empty()).or(name.map(str::to_owned));
    named.ok_or_else(|| ImportError::new(path, "no row has the session's id"))
}

fn text<'a>(row: &'a Fields, name: &str) -> Option<&'a str> {
    row.get(name).and_then(Value::as_str)
}

struct Reader<'a> {
    history: History<'a>,
    source: SourceBlob,
    rows: u64,
    begun: bool,
    /// The open spans of our own rows.
    open: HashMap<u64, OpenSpan>,
    opened: u64,
    /// The last error that was counted.
    error: Option<ErrorChain>,
    /// The calls of jutul-agent that have no result.
    tools: HashMap<String, (Span, Value)>,
}

struct OpenSpan {
    kind: SpanKind,
    ids: Ids,
    turn: Option<u32>,
    start: u64,
    fields: Fields,
    number: u64,
    /// The usage that was counted before it began.
    before: Usage,
    /// The `model_usage` inside of a model call.
    usage: Option<Usage>,
}

impl<'a> Reader<'a> {
    fn row(&mut self, mut row: Fields) -> io::Result<()> {
        let number = row.get("id").cloned().unwrap_or_default();
        let failed = |why: String| io::Error::other(format!("row {number} of `events`: {why}"));
        self.rows += 1;
        let payload = text(&row, "payload_json").unwrap_or_default();
        let payload: Fields = serde_json::from_str(payload)
            .map_err(|error| failed(format!("payload_json is no JSON object: {error}")))?;
        let time = text(&row, "timestamp").and_then(iso_time);
        let time = time.ok_or_else(|| failed("no time in `timestamp`".to_owned()))?;
        row.insert("payload_json".into(), payload.into());
        self.history.add_row(&mut self.source, &row)?;
        let mut payload = match row.get_mut("payload_json").map(Value::take) {
            Some(Value::Object(payload)) => payload,
            _ => Fields::new(),
        };
        let kind = text(&row, "kind").unwrap_or_default();
        let added = match payload.remove("spanledger") {
            Some(Value::Object(place)) => self.own(kind, time, payload, place),
            other => {
                payload.extend(other.map(|other| ("spanledger".to_owned(), other)));
                self.foreign(kind, time, payload)
            }
        };
        added.map_err(|error| failed(error.to_string()))
    }

    /// A row of ours: the line that it was made from.
    fn own(
        &mut self,
        name: &str,
        time: u64,
        mut payload: Fields,
        mut place: Fields,
    ) -> io::Result<()> {
        self.begun = true;
        if place.contains_key("derived") {
            return Ok(());
        }
        if let Some(Value::Object(recorded)) = place.remove("recorded") {
            for (name, value) in recorded {
                match value {
                    Value::Null => payload.remove(&name),
                    value => payload.insert(name, value),
                };
            }
        }
        let recorded = place.remove("kind");
        let name = recorded.as_ref().and_then(Value::as_str).unwrap_or(name);
        let kind = Kind::parse(name);
        let is_span = kind.opens().is_some() || kind.closes().is_some();
        let name = match is_span || kind == Kind::Gap {
            true => name.into(),
            false => event_kind(name),
        };
        let id = |name: &str| text(&place, name);
        let ids = Ids::parse(id("trace_id"), id("span_id"), id("parent_span_id"));
        let turn = place.get("turn").and_then(Value::as_u64);
        let turn = turn.and_then(|turn| u32::try_from(turn).ok());
        // An event's line has the span that it is inside of.
        let around = || {
            Some(Ids {
                parent: None,
                ..Ids::parse(id("trace_id"), id("parent_span_id"), None)?
            })
        };
        let ids = if is_span { ids } else { ids.or_else(around) };
        let meta = LineMeta {
            time,
            kind: &name,
            turn,
            ids,
        };
        self.count(kind, meta, &mut payload);
        self.history.write(meta, &payload)?;
        let opened = ids.filter(|_| kind.opens().is_some());
        if let Some(open) = opened.and_then(|ids| self.open.get_mut(&ids.span)) {
            open.fields = payload;
        }
        Ok(())
    }

    /// Keeps the totals and the open spans.
    fn count(&mut self, kind: Kind, meta: LineMeta<'_>, payload: &mut Fields) {
        let totals = &mut self.history.totals;
        if let (Some(kind), Some(ids)) = (kind.opens(), meta.ids) {
            totals.turns += u64::from(kind == SpanKind::Turn);
            self.opened += 1;
            let start = text(payload, "start").and_then(parse_time);
            let open = OpenSpan {
                kind,
                ids,
                turn: meta.turn,
                start: start.unwrap_or(meta.time),
                fields: Fields::new(),
                number: self.opened,
                before: totals.usage.clone(),
                usage: None,
            };
            self.open.insert(ids.span, open);
        }
        let used = || {
            payload
                .get("usage")
                .and_then(Value::as_object)
                .map(Usage::from_json)
        };
        if let Some(closed) = kind.closes() {
            let open = meta.ids.and_then(|ids| self.open.remove(&ids.span));
            totals.model_calls += u64::from(closed == SpanKind::Model);
            totals.tool_calls += u64::from(closed == SpanKind::Tool);
            let is_first = || open.as_ref().is_none_or(|open| open.before == totals.usage);
            let usage = match closed {
                SpanKind::Model => used()
                    .filter(|own| !own.is_empty())
                    .or_else(|| open.as_ref()?.usage.clone()),
                SpanKind::Turn | SpanKind::Run if is_first() => used(),
                _ => None,
            };
            usage.iter().for_each(|usage| totals.add_usage(usage));
        } else if kind == Kind::ModelUsage {
            let usage = Usage::from_json(payload);
            let call = meta.ids.and_then(|ids| self.open.get_mut(&ids.span));
            match call.filter(|span| span.kind == SpanKind::Model) {
                Some(call) => call.usage.get_or_insert_default().merge(&usage),
                None => totals.add_usage(&usage),
            }
        }
        let outcome = text(payload, "outcome").and_then(Outcome::parse);
        let failed = outcome.is_some_and(|outcome| outcome.is_error()) && kind.closes().is_some();
        if failed || kind == Kind::Error {
            let error = payload
                .get("error")
                .map(Value::to_string)
                .unwrap_or_default();
            let error = ErrorChain::of(RawValue::new(&error));
            let passed_on = |inner: &ErrorChain| failed && error.wraps(inner);
            totals.errors += u64::from(!self.error.as_ref().is_some_and(passed_on));
            self.error = Some(error);
        }
        if matches!(kind.closes(), Some(SpanKind::Turn | SpanKind::Run)) {
            payload.insert("totals".into(), self.history.totals_json());
        }
    }

    /// Closes the spans that the source has left open, the innermost first.
    fn close_open(&mut self) -> io::Result<()> {
        let mut open: Vec<_> = std::mem::take(&mut self.open).into_values().collect();
        open.sort_by_key(|span| std::cmp::Reverse(span.number));
        let now = self.history.last();
        for mut span in open {
            let kind = span.kind.closing();
            span.fields
                .insert("start".into(), time_text(span.start, 9).into());
            let duration = now.saturating_sub(span.start);
            span.fields.insert("duration_ns".into(), duration.into());
            span.fields
                .insert("outcome".into(), Outcome::Unset.as_str().into());
            let (turn, ids) = (span.turn, Some(span.ids));
            let meta = LineMeta {
                time: now,
                kind: kind.as_str(),
                turn,
                ids,
            };
            self.count(kind, meta, &mut span.fields);
            self.history.write(meta, &span.fields)?;
        }
        Ok(())
    }

    /// A row of jutul-agent.
    fn foreign(&mut self, kind: &str, time: u64, payload: Fields) -> io::Result<()> {
        let starts = matches!(kind, "session_start" | "session_resume");
        if starts || !self.begun {
            self.begun = true;
            self.end_calls(time)?;
            self.history.end_run(time, Outcome::Unset, Value::Null)?;
            let simulator = payload
                .get("simulator")
                .filter(|_| starts && !payload["simulator"].is_null());
            let metadata = simulator.map(|simulator| json!({"simulator": simulator}));
            self.history
                .start_run(time, json!({"agent": "jutul-agent", "metadata": metadata}))?;
            if starts {
                return Ok(());
            }
        }
        let history = &mut self.history;
        match kind {
            "session_end" => {
                self.end_calls(time)?;
                self.history.end_run(time, Outcome::Unset, payload.into())?;
                self.begun = false;
                Ok(())
            }
            "session_title" => history.event(
                Kind::SessionTitle,
                time,
                json!({"title": payload.get("title")}),
            ),
            "message_user" => {
                history.start_turn(time, Outcome::Unset)?;
                history.event(Kind::MessageUser, time, payload.into())
            }
            "model_usage" => history.event(Kind::ModelUsage, time, usage(payload)),
            "tool_call" => self.tool_call(time, &payload),
            "tool_result" => self.tool_result(time, &payload),
            "context_compaction" => {
                let compaction = compaction(payload);
                let key = history.last().to_string();
                let span = history.open(SpanKind::Compaction, &key, time, compaction.clone())?;
                history.close(span, time, Outcome::Ok, compaction)
            }
            "hitl_request" => {
                let question = json!({"interrupt_id": payload.get("interrupt_id"), "pending": payload.get("value")});
                history.event(Kind::HitlRequest, time, question)
            }
            "hitl_response" => {
                let answer = payload.get("payload").cloned().unwrap_or_default();
                let decision = answer["decisions"][0].clone();
                let answer = json!({"interrupt_id": payload.get("interrupt_id"), "decision": decision, "payload": answer});
                history.event(Kind::HitlResponse, time, answer)
            }
            other => history.line_in(None, &event_kind(other), time, &payload),
        }
    }

    fn tool_call(&mut self, time: u64, payload: &Fields) -> io::Result<()> {
        let id = text(payload, "id").unwrap_or_default().to_owned();
        let call = json!({
            "tool_id": payload.get("name"), "tool_call_id": id, "args": payload.get("args"),
        });
        let key = format!("{id}#{}", self.opened);
        self.opened += 1;
        let span = self
            .history
            .open(SpanKind::Tool, &key, time, call.clone())?;
        if let Some((span, call)) = self.tools.insert(id, (span, call)) {
            self.history.close(span, time, Outcome::Unset, call)?;
        }
        Ok(())
    }

    fn tool_result(&mut self, time: u64, payload: &Fields) -> io::Result<()> {
        let id = text(payload, "tool_call_id").unwrap_or_default();
        if !self.tools.contains_key(id) {
            let call = json!({"id": id, "name": payload.get("name")});
            self.tool_call(time, &super::history::fields(call))?;
        }
        let Some((span, mut call)) = self.tools.remove(id) else {
            return Ok(());
        };
        let content = payload.get("content").cloned().unwrap_or_default();
        let outcome = match text(payload, "status") {
            Some("error") => Outcome::Error,
            _ => Outcome::Ok,
        };
        if outcome.is_error() {
            call["error"] = json!({"message": content});
        } else {
            call["result"] = content;
        }
        self.history.close(span, time, outcome, call)
    }

    /// Closes calls without a result.
    fn end_calls(&mut self, time: u64) -> io::Result<()> {
        let mut calls: Vec<_> = std::mem::take(&mut self.tools).into_iter().collect();
        calls.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (_, (span, call)) in calls {
            self.history.close(span, time, Outcome::Unset, call)?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<History<'a>> {
        if self.rows == 0 {
            return Err(io::Error::other("no event is in it"));
        }
        self.close_open()?;
        let last = self.history.last();
        self.end_calls(last)?;
        self.history.end_source(self.source)?;
        Ok(self.history)
    }
}

/// Tokens, and what else the provider reported.
fn usage(mut reported: Fields) -> Value {
    let mut usage = Fields::new();
    for name in ["input_tokens", "output_tokens", "total_tokens", "cost_usd"] {
        usage.extend(reported.remove(name).map(|count| (name.to_owned(), count)));
    }
    let detail =
        |list: &str, name: &str| reported.get(list).and_then(|list| list.get(name)).cloned();
    let details = [
        (
            "cache_read_tokens",
            detail("input_token_details", "cache_read"),
        ),
        (
            "cache_write_tokens",
            detail("input_token_details", "cache_creation"),
        ),
        (
            "reasoning_tokens",
            detail("output_token_details", "reasoning"),
        ),
    ];
    for (name, count) in details {
        usage.extend(count.map(|count| (name.to_owned(), count)));
    }
    if !reported.is_empty() {
        usage.insert("usage_details".into(), reported.into());
    }
    usage.into()
}

/// A compaction, in the words of jutul-agent's document or of its program.
fn compaction(mut payload: Fields) -> Value {
    if let Some(count) = payload.remove("summarized") {
        payload.insert("summarized_message_count".into(), count);
    }
    payload.into()
}
