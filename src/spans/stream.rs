//! Text as it arrives, piece by piece.

use crate::event::RawFields;
use crate::layer::Located;
use crate::redact::Redactor;

/// Beyond this much without a place to cut, it is cut anyway.
const MAX_HELD: usize = 64 * 1024;
/// How many words are held back: a secret may need the two before it to be known as one.
const HELD_WORDS: usize = 3;

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
        let safe = safe_len(&core.redactor, &self.text[self.written..]);
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

    fn write_delta(&mut self, len: usize) {
        let Some(located) = &self.located else { return };
        if len == 0 {
            return;
        }
        let piece = &self.text[self.written..self.written + len];
        let mut fields = self.named();
        fields.u64("offset", self.written as u64);
        fields.text("text", piece);
        located.recorder.event(&located.place, self.delta, fields);
        self.written += len;
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
        self.write_delta(self.text.len() - self.written);
        let Some(located) = self.located.take() else {
            return;
        };
        let Some(whole) = self.whole else { return };
        let mut fields = self.named();
        fields.text("content", &self.text);
        fields.plain("complete", format_args!("{complete}"));
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

/// How much of `text` can be written without knowing what comes next.
fn safe_len(redactor: &Redactor, text: &str) -> usize {
    // Before the last few words, which may be the beginning of a secret or what makes one.
    let mut starts = text
        .char_indices()
        .zip(std::iter::once(' ').chain(text.chars()))
        .filter(|((_, c), before)| !c.is_whitespace() && before.is_whitespace())
        .map(|((at, _), _)| at)
        .collect::<Vec<_>>();
    let mut cut = if starts.len() >= HELD_WORDS {
        starts.drain(..).rev().nth(HELD_WORDS - 1).unwrap_or(0)
    } else {
        0
    };
    let over = text.len() > MAX_HELD;
    if over {
        cut = cut.max(floor_char(text, text.len() - MAX_HELD / 2));
    }
    // A block that has begun and not ended is held whole.
    if let Some(begin) = text.rfind("-----BEGIN").filter(|_| !over)
        && !text[begin..].contains("-----END")
    {
        cut = cut.min(begin);
    }
    for found in redactor.find(text) {
        if found.whole.start < cut && cut < found.whole.end {
            cut = found.whole.start;
        }
    }
    cut
}

fn floor_char(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
