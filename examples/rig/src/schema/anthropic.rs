//! The body of a request to Anthropic's messages.

use serde_json::Value;

use super::{At, Checked, are_different, text_or};

const MEMBERS: [&str; 20] = [
    "cache_control",
    "container",
    "context_management",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

pub fn check(body: &At<'_>) -> Checked {
    body.only(&MEMBERS)?;
    body.need("model")?.some_text()?;
    body.need("max_tokens")?.is_count()?;
    body.optional("stream", At::is_flag)?;
    body.optional("temperature", |it| it.is_number(0.0..=1.0))?;
    body.optional("top_p", |it| it.is_number(0.0..=1.0))?;
    body.optional("system", |system| text_or(system, text_block))?;
    body.optional("stop_sequences", |stop| {
        stop.items()?.iter().try_for_each(At::is_text)
    })?;
    body.optional("tools", tools)?;
    body.optional("tool_choice", |choice| {
        let kinds = ["auto", "any", "tool", "none"];
        choice.need("type")?.is_one_of(&kinds)
    })?;
    messages(&body.need("messages")?)
}

fn tools(tools: &At<'_>) -> Checked {
    let mut names = Vec::new();
    for tool in tools.items()? {
        tool.only(&[
            "allowed_callers",
            "cache_control",
            "defer_loading",
            "description",
            "eager_input_streaming",
            "input_examples",
            "input_schema",
            "name",
            "strict",
            "type",
        ])?;
        tool.need("name")?.is_name(128)?;
        names.push(tool.need("name")?.text()?);
        tool.optional("description", At::is_text)?;
        let schema = tool.need("input_schema")?;
        schema.need("type")?.is_one_of(&["object"])?;
    }
    are_different(names, tools)
}

/// Messages of the user and the model, and the results of calls in the message after these.
fn messages(messages: &At<'_>) -> Checked {
    let mut unanswered: Vec<&str> = Vec::new();
    for (at, message) in messages.items()?.iter().enumerate() {
        message.only(&["role", "content"])?;
        let role = message.need("role")?;
        role.is_one_of(&["user", "assistant"])?;
        let role = role.text()?;
        if at == 0 && role != "user" {
            return message.wrong("the first message is not the user's");
        }
        let content = message.need("content")?;
        let blocks = match content.value {
            Value::String(_) => content.some_text().map(|_| Vec::new())?,
            _ => content.items()?,
        };
        let results = answered(&blocks)?;
        let is_answered = unanswered.iter().all(|call| results.contains(call));
        if !is_answered || results.iter().any(|id| !unanswered.contains(id)) {
            let why =
                format!("the results are of {results:?}, the calls before are {unanswered:?}");
            return message.wrong(&why);
        }
        unanswered = Vec::new();
        for block in &blocks {
            unanswered.extend(self::block(role, block)?);
        }
    }
    match unanswered.is_empty() {
        true => Ok(()),
        false => messages.wrong(&format!("the calls {unanswered:?} have no result")),
    }
}

/// The calls that the results at the beginning of a message answer.
fn answered<'a>(blocks: &[At<'a>]) -> Checked<Vec<&'a str>> {
    let mut ids = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        if block.need("type")?.text()? == "tool_result" {
            if ids.len() != at {
                return block.wrong("a result after other content");
            }
            ids.push(block.need("tool_use_id")?.text()?);
        }
    }
    Ok(ids)
}

/// A block of a message. Returns the id of a call.
fn block<'a>(role: &str, block: &At<'a>) -> Checked<Option<&'a str>> {
    match (role, block.need("type")?.text()?) {
        ("assistant", "tool_use") => {
            block.only(&["type", "id", "name", "input", "cache_control"])?;
            block.need("id")?.is_name(usize::MAX)?;
            block.need("name")?.is_name(200)?;
            block.need("input")?.object()?;
            return block.need("id")?.text().map(Some);
        }
        ("assistant", "thinking") => {
            block.only(&["type", "thinking", "signature"])?;
            block.need("thinking")?.is_text()?;
            block.need("signature")?.some_text()?;
        }
        ("assistant", "redacted_thinking") => {
            block.only(&["type", "data"])?;
            block.need("data")?.is_text()?;
        }
        ("user", "tool_result") => {
            block.only(&[
                "type",
                "tool_use_id",
                "content",
                "is_error",
                "cache_control",
            ])?;
            block.optional("is_error", At::is_flag)?;
            block.optional("content", |content| text_or(content, shown_block))?;
        }
        ("user", _) => shown_block(block)?,
        _ => text_block(block)?,
    }
    Ok(None)
}

/// A text, an image or a document.
fn shown_block(block: &At<'_>) -> Checked {
    let kind = block.need("type")?.text()?;
    if !matches!(kind, "image" | "document") {
        return text_block(block);
    }
    block.only(&[
        "type",
        "source",
        "title",
        "context",
        "citations",
        "cache_control",
    ])?;
    let source = block.need("source")?;
    match source.need("type")?.text()? {
        "base64" => {
            source.need("media_type")?.some_text()?;
            source.need("data")?.some_text().map(drop)
        }
        "url" => source.need("url")?.some_text().map(drop),
        "text" | "content" if kind == "document" => Ok(()),
        "file" => source.need("file_id")?.some_text().map(drop),
        _ => source.wrong("unknown type"),
    }
}

fn text_block(block: &At<'_>) -> Checked {
    block.only(&["type", "text", "citations", "cache_control"])?;
    block.need("type")?.is_one_of(&["text"])?;
    block.need("text")?.some_text().map(drop)
}
