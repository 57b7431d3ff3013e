//! Text as it arrives, piece by piece.

use crate::event::RawFields;
use crate::layer::Located;
use crate::redact::context_start;

/// A message or a tool's input as it arrives.
///
/// Each [`push`](Stream::push) writes what is safe to write: the last few words are held back
/// until more comes, so that a secret split over two chunks is still masked. That is the one
/// exception to "when the call returns, the kernel has it". [`end`](Stream::end) writes the rest
/// and the whole message; dropped without it, the message ends `complete: false`.
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
    located: Option<Located>,
    delta: &'static str,
    id_key: &'static str,
    id: String,
    /// The line that the whole becomes, if it becomes one.
    whole: Option<&'static str>,
    text: String,
    /// How much of `text` has been written as deltas.
    written: usize,
    part_index: Option<u64>,
}

impl Stream {
    fn new(
        located: Option<Located>,
        delta: &'static str,
        whole: Option<&'static str>,
        id: (&'static str, &str),
    ) -> Self {
        Self {
            located,
            delta,
            id_key: id.0,
            id: id.1.to_owned(),
            whole,
            text: String::new(),
            written: 0,
            part_index: None,
        }
    }

    pub(crate) fn message(located: Option<Located>, id: &str) -> Self {
        let whole = Some("message_assistant");
        Self::new(located, "message_delta", whole, ("message_id", id))
    }

    pub(crate) fn reasoning(located: Option<Located>, id: &str) -> Self {
        let whole = Some("message_reasoning");
        Self::new(located, "message_delta", whole, ("message_id", id))
    }

    pub(crate) fn tool_input(located: Option<Located>, id: &str) -> Self {
        Self::new(located, "tool_input_delta", None, ("tool_call_id", id))
    }

    /// Which part of the message this is.
    pub fn part(mut self, index: u64) -> Self {
        self.part_index = Some(index);
        self
    }

    /// The next piece.
    pub fn push(&mut self, chunk: &str) {
        let Some(located) = &self.located else { return };
        self.text.push_str(chunk);
        let core = located.recorder.ledger.core();
        let safe = core.redactor.safe_end(&self.text, self.written);
        self.write_delta(safe);
    }

    /// The message is complete.
    pub fn end(mut self) {
        self.close(true, None);
    }

    /// The message ends here, unfinished, and this is why.
    pub fn abort(mut self, reason: &str) {
        self.close(false, Some(reason));
    }

    /// Writes what has not been written, up to `end`.
    fn write_delta(&mut self, end: usize) {
        let Some(located) = &self.located else { return };
        if end == self.written {
            return;
        }
        let from = context_start(&self.text, self.written);
        let piece = self.written - from..end - from;
        let mut fields = self.named();
        fields.u64("offset", self.written as u64);
        fields.piece("text", &self.text[from..], piece);
        located.recorder.event(&located.place, self.delta, fields);
        self.written = end;
    }

    fn named(&self) -> RawFields {
        let mut fields = RawFields::new();
        fields.text(self.id_key, &self.id);
        if let Some(index) = self.part_index {
            fields.u64("part_index", index);
        }
        fields
    }

    fn close(&mut self, complete: bool, reason: Option<&str>) {
        self.write_delta(self.text.len());
        let Some(located) = self.located.take() else {
            return;
        };
        let Some(whole) = self.whole else { return };
        let mut fields = self.named();
        fields.text("content", &self.text);
        fields.bool("complete", complete);
        if let Some(reason) = reason {
            fields.text("abort_reason", reason);
        }
        located.recorder.event(&located.place, whole, fields);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.close(false, None);
    }
}
