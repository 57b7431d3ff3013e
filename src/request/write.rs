//! Writes a request as a body for OpenAI's chat completions or Anthropic's messages.

use serde_json::{Value, json};

use super::Request;
use super::message::{Message, kind, texts};

/// Anthropic's API needs a limit.
const MAX_TOKENS: u64 = 4096;
/// The result of a call that has none. Both APIs want one.
const NO_RESULT: &str = "The call has no result.";

/// The request as a body for OpenAI's chat completions.
///
/// ```
/// use serde_json::json;
/// use spanledger::request::{Request, openai};
/// let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
/// assert_eq!(openai(&Request::read(&body)), body);
/// ```
pub fn openai(request: &Request) -> Value {
    let mut messages = Vec::new();
    if let Some(system) = &request.system {
        messages.push(json!({"role": "system", "content": system}));
    }
    for message in request.after_prompt() {
        // The API wants the results right after the calls; what the user adds comes after them.
        let results = message.parts_of("tool_call_response");
        let before = messages.len();
        messages.extend(results.map(|part| {
            json!({"role": "tool", "tool_call_id": part["id"], "content": text_of(&part["response"])})
        }));
        if messages.len() - before < message.parts.len() {
            messages.push(openai_message(message));
        }
    }
    let tools = request
        .tools
        .iter()
        .filter_map(|one| tool(one, "parameters"));
    let tools = tools.map(|function| json!({"type": "function", "function": function}));
    let mut body = body(request, messages, tools.collect());
    if let Some(limit) = request.max_tokens {
        body["max_completion_tokens"] = limit.into();
    }
    if let Some(stop) = stop(request) {
        body["stop"] = stop.clone();
    }
    body
}

fn openai_message(message: &Message) -> Value {
    let role = match message.author() {
        role @ ("user" | "system") => role,
        _ => "assistant",
    };
    let text = texts(&message.parts).filter(|text| !text.is_empty());
    let is_image = |part: &&Value| matches!(kind(part), "image" | "image_url");
    let mut content = json!(text);
    if message.parts.iter().any(|part| is_image(&part)) {
        let parts = message.parts.iter().filter_map(|part| match kind(part) {
            "text" => Some(json!({"type": "text", "text": part["content"]})),
            "image_url" => Some(part.clone()),
            "image" => Some(json!({"type": "image_url", "image_url": {"url": image_url(part)}})),
            _ => None,
        });
        content = parts.collect();
    }
    let mut out = json!({"role": role, "content": content});
    let calls: Vec<_> = message.parts_of("tool_call").map(openai_call).collect();
    if !calls.is_empty() {
        out["tool_calls"] = calls.into();
    } else if out["content"].is_null() {
        out["content"] = "".into();
    }
    out
}

fn openai_call(part: &Value) -> Value {
    let arguments = match &part["arguments"] {
        Value::String(text) => text.clone(),
        Value::Null => "{}".to_owned(),
        value => value.to_string(),
    };
    let function = json!({"name": part["name"], "arguments": arguments});
    json!({"id": part["id"], "type": "function", "function": function})
}

/// The request as a body for Anthropic's messages.
///
/// ```
/// use serde_json::json;
/// use spanledger::request::{Request, anthropic};
/// let body = json!({"model": "m", "system": "Be brief.", "max_tokens": 9, "messages": [
///     {"role": "user", "content": [{"type": "text", "text": "hi"}]},
/// ]});
/// assert_eq!(anthropic(&Request::read(&body)), body);
/// ```
pub fn anthropic(request: &Request) -> Value {
    let mut messages = Vec::new();
    let mut system: Vec<String> = request.system.clone().into_iter().collect();
    for message in request.after_prompt() {
        if message.is_system() {
            system.extend(message.text_of_parts());
            continue;
        }
        let is_call = |part: &&Value| kind(part) == "tool_call";
        let role = match message.author() {
            "user" | "tool" if !message.parts.iter().any(|part| is_call(&part)) => "user",
            _ => "assistant",
        };
        // Results come first in a message of the user.
        let results = message.parts_of("tool_call_response").map(tool_result);
        let others = message.parts.iter().filter_map(block);
        add(&mut messages, role, results.chain(others).collect());
    }
    let tools = request
        .tools
        .iter()
        .filter_map(|one| tool(one, "input_schema"));
    let mut body = body(request, messages, tools.collect());
    body["max_tokens"] = request.max_tokens.unwrap_or(MAX_TOKENS).into();
    if let Some(temperature) = request.temperature {
        // The API takes no higher one.
        body["temperature"] = temperature.min(1.0).into();
    }
    if !system.is_empty() {
        body["system"] = system.join("\n\n").into();
    }
    if let Some(stop) = stop(request) {
        body["stop_sequences"] = match stop {
            Value::String(_) => json!([stop]),
            list => list.clone(),
        };
    }
    body
}

/// A part as a block of Anthropic's API. Reasoning is left out: the API takes it only with its signature.
fn block(part: &Value) -> Option<Value> {
    let text = part["content"].as_str().or_else(|| part["text"].as_str());
    match kind(part) {
        "text" | "refusal" => {
            let text = text.filter(|text| !text.trim().is_empty())?;
            Some(json!({"type": "text", "text": text}))
        }
        "tool_call" => {
            let input = match &part["arguments"] {
                object @ Value::Object(_) => object.clone(),
                Value::Null => json!({}),
                other => json!({"input": other}),
            };
            Some(
                json!({"type": "tool_use", "id": part["id"], "name": part["name"], "input": input}),
            )
        }
        "image" | "document" => Some(part.clone()),
        "image_url" => {
            let url = part["image_url"]["url"].as_str()?;
            let data = url
                .strip_prefix("data:")
                .and_then(|data| data.split_once(";base64,"));
            let source = match data {
                Some((media, data)) => json!({"type": "base64", "media_type": media, "data": data}),
                None => json!({"type": "url", "url": url}),
            };
            Some(json!({"type": "image", "source": source}))
        }
        _ => None,
    }
}

fn tool_result(part: &Value) -> Value {
    let mut result = json!({
        "type": "tool_result",
        "tool_use_id": part["id"],
        "content": text_of(&part["response"]),
    });
    if part["is_error"] == true || part["response"].is_null() {
        result["is_error"] = true.into();
    }
    result
}

/// The URL of an image of Anthropic's API.
fn image_url(part: &Value) -> String {
    let source = &part["source"];
    let text = |name: &str| source[name].as_str().unwrap_or_default();
    match text("type") {
        "url" => text("url").to_owned(),
        _ => format!("data:{};base64,{}", text("media_type"), text("data")),
    }
}

/// A result as one text.
fn text_of(response: &Value) -> String {
    match response {
        Value::Null => NO_RESULT.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn stop(request: &Request) -> Option<&Value> {
    let params = &request.params;
    params.get("stop").or_else(|| params.get("stop_sequences"))
}

/// The members that both APIs have.
fn body(request: &Request, messages: Vec<Value>, tools: Vec<Value>) -> Value {
    let mut body = json!({"model": request.model.as_deref().unwrap_or("unknown")});
    body["messages"] = messages.into();
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.into();
    }
    if let Some(top_p) = request.params.get("top_p") {
        body["top_p"] = top_p.clone();
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

/// Adds content to the last message if that has the same role: roles must alternate.
fn add(messages: &mut Vec<Value>, role: &str, content: Vec<Value>) {
    if content.is_empty() {
        return;
    }
    match messages.last_mut() {
        Some(last) if last["role"] == role => {
            if let Some(known) = last["content"].as_array_mut() {
                known.extend(content);
            }
        }
        _ => messages.push(json!({"role": role, "content": content})),
    }
}
