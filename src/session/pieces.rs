//! Text that was streamed, as one reads it: the whole message, or the pieces of one that has none.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::chapters::message_key;
use super::seek::whole;
use crate::reader::RawLine;

/// What the pieces of one message say together.
#[derive(Debug)]
pub(super) struct Streamed {
    key: (String, u64),
    span_id: Option<String>,
    /// The line of the first piece.
    pub first: Vec<u8>,
    pub text: String,
}

/// The messages that were begun and not told whole.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// By when they began.
    begun: BTreeMap<u64, Streamed>,
    known: HashMap<(String, u64), u64>,
    next: u64,
}

pub(super) fn is_piece(kind: &str) -> bool {
    matches!(kind, "message_delta" | "tool_input_delta")
}

impl Pieces {
    /// Takes a piece in. One that begins a message ends an older one of the same name, which is
    /// handed out.
    pub fn take(&mut self, line: &RawLine<'_>) -> Option<Streamed> {
        let key = message_key(line)?;
        let payload = line.payload();
        let begins = payload.get("offset").and_then(|value| value.u64()) == Some(0);
        let text = payload.get("text").and_then(|value| value.text());
        let text = text.unwrap_or_default();
        let older = begins.then(|| self.remove(&key)).flatten();
        let at = self.known.get(&key).and_then(|at| self.begun.get_mut(at));
        if let Some(streamed) = at {
            streamed.text.push_str(&text);
            return older;
        }
        self.known.insert(key.clone(), self.next);
        let streamed = Streamed {
            key,
            span_id: line.span_id.map(str::to_owned),
            first: line.as_bytes().to_owned(),
            text: text.into_owned(),
        };
        self.begun.insert(self.next, streamed);
        self.next += 1;
        older
    }

    fn remove(&mut self, key: &(String, u64)) -> Option<Streamed> {
        let at = self.known.remove(key)?;
        self.begun.remove(&at)
    }

    /// Lets go of the pieces that a line tells whole. Those that it doesn't contain (it was cut, or its
    /// blob is gone) are handed out.
    pub fn told(&mut self, session: &Path, line: &RawLine<'_>) -> Option<Streamed> {
        let payload = line.payload();
        let (key, content) = match line.kind.as_ref() {
            "message_assistant" | "message_reasoning" => (message_key(line)?, "content"),
            "tool_call" => {
                let id = payload.get("tool_call_id")?.text()?.into_owned();
                ((id, 0), "args")
            }
            _ => return None,
        };
        let streamed = self.remove(&key)?;
        let content = payload.get(content);
        let content = content.and_then(|value| whole(session, value).ok());
        let same_json = |content: &str| {
            let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
            json(content).is_some_and(|content| json(&streamed.text) == Some(content))
        };
        let told =
            content.is_some_and(|content| content.contains(&streamed.text) || same_json(&content));
        (!told).then_some(streamed)
    }

    /// Hands out what a span had begun that was interrupted: there is no more to come.
    pub fn interrupted(&mut self, span_id: Option<&str>) -> Vec<Streamed> {
        let its =
            |streamed: &&Streamed| span_id.is_some() && streamed.span_id.as_deref() == span_id;
        let keys: Vec<_> = self
            .begun
            .values()
            .filter(its)
            .map(|s| s.key.clone())
            .collect();
        keys.iter().filter_map(|key| self.remove(key)).collect()
    }

    /// Hands out what is left.
    pub fn rest(self) -> Vec<Streamed> {
        self.begun.into_values().collect()
    }
}
