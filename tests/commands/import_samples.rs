//! A small session in each of the text formats that can be imported. Its tool calls have what a test gives them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// How a format is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An object on each line.
    Lines,
    /// One document.
    Document,
    /// A directory with `run.json` and `events.jsonl`.
    Directory,
}

/// The text formats.
pub const FORMATS: [(&str, Shape); 10] = [
    ("agentdbg", Shape::Directory),
    ("atif", Shape::Document),
    ("chat-json", Shape::Document),
    ("chat-jsonl", Shape::Lines),
    ("claude-code", Shape::Lines),
    ("codex", Shape::Lines),
    ("otlp-json", Shape::Lines),
    ("prime", Shape::Document),
    ("trajectory", Shape::Lines),
    ("trial", Shape::Document),
];

/// When the sessions begin, in milliseconds.
const START: u64 = 1_794_297_600_000;

fn time(second: usize) -> String {
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("2026-11-10T{hour:02}:{minute:02}:{second:02}.000Z")
}

/// The lines of a session with a tool call for each of `inputs`.
pub fn lines(format: &str, inputs: &[Value]) -> Vec<Value> {
    let inputs = inputs.iter().enumerate();
    match format {
        "agentdbg" => inputs.map(|(n, input)| agentdbg_event(n, input)).collect(),
        "chat-jsonl" => {
            let mut all = vec![json!({"type": "session", "data": chat_session()})];
            for (n, input) in inputs {
                let [message, part] = chat_message(n, input);
                all.push(json!({"type": "message", "data": message}));
                all.push(json!({"type": "part", "data": part}));
            }
            all
        }
        "claude-code" => inputs
            .flat_map(|(n, input)| claude_code_call(n, input))
            .collect(),
        "codex" => {
            let meta = json!({"id": "rollout", "timestamp": time(0), "cwd": "/home/ada/app", "cli_version": "0.169.0"});
            let first = json!({"timestamp": time(0), "type": "session_meta", "payload": meta});
            let calls = inputs.map(|(n, input)| {
                let call = json!({"type": "function_call", "name": "shell", "arguments": input.to_string(), "call_id": format!("c{n}")});
                json!({"timestamp": time(n), "type": "response_item", "payload": call})
            });
            [first].into_iter().chain(calls).collect()
        }
        "otlp-json" => inputs.map(|(n, input)| otlp_request(n, input)).collect(),
        "trajectory" => {
            let entry = |(n, input)| json!({"step": n, "role": "tool_call", "tool_name": "shell", "arguments": input, "timestamp": time(n)});
            inputs.map(entry).collect()
        }
        other => panic!("{other} has no lines"),
    }
}

/// The document of a session with a tool call for each of `inputs`.
pub fn document(format: &str, inputs: &[Value]) -> Value {
    let numbered = inputs.iter().enumerate();
    match format {
        "agentdbg" => {
            json!({"spec_version": "0.1", "run_id": "run", "run_name": "run", "started_at": time(0), "ended_at": null, "status": "running", "extra": inputs})
        }
        "atif" => {
            let step = |(n, input)| {
                json!({
                    "step_id": n + 1, "timestamp": time(n), "source": "agent", "message": "I look.",
                    "tool_calls": [{"tool_call_id": format!("c{n}"), "function_name": "shell", "arguments": input}],
                })
            };
            json!({
                "schema_version": "ATIF-v1.6", "session_id": "trajectory",
                "agent": {"name": "agent", "version": "1", "model_name": "m"}, "steps": numbered.map(step).collect::<Vec<_>>(),
            })
        }
        "chat-json" => {
            let messages = numbered.map(|(n, input)| {
                let [message, part] = chat_message(n, input);
                json!({"message": message, "parts": [part]})
            });
            json!({"session": chat_session(), "messages": messages.collect::<Vec<_>>()})
        }
        "prime" => json!({"evaluation_id": "ev", "samples": [{
            "sample_id": "s", "prompt": "Go.", "created_at": time(0),
            "completion": [{"role": "assistant", "content": "Done."}], "info": {"notes": inputs},
        }]}),
        "trial" => json!({
            "trial_id": "t", "experiment_id": "exp", "timestamp": time(0),
            "inputs": {"instruction": "Go."}, "notes": inputs,
        }),
        other => panic!("{other} has no document"),
    }
}

/// Writes a session with a tool call for each of `inputs`. Returns the path to import.
pub fn write(format: &str, shape: Shape, dir: &Path, inputs: &[Value]) -> PathBuf {
    let path = dir.join(format!("{format}-source"));
    let text = || {
        lines(format, inputs)
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    match shape {
        Shape::Lines => fs::write(&path, text()).unwrap(),
        Shape::Document => fs::write(&path, document(format, inputs).to_string()).unwrap(),
        Shape::Directory => {
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("run.json"), document(format, inputs).to_string()).unwrap();
            fs::write(path.join("events.jsonl"), text()).unwrap();
        }
    }
    path
}

fn agentdbg_event(n: usize, input: &Value) -> Value {
    json!({
        "spec_version": "0.1", "event_id": format!("e{n}"), "run_id": "run", "event_type": "TOOL_CALL", "ts": time(n),
        "payload": {"tool_name": "shell", "args": input, "result": null, "status": "ok"},
    })
}

fn chat_session() -> Value {
    json!({"id": "chat", "agent": "agent", "created_at": START, "updated_at": START})
}

/// A message with a tool call, and its part.
fn chat_message(n: usize, input: &Value) -> [Value; 2] {
    let at = START + n as u64;
    let data = json!({"type": "tool-shell", "toolCallId": format!("c{n}"), "state": "input-available", "input": input});
    [
        json!({"id": format!("m{n}"), "session_id": "chat", "role": "assistant", "created_at": at, "updated_at": at}),
        json!({"id": format!("p{n}"), "message_id": format!("m{n}"), "index": 0, "type": "tool-shell", "data_json": data.to_string(), "created_at": at, "updated_at": at}),
    ]
}

/// A call and its result.
fn claude_code_call(n: usize, input: &Value) -> [Value; 2] {
    let entry = |kind: &str, message: Value| {
        json!({
            "type": kind, "uuid": format!("{kind}{n}"), "parentUuid": null, "sessionId": "claude", "isSidechain": false,
            "timestamp": time(n), "cwd": "/home/ada/app", "version": "2.0.1", "message": message,
        })
    };
    let call = json!({"type": "tool_use", "id": format!("c{n}"), "name": "Bash", "input": input});
    let result = json!({"type": "tool_result", "tool_use_id": format!("c{n}"), "content": "done"});
    let answer = json!({"id": format!("msg{n}"), "role": "assistant", "model": "m", "content": [call], "usage": {"input_tokens": 1, "output_tokens": 1}});
    [
        entry("assistant", answer),
        entry("user", json!({"role": "user", "content": [result]})),
    ]
}

/// A request with the span of a tool call.
fn otlp_request(n: usize, input: &Value) -> Value {
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let start = (START + n as u64) * 1_000_000;
    let span = json!({
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": format!("{:016x}", n + 1), "name": "execute_tool shell",
        "startTimeUnixNano": start.to_string(), "endTimeUnixNano": (start + 1).to_string(),
        "attributes": [
            text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", "shell"),
            text("gen_ai.conversation.id", "spans"), text("gen_ai.tool.call.arguments", &input.to_string()),
        ],
    });
    json!({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [span]}]}]})
}
