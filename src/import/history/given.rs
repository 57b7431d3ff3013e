//! Lines whose ids and turns the source has.

use std::io;

use serde_json::{Value, json};

use super::{Fields, History};
use crate::trace::{Ids, Kind, LineMeta, Outcome, SpanKind, Usage, hex_digest, time_text};

/// A span with its ids.
#[derive(Clone, Copy, Debug)]
pub(in crate::import) struct GivenSpan {
    pub kind: SpanKind,
    pub ids: Ids,
    pub turn: Option<u32>,
    pub start: u64,
    pub end: u64,
    pub outcome: Outcome,
}

impl History<'_> {
    /// Opens a span. `with` has the fields that were known then.
    pub fn open_given(&mut self, span: &GivenSpan, with: Fields) -> io::Result<()> {
        let kind = match span.kind {
            SpanKind::Run if self.resumes() => Kind::SessionResume,
            kind => kind.opening(),
        };
        if span.kind == SpanKind::Turn {
            self.totals.turns += 1;
        }
        let mut payload = Fields::from_iter([("start".into(), time_text(span.start, 9).into())]);
        payload.extend(with);
        let meta = LineMeta {
            time: span.start,
            kind: kind.as_str(),
            turn: span.turn,
            ids: Some(span.ids),
        };
        self.write(meta, &payload)
    }

    /// Whether a run was opened before.
    fn resumes(&mut self) -> bool {
        !self.run_fields.is_empty() || {
            self.run_fields.insert("session_id".into(), Value::Null);
            false
        }
    }

    /// Closes a span. `with` has all its fields.
    pub fn close_given(&mut self, span: &GivenSpan, with: Fields) -> io::Result<()> {
        let interrupted = span.outcome == Outcome::Interrupted;
        let closing = span.kind.closing();
        let mut payload = super::fields(json!({
            "closes": interrupted.then_some(closing.as_str()),
            "start": time_text(span.start, 9),
            "duration_ns": span.end.saturating_sub(span.start),
            "outcome": span.outcome.as_str(),
        }));
        payload.extend(with);
        match span.kind {
            SpanKind::Model => self.totals.model_calls += 1,
            SpanKind::Tool => self.totals.tool_calls += 1,
            _ => {}
        }
        self.totals.errors += u64::from(span.outcome.is_error());
        if let Some(Value::Object(usage)) = payload.get("usage") {
            self.totals.add_usage(&Usage::from_json(usage));
        }
        if matches!(span.kind, SpanKind::Turn | SpanKind::Run) {
            payload.insert("totals".into(), self.totals_json());
        }
        let kind = if interrupted {
            Kind::Interrupted
        } else {
            closing
        };
        let meta = LineMeta {
            time: span.end,
            kind: kind.as_str(),
            turn: span.turn,
            ids: Some(span.ids),
        };
        self.write(meta, &payload)
    }

    /// An event inside a span.
    pub fn event_given(
        &mut self,
        span: &GivenSpan,
        kind: &str,
        time: u64,
        with: Fields,
    ) -> io::Result<()> {
        if kind == Kind::Error.as_str() {
            self.totals.errors += 1;
        }
        let meta = LineMeta {
            time,
            kind,
            turn: span.turn,
            ids: Some(Ids {
                parent: None,
                ..span.ids
            }),
        };
        self.write(meta, &with)
    }

    /// The system prompt from now on.
    pub fn system_prompt(&mut self, time: u64, text: &str) -> io::Result<()> {
        let prompt = json!({"digest": self.digest_of(text), "body": text});
        self.event(Kind::SystemPrompt, time, prompt)
    }

    /// The digest of a text as it is written: without secrets.
    pub fn digest_of(&self, text: &str) -> String {
        hex_digest(self.shared.text(text).as_bytes())
    }

    /// A digest from which the text can't be guessed.
    pub fn keyed_digest(&self, bytes: &[u8]) -> u128 {
        self.shared.keyed_digest(bytes)
    }
}
