//! `openai-messages` and `anthropic-messages`: the conversation as it is now, as the body of a request.

use serde_json::{Map, Value, json};

use super::conversation::{Conversation, Entry};
use super::feed::Fed;
use super::{Exporter, Rows};
use crate::session::Role;

/// Anthropic's API needs a limit.
const MAX_TOKENS: u64 = 4096;
/// The result of a call that has none. Both APIs want one.
const NO_RESULT: &str = "The call has no result.";

#[derive(Debug)]
pub(super) struct Messages {
    conversation: Conversation,
    body: fn(&Conversation) -> Value,
}

impl Messages {
    pub fn openai() -> Self {
        Self {
            conversation: Conversation::with_plain_ids(),
            body: openai,
        }
    }

    pub fn anthropic() -> Self {
        Self {
            body: anthropic,
            ..Self::openai()
        }
    }
}

impl Exporter for Messages {
    fn add(&mut self, fed: &Fed, _: &mut Rows) {
        self.conversation.add(fed);
    }

    fn end(&mut self, rows: &mut Rows) {
        rows.once(&(self.body)(&self.conversation));
    }
}

/// The members that both APIs have.
fn body(conversation: &Conversation, messages: Vec<Value>, tools: Vec<Value>) -> Value {
    let mut body = json!({
        "model": conversation.model.as_deref().unwrap_or("unknown"),
        "messages": messages,
    });
    if let Some(temperature) = conversation.temperature {
        body["temperature"] = temperature.into();
    }
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    body
}

/// The members of a tool in a catalog, with the schema under another name.
fn tool(tool: &Value, schema: &str) -> Option<Value> {
    let mut out = json!({"name": tool.get("name")?.as_str()?});
    if let Some(description) = tool.get("description").and_then(Value::as_str) {
        out["description"] = description.into();
    }
    let given = ["schema", "parameters", "input_schema"].into_iter();
    let given = given
        .filter_map(|name| tool.get(name))
        .find(|given| given.is_object());
    let any = json!({"type": "object", "properties": {}});
    out[schema] = given.cloned().unwrap_or(any);
    Some(out)
}

fn openai(conversation: &Conversation) -> Value {
    let mut messages = Vec::new();
    if let Some(system) = &conversation.system {
        messages.push(json!({"role": "system", "content": system}));
    }
    for entry in conversation.in_context() {
        let role = match entry.role {
            Some(Role::User) => "user",
            Some(Role::System) => "system",
            _ => "assistant",
        };
        let content = (!entry.text.is_empty()).then_some(&entry.text);
        let mut message = json!({"role": role, "content": content});
        let calls = entry.calls.iter().map(|call| {
            let function = json!({"name": call.name, "arguments": Value::Object(call.args.clone()).to_string()});
            json!({"id": call.id, "type": "function", "function": function})
        });
        if !entry.calls.is_empty() {
            message["tool_calls"] = calls.collect();
        }
        messages.push(message);
        for call in &entry.calls {
            let output = call.output.as_deref().unwrap_or(NO_RESULT);
            messages.push(json!({"role": "tool", "tool_call_id": call.id, "content": output}));
        }
    }
    let tools = conversation
        .tools
        .iter()
        .filter_map(|one| tool(one, "parameters"));
    let tools = tools.map(|function| json!({"type": "function", "function": function}));
    let mut body = body(conversation, messages, tools.collect());
    if let Some(limit) = conversation.max_tokens {
        body["max_completion_tokens"] = limit.into();
    }
    body
}

fn anthropic(conversation: &Conversation) -> Value {
    let mut messages = Vec::new();
    let mut system: Vec<&str> = conversation.system.as_deref().into_iter().collect();
    for entry in conversation.in_context() {
        match entry.role {
            Some(Role::System) => system.push(&entry.text),
            Some(Role::User) => add(&mut messages, "user", vec![text(entry)]),
            _ => {
                let said = (!entry.text.trim().is_empty()).then(|| text(entry));
                let calls = entry.calls.iter().map(|call| {
                    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.args})
                });
                add(
                    &mut messages,
                    "assistant",
                    said.into_iter().chain(calls).collect(),
                );
                add(&mut messages, "user", results(entry));
            }
        }
    }
    let tools = conversation
        .tools
        .iter()
        .filter_map(|one| tool(one, "input_schema"));
    let mut body = body(conversation, messages, tools.collect());
    body["max_tokens"] = conversation.max_tokens.unwrap_or(MAX_TOKENS).into();
    if !system.is_empty() {
        body["system"] = system.join("\n\n").into();
    }
    body
}

fn text(entry: &Entry) -> Value {
    json!({"type": "text", "text": entry.text})
}

fn results(entry: &Entry) -> Vec<Value> {
    let results = entry.calls.iter().map(|call| {
        let content = call.output.as_deref().unwrap_or(NO_RESULT);
        let mut result = Map::from_iter([
            ("type".into(), "tool_result".into()),
            ("tool_use_id".into(), call.id.as_str().into()),
            ("content".into(), content.into()),
        ]);
        if !call.ok || call.output.is_none() {
            result.insert("is_error".into(), true.into());
        }
        result.into()
    });
    results.collect()
}

/// Adds content to the last message if that has the same role: roles must alternate.
fn add(messages: &mut Vec<Value>, role: &str, content: Vec<Value>) {
    if content.is_empty() {
        return;
    }
    match messages.last_mut() {
        Some(last) if last["role"] == role => {
            let known = last["content"].as_array_mut();
            known
                .into_iter()
                .for_each(|known| known.extend(content.iter().cloned()));
        }
        _ => messages.push(json!({"role": role, "content": content})),
    }
}
