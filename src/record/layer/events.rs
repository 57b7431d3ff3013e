//! Records events of the trace, log events, and prompts, catalogs and rule sets, which are stored once.

use std::borrow::Cow;
use std::sync::Arc;

use tracing::{Level, Metadata};

use super::recorder::Recorder;
use super::span_data::{SpanData, Target};
use crate::record::fields::Fields;
use crate::record::raw_fields::RawFields;
use crate::record::sanitize::redact_json;
use crate::record::session::{ContextAsset, Note, SessionLog, SpanContext};
use crate::redact::{Limits, Tally};
use crate::trace::{Kind, Moment, SpanKind, Usage, event_kind, hex_digest, is_json};

/// The field that holds the text of a `tracing` event, and the same field of a `log` line.
const MESSAGE: &str = field!(Log.message);

impl Recorder {
    /// An event of the trace. Its own `session_id` field, if it names another session, wins over `target`.
    pub fn event(&self, target: &Target, kind: &str, raw: RawFields) {
        let process = &self.process;
        if process.refuses() {
            return;
        }
        let clean = match Kind::parse(kind) {
            Kind::Other => Cow::Owned(process.sanitize_text(kind)),
            _ => Cow::Borrowed(kind),
        };
        let kind = event_kind(&clean);
        let named = match raw.get(field!(Run.session_id)) {
            Some(id) if *id != *target.log.id => Some(process.session(id)),
            _ => None,
        };
        let (log, span) = match &named {
            Some(log) => (log, None),
            None => (&target.log, target.span.as_ref()),
        };
        let known = Kind::parse(&kind);
        if let Some(asset) = ContextAsset::from_kind(known) {
            self.asset(log, span, asset, raw, true);
            return;
        }
        if known == Kind::ModelUsage {
            log.lock(process).count_usage(span, &flat_usage(&raw));
        }
        // `error` is an object in every line.
        let schema = matches!(known, Kind::Error | Kind::Log).then_some(SpanKind::Tool);
        let fields = process.sanitize(log, |sanitizer| Fields::clean(&raw, schema, sanitizer));
        log.lock(process)
            .event(&kind, span, &fields, Note::default());
    }

    /// The first piece of a message arrives, or of a tool's input: a model call has its time to the first token.
    pub fn first_token(&self, target: &Target) {
        if let Some(span) = &target.span
            && span.kind == SpanKind::Model
            && !self.process.refuses()
        {
            let now = Moment::now();
            target.log.lock(&self.process).first_token(span, now);
        }
    }

    /// A prompt, a catalog or a rule set, stored by the digest of its redacted text. Returns the digest.
    pub(super) fn asset(
        &self,
        log: &Arc<SessionLog>,
        span: Option<&SpanContext>,
        asset: ContextAsset,
        mut raw: RawFields,
        again: bool,
    ) -> String {
        let process = &self.process;
        raw.rename(field!(Message.content), asset.body());
        let body = raw.get(asset.body()).unwrap_or_default();
        let limits = Limits {
            inline: usize::MAX,
            value: usize::MAX,
            ..process.limits
        };
        // The lines count what is masked.
        let (redactor, tally) = (&process.redactor, &mut Tally::default());
        let digest = match asset != ContextAsset::SystemPrompt && is_json(body) {
            true => hex_digest(&redact_json(redactor, &limits, (asset.body(), body), tally)),
            false => hex_digest(redactor.text(body, tally).as_bytes()),
        };
        let fields = process.sanitize_fields(log, &raw);
        let mut session = log.lock(process);
        session.asset(asset, span, &digest, &fields, again);
        drop(session);
        digest
    }

    /// A log event inside a session. An ERROR event that has an `error` field gives its span that error,
    /// unless the span has one.
    pub fn log(
        &self,
        data: Option<&SpanData>,
        target: &Target,
        meta: &Metadata<'_>,
        mut raw: RawFields,
    ) {
        let (process, log, level) = (&self.process, &target.log, *meta.level());
        let mut named = RawFields::new();
        named.text(MESSAGE, raw.get(MESSAGE).unwrap_or_default());
        raw.remove(MESSAGE);
        if level == Level::ERROR
            && let (Some(error), Some(data)) = (raw.get(field!(ToolCall.error)), data)
        {
            self.record_first_error(data, error);
        }
        let message = process.sanitize_fields(log, &named);
        let mut fields = Fields::default();
        fields.set_str(field!(Log.level), level.as_str());
        fields.set_str(field!(Log.target), meta.target());
        fields.merge(&message);
        fields.set_object(field!(Log.fields), &process.sanitize_fields(log, &raw));
        let note = Note {
            log_fields: process.sends_log_messages,
            ..Note::default()
        };
        let (kind, span) = (Kind::Log.as_str(), target.span.as_ref());
        log.lock(process).event(kind, span, &fields, note);
    }
}

/// The counts among the flat fields of a `model_usage` event.
fn flat_usage(raw: &RawFields) -> Usage {
    Usage {
        cost_usd: raw.get("cost_usd").and_then(|text| text.parse().ok()),
        ..Usage::from_counts(|name| raw.get(name)?.parse().ok())
    }
}
