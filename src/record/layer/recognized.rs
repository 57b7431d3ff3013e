//! Records recognized spans of other libraries: their fields under our names, their conversation as events,
//! and turns where the library has none.

use std::sync::Arc;

use super::placement::Placement;
use super::recorder::Recorder;
use super::span_data::{Parent, SpanData, Target};
use crate::gen_ai::{self, ChainTip, Content, MessageKey};
use crate::record::raw_fields::RawFields;
use crate::record::recognize::Recognized;
use crate::record::session::{ContextAsset, Note, SessionLog, SpanContext};
use crate::redact::Tally;
use crate::request::Message;
use crate::trace::{SpanKind, hex, hex_digest, lock};

const CONVERSATION: &str = "gen_ai.conversation.id";

impl Recorder {
    /// The fields of a span that is about to open, under our names.
    pub(super) fn read_fields(
        &self,
        data: &SpanData,
        raw: RawFields,
    ) -> (RawFields, Option<Recognized>) {
        let Some(mapping) = &data.mapping else {
            return (raw, None);
        };
        let kind = data.decide_kind(&raw);
        let mut recognized = mapping.read(kind, raw);
        let mut fields = std::mem::replace(&mut recognized.fields, RawFields::new());
        match (&data.parent, kind) {
            // A library's run inside a session belongs to it, unless it names another one.
            (Parent::Target(target), SpanKind::Run) => {
                if fields.get(field!(Run.session_id)).is_none() {
                    fields.text(field!(Run.session_id), &target.log.id);
                }
            }
            (_, SpanKind::Run) => {}
            // Inside a session, another conversation id stays a plain field.
            (Parent::Target(target), _) => remove_own_id(&mut fields, &target.log.id),
            (Parent::Session(log), _) => remove_own_id(&mut fields, &log.id),
            _ => fields.rename(CONVERSATION, field!(Run.session_id)),
        }
        (fields, Some(recognized))
    }

    /// The same for fields recorded on an open span. Records what they hold of the conversation.
    pub(super) fn read_late_fields(
        &self,
        data: &SpanData,
        target: &Target,
        raw: &RawFields,
    ) -> Option<Recognized> {
        let mapping = data.mapping.as_ref()?;
        let mut recognized = mapping.read(data.kind(), raw.clone());
        let Recognized {
            fields, content, ..
        } = &mut recognized;
        // The session has been decided.
        fields.rename(field!(Run.session_id), CONVERSATION);
        remove_own_id(fields, &target.log.id);
        for (stamp, digest) in self.record_assets(&target.log, target.span.as_ref(), content) {
            if data.kind() == SpanKind::Model {
                fields.text(stamp, &digest);
            }
        }
        self.record_messages(data, target, content);
        self.recognized_request(data, target, content, fields);
        Some(recognized)
    }

    /// Before a model call opens: opens its synthetic turn, if the library has no turns, and records its
    /// instructions and tools.
    pub(super) fn before_model_call(
        &self,
        data: &SpanData,
        placement: &Placement<'_>,
        context: &SpanContext,
        content: &Content,
    ) {
        if data.kind() != SpanKind::Model {
            return;
        }
        let log = &placement.log;
        // Without a run or a foreign span around it, nothing groups calls into turns or ends a turn.
        let is_grouped = match &data.parent {
            Parent::Target(_) => context.run.is_some(),
            Parent::Implicit(_) | Parent::Session(_) => true,
            Parent::Unknown | Parent::Detached | Parent::Remote(_) => false,
        };
        let turn = (context.turn.is_none() && is_grouped).then(|| {
            let trace = Arc::clone(&context.trace);
            let mut session = log.lock(&self.process);
            session.synthetic_turn_for_call(data.start, trace, context.run)
        });
        self.record_assets(log, turn.as_ref().or(placement.above), content);
    }

    /// Records the instructions and the tools if they changed. Returns the field and the digest of each.
    pub(super) fn record_assets(
        &self,
        log: &Arc<SessionLog>,
        span: Option<&SpanContext>,
        content: &Content,
    ) -> Vec<(&'static str, String)> {
        let texts = [
            (ContextAsset::SystemPrompt, &content.system),
            (ContextAsset::ToolCatalog, &content.tools),
        ];
        let digests = texts.into_iter().filter_map(|(asset, text)| {
            let mut raw = RawFields::new();
            raw.text(asset.body(), text.as_deref()?);
            Some((asset.stamp(), self.asset(log, span, asset, raw, false)))
        });
        digests.collect()
    }

    /// Records the messages of a conversation that are new.
    pub(super) fn record_messages(&self, data: &SpanData, target: &Target, content: &Content) {
        if !content.input.is_empty() {
            self.record_input(data, target, &content.input, 0);
        }
        let (first, others) = content.output.split_at(content.output.len().min(1));
        // Of several candidate answers, the first continues the conversation.
        self.record_answers(data, target, first, true);
        self.record_answers(data, target, others, false);
    }

    /// Records the messages of a request that are new. The first `leading` ones are in the prompt.
    pub(super) fn record_input(
        &self,
        data: &SpanData,
        target: &Target,
        messages: &[Message],
        leading: usize,
    ) {
        let key = |bytes: &[u8]| self.process.redactor.keyed_digest(bytes);
        let keys: Vec<_> = messages.iter().map(MessageKey::of).collect();
        let (new, end) = target.log.history().observe_request(&keys, key);
        lock(&data.conversation).get_or_insert_default().request_end = Some(end);
        for (index, end) in new {
            if index >= leading {
                self.record_message(target, &messages[index], Some(end));
            }
        }
    }

    /// Records the messages of an answer. With `continues`, they are the next ones of the conversation.
    pub(super) fn record_answers(
        &self,
        data: &SpanData,
        target: &Target,
        messages: &[Message],
        continues: bool,
    ) {
        let key = |bytes: &[u8]| self.process.redactor.keyed_digest(bytes);
        let mut conversation = lock(&data.conversation);
        for message in messages {
            let conversation = conversation.get_or_insert_default();
            let digest = message.key();
            // Some libraries record an answer again when more of it is known.
            if conversation.answers.contains(&digest) {
                continue;
            }
            conversation.answers.push(digest);
            let before = conversation.request_end.filter(|_| continues);
            let end = before.map(|end| target.log.history().answer(end, digest, key));
            conversation.request_end = end.or(conversation.request_end);
            self.record_message(target, message, end);
        }
    }

    fn record_message(&self, target: &Target, message: &Message, end: Option<ChainTip>) {
        let (process, log) = (&self.process, &target.log);
        // Some libraries send their instructions as a message too.
        if message.is_system()
            && let Some(text) = message.text_of_parts()
        {
            // Not counted in the tally, because this text is not written.
            let redacted = process.redactor.text(&text, &mut Tally::default());
            let digest = hex_digest(redacted.as_bytes());
            let asset = ContextAsset::SystemPrompt;
            if log.lock(process).is_in_force(asset, &digest) {
                return;
            }
        }
        for (kind, members) in gen_ai::events(message) {
            let mut raw = RawFields::new();
            for (name, value) in members {
                raw.json(name, &value);
            }
            let mut fields = process.sanitize_fields(log, &raw);
            if let Some(ChainTip(digest)) = end {
                fields.set_str(field!(Message.history), &hex(&digest.to_be_bytes()));
            }
            let mut session = log.lock(process);
            // The agent has recorded it itself.
            if end.is_some() && session.take_spoken(kind, &fields) {
                continue;
            }
            session.event(
                kind.as_str(),
                target.span.as_ref(),
                &fields,
                Note::default(),
            );
        }
    }
}

/// Removes a conversation id that is the session's: every line has that already.
fn remove_own_id(fields: &mut RawFields, session: &str) {
    if fields.get(CONVERSATION) == Some(session) {
        fields.remove(CONVERSATION);
    }
}
