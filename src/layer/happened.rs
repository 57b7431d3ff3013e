//! From what happened to lines: events of the trace, log events, and what is told by its digest.

use std::borrow::Cow;
use std::sync::Arc;

use tracing::Level;

use super::cell::{Cell, Place};
use super::recorder::Recorder;
use crate::event::{Fields, RawFields, SpanKind, Usage};
use crate::ledger::{At, Core, Digested, NoStore, Note, SessionLog, event_kind, hex_digest};
use crate::redact::{Limits, Tally};

impl Recorder {
    /// An event of the trace.
    pub fn event(&self, place: &Place, kind: &str, mut raw: RawFields) {
        if self.ledger.is_disabled() {
            return;
        }
        let core = self.ledger.core();
        let kind = event_kind(kind);
        // A session id routes any event.
        let routed = match raw.get("session_id") {
            Some(id) if *id != *place.log().id => Some(self.ledger.session(id)),
            _ => None,
        };
        let (log, at) = match &routed {
            Some(log) => (Cow::Borrowed(log), None),
            None => (self.ledger.here(place.log()), place.at()),
        };
        if let Some(what) = Digested::from_kind(&kind) {
            self.digested(core, &log, at, what, raw, true);
            return;
        }
        if kind == "model_usage" {
            let usage = take_flat_usage(&mut raw);
            log.count_usage(at, &usage);
        }
        let quiet = matches!(&*kind, "message_delta" | "tool_input_delta");
        // `error` is an object wherever it stands.
        let role = (kind == "error" || kind == "log").then_some(SpanKind::Tool);
        let fields = core.clean(&log.dir, |cleaner| Fields::clean(&raw, role, cleaner));
        log.event(
            core,
            &kind,
            at,
            &fields,
            Note {
                quiet,
                ..Note::default()
            },
        );
    }

    /// A prompt, a catalog or a rule set: by the digest of what may be written of it.
    pub(super) fn digested(
        &self,
        core: &Core,
        log: &Arc<SessionLog>,
        at: Option<&At>,
        what: Digested,
        mut raw: RawFields,
        again: bool,
    ) -> String {
        raw.rename("content", what.body());
        let body = raw.get(what.body()).unwrap_or_default();
        let mut whole = Vec::new();
        let limits = Limits {
            inline: usize::MAX,
            value: usize::MAX,
            ..core.limits
        };
        let mut tally = Tally::default();
        let json = what != Digested::SystemPrompt
            && core
                .redactor
                .write_json(
                    what.body(),
                    body,
                    &limits,
                    &mut NoStore,
                    &mut whole,
                    &mut tally,
                )
                .is_ok();
        let digest = if json {
            hex_digest(&whole)
        } else {
            hex_digest(core.redactor.text(body, &mut tally).as_bytes())
        };
        let fields = core.clean(&log.dir, |cleaner| Fields::clean(&raw, None, cleaner));
        log.digested(core, what, at, &digest, &fields, again);
        digest
    }

    /// A log event of the agent or of a library, inside a session.
    pub fn log(
        &self,
        cell: Option<&Arc<Cell>>,
        place: &Place,
        level: Level,
        target: &str,
        mut raw: RawFields,
    ) {
        let core = self.ledger.core();
        let log = self.ledger.here(place.log());
        let mut named = RawFields::new();
        named.text("message", raw.get("message").unwrap_or_default());
        raw.remove("message");
        if level == Level::ERROR
            && let Some(error) = raw.get("error")
            && let Some(cell) = cell
        {
            let mut said = RawFields::new();
            said.text("error", error);
            self.record_if_silent(cell, &said);
        }
        let (message, rest) = core.clean(&log.dir, |cleaner| {
            (
                Fields::clean(&named, None, cleaner),
                Fields::clean(&raw, None, cleaner),
            )
        });
        let mut fields = Fields::default();
        fields.set_str("level", level.as_str());
        fields.set_str("target", target);
        fields.merge(&message);
        if !rest.is_empty() {
            let mut members = b"{".to_vec();
            rest.write_members(&mut members);
            members.pop();
            members.push(b'}');
            fields.set("fields", &members);
        }
        let short = message.get("message").filter(|json| json.len() <= 1024);
        let note = Note {
            level: Some(level.as_str()),
            message: short,
            ..Note::default()
        };
        log.event(core, "log", place.at(), &fields, note);
    }
}

/// The counts among the flat fields of a `model_usage` event; they stay in its payload.
fn take_flat_usage(raw: &mut RawFields) -> Usage {
    let mut usage = Usage::default();
    for (index, name) in Usage::COUNTS.iter().enumerate() {
        *usage.count_mut(index) = raw.get(name).and_then(|text| text.parse().ok());
    }
    usage.cost_usd = raw.get("cost_usd").and_then(|text| text.parse().ok());
    usage
}
