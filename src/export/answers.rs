//! What the model answered, joined with the calls that it answered in.

use std::collections::HashMap;

use serde_json::Value;

use crate::session::Node;
use crate::trace::Address;

/// The answers of a run, for formats in which a model call has its answer.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The answers in the model calls that are open, by their spans.
    open: HashMap<u64, Option<String>>,
    ended: Option<EndedCall>,
}

/// A model call that is over. More of its answer may follow.
#[derive(Debug)]
pub(super) struct EndedCall {
    /// What is written of the call, without its answer.
    pub row: Value,
    pub at: Address,
    pub answer: Option<String>,
    /// When the last part of the answer was there.
    pub answered: u64,
    turn: Option<u32>,
}

impl Answers {
    /// A model call opens.
    pub fn open(&mut self, call: &Node) {
        self.open.extend(call.span_id.map(|span| (span, None)));
    }

    /// A model call ends.
    pub fn end(&mut self, call: &Node, row: Value, at: Address) {
        let answer = call.span_id.and_then(|span| self.open.remove(&span)?);
        self.ended = Some(EndedCall {
            row,
            at,
            answer,
            answered: call.end(),
            turn: call.turn,
        });
    }

    /// Adds a message to the model call that it is in, or to the one that ended last, if that was in the same turn.
    pub fn add(&mut self, message: &Node) {
        let Some(text) = message.content() else {
            return;
        };
        let open = message.parent.and_then(|span| self.open.get_mut(&span));
        let ended = self.ended.as_mut().filter(|call| call.turn == message.turn);
        let answer = match (open, ended) {
            (Some(answer), _) => answer,
            (None, Some(call)) => {
                call.answered = message.end();
                &mut call.answer
            }
            (None, None) => return,
        };
        match answer {
            Some(before) => before.push_str(&format!("\n\n{text}")),
            None => *answer = Some(text.into()),
        }
    }

    /// The call that ended last, once it has its whole answer.
    pub fn take(&mut self) -> Option<EndedCall> {
        self.ended.take()
    }
}
