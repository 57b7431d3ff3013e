//! Answers as the OpenAI and the Anthropic API do, whole or streamed, by a script. It keeps no state: each
//! request contains the conversation so far. A request that the API would not accept is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::options::Script;
use crate::schema;

/// The next answer of the model.
enum Step {
    /// A tool, with its arguments.
    Call(&'static str, Value),
    Say(&'static str),
}

fn step(script: Script, answers_before: usize) -> Step {
    match (script, answers_before) {
        (Script::Calculate, 0) => Step::Call("add", json!({"x": 19, "y": 23})),
        (Script::Calculate, 1) => Step::Call("divide", json!({"x": 42, "y": 2})),
        (Script::Calculate, _) => Step::Say("It is 21."),
        (Script::Fail, 0) => Step::Call("divide", json!({"x": 42, "y": 0})),
        (Script::Fail, _) => Step::Say("That can't be done."),
        (Script::Hang, _) => Step::Call("wait", json!({"for": "ever"})),
    }
}

/// Starts it on a free port. Returns its address.
pub async fn start(script: Script, fail: (usize, u16)) -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let to_fail = Arc::new(AtomicUsize::new(fail.0));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let to_fail = Arc::clone(&to_fail);
            tokio::spawn(async move {
                let _ = serve(stream, script, &to_fail, fail.1).await;
            });
        }
    });
    Ok(address)
}

async fn serve(
    stream: TcpStream,
    script: Script,
    to_fail: &AtomicUsize,
    status: u16,
) -> anyhow::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let request: Value = serde_json::from_slice(&body)?;
    let is_openai = path.ends_with("/chat/completions");
    let refused = match is_openai {
        true => schema::openai(&request),
        false => schema::anthropic(&request),
    };
    let failing = to_fail.try_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    let (status, kind, body) = if failing.is_ok() {
        let body = json!({"error": {"type": "server_error", "message": "not now"}});
        (status, "application/json", body.to_string())
    } else if let Err(why) = refused {
        let body = json!({"error": {"type": "invalid_request_error", "message": why}});
        (400, "application/json", body.to_string())
    } else {
        let messages = request["messages"].as_array();
        let by_model = |message: &&Value| message["role"] == "assistant";
        let before = messages.into_iter().flatten().filter(by_model).count();
        let step = step(script, before);
        let model = request["model"].as_str().unwrap_or_default();
        let answer = match (is_openai, request["stream"] == true) {
            (true, false) => openai(model, before, &step).to_string(),
            (true, true) => openai_stream(model, before, &step),
            (false, false) => anthropic(model, before, &step).to_string(),
            (false, true) => anthropic_stream(model, before, &step),
        };
        let kind = match request["stream"] == true {
            true => "text/event-stream",
            false => "application/json",
        };
        (200, kind, answer)
    };
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\nx-request-id: req_{status}\r\n\
         request-id: req_{status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}

/// Grows with each call, so that the number identifies the call.
fn tokens(before: usize) -> (usize, usize) {
    (100 + before, 10 + before)
}

fn openai_usage(before: usize) -> Value {
    let (input, output) = tokens(before);
    json!({
        "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
        "prompt_tokens_details": {"cached_tokens": 64},
    })
}

fn openai(model: &str, before: usize, step: &Step) -> Value {
    let (message, reason) = match step {
        Step::Call(name, arguments) => {
            let call = json!({
                "id": format!("call_{before}"), "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()},
            });
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            (message, "tool_calls")
        }
        Step::Say(text) => (json!({"role": "assistant", "content": text}), "stop"),
    };
    json!({
        "id": format!("chatcmpl-{before}"), "object": "chat.completion", "created": 1, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": openai_usage(before),
    })
}

fn openai_stream(model: &str, before: usize, step: &Step) -> String {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({
            "id": format!("chatcmpl-{before}"), "object": "chat.completion.chunk", "created": 1,
            "model": model, "choices": choices, "usage": usage,
        });
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value| {
        chunk(
            json!([{"index": 0, "delta": delta, "finish_reason": null}]),
            Value::Null,
        )
    };
    let mut out = String::new();
    let reason = match step {
        Step::Call(name, arguments) => {
            let id = format!("call_{before}");
            let start = json!({"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
            out += &delta(json!({"role": "assistant", "content": null, "tool_calls": [start]}));
            let arguments = arguments.to_string();
            for piece in arguments.as_bytes().chunks(5) {
                let piece = String::from_utf8_lossy(piece);
                let piece = json!({"index": 0, "function": {"arguments": piece}});
                out += &delta(json!({"tool_calls": [piece]}));
            }
            "tool_calls"
        }
        Step::Say(text) => {
            for word in text.split_inclusive(' ') {
                out += &delta(json!({"role": "assistant", "content": word}));
            }
            "stop"
        }
    };
    out += &chunk(
        json!([{"index": 0, "delta": {}, "finish_reason": reason}]),
        Value::Null,
    );
    out += &chunk(json!([]), openai_usage(before));
    out += "data: [DONE]\n\n";
    out
}

fn anthropic_usage(before: usize) -> Value {
    let (input, output) = tokens(before);
    json!({
        "input_tokens": input, "output_tokens": output,
        "cache_read_input_tokens": 64, "cache_creation_input_tokens": 8,
    })
}

fn anthropic(model: &str, before: usize, step: &Step) -> Value {
    let (content, reason) = match step {
        Step::Call(name, input) => {
            let id = format!("toolu_{before}");
            let call = json!({"type": "tool_use", "id": id, "name": name, "input": input});
            (call, "tool_use")
        }
        Step::Say(text) => (json!({"type": "text", "text": text}), "end_turn"),
    };
    json!({
        "id": format!("msg_{before}"), "type": "message", "role": "assistant", "model": model,
        "content": [content], "stop_reason": reason, "stop_sequence": null,
        "usage": anthropic_usage(before),
    })
}

fn anthropic_stream(model: &str, before: usize, step: &Step) -> String {
    let event = |event: Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        format!("event: {kind}\ndata: {event}\n\n")
    };
    let mut out = event(json!({"type": "message_start", "message": {
        "id": format!("msg_{before}"), "type": "message", "role": "assistant", "model": model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": anthropic_usage(before),
    }}));
    let delta =
        |delta: Value| event(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    let reason = match step {
        Step::Call(name, input) => {
            let id = format!("toolu_{before}");
            let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            out +=
                &event(json!({"type": "content_block_start", "index": 0, "content_block": block}));
            let input = input.to_string();
            for piece in input.as_bytes().chunks(5) {
                let piece = String::from_utf8_lossy(piece);
                out += &delta(json!({"type": "input_json_delta", "partial_json": piece}));
            }
            "tool_use"
        }
        Step::Say(text) => {
            let block = json!({"type": "text", "text": ""});
            out +=
                &event(json!({"type": "content_block_start", "index": 0, "content_block": block}));
            for word in text.split_inclusive(' ') {
                out += &delta(json!({"type": "text_delta", "text": word}));
            }
            "end_turn"
        }
    };
    out += &event(json!({"type": "content_block_stop", "index": 0}));
    let (_, output) = tokens(before);
    out += &event(json!({
        "type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": output},
    }));
    out += &event(json!({"type": "message_stop"}));
    out
}
