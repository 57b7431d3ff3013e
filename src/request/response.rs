//! The body of an answer.

use serde_json::Value;

use super::message::Message;
use super::{chat, messages_api, responses_api};
use crate::trace::Usage;

/// An answer of a model, in one form for all APIs.
///
/// ```
/// use serde_json::json;
/// use spanledger::request::Response;
/// let answer = Response::read(&json!({
///     "id": "msg_1", "model": "claude-sonnet-4-5", "role": "assistant", "stop_reason": "end_turn",
///     "content": [{"type": "text", "text": "42"}],
///     "usage": {"input_tokens": 12, "output_tokens": 3},
/// }));
/// assert_eq!(answer.messages[0].text_of_parts().as_deref(), Some("42"));
/// assert_eq!(answer.usage.input_tokens, Some(12));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Response {
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// Why the model stopped.
    pub finish_reason: Option<String>,
    /// What it used.
    pub usage: Usage,
    /// The answer: usually one message. It continues the conversation.
    pub messages: Vec<Message>,
    /// Other answers to the same request.
    pub alternatives: Vec<Message>,
    /// The error that the provider reports.
    pub error: Option<Value>,
}

impl Response {
    /// Reads a body: of OpenAI's chat completions or responses, or of Anthropic's messages.
    pub fn read(body: &Value) -> Self {
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let mut response = Self {
            id: text("id"),
            model: text("model"),
            usage: usage(&body["usage"]),
            error: body.get("error").filter(|error| !error.is_null()).cloned(),
            ..Self::default()
        };
        if let Some(choices) = body.get("choices").and_then(Value::as_array) {
            response.read_choices(choices);
        } else if let Some(items) = body.get("output").and_then(Value::as_array) {
            response.messages = items.iter().map(responses_api::message).collect();
            let incomplete = &body["incomplete_details"]["reason"];
            response.finish_reason = incomplete.as_str().map(str::to_owned).or(text("status"));
        } else if !body["content"].is_null() {
            response.messages = vec![answer(messages_api::message(body))];
            response.finish_reason = text("stop_reason");
        }
        response
    }

    fn read_choices(&mut self, choices: &[Value]) {
        let mut answers = choices.iter().map(|choice| {
            let mut message = answer(chat::message(&choice["message"]));
            message.finish_reason = choice["finish_reason"].as_str().map(str::to_owned);
            message
        });
        self.messages = answers.next().into_iter().collect();
        self.alternatives = answers.collect();
        let first = self.messages.first();
        self.finish_reason = first.and_then(|first| first.finish_reason.clone());
    }
}

/// Sets the role of an answer that has none.
fn answer(mut message: Message) -> Message {
    if message.role.is_empty() {
        message.role = "assistant".to_owned();
    }
    message
}

/// The counts of a `usage` object, in the words of OpenAI or of Anthropic.
fn usage(usage: &Value) -> Usage {
    let Some(members) = usage.as_object() else {
        return Usage::default();
    };
    let count = |name: &str| usage[name].as_u64();
    let inside = |object: &str, name: &str| usage[object][name].as_u64();
    let cache_read = count("cache_read_input_tokens");
    let cache_write = count("cache_creation_input_tokens");
    let input = count("input_tokens");
    // Anthropic's input does not include what a cache served or took.
    let is_anthropic = cache_read.is_some() || cache_write.is_some();
    let sum = |input: u64| input + cache_read.unwrap_or(0) + cache_write.unwrap_or(0);
    Usage {
        input_tokens: match is_anthropic {
            true => input.map(sum),
            false => input.or(count("prompt_tokens")),
        },
        input_uncached_tokens: input.filter(|_| is_anthropic),
        output_tokens: count("output_tokens").or(count("completion_tokens")),
        reasoning_tokens: inside("completion_tokens_details", "reasoning_tokens")
            .or(inside("output_tokens_details", "reasoning_tokens")),
        cache_read_tokens: cache_read
            .or(inside("prompt_tokens_details", "cached_tokens"))
            .or(inside("input_tokens_details", "cached_tokens")),
        cache_write_tokens: cache_write,
        total_tokens: count("total_tokens"),
        cost_usd: usage["cost"].as_f64(),
        usage_details: Some(Value::Object(members.clone())),
        ..Usage::default()
    }
}
