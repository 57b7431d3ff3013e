//! Bodies of requests to models and of their answers: OpenAI chat and responses, Anthropic messages, and the
//! messages of OpenTelemetry's GenAI conventions. Any other JSON is kept as it is.
//!
//! [`Request::read`] gives one form to all of them, and [`openai`] and [`anthropic`] write that form as a body
//! again. [`canonical`] and [`digest`] compare bodies. [`split`] replaces the messages of a body by their
//! digests, so that a session stores each once, and [`join`] puts them back.
//!
//! ```
//! use serde_json::json;
//! use spanledger::request::{Request, anthropic};
//! let body = json!({"model": "m", "messages": [
//!     {"role": "system", "content": "Be brief."},
//!     {"role": "user", "content": "What is 6 by 7?"},
//! ]});
//! let request = Request::read(&body);
//! assert_eq!(request.system.as_deref(), Some("Be brief."));
//! assert_eq!(anthropic(&request)["system"], "Be brief.");
//! ```

mod canonical;
mod chat;
mod message;
mod messages_api;
mod parts;
mod response;
mod responses_api;
mod write;

use serde_json::{Map, Value};

use crate::trace::named_enum;

pub use canonical::{canonical, digest};
pub use message::Message;
pub(crate) use message::{join_texts, kind, texts, tool};
pub use parts::{Missing, PartRef, join, part_digest, part_refs, simple_parts, split};
pub use response::Response;
pub use write::{anthropic, openai};

named_enum! {
    /// The API that a body is for.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum Api {
        /// OpenAI's chat completions, which many servers offer.
        OpenAiChat = "openai-chat",
        /// OpenAI's responses.
        OpenAiResponses = "openai-responses",
        /// Anthropic's messages.
        Anthropic = "anthropic-messages",
        /// Not an API: messages with parts, as the GenAI conventions have them.
        GenAi = "gen-ai",
        /// Another one.
        #[default]
        Unknown = "unknown",
    }
}

impl Api {
    /// The API that a body looks like. A conversation of plain texts fits OpenAI's and Anthropic's; it is taken
    /// for OpenAI's.
    pub fn of(body: &Value) -> Self {
        if let Some(messages) = body.get("messages").and_then(Value::as_array) {
            let has = |name: &str| messages.iter().any(|message| message.get(name).is_some());
            return if has("parts") {
                Self::GenAi
            } else if messages_api::is_anthropic(body, messages) {
                Self::Anthropic
            } else {
                Self::OpenAiChat
            };
        }
        match body.get("input") {
            Some(Value::String(_) | Value::Array(_)) => Self::OpenAiResponses,
            _ => Self::Unknown,
        }
    }

    /// The member of a body that lists the messages.
    pub(crate) fn list(self) -> Option<&'static str> {
        match self {
            Self::OpenAiChat | Self::Anthropic | Self::GenAi => Some("messages"),
            Self::OpenAiResponses => Some("input"),
            Self::Unknown => None,
        }
    }

    /// The member of a body that holds the system prompt.
    pub(crate) fn prompt(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("system"),
            Self::OpenAiResponses => Some("instructions"),
            Self::GenAi => Some("system_instructions"),
            Self::OpenAiChat | Self::Unknown => None,
        }
    }
}

/// A request to a model, in one form for all APIs.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// The API that the body is for.
    pub api: Api,
    /// The model.
    pub model: Option<String>,
    /// The model's variant: the effort of its reasoning.
    pub variant: Option<String>,
    /// The system prompt: that of the body, and the system messages that the conversation begins with.
    pub system: Option<String>,
    /// The tools: `{name, description, schema}`, and other members as they are.
    pub tools: Vec<Value>,
    /// The messages.
    pub messages: Vec<Message>,
    /// How many of the first messages are in `system`.
    pub leading: usize,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// The limit on output tokens.
    pub max_tokens: Option<u64>,
    /// Whether the answer is streamed.
    pub stream: Option<bool>,
    /// All other parameters.
    pub params: Map<String, Value>,
}

impl Request {
    /// Reads a body.
    pub fn read(body: &Value) -> Self {
        let api = Api::of(body);
        let mut request = Self {
            api,
            ..Self::default()
        };
        let Some(members) = body.as_object().filter(|_| api != Api::Unknown) else {
            return request;
        };
        for (name, value) in members {
            request.take(name, value);
        }
        let read: fn(&Value) -> Message = match api {
            Api::Anthropic => messages_api::message,
            Api::OpenAiResponses => responses_api::message,
            Api::GenAi => |message: &Value| Message::from_json(message.clone()).unwrap_or_default(),
            _ => chat::message,
        };
        request.messages = match api.list().and_then(|list| members.get(list)) {
            Some(Value::Array(list)) => list.iter().map(read).collect(),
            Some(Value::String(text)) => vec![Message::text("user", text)],
            _ => Vec::new(),
        };
        let is_system = |message: &&Message| message.is_system();
        request.leading = request.messages.iter().take_while(is_system).count();
        let leading = request.messages[..request.leading].iter();
        let texts = leading.filter_map(Message::text_of_parts);
        let texts: Vec<_> = request.system.take().into_iter().chain(texts).collect();
        request.system = join_texts(texts.iter().map(String::as_str));
        request
    }

    /// The messages that are not in `system`.
    pub fn after_prompt(&self) -> &[Message] {
        self.messages.get(self.leading..).unwrap_or_default()
    }

    fn take(&mut self, name: &str, value: &Value) {
        let text = || value.as_str().map(str::to_owned);
        match name {
            "messages" | "input" => {}
            "model" => self.model = text(),
            "temperature" => self.temperature = value.as_f64(),
            "max_tokens" | "max_completion_tokens" | "max_output_tokens" => {
                self.max_tokens = value.as_u64();
            }
            "stream" => self.stream = value.as_bool(),
            "tools" => {
                let tools = value.as_array().into_iter().flatten();
                self.tools = tools.map(message::tool).collect();
            }
            _ if self.api.prompt() == Some(name) => self.system = message::text_in(value),
            _ => {
                if let Some(effort) = effort(name, value) {
                    self.variant = Some(effort.to_owned());
                }
                self.params.insert(name.to_owned(), value.clone());
            }
        }
    }
}

/// The effort of reasoning that a parameter asks for.
fn effort<'a>(name: &str, value: &'a Value) -> Option<&'a str> {
    match name {
        "reasoning_effort" => value.as_str(),
        "reasoning" | "output_config" => value.get("effort")?.as_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
