//! What spans of other libraries say, told in our words: fields under our names, the conversation
//! as events, turns where the library has none.

use std::sync::{Arc, PoisonError};

use super::cell::{Cell, Parent};
use super::recorder::Recorder;
use crate::event::{Fields, RawFields, SpanKind, hex32};
use crate::ledger::{At, Digested, End, Heard, Note, SessionLog, fork_generation, hex_digest};
use crate::recognise::{Content, Message, Told};
use crate::redact::Tally;

impl Recorder {
    /// The fields of a span that is about to open, in our words.
    pub(super) fn read(&self, cell: &Cell, raw: RawFields) -> (RawFields, Option<Told>) {
        let Some(reading) = &cell.reading else {
            return (raw, None);
        };
        let kind = cell.settle_kind(&raw);
        let mut told = reading.read(kind, raw);
        let mut fields = std::mem::replace(&mut told.fields, RawFields::new());
        match (&cell.parent, kind) {
            // A library's run inside a session belongs to it, unless it names another.
            (Parent::Place(place), SpanKind::Run) => {
                if fields.get("session_id").is_none() {
                    fields.text("session_id", &place.log().id);
                }
            }
            (_, SpanKind::Run) => {}
            // Inside a session, a conversation of another name is just what the library calls it.
            (Parent::Place(place), _) => forget_own_id(&mut fields, &place.log().id),
            (Parent::Session(log), _) => forget_own_id(&mut fields, &log.id),
            _ => fields.rename("gen_ai.conversation.id", "session_id"),
        }
        (fields, Some(told))
    }

    /// The same for fields of a span that is open; what they tell of the conversation is told.
    pub(super) fn read_later(
        &self,
        cell: &Cell,
        log: &Arc<SessionLog>,
        at: &At,
        raw: &RawFields,
    ) -> Option<Told> {
        let reading = cell.reading.as_ref()?;
        let mut told = reading.read(cell.kind(), raw.clone());
        // Which session it is in has been decided.
        told.fields.rename("session_id", "gen_ai.conversation.id");
        forget_own_id(&mut told.fields, &log.id);
        for (stamp, digest) in self.tell_in_force(log, Some(at), &told.content) {
            if cell.kind() == SpanKind::Model {
                told.fields.text(stamp, &digest);
            }
        }
        self.tell_messages(cell, log, at, &told.content);
        Some(told)
    }

    /// Before a call of a model opens: its turn, if the library has none, and what is in force.
    pub(super) fn tell_before(
        &self,
        cell: &Cell,
        log: &Arc<SessionLog>,
        at: &At,
        above: Option<&At>,
        told: &Told,
    ) {
        if cell.kind() != SpanKind::Model {
            return;
        }
        // Where nothing is around, nothing says which calls belong together, or when it is over.
        let is_somewhere = match &cell.parent {
            Parent::Place(_) => at.run.is_some(),
            Parent::Anchored(_) | Parent::Session(_) => true,
            Parent::Root | Parent::Detached | Parent::Remote(_) => false,
        };
        let turn = (at.turn.is_none() && is_somewhere).then(|| {
            let trace = Arc::clone(&at.trace);
            let here = above.is_some_and(|above| above.generation == fork_generation());
            log.make_up_turn(self.ledger.core(), cell.start, trace, at.run, here)
        });
        self.tell_in_force(log, turn.as_ref().or(above), &told.content);
    }

    /// Tells the instructions and the tools, if they are others than before. Their digests.
    pub(super) fn tell_in_force(
        &self,
        log: &Arc<SessionLog>,
        at: Option<&At>,
        content: &Content,
    ) -> Vec<(&'static str, String)> {
        let texts = [
            (Digested::SystemPrompt, &content.system),
            (Digested::ToolCatalog, &content.tools),
        ];
        let told = texts.into_iter().filter_map(|(what, text)| {
            let mut raw = RawFields::new();
            raw.text(what.body(), text.as_deref()?);
            let digest = self.digested(self.ledger.core(), log, at, what, raw, false);
            Some((what.stamp(), digest))
        });
        told.collect()
    }

    /// Tells what is new of a conversation.
    pub(super) fn tell_messages(
        &self,
        cell: &Cell,
        log: &Arc<SessionLog>,
        at: &At,
        content: &Content,
    ) {
        if content.input.is_empty() && content.output.is_empty() {
            return;
        }
        let core = self.ledger.core();
        let key = |bytes: &[u8]| core.redactor.keyed_digest(bytes);
        let mut talk = cell.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let talk = talk.get_or_insert_default();
        if !content.input.is_empty() {
            let heard: Vec<_> = content.input.iter().map(heard).collect();
            let (new, end) = log.history().hear(&heard, key);
            talk.heard = Some(end);
            for (index, end) in new {
                self.tell_message(log, at, &content.input[index], Some(end));
            }
        }
        for (index, message) in content.output.iter().enumerate() {
            let digest = message.digest();
            // Some libraries give an answer again when more of it is known.
            if talk.answers.contains(&digest) {
                continue;
            }
            talk.answers.push(digest);
            // Of several answers to choose from the first is taken to go on from.
            let before = talk.heard.filter(|_| index == 0);
            let end = before.map(|end| log.history().answer(end, digest, key));
            self.tell_message(log, at, message, end);
        }
    }

    fn tell_message(&self, log: &Arc<SessionLog>, at: &At, message: &Message, end: Option<End>) {
        let core = self.ledger.core();
        // Some libraries send their instructions as a message too.
        if message.is_system()
            && let Some(text) = message.text()
        {
            let digest = hex_digest(core.redactor.text(&text, &mut Tally::default()).as_bytes());
            if log.is_in_force(Digested::SystemPrompt, &digest) {
                return;
            }
        }
        for (kind, raw) in message.events() {
            let mut fields = core.clean(&log.dir, |cleaner| Fields::clean(&raw, None, cleaner));
            if let Some(End(digest)) = end {
                fields.set_str("history", &String::from_utf8_lossy(&hex32(digest)));
            }
            log.event(core, kind, Some(at), &fields, Note::default());
        }
    }

    /// The span that held a session together is over.
    pub(super) fn over(&self, log: &Arc<SessionLog>) {
        let log = self.ledger.here(log);
        log.end_made_up(self.ledger.core(), None);
    }
}

fn heard(message: &Message) -> Heard {
    Heard {
        digest: message.digest(),
        from_model: message.is_from_model(),
        is_system: message.is_system(),
    }
}

/// Every line says which session it is in.
fn forget_own_id(fields: &mut RawFields, session: &str) {
    let name = "gen_ai.conversation.id";
    if fields.get(name) == Some(session) {
        fields.remove(name);
    }
}
