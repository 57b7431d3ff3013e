//! What `replay --inputs` prints is a request by the types of the Python packages `openai` and `anthropic`.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::cli::run;
use crate::support::scripted::{How, Script};
use crate::support::skipped::skipped;
use crate::support::{Recording, rich_session};

/// Checks bodies by the types of the packages; prints for each what is wrong, or null.
const PYTHON: &str = r#"
import json, sys
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming as Anthropic
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as OpenAI
from pydantic import TypeAdapter

def read(value):
    # Iterables are checked while they are read.
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)) or hasattr(value, "__next__"):
        for item in value:
            read(item)

types = {"openai": TypeAdapter(OpenAI), "anthropic": TypeAdapter(Anthropic)}
for line in sys.stdin:
    api, body = json.loads(line)
    try:
        read(types[api].validate_python(body))
        print("null")
    except ValueError as error:
        print(json.dumps(str(error)[:400]))
"#;

/// What is wrong with each body.
fn check(python: &std::ffi::OsStr, bodies: &[(&str, Value)]) -> Vec<Value> {
    let mut child = Command::new(python)
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input: String = bodies
        .iter()
        .map(|body| json!(body).to_string() + "\n")
        .collect();
    // The answers are short: they wait in the pipe.
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let answers = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    answers.collect()
}

#[test]
fn inputs_have_the_types_of_the_python_packages() {
    let Some(python) = std::env::var_os("SPANLEDGER_OPENAI_PYTHON") else {
        return skipped("SPANLEDGER_OPENAI_PYTHON is not set; see .ci/install");
    };
    let mut bodies = Vec::new();
    let mut add = |root: &std::path::Path, session: &str| {
        for api in ["openai", "anthropic"] {
            for call in 1.. {
                let call = call.to_string();
                let args = ["replay", session, "--inputs", "--call", &call, "--as", api];
                let done = run(root, &args);
                if done.code == 2 {
                    break;
                }
                bodies.push((api, done.json()));
            }
        }
    };
    for how in [How::OpenAi, How::Anthropic, How::Events, How::Macros] {
        let recording = Recording::new();
        Script::new(4).record(&recording, "s", how, 1);
        add(recording.dir.path(), "s");
    }
    let rich = rich_session::record();
    add(rich.path(), rich_session::SESSION);
    assert!(bodies.len() > 30, "{}", bodies.len());
    for (wrong, body) in check(&python, &bodies).iter().zip(&bodies) {
        assert_eq!(*wrong, Value::Null, "{body:?}");
    }
    // The types do find what is wrong.
    let messages = json!([{"role": "user", "content": 7}]);
    let wrong = [
        ("openai", json!({"model": "m", "messages": messages})),
        (
            "anthropic",
            json!({"model": "m", "max_tokens": 9, "messages": messages}),
        ),
    ];
    assert!(check(&python, &wrong).iter().all(Value::is_string));
}
