//! A model call of a plain HTTP client, recorded as it was sent and answered: two lines.
//!
//! The server is scripted and runs in the program. An agent would send the same bytes to a real one.
//!
//! ```sh
//! cargo run --example http_client
//! spanledger --root /tmp/spanledger-examples replay last --inputs
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;

use serde_json::{Value, json};
use spanledger::{Outcome, SpanExt, new_session_id, spans};

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let guard = spanledger::builder().root(root()).try_init()?;
    let id = new_session_id();
    let server = start_server()?;

    let run = spans::session_run(&id, "http_client").start();
    run.in_scope(|| agent(&server))?;
    run.finish(Outcome::Ok);
    drop(run);

    if let Err(lost) = guard.shutdown() {
        eprintln!("{lost}");
    }
    let dir = spanledger::read::session_dir(root(), &id);
    println!("trace: {}", dir.display());
    for line in spanledger::read::lines(&dir)? {
        println!("{:>5} {}", line.address(), line.kind);
    }
    Ok(())
}

/// One turn: the model calls a tool, and answers.
fn agent(server: &str) -> Result<(), Failed> {
    let turn = spans::session_turn().trigger("user").start();
    let _in_turn = turn.enter();
    let mut messages = vec![
        json!({"role": "system", "content": "You are a careful planner. Log in with password=x9KfQ2mZ7pLw."}),
        json!({"role": "user", "content": "How many files are here?"}),
    ];
    loop {
        let answer = ask(server, &messages)?;
        let message = answer["choices"][0]["message"].clone();
        messages.push(message.clone());
        let calls = message["tool_calls"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        if calls.is_empty() {
            turn.finish(Outcome::Ok);
            return Ok(());
        }
        for call in calls {
            messages.push(
                json!({"role": "tool", "tool_call_id": call["id"], "content": count_files(&call)}),
            );
        }
    }
}

/// A model call.
fn ask(server: &str, messages: &[Value]) -> Result<Value, Failed> {
    let body = json!({
        "model": "gpt-5",
        "temperature": 0.2,
        "messages": messages,
        "tools": [{"type": "function", "function": {
            "name": "count_files",
            "description": "Counts the files in a directory.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        }}],
    });
    let call = spans::model_call("openai", "gpt-5").start();
    call.request(&body); // the first line
    match post(server, &body) {
        Ok(answer) => {
            call.response(&answer); // the second line
            call.finish(Outcome::Ok);
            Ok(answer)
        }
        Err(error) => {
            call.record_error(&error);
            call.finish(Outcome::Error);
            Err(error.into())
        }
    }
}

fn count_files(call: &Value) -> String {
    let id = call["id"].as_str().unwrap_or_default();
    let tool = spans::tool_call("count_files", id)
        .args(json!({"path": "."}))
        .start();
    let count = std::fs::read_dir(".").map_or(0, Iterator::count);
    tool.record_result(&count);
    tool.finish(Outcome::Ok);
    count.to_string()
}

/// What an HTTP client does: any other one would do.
fn post(server: &str, body: &Value) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect(server)?;
    let body = body.to_string();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {server}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(serde_json::from_slice(&read_body(stream)?)?)
}

/// The body of a request or an answer, by its length.
fn read_body(stream: TcpStream) -> std::io::Result<Vec<u8>> {
    let mut stream = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while stream.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// A server that asks for a tool first, and answers when it has the result. If `SPANLEDGER_RECEIVED` names a file,
/// it appends each body that it receives.
fn start_server() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream);
        }
    });
    Ok(address)
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let received = read_body(stream.try_clone()?)?;
    if let Some(path) = std::env::var_os("SPANLEDGER_RECEIVED") {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)?;
        file.write_all(&received)?;
        file.write_all(b"\n")?;
    }
    let request: Value = serde_json::from_slice(&received)?;
    let messages = request["messages"].as_array().map_or(0, Vec::len);
    let (message, reason) = match messages {
        2 => {
            let function = json!({"name": "count_files", "arguments": "{\"path\":\".\"}"});
            let call = json!({"id": "call_1", "type": "function", "function": function});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            (message, "tool_calls")
        }
        _ => (
            json!({"role": "assistant", "content": "A few files."}),
            "stop",
        ),
    };
    let body = json!({
        "id": format!("chatcmpl-{messages}"), "object": "chat.completion", "model": "gpt-5-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 100 + messages, "completion_tokens": 10, "total_tokens": 110 + messages},
    })
    .to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn root() -> PathBuf {
    std::env::var_os("SPANLEDGER_DIR").map_or_else(
        || std::env::temp_dir().join("spanledger-examples"),
        PathBuf::from,
    )
}
