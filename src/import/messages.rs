//! Messages of a conversation as the APIs of OpenAI and Anthropic have them, or with the members `role`,
//! `event`, `content` and `tool_name`. Each answer of the model is a model call.

use std::io;

use serde_json::{Value, json};

use super::history::{Fields, History};
use super::open_calls::OpenCalls;
use super::time::time_of;
use crate::trace::{Kind, Outcome, SpanKind};

/// What lies between two messages without times of their own, in nanoseconds.
const STEP: u64 = 1_000;

/// Writes messages into a session whose run has begun.
pub(super) struct Messages<'a> {
    pub history: History<'a>,
    /// The fields that every model call has.
    model: Value,
    now: u64,
    calls: u64,
    /// By id.
    tools: OpenCalls,
    /// What the last message of the model says.
    pub answer: Option<String>,
    /// The arguments of the first call of `submit_answer`.
    pub submitted: Option<Value>,
}

impl<'a> Messages<'a> {
    pub fn new(history: History<'a>, now: u64, model: Value) -> Self {
        Self {
            history,
            model,
            now,
            calls: 0,
            tools: OpenCalls::default(),
            answer: None,
            submitted: None,
        }
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    /// Adds a message.
    pub fn add(&mut self, message: &Fields) -> io::Result<()> {
        let text = |name: &str| message.get(name).and_then(Value::as_str);
        let Some(role) = text("role") else {
            return Err(io::Error::other("a message has no `role`"));
        };
        let time = message.get("timestamp").and_then(time_of);
        self.now = time.unwrap_or(self.now + STEP).max(self.now);
        match (text("event"), role) {
            (Some("tool_call"), _) | (_, "tool_call") => self.flat_call(message),
            (Some("tool_result"), _) | (_, "tool" | "tool_result" | "function") => {
                self.flat_result(message)
            }
            (_, "system" | "developer") => self.system(message),
            (_, "user" | "human") => self.user(message),
            (_, "assistant" | "model") => self.assistant(message),
            (_, other) => Err(io::Error::other(format!("unknown role {other:?}"))),
        }
    }

    fn system(&mut self, message: &Fields) -> io::Result<()> {
        let (text, _) = read_content(message);
        let event = json!({"content": text, "message_id": message.get("id")});
        self.history.event(Kind::MessageSystem, self.now, event)
    }

    fn user(&mut self, message: &Fields) -> io::Result<()> {
        let (text, blocks) = read_content(message);
        let (results, others): (Vec<_>, Vec<_>) =
            (blocks.iter()).partition(|block| block["type"] == "tool_result");
        for block in &results {
            let (result, _) = read_content(block.as_object().unwrap_or(&Fields::new()));
            let outcome = match block["is_error"].as_bool() {
                Some(true) => Outcome::Error,
                Some(false) => Outcome::Ok,
                None => Outcome::Unset,
            };
            let id = block["tool_use_id"].as_str().unwrap_or_default();
            self.result(id, None, result.into(), outcome)?;
        }
        if !results.is_empty() && others.is_empty() {
            return Ok(());
        }
        self.history.start_turn(self.now, Outcome::Unset)?;
        let event = json!({
            "content": text,
            "message_id": message.get("id"),
            "parts": others.iter().any(|block| !is_text(block)).then_some(&others),
        });
        self.history.event(Kind::MessageUser, self.now, event)
    }

    fn assistant(&mut self, message: &Fields) -> io::Result<()> {
        let (text, blocks) = read_content(message);
        self.calls += 1;
        let key = self.calls.to_string();
        let mut call = self.model.clone();
        let span = (self.history).open(SpanKind::Model, &key, self.now, call.clone())?;
        let id = message.get("id");
        let thought = blocks.iter().filter_map(|block| block["thinking"].as_str());
        let given = ["reasoning_content", "reasoning"].into_iter();
        let given = given.filter_map(|name| message.get(name)?.as_str());
        for thought in thought.chain(given).filter(|text| !text.is_empty()) {
            let event = json!({"content": thought, "message_id": id});
            (self.history).event_in(Some(span), Kind::MessageReasoning, self.now, event)?;
        }
        if !text.is_empty() {
            let event = json!({"content": text, "message_id": id});
            (self.history).event_in(Some(span), Kind::MessageAssistant, self.now, event)?;
            self.answer = Some(text);
        }
        if call.is_object() {
            call["finish_reason"] = message.get("stop_reason").cloned().unwrap_or_default();
        }
        self.history.close(span, self.now, Outcome::Ok, call)?;
        for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
            self.call(&block["id"], &block["name"], &block["input"])?;
        }
        let calls = message.get("tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            let call = parsed(call);
            let of = call.get("function").unwrap_or(&call);
            self.call(&call["id"], &of["name"], &parsed(&of["arguments"]))?;
        }
        Ok(())
    }

    /// A call that is a message of its own.
    fn flat_call(&mut self, message: &Fields) -> io::Result<()> {
        let get = |name: &str| message.get(name).unwrap_or(&Value::Null);
        let args = match get("arguments") {
            Value::Null => get("content"),
            args => args,
        };
        self.call(get("tool_call_id"), get("tool_name"), &parsed(args))
    }

    fn flat_result(&mut self, message: &Fields) -> io::Result<()> {
        let text = |name: &str| message.get(name).and_then(Value::as_str);
        let name = text("tool_name").or(text("name"));
        let id = text("tool_call_id").or(name).unwrap_or_default();
        let (result, _) = read_content(message);
        self.result(id, name, result.into(), Outcome::Unset)
    }

    fn call(&mut self, id: &Value, name: &Value, args: &Value) -> io::Result<()> {
        let name = name.as_str().unwrap_or("unknown");
        let id = id.as_str().unwrap_or(name);
        self.calls += 1;
        if name == "submit_answer" && self.submitted.is_none() {
            self.submitted = Some(args.clone());
        }
        let call = json!({"tool_id": name, "tool_call_id": id, "args": args});
        let key = format!("{id}#{}", self.calls);
        let span = (self.history).open(SpanKind::Tool, &key, self.now, call.clone())?;
        (self.tools).add(&mut self.history, id.to_owned(), span, call)
    }

    /// A result closes the oldest open call of its id. One without a call is a call of its own.
    fn result(
        &mut self,
        id: &str,
        name: Option<&str>,
        result: Value,
        outcome: Outcome,
    ) -> io::Result<()> {
        let mut open = self.tools.take(id);
        if open.is_none() {
            self.call(&id.into(), &json!(name), &Value::Null)?;
            open = self.tools.take(id);
        }
        let Some((span, mut call)) = open else {
            return Ok(());
        };
        let code = result.as_str().and_then(exit_code);
        let outcome = match code {
            Some(0) if outcome == Outcome::Unset => Outcome::Ok,
            Some(_) if outcome == Outcome::Unset => Outcome::Error,
            _ => outcome,
        };
        call["exit_code"] = json!(code);
        if outcome == Outcome::Error {
            call["error"] = json!({"message": result});
        }
        call["result"] = result;
        self.history.close(span, self.now, outcome, call)
    }

    /// Closes the calls that got no result.
    pub fn end(mut self) -> io::Result<History<'a>> {
        self.tools.close_all(&mut self.history, self.now)?;
        Ok(self.history)
    }
}

/// The text of a message, and its blocks. A plain text has no blocks.
fn read_content(message: &Fields) -> (String, Vec<Value>) {
    match message.get("content") {
        Some(Value::String(text)) => (text.clone(), Vec::new()),
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().filter(|block| is_text(block));
            let texts = texts.filter_map(|block| block["text"].as_str().or(block.as_str()));
            (texts.collect::<Vec<_>>().join("\n\n"), blocks.clone())
        }
        None | Some(Value::Null) => Default::default(),
        Some(other) => (other.to_string(), Vec::new()),
    }
}

fn is_text(block: &Value) -> bool {
    let kind = block["type"].as_str();
    block.is_string() || matches!(kind, Some("text" | "input_text" | "output_text"))
}

/// JSON that may be a text with JSON in it.
fn parsed(value: &Value) -> Value {
    let inside = value.as_str().map(serde_json::from_str);
    match inside {
        Some(Ok(inside @ (Value::Object(_) | Value::Array(_)))) => inside,
        _ => value.clone(),
    }
}

/// The code that aec-bench appends to the output of a command: `[exit code: 2]`.
fn exit_code(text: &str) -> Option<i64> {
    let (_, rest) = text.rsplit_once("[exit code: ")?;
    rest.split_once(']')?.0.trim().parse().ok()
}
