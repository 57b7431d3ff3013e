//! An answer of the model: several lines with the same message id and the same usage.

use serde_json::{Value, json};

use super::super::history::{Fields, fields};
use super::text;

/// So many lines of the user are held back until the answer before them is complete.
const MOST_HELD: usize = 100;

/// An answer whose lines are being read. Results of its first tools may come before its last line.
pub(super) struct Answer {
    pub id: String,
    /// When the model was asked.
    pub began: u64,
    pub ended: u64,
    /// The blocks, and when each was written.
    pub blocks: Vec<(u64, Value)>,
    model: Value,
    stop_reason: Value,
    usage: Value,
    error: Option<Value>,
    http_status: Value,
    /// Lines of the user that came before the last line.
    pub held: Vec<(Fields, u64)>,
}

impl Answer {
    pub fn new(id: String, began: u64) -> Self {
        Self {
            id,
            began,
            ended: began,
            blocks: Vec::new(),
            model: Value::Null,
            stop_reason: Value::Null,
            usage: Value::Null,
            error: None,
            http_status: Value::Null,
            held: Vec::new(),
        }
    }

    /// Adds a line.
    pub fn add(&mut self, entry: &Fields, mut message: Value, time: u64) {
        self.ended = self.ended.max(time);
        let blocks = blocks(message["content"].take());
        if super::is_true(entry, "isApiErrorMessage") {
            self.error = Some(json!({
                "error_type": text(entry, "error"),
                "message": texts(&blocks, "\n"),
            }));
            self.http_status = entry.get("apiErrorStatus").cloned().unwrap_or_default();
        }
        self.blocks
            .extend(blocks.into_iter().map(|block| (time, block)));
        // The last line has the final counts.
        for (name, kept) in [
            ("model", &mut self.model),
            ("stop_reason", &mut self.stop_reason),
            ("usage", &mut self.usage),
        ] {
            let value = message[name].take();
            if !value.is_null() {
                *kept = value;
            }
        }
    }

    /// Holds a line of the user back. Returns it if there is no room.
    pub fn hold(&mut self, entry: Fields, time: u64) -> Option<Fields> {
        if self.held.len() == MOST_HELD {
            return Some(entry);
        }
        self.held.push((entry, time));
        None
    }

    pub fn failed(&self) -> bool {
        self.error.is_some()
    }

    /// What is known when the model is asked.
    pub fn request(&self) -> Value {
        json!({"provider_id": "anthropic", "model_id": self.model})
    }

    /// What is known at the end.
    pub fn result(&self) -> Value {
        json!({
            "provider_id": "anthropic",
            "model_id": self.model,
            "response_id": self.id,
            "finish_reason": self.stop_reason,
            "usage": usage(&self.usage),
            "http_status": self.http_status,
            "error": self.error.clone().map(fields),
        })
    }
}

/// The content of a message as blocks. A text is one.
pub(super) fn blocks(content: Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks,
        _ => Vec::new(),
    }
}

/// The texts of blocks.
pub(super) fn texts(blocks: &[Value], between: &str) -> String {
    let texts: Vec<_> = blocks
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect();
    texts.join(between)
}

/// Their input tokens leave out what came from the cache or went to it; ours have all.
fn usage(usage: &Value) -> Option<Fields> {
    let count = |name: &str| usage[name].as_u64();
    let (read, write) = (
        count("cache_read_input_tokens"),
        count("cache_creation_input_tokens"),
    );
    let uncached = count("input_tokens");
    let all = uncached.map(|tokens| {
        tokens
            .saturating_add(read.unwrap_or(0))
            .saturating_add(write.unwrap_or(0))
    });
    usage.is_object().then(|| {
        fields(json!({
            "input_tokens": all,
            "input_uncached_tokens": uncached,
            "output_tokens": count("output_tokens"),
            "cache_read_tokens": read,
            "cache_write_tokens": write,
        }))
    })
}
