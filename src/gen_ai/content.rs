//! The part of a conversation that a span carries: removed from the span, recorded as events.

use serde_json::Value;

use super::messages;
use crate::request::{self, Message};

/// The texts of the conversation that a span was given.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// The system prompt.
    pub system: Option<String>,
    /// The tool catalog, a JSON array.
    pub tools: Option<String>,
    /// The whole request, from the beginning of the conversation.
    pub input: Vec<Message>,
    /// The answers.
    pub output: Vec<Message>,
}

impl Content {
    /// Takes an attribute by its name without `gen_ai.`. `false`: it is no content, or not in a
    /// shape that is understood.
    pub fn take(&mut self, name: &str, text: &str) -> bool {
        match name {
            "system_instructions" => self.system = Some(instructions(text)),
            "tool.definitions" => match definitions(text) {
                Some(tools) => self.tools = Some(tools),
                None => return false,
            },
            "input.messages" => match messages::parse(text) {
                Some(messages) => self.input = messages,
                None => return false,
            },
            "output.messages" => match messages::parse(text) {
                Some(messages) => self.output = messages,
                None => return false,
            },
            _ => return false,
        }
        true
    }

    /// Why the model stopped, if its answer has a reason.
    pub fn finish_reason(&self) -> Option<&str> {
        let reason = self.output.first()?.finish_reason.as_deref()?;
        Some(reason).filter(|reason| !matches!(*reason, "" | "unknown"))
    }
}

/// Parts with text, as the conventions want it, or the text itself.
fn instructions(text: &str) -> String {
    match serde_json::from_str(text) {
        Ok(Value::Array(parts)) => request::texts(&parts).unwrap_or_else(|| text.to_owned()),
        Ok(Value::String(text)) => text,
        _ => text.to_owned(),
    }
}

/// The tools as a catalog has them: name, description and schema. Other members stay.
fn definitions(text: &str) -> Option<String> {
    let Ok(Value::Array(tools)) = serde_json::from_str(text) else {
        return None;
    };
    let tools: Vec<_> = tools.iter().map(request::tool).collect();
    serde_json::to_string(&tools).ok()
}
