//! Text as it arrives, piece by piece.

use super::session::Session;
use crate::record::raw_fields::RawFields;
use crate::redact::StreamState;
use crate::trace::Kind;

/// A message or a tool's input as it arrives.
///
/// Each [`push`](Stream::push) writes what is safe to write: the last few words are held back
/// until more comes, so that a secret split over two chunks is still masked. That is the one
/// exception to "when the call returns, the kernel has it". More is held back of a private key that
/// has begun, up to 32 KiB, and where there is no place to cut, up to 72 KiB; a secret longer than
/// that is masked in parts as it comes. [`end`](Stream::end) writes the rest and the whole message;
/// dropped without it, the message ends `complete: false`. On a model call, the first piece also gives the time
/// to the first token (`ttft_ms`).
///
/// ```
/// use spanledger::{SpanExt, spans};
/// let call = spans::model_call("anthropic", "claude-sonnet-4-5").stream(true).start();
/// let mut out = call.stream("msg_1");
/// out.push("Hello, ");
/// out.push("world");
/// out.end();
/// ```
#[derive(Debug)]
#[must_use = "the message ends when it is dropped"]
pub struct Stream {
    session: Option<Session>,
    delta: Kind,
    id_key: &'static str,
    id: String,
    /// The kind of the line that holds the whole text, if there is one.
    whole: Option<Kind>,
    text: String,
    /// What of `text` has not been written as deltas yet.
    state: StreamState,
    part_index: Option<u64>,
}

impl Stream {
    /// `whole` is the kind of the line that holds the whole text; the input of a tool call has none.
    pub(crate) fn new(session: Option<Session>, whole: Option<Kind>, id: &str) -> Self {
        let (delta, id_key) = match whole {
            Some(_) => (Kind::MessageDelta, field!(Delta.message_id)),
            None => (Kind::ToolInputDelta, field!(Delta.tool_call_id)),
        };
        Self {
            session,
            delta,
            id_key,
            id: id.to_owned(),
            whole,
            text: String::new(),
            state: StreamState::default(),
            part_index: None,
        }
    }

    /// Which part of the message this is.
    pub fn part(mut self, index: u64) -> Self {
        self.part_index = Some(index);
        self
    }

    /// The next piece.
    pub fn push(&mut self, chunk: &str) {
        let Some(session) = &self.session else { return };
        if self.text.is_empty() && !chunk.is_empty() {
            session.recorder.first_token(&session.target);
        }
        self.text.push_str(chunk);
        self.write_deltas(false);
    }

    /// The message is complete.
    pub fn end(mut self) {
        self.close(true, None);
    }

    /// The message ends here, unfinished, and this is why.
    pub fn abort(mut self, reason: &str) {
        self.close(false, Some(reason));
    }

    /// Writes what may be written, or all if no more comes.
    fn write_deltas(&mut self, last: bool) {
        let Some(session) = &self.session else { return };
        let redactor = &session.recorder.process.redactor;
        while let Some(piece) = redactor.next_piece(&mut self.state, &self.text, last) {
            let mut fields = self.named();
            fields.json(field!(Delta.offset), &piece.range.start);
            fields.redacted(field!(Delta.text), &piece.redacted, piece.masked);
            let kind = self.delta.as_str();
            session.recorder.event(&session.target, kind, fields);
        }
    }

    fn named(&self) -> RawFields {
        let mut fields = RawFields::new();
        fields.text(self.id_key, &self.id);
        if let Some(index) = self.part_index {
            fields.json(field!(Delta.part_index), &index);
        }
        fields
    }

    fn close(&mut self, complete: bool, reason: Option<&str>) {
        self.write_deltas(true);
        let Some(session) = self.session.take() else {
            return;
        };
        let Some(whole) = self.whole else { return };
        let mut fields = self.named();
        fields.text(field!(Message.content), &self.text);
        fields.json(field!(Message.complete), &complete);
        if let Some(reason) = reason {
            fields.text(field!(Message.abort_reason), reason);
        }
        let kind = whole.as_str();
        session.recorder.event(&session.target, kind, fields);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.close(false, None);
    }
}
