//! The body of a request to OpenAI's chat completions.

use serde_json::Value;

use super::{At, Checked, are_different, text_or};

const MEMBERS: [&str; 35] = [
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];

pub fn check(body: &At<'_>) -> Checked {
    body.only(&MEMBERS)?;
    body.need("model")?.some_text()?;
    for name in ["max_tokens", "max_completion_tokens", "n"] {
        body.optional(name, At::is_count)?;
    }
    for name in ["stream", "store", "logprobs", "parallel_tool_calls"] {
        body.optional(name, At::is_flag)?;
    }
    body.optional("temperature", |it| it.is_number(0.0..=2.0))?;
    body.optional("top_p", |it| it.is_number(0.0..=1.0))?;
    body.optional("stop", |stop| text_or(stop, |one| one.is_text()))?;
    body.optional("tools", tools)?;
    body.optional("tool_choice", tool_choice)?;
    messages(&body.need("messages")?)
}

fn tools(tools: &At<'_>) -> Checked {
    let mut names = Vec::new();
    for tool in tools.items()? {
        tool.only(&["type", "function"])?;
        tool.need("type")?.is_one_of(&["function"])?;
        let function = tool.need("function")?;
        function.only(&["name", "description", "parameters", "strict"])?;
        function.need("name")?.is_name(64)?;
        names.push(function.need("name")?.text()?);
        function.optional("description", At::is_text)?;
        function.optional("parameters", |schema| schema.object().map(drop))?;
        function.optional("strict", At::is_flag)?;
    }
    are_different(names, tools)
}

fn tool_choice(choice: &At<'_>) -> Checked {
    match choice.value {
        Value::String(_) => choice.is_one_of(&["none", "auto", "required"]),
        _ => {
            choice.only(&["type", "function"])?;
            choice.need("function")?.need("name")?.is_name(64)
        }
    }
}

/// Messages of each role, and the results of calls right after these.
fn messages(messages: &At<'_>) -> Checked {
    let mut unanswered: Vec<&str> = Vec::new();
    for message in messages.items()? {
        let role = message.need("role")?.text()?;
        if role == "tool" {
            message.only(&["role", "content", "tool_call_id"])?;
            text_or(&message.need("content")?, text_part)?;
            let id = message.need("tool_call_id")?;
            let Some(at) = unanswered
                .iter()
                .position(|call| Some(*call) == id.value.as_str())
            else {
                return id.wrong("no call before it has this id, or it has a result already");
            };
            unanswered.remove(at);
            continue;
        }
        if !unanswered.is_empty() {
            return message.wrong(&format!("the calls {unanswered:?} have no result"));
        }
        match role {
            "system" | "developer" => {
                message.only(&["role", "content", "name"])?;
                text_or(&message.need("content")?, text_part)?;
            }
            "user" => {
                message.only(&["role", "content", "name"])?;
                text_or(&message.need("content")?, user_part)?;
            }
            "assistant" => unanswered = assistant(&message)?,
            _ => return message.wrong("unknown role"),
        }
    }
    match unanswered.is_empty() {
        true => Ok(()),
        false => messages.wrong(&format!("the calls {unanswered:?} have no result")),
    }
}

/// A message of the model. Returns the ids of its calls.
fn assistant<'a>(message: &At<'a>) -> Checked<Vec<&'a str>> {
    message.only(&["role", "content", "name", "refusal", "audio", "tool_calls"])?;
    message.optional("content", |content| text_or(content, answer_part))?;
    message.optional("refusal", At::is_text)?;
    let Some(calls) = message.get("tool_calls") else {
        message
            .need("content")
            .or_else(|_| message.need("refusal"))?;
        return Ok(Vec::new());
    };
    let mut ids = Vec::new();
    for call in calls.items()? {
        call.only(&["id", "type", "function"])?;
        call.need("type")?.is_one_of(&["function"])?;
        ids.push(call.need("id")?.some_text()?);
        let function = call.need("function")?;
        function.only(&["name", "arguments"])?;
        function.need("name")?.is_name(64)?;
        let arguments = function.need("arguments")?;
        if serde_json::from_str::<serde_json::Map<String, Value>>(arguments.text()?).is_err() {
            return arguments.wrong("not the text of a JSON object");
        }
    }
    Ok(ids)
}

fn text_part(part: &At<'_>) -> Checked {
    part.only(&["type", "text"])?;
    part.need("type")?.is_one_of(&["text"])?;
    part.need("text")?.is_text()
}

fn answer_part(part: &At<'_>) -> Checked {
    match part.need("type")?.text()? {
        "refusal" => {
            part.only(&["type", "refusal"])?;
            part.need("refusal")?.is_text()
        }
        _ => text_part(part),
    }
}

fn user_part(part: &At<'_>) -> Checked {
    match part.need("type")?.text()? {
        "image_url" => {
            part.only(&["type", "image_url"])?;
            let image = part.need("image_url")?;
            image.only(&["url", "detail"])?;
            image.need("url")?.some_text()?;
            image.optional("detail", |it| it.is_one_of(&["auto", "low", "high"]))
        }
        "input_audio" => part.only(&["type", "input_audio"]),
        "file" => part.only(&["type", "file"]),
        _ => text_part(part),
    }
}
