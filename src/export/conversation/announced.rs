//! Calls that messages of the model ask for, and results that are in messages of the tools. Libraries that report no
//! spans of tools have them only there.

use serde_json::Value;

use super::super::feed::Fed;
use super::{Call, CallEnd, Conversation};
use crate::request::kind;
use crate::session::Role;
use crate::trace::typed::{Message, ToolCall};

/// A call without a span.
#[derive(Debug)]
pub(super) struct Announced {
    /// Its entry.
    entry: u64,
    /// Its id among those of the conversation.
    id: String,
}

pub(super) fn is_call(part: &Value) -> bool {
    kind(part) == "tool_call"
}

impl Conversation {
    /// Adds the calls among the parts of a message, except those whose spans have opened.
    pub(super) fn announce(&mut self, fed: &Fed, number: u64, parts: &[Value]) {
        for part in parts.iter().filter(|part| is_call(part)) {
            let given = part["id"].as_str().unwrap_or_default();
            let mut open = self
                .entry(number)
                .into_iter()
                .flat_map(|entry| &entry.calls);
            if open.any(|call| call.given == given) {
                continue;
            }
            let id = self.calls.unique(given);
            let args = match &part["arguments"] {
                Value::Object(args) => args.clone(),
                Value::Null => Default::default(),
                other => [("input".to_owned(), other.clone())].into_iter().collect(),
            };
            let announced = Announced {
                entry: number,
                id: id.clone(),
            };
            self.announced.insert(given.to_owned(), announced);
            let bytes = part.to_string().len();
            if let Some(entry) = self.entry(number) {
                entry.open += 1;
                entry.bytes += bytes;
                entry.calls.push(Call {
                    id,
                    name: part["name"].as_str().unwrap_or_default().to_owned(),
                    args,
                    time: fed.node.start,
                    given: given.to_owned(),
                    end: None,
                    subagents: Vec::new(),
                });
                self.bytes += bytes;
            }
        }
    }

    /// The entry and the id of the call whose span opens, if a message asked for it.
    pub(super) fn claim(&mut self, call: &ToolCall<'_>) -> Option<(u64, String)> {
        let given = call.tool_call_id().filter(|id| !id.is_empty());
        let given = match given {
            Some(id) => id.into_owned(),
            None => self.asked_by_name(&call.tool_id()?)?,
        };
        let announced = self.announced.remove(&given)?;
        Some((announced.entry, announced.id))
    }

    /// The recorded id of the first call of a tool that the last answer asks for. Some libraries report spans of tools without
    /// ids.
    fn asked_by_name(&self, name: &str) -> Option<String> {
        let last = self.current?;
        let at = self.place(last)?;
        let is_asked = |call: &&Call| {
            let announced = self.announced.get(&call.given);
            call.name == name && announced.is_some_and(|announced| announced.id == call.id)
        };
        let call = self.queue.get(at)?.calls.iter().find(is_asked)?;
        Some(call.given.clone())
    }

    /// Results of tools. Those of calls with spans are in the spans.
    pub(super) fn tool_message(&mut self, fed: &Fed, message: &Message<'_>, parts: &[Value]) {
        let mut is_of_calls = false;
        let results = parts.iter();
        for part in results.filter(|part| kind(part) == "tool_call_response") {
            is_of_calls = true;
            let given = part["id"].as_str().unwrap_or_default();
            if let Some(Announced { entry, id }) = self.announced.remove(given) {
                self.tool_result(entry, id, CallEnd::of_message(fed, part));
            }
        }
        let text = fed.node.content().filter(|text| !text.is_empty());
        if let Some(text) = text.filter(|_| !is_of_calls) {
            self.observe(fed, message, &text);
        }
    }

    /// Adds a result of no call to the last answer, unless it is a message of its own or was sent to a model after it.
    fn observe(&mut self, fed: &Fed, message: &Message<'_>, text: &str) {
        let is_input = fed
            .node
            .parent
            .is_some_and(|span| self.models.contains_key(&span));
        let id = message.message_id();
        let answer = self.current.filter(|_| !is_input && id.is_none());
        let number = answer.unwrap_or_else(|| self.push_input(fed, Role::Tool));
        if let Some(id) = &id {
            self.outline.id(id, number);
        }
        // Those of an answer with calls are in the calls.
        let entry = self.entry(number).filter(|entry| entry.calls.is_empty());
        let Some(entry) = entry else { return };
        entry.message_ids.extend(id.map(String::from));
        entry.results.push(text.to_owned());
        entry.bytes += text.len();
        self.bytes += text.len();
    }
}
