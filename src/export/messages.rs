//! `openai-messages` and `anthropic-messages`: the conversation as it is now, as the body of a request.

use serde_json::{Map, Value};

use super::conversation::{Conversation, Entry};
use super::feed::Fed;
use super::{Exporter, Rows};
use crate::request::{self, Request};

#[derive(Debug)]
pub(super) struct Messages {
    conversation: Conversation,
    body: fn(&Request) -> Value,
    /// Whether messages with the same role become one.
    merges: bool,
    /// None in the first pass.
    writer: Option<BodyWriter>,
}

/// Writes a body message by message.
#[derive(Debug, Default)]
struct BodyWriter {
    /// What is not written yet.
    out: String,
    /// The members that follow the messages.
    rest: Map<String, Value>,
    has_messages: bool,
    /// The role of the message that more blocks may be added to.
    open_role: Option<Value>,
}

impl Messages {
    pub fn openai() -> Self {
        Self {
            conversation: Conversation::with_plain_ids(),
            body: request::openai,
            merges: false,
            writer: None,
        }
    }

    pub fn anthropic() -> Self {
        Self {
            body: request::anthropic,
            merges: true,
            ..Self::openai()
        }
    }

    fn write(&mut self, rows: &mut Rows) {
        let complete = self.conversation.complete();
        let Some(writer) = &mut self.writer else {
            return;
        };
        for entry in complete.into_iter().filter(Entry::is_in_context) {
            let mut body = (self.body)(&Request {
                messages: entry.into_messages(),
                ..Request::default()
            });
            if let Value::Array(messages) = body["messages"].take() {
                let messages = messages.into_iter();
                messages.for_each(|message| writer.message(&message, self.merges));
            }
            if let Some(prompt) = body["system"].as_str() {
                writer.add_prompt(prompt);
            }
        }
        if !writer.out.is_empty() {
            rows.text(std::mem::take(&mut writer.out));
        }
    }
}

impl Exporter for Messages {
    fn add(&mut self, fed: &Fed, rows: &mut Rows) {
        self.conversation.add(fed);
        self.write(rows);
    }

    fn end(&mut self, rows: &mut Rows) {
        self.conversation.finish();
        self.write(rows);
        if let Some(writer) = self.writer.take() {
            rows.text(writer.end());
        }
    }

    fn again(&mut self) -> bool {
        let request = self.conversation.about.request();
        self.conversation.begin_again();
        let writer = BodyWriter::new((self.body)(&request), self.merges);
        self.writer.replace(writer).is_none()
    }
}

impl BodyWriter {
    /// Begins with the members of a body, and the messages that it has.
    fn new(mut body: Value, merges: bool) -> Self {
        let mut writer = Self {
            out: format!("{{\"model\":{},\"messages\":[", body["model"].take()),
            ..Self::default()
        };
        let messages = body["messages"].take();
        for message in messages.as_array().into_iter().flatten() {
            writer.message(message, merges);
        }
        if let Value::Object(members) = body {
            let rest = members.into_iter().filter(|(_, value)| !value.is_null());
            writer.rest = rest.collect();
        }
        writer
    }

    fn message(&mut self, message: &Value, merges: bool) {
        if !merges {
            self.comma();
            return self.out.push_str(&message.to_string());
        }
        let content = message["content"].to_string();
        let blocks = content
            .strip_prefix('[')
            .and_then(|all| all.strip_suffix(']'));
        let role = &message["role"];
        if self.open_role.as_ref() == Some(role) {
            self.out.push(',');
        } else {
            self.close();
            self.comma();
            self.out
                .push_str(&format!("{{\"role\":{role},\"content\":["));
            self.open_role = Some(role.clone());
        }
        self.out.push_str(blocks.unwrap_or(&content));
    }

    fn comma(&mut self) {
        if std::mem::replace(&mut self.has_messages, true) {
            self.out.push(',');
        }
    }

    /// Closes the message that blocks were added to.
    fn close(&mut self) {
        if self.open_role.take().is_some() {
            self.out.push_str("]}");
        }
    }

    /// Adds to the system prompt, which is not among the messages.
    fn add_prompt(&mut self, text: &str) {
        match self.rest.get_mut("system") {
            Some(Value::String(prompt)) => {
                prompt.push_str("\n\n");
                prompt.push_str(text);
            }
            _ => drop(self.rest.insert("system".to_owned(), text.into())),
        }
    }

    fn end(mut self) -> String {
        self.close();
        self.out.push(']');
        let rest = Value::from(self.rest).to_string();
        if rest != "{}" {
            self.out.push(',');
        }
        self.out.push_str(&rest[1..]);
        self.out
    }
}
