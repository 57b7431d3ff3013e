//! A scripted agent of a few turns, recorded with its requests or without them, in which one thing can be changed.

use serde_json::{Value, json};
use spanledger::{Outcome, SpanExt, Usage, events, spans};
use tracing::{field::Empty, info, info_span};

use super::Recording;

/// Numbers from a seed.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }
}

#[derive(Clone, Debug)]
pub struct ToolScript {
    pub name: String,
    pub args: Value,
    pub output: String,
    pub exit_code: i32,
}

#[derive(Clone, Debug)]
pub struct TurnScript {
    pub prompt: String,
    pub catalog: Value,
    pub rules: Value,
    pub model: String,
    pub temperature: f64,
    pub user: String,
    pub tools: Vec<ToolScript>,
    pub answer: String,
}

#[derive(Clone, Debug)]
pub struct Script {
    pub turns: Vec<TurnScript>,
}

/// How a session is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    OpenAi,
    Anthropic,
    /// With events and spans of ours, but no requests.
    Events,
    /// With plain macros.
    Macros,
}

/// What two recordings of one script may differ in without being different.
#[derive(Clone, Debug)]
pub struct Noise {
    pub seed: u64,
}

impl Script {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = 2 + random.below(3);
        let turns = (0..count).map(|turn| {
            let tools = (0..1 + random.below(3)).map(|n| ToolScript {
                name: ["bash", "read", "grep"][random.below(3)].to_owned(),
                args: json!({"target": format!("file_{turn}_{n}"), "limit": random.below(9)}),
                output: format!("output {turn} {n} {}", random.below(100)),
                exit_code: 0,
            });
            TurnScript {
                prompt: "You are careful.\nYou write Rust.".to_owned(),
                catalog: json!([
                    {"name": "bash", "description": "Run.", "schema": {"type": "object"}},
                    {"name": "read", "description": "Read.", "schema": {"type": "object"}},
                ]),
                rules: json!([{"permission": "bash", "pattern": "*", "action": "allow", "source": "project"}]),
                model: "model-1".to_owned(),
                temperature: 0.5,
                user: format!("Please do task {turn} of {seed}"),
                tools: tools.collect(),
                answer: format!("Done with {turn}: {}", random.below(1000)),
            }
        });
        Self {
            turns: turns.collect(),
        }
    }

    /// Records it as a session.
    pub fn record(&self, recording: &Recording, session: &str, how: How, noise: u64) {
        let mut agent = Agent {
            how,
            random: Random::new(noise),
            noise,
            history: Vec::new(),
            calls: 0,
        };
        recording.run(|| match how {
            How::Macros => agent.run_macros(self, session),
            _ => agent.run(self, session),
        });
    }
}

struct Agent {
    how: How,
    random: Random,
    noise: u64,
    history: Vec<Value>,
    calls: usize,
}

impl Agent {
    fn is_recorded(&self) -> bool {
        matches!(self.how, How::OpenAi | How::Anthropic)
    }

    fn run(&mut self, script: &Script, session: &str) {
        let run = spans::session_run(session, "planner").start();
        let _in_run = run.enter();
        for script in &script.turns {
            events::permission_rules(script.rules.clone()).emit();
            if !self.is_recorded() {
                events::system_prompt(&script.prompt).emit();
                events::tool_catalog(script.catalog.clone()).emit();
            }
            let turn = spans::session_turn().trigger("user").start();
            let _in_turn = turn.enter();
            // Some agents record their messages themselves, too.
            if !self.is_recorded() || self.noise.is_multiple_of(2) {
                events::message_user(&script.user).emit();
            }
            self.turn(script);
            turn.finish(Outcome::Ok);
        }
        run.finish(Outcome::Ok);
    }

    fn turn(&mut self, script: &TurnScript) {
        self.history
            .push(json!({"role": "user", "content": script.user}));
        let ids: Vec<_> = script
            .tools
            .iter()
            .map(|_| format!("call_{}", self.random.below(1 << 30)))
            .collect();
        let asks = self.asks(script, &ids);
        self.call(script, &asks, "tool_calls");
        self.history.push(asks);
        self.tools(script, &ids);
        let answer = json!({"role": "assistant", "content": script.answer});
        self.call(script, &answer, "stop");
        if !self.is_recorded() {
            events::message_assistant(&script.answer).emit();
        }
        self.history.push(answer);
    }

    /// The model's message that calls the tools.
    fn asks(&self, script: &TurnScript, ids: &[String]) -> Value {
        let calls = script.tools.iter().zip(ids);
        match self.how {
            How::Anthropic => {
                let calls = calls.map(|(tool, id)| {
                    json!({"type": "tool_use", "id": id, "name": tool.name, "input": tool.args})
                });
                json!({"role": "assistant", "content": calls.collect::<Vec<_>>()})
            }
            _ => {
                let calls = calls.map(|(tool, id)| {
                    json!({"id": id, "type": "function", "function": {"name": tool.name,
                        "arguments": tool.args.to_string()}})
                });
                json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<_>>()})
            }
        }
    }

    fn body(&self, script: &TurnScript) -> Value {
        let tools = script.catalog.as_array().unwrap().iter();
        match self.how {
            How::Anthropic => {
                let tools = tools.map(|tool| {
                    json!({"name": tool["name"], "description": tool["description"],
                        "input_schema": tool["schema"]})
                });
                json!({"model": script.model, "max_tokens": 512, "temperature": script.temperature,
                    "system": script.prompt, "messages": self.history,
                    "tools": tools.collect::<Vec<_>>()})
            }
            _ => {
                let tools = tools.map(|tool| {
                    json!({"type": "function", "function": {"name": tool["name"],
                        "description": tool["description"], "parameters": tool["schema"]}})
                });
                let mut messages = vec![json!({"role": "system", "content": script.prompt})];
                messages.extend(self.history.iter().cloned());
                json!({"model": script.model, "temperature": script.temperature,
                    "messages": messages, "tools": tools.collect::<Vec<_>>()})
            }
        }
    }

    fn call(&mut self, script: &TurnScript, message: &Value, reason: &str) {
        self.calls += 1;
        // A server that is overloaded now and then.
        if self.random.below(4) == 0 {
            let call = spans::model_call("provider", &script.model)
                .temperature(script.temperature)
                .start();
            if self.is_recorded() {
                call.request(&self.body(script));
            }
            call.record_error("overloaded");
            call.finish(Outcome::Error);
        }
        let call = spans::model_call("provider", &script.model)
            .temperature(script.temperature)
            .start();
        let tokens = 10 + self.random.below(90) as u64;
        if self.is_recorded() {
            call.request(&self.body(script));
            let id = format!("answer_{}", self.random.below(1 << 30));
            call.response(&match self.how {
                How::Anthropic => {
                    let content = match &message["content"] {
                        Value::String(text) => json!([{"type": "text", "text": text}]),
                        content => content.clone(),
                    };
                    json!({"id": id, "role": "assistant", "model": script.model, "content": content,
                        "stop_reason": reason, "usage": {"input_tokens": tokens, "output_tokens": 5}})
                }
                _ => json!({"id": id, "model": script.model,
                    "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                    "usage": {"prompt_tokens": tokens, "completion_tokens": 5}}),
            });
        } else {
            let input_tokens = Some(tokens);
            call.record_usage(&Usage {
                input_tokens,
                ..Usage::default()
            });
        }
        call.finish(Outcome::Ok);
    }

    /// Runs the tools in parallel, in any order.
    fn tools(&mut self, script: &TurnScript, ids: &[String]) {
        let mut order: Vec<_> = (0..script.tools.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.random.below(at + 1));
        }
        let spans: Vec<_> = order
            .iter()
            .map(|at| {
                let tool = &script.tools[*at];
                (
                    *at,
                    spans::tool_call(&tool.name, &ids[*at])
                        .args(tool.args.clone())
                        .start(),
                )
            })
            .collect();
        let mut results = Vec::new();
        for (at, span) in spans {
            let tool = &script.tools[at];
            span.record_result(&tool.output);
            span.record_exit_code(tool.exit_code);
            span.finish(match tool.exit_code {
                0 => Outcome::Ok,
                _ => Outcome::Error,
            });
            let result = format!("exit {}\n{}", tool.exit_code, tool.output);
            results.push((ids[at].clone(), result));
        }
        if self.how == How::Anthropic {
            let results = results.into_iter().map(
                |(id, result)| json!({"type": "tool_result", "tool_use_id": id, "content": result}),
            );
            let content: Vec<_> = results.collect();
            self.history
                .push(json!({"role": "user", "content": content}));
        } else {
            let results = results
                .into_iter()
                .map(|(id, result)| json!({"role": "tool", "tool_call_id": id, "content": result}));
            self.history.extend(results);
        }
    }

    fn run_macros(&mut self, script: &Script, session: &str) {
        let run = info_span!("session.run", session_id = session, agent = "planner");
        let _in_run = run.enter();
        for script in &script.turns {
            info!(target: "spanledger::system_prompt", body = script.prompt);
            info!(target: "spanledger::tool_catalog", tools = script.catalog.to_string());
            info!(target: "spanledger::permission_rules", rules = script.rules.to_string());
            let turn = info_span!("session.turn");
            let _in_turn = turn.enter();
            info!(target: "spanledger::message_user", content = script.user);
            let (model, temperature) = (script.model.as_str(), script.temperature);
            info_span!(
                "model.call",
                provider_id = "p",
                model_id = model,
                temperature
            )
            .in_scope(|| ());
            for tool in &script.tools {
                let id = format!("call_{}", self.random.below(1 << 30));
                let args = tool.args.to_string();
                let span = info_span!(
                    "tool.call",
                    tool_id = tool.name,
                    tool_call_id = id,
                    args,
                    result = Empty,
                    exit_code = Empty
                );
                span.record("result", tool.output.as_str());
                span.record("exit_code", tool.exit_code);
            }
            info_span!(
                "model.call",
                provider_id = "p",
                model_id = model,
                temperature
            )
            .in_scope(|| ());
            info!(target: "spanledger::message_assistant", content = script.answer);
        }
    }
}
