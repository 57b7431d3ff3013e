//! The loops of `tests/fixtures/loops.json`: tool calls, and what they are.

use serde_json::Value;
use spanledger::{Failure, Limits, Outcome, Refused, SpanExt, Usage, spans};

/// Calls that do or don't make a loop.
pub struct Vector {
    pub json: Value,
}

impl Vector {
    pub fn all() -> Vec<Self> {
        let text = include_str!("../fixtures/loops.json");
        let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
        vectors.into_iter().map(|json| Self { json }).collect()
    }

    pub fn name(&self) -> &str {
        self.json["name"].as_str().unwrap()
    }

    /// The limits that name its volatile fields.
    pub fn limits(&self) -> Limits {
        let names = self.json["volatile"].as_array();
        let names = names.into_iter().flatten().map(|it| it.as_str().unwrap());
        names.fold(Limits::new(), Limits::volatile)
    }

    /// The calls, in order.
    pub fn calls(&self) -> Vec<&Value> {
        let times = self.json["times"].as_u64().unwrap_or(1) as usize;
        let calls = self.json["calls"].as_array().unwrap();
        calls.iter().cycle().take(calls.len() * times).collect()
    }

    /// Runs an agent that makes these calls, and one more at the end. Returns the number of the tool call that
    /// was refused.
    pub fn run(&self) -> Option<usize> {
        let run = spans::session_run("looping", "agent").start().entered();
        let turn = spans::session_turn().start().entered();
        let calls = self.calls();
        let more = serde_json::json!({"tool": "done", "args": {}, "result": "ok"});
        for (at, call) in calls.iter().copied().chain([&more]).enumerate() {
            if self.json["model_calls"] == true && at < calls.len() {
                let model = spans::model_call("openai", "gpt-5").start();
                let (input_tokens, output_tokens) = (Some(10), Some(1));
                model.record_usage(&Usage {
                    input_tokens,
                    output_tokens,
                    ..Usage::default()
                });
                model.finish(Outcome::Ok);
            }
            if let Err(refused) = make(call, at) {
                assert!(matches!(refused, Refused::Stopped { limit: "loop", .. }));
                return Some(at + 1);
            }
        }
        drop(turn);
        run.finish(Outcome::Ok);
        None
    }
}

fn make(call: &Value, at: usize) -> Result<(), Refused> {
    let tool = call["tool"].as_str().unwrap();
    let mut span = spans::tool_call(tool, format!("call_{at}")).args(&call["args"]);
    if let Some(key) = call["loop_key"].as_str() {
        span = span.loop_key(key);
    }
    let span = span.start();
    span.allowed()?;
    if let Some(result) = call.get("result") {
        span.record_result(result);
    }
    if let Some(code) = call["exit_code"].as_i64() {
        span.record_exit_code(code as i32);
    }
    match call["error"].as_str() {
        Some(message) => {
            span.record_failure(&Failure::new("CommandFailed", message));
            span.finish(Outcome::Error);
        }
        None => span.finish(Outcome::Ok),
    }
    Ok(())
}
