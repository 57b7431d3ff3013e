//! `openai-messages` and `anthropic-messages`: the conversation as it is now, as the body of a request.

use serde_json::Value;

use super::conversation::Conversation;
use super::feed::Fed;
use super::{Exporter, Rows};
use crate::request::{self, Request};

#[derive(Debug)]
pub(super) struct Messages {
    conversation: Conversation,
    body: fn(&Request) -> Value,
}

impl Messages {
    pub fn openai() -> Self {
        Self {
            conversation: Conversation::with_plain_ids(),
            body: request::openai,
        }
    }

    pub fn anthropic() -> Self {
        Self {
            body: request::anthropic,
            ..Self::openai()
        }
    }
}

impl Exporter for Messages {
    fn add(&mut self, fed: &Fed, _: &mut Rows) {
        self.conversation.add(fed);
    }

    fn end(&mut self, rows: &mut Rows) {
        let request = std::mem::take(&mut self.conversation).into_request();
        let body = (self.body)(&request);
        drop(request);
        rows.once(&body);
    }
}
