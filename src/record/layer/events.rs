//! Records events of the trace, log events, and prompts, catalogs and rule sets, which are stored once.

use std::sync::Arc;

use tracing::Level;

use super::recorder::Recorder;
use super::span_data::{SpanData, Target};
use crate::record::fields::Fields;
use crate::record::raw_fields::RawFields;
use crate::record::session::{ContextAsset, Note, SessionLog, SpanContext};
use crate::redact::{Limits, NoStore, Output, Tally};
use crate::trace::{SpanKind, Usage, event_kind, hex_digest};

impl Recorder {
    /// An event of the trace. Its own `session_id` field, if it names another session, wins over `target`.
    pub fn event(&self, target: &Target, kind: &str, raw: RawFields) {
        if self.process.refuses() {
            return;
        }
        let process = &self.process;
        let kind = event_kind(kind);
        let named = match raw.get("session_id") {
            Some(id) if *id != *target.log.id => Some(self.process.session(id)),
            _ => None,
        };
        let (log, span) = match &named {
            Some(log) => (log, None),
            None => (&target.log, target.span.as_ref()),
        };
        if let Some(what) = ContextAsset::from_kind(&kind) {
            self.asset(log, span, what, raw, true);
            return;
        }
        if kind == "model_usage" {
            log.count_usage(span, &flat_usage(&raw));
        }
        // `error` is an object in every line.
        let role = (kind == "error" || kind == "log").then_some(SpanKind::Tool);
        let fields = process.sanitize(&log.dir, |sanitizer| Fields::clean(&raw, role, sanitizer));
        let note = Note {
            quiet: matches!(&*kind, "message_delta" | "tool_input_delta"),
            ..Note::default()
        };
        log.event(process, &kind, span, &fields, note);
    }

    /// A prompt, a catalog or a rule set, stored by the digest of its redacted text. Returns the digest.
    pub(super) fn asset(
        &self,
        log: &Arc<SessionLog>,
        span: Option<&SpanContext>,
        what: ContextAsset,
        mut raw: RawFields,
        again: bool,
    ) -> String {
        let process = &self.process;
        raw.rename("content", what.body());
        let body = raw.get(what.body()).unwrap_or_default();
        let limits = Limits {
            inline: usize::MAX,
            value: usize::MAX,
            ..process.limits
        };
        let (mut whole, mut tally) = (Vec::new(), Tally::default());
        let mut output = Output {
            line: &mut whole,
            limits: &limits,
            store: &mut NoStore,
            tally: &mut tally,
        };
        let is_json = what != ContextAsset::SystemPrompt
            && process
                .redactor
                .write_json(process.redactor.field(what.body()), body, &mut output)
                .is_ok();
        let digest = if is_json {
            hex_digest(&whole)
        } else {
            hex_digest(process.redactor.text(body, &mut tally).as_bytes())
        };
        let fields = process.sanitize(&log.dir, |sanitizer| Fields::clean(&raw, None, sanitizer));
        log.asset(process, what, span, &digest, &fields, again);
        digest
    }

    /// A log event inside a session. An ERROR event that has an `error` field gives its span that error,
    /// unless the span has one.
    pub fn log(
        &self,
        data: Option<&SpanData>,
        target: &Target,
        level: Level,
        module: &str,
        mut raw: RawFields,
    ) {
        let (process, log) = (&self.process, &target.log);
        let mut named = RawFields::new();
        named.text("message", raw.get("message").unwrap_or_default());
        raw.remove("message");
        if level == Level::ERROR
            && let (Some(error), Some(data)) = (raw.get("error"), data)
        {
            self.record_first_error(data, error);
        }
        let (message, rest) = process.sanitize(&log.dir, |sanitizer| {
            let message = Fields::clean(&named, None, sanitizer);
            (message, Fields::clean(&raw, None, sanitizer))
        });
        let mut fields = Fields::default();
        fields.set_str("level", level.as_str());
        fields.set_str("target", module);
        fields.merge(&message);
        fields.set_object("fields", &rest);
        let note = Note {
            level: Some(level.as_str()),
            message: message.get("message").filter(|json| json.len() <= 1024),
            ..Note::default()
        };
        log.event(process, "log", target.span.as_ref(), &fields, note);
    }
}

/// The counts among the flat fields of a `model_usage` event.
fn flat_usage(raw: &RawFields) -> Usage {
    Usage {
        cost_usd: raw.get("cost_usd").and_then(|text| text.parse().ok()),
        ..Usage::from_counts(|name| raw.get(name)?.parse().ok())
    }
}
