//! `trajectory`: a file of steps. It says neither when things began nor which session it was: times come from
//! the entries or from the file, and the session is named after a digest of the file.
//!
//! A `conversation.jsonl` is read too: messages without steps.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::history::{Fields, History, Span};
use super::lines::{JsonLines, file_digest, file_time};
use super::messages::Messages;
use super::open_calls::OpenCalls;
use super::time::time_of;
use super::{Import, ImportError};
use crate::trace::{Kind, Outcome, SpanKind};

/// The kind of the event that keeps an entry whose role is not known.
const UNKNOWN_ENTRY: &str = "trajectory_entry";

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    // A file that is none is refused before all of it is read.
    let first = JsonLines::open(import, path)?.next()?.filter(is_message);
    let digest = file_digest(path).map_err(|error| ImportError::new(path, error))?;
    let now = file_time(path);
    let mut lines = JsonLines::open(import, path)?;
    let id = |kind: &str| format!("{kind}-{}", &digest[..24]);
    let mut history = match first {
        Some(first) => {
            let history = History::new(import, "trajectory", &id("conversation"));
            let begun = first.get("timestamp").and_then(time_of);
            conversation(history, begun.unwrap_or(now), &mut lines)?
        }
        None => {
            let history = History::new(import, "trajectory", &id("trajectory"));
            steps(history, now, &mut lines)?
        }
    };
    history
        .keep_files(&[path])
        .map_err(|error| ImportError::new(path, error))?;
    Ok(vec![history])
}

/// Whether a line is a message of a conversation, and no entry of a trajectory.
pub(super) fn is_message(line: &Fields) -> bool {
    let has = |name: &str| line.contains_key(name);
    has("role") && !has("step") && (has("content") || has("tool_calls") || has("event"))
}

fn conversation<'a>(
    mut history: History<'a>,
    now: u64,
    lines: &mut JsonLines<'_>,
) -> Result<History<'a>, ImportError> {
    history
        .start_run(now, json!({"agent": "conversation"}))
        .map_err(|error| lines.error(error))?;
    let mut messages = Messages::new(history, now, Value::Null);
    while let Some(message) = lines.next()? {
        messages.add(&message).map_err(|error| lines.error(error))?;
    }
    messages.end().map_err(|error| lines.error(error))
}

fn steps<'a>(
    history: History<'a>,
    now: u64,
    lines: &mut JsonLines<'_>,
) -> Result<History<'a>, ImportError> {
    let mut reader = Trajectory {
        history,
        now,
        step: 0,
        model: None,
        tools: OpenCalls::default(),
        begun: 0,
    };
    while let Some(entry) = lines.next()? {
        if entry.contains_key("format") && !entry.contains_key("role") {
            continue;
        }
        reader.entry(&entry).map_err(|error| lines.error(error))?;
    }
    if reader.begun == 0 {
        let why = "no entry of a trajectory is in it";
        return Err(ImportError::new(lines.path(), why));
    }
    reader.end().map_err(|error| lines.error(error))
}

struct Trajectory<'a> {
    history: History<'a>,
    now: u64,
    step: u64,
    model: Option<Span>,
    tools: OpenCalls,
    begun: u64,
}

impl<'a> Trajectory<'a> {
    fn entry(&mut self, entry: &Fields) -> io::Result<()> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let (Some(step), Some(role)) = (entry.get("step").and_then(Value::as_u64), text("role"))
        else {
            return Err(io::Error::other("no `step` and `role`"));
        };
        let time = entry.get("timestamp").and_then(time_of);
        self.now = time.unwrap_or(self.now + 1_000);
        if self.begun == 0 {
            self.history
                .start_run(self.now, json!({"agent": "trajectory"}))?;
        }
        self.begun += 1;
        if step > self.step {
            self.step_over(self.now)?;
            self.step = step;
            let call = json!({"purpose": text("call_type")});
            let model = self
                .history
                .open(SpanKind::Model, &step.to_string(), self.now, call)?;
            self.model = Some(model);
        }
        self.role(role, entry)
    }

    fn role(&mut self, role: &str, entry: &Fields) -> io::Result<()> {
        let content = entry.get("content").cloned().unwrap_or_default();
        let known = |name: &str| entry.get("metadata").and_then(|meta| meta.get(name));
        let message = json!({
            "content": content,
            "message_id": known("message_id"),
            "complete": known("complete"),
        });
        let (history, now) = (&mut self.history, self.now);
        match role {
            "system" => history.event(Kind::MessageSystem, now, message),
            "user" => {
                history.start_turn(now, Outcome::Unset)?;
                history.event(Kind::MessageUser, now, message)
            }
            "assistant" => history.event_in(self.model, Kind::MessageAssistant, now, message),
            "reasoning" => history.event_in(self.model, Kind::MessageReasoning, now, message),
            "tool_call" => {
                let args = entry.get("arguments").or(entry.get("content"));
                self.tool_call(entry, args)
            }
            "tool_result" => self.tool_result(entry),
            _ => history.line_in(self.model, UNKNOWN_ENTRY, now, entry),
        }
    }

    /// The id of a call, or the name of its tool.
    fn call_id(entry: &Fields) -> &str {
        let metadata = entry.get("metadata");
        let id = metadata.and_then(|metadata| metadata.get("tool_call_id")?.as_str());
        let name = || entry.get("tool_name").and_then(Value::as_str);
        id.or_else(name).unwrap_or_default()
    }

    /// What a call and its result have in common. Ids may repeat; our own export has the span.
    fn key(entry: &Fields) -> String {
        let metadata = entry.get("metadata");
        let span = metadata.and_then(|metadata| metadata.get("span_id")?.as_str());
        span.map_or_else(
            || Self::call_id(entry).to_owned(),
            |id| format!("span {id}"),
        )
    }

    fn tool_call(&mut self, entry: &Fields, args: Option<&Value>) -> io::Result<()> {
        let id = Self::call_id(entry);
        let call = json!({
            "tool_id": entry.get("tool_name"),
            "tool_call_id": id,
            "args": args,
            "command": entry.get("command"),
        });
        let name = format!("{id}#{}", self.begun);
        let span = self
            .history
            .open(SpanKind::Tool, &name, self.now, call.clone())?;
        let key = Self::key(entry);
        self.tools.add(&mut self.history, key, span, call)
    }

    /// A result closes the oldest open call of its key. One without a call is a call of its own.
    fn tool_result(&mut self, entry: &Fields) -> io::Result<()> {
        let key = Self::key(entry);
        let mut open = self.tools.take(&key);
        if open.is_none() {
            self.tool_call(entry, entry.get("arguments"))?;
            open = self.tools.take(&key);
        }
        let Some((span, mut call)) = open else {
            return Ok(());
        };
        let code = entry.get("exit_code").and_then(Value::as_i64);
        let known = |name: &str| entry.get("metadata").and_then(|meta| meta.get(name));
        let outcome = known("outcome").and_then(Value::as_str);
        let outcome = outcome.and_then(Outcome::parse).unwrap_or(match code {
            Some(0) => Outcome::Ok,
            Some(_) => Outcome::Error,
            None => Outcome::Unset,
        });
        for (from, to) in [
            ("stdout", "stdout"),
            ("stderr", "stderr"),
            ("exit_code", "exit_code"),
            ("media", "media"),
            ("content", "result"),
        ] {
            call[to] = entry.get(from).cloned().unwrap_or_default();
        }
        call["error"] = known("error").cloned().unwrap_or_default();
        let ms = entry.get("duration_ms").and_then(Value::as_u64);
        let end = ms.map_or(self.now, |ms| {
            span.start().saturating_add(ms.saturating_mul(1_000_000))
        });
        self.history.close(span, end, outcome, call)
    }

    /// Ends the model call of a step.
    fn step_over(&mut self, time: u64) -> io::Result<()> {
        match self.model.take() {
            Some(span) => self.history.close(span, time, Outcome::Unset, Value::Null),
            None => Ok(()),
        }
    }

    /// Ends the last step, and the calls that got no result.
    fn end(mut self) -> io::Result<History<'a>> {
        self.step_over(self.now)?;
        self.tools.close_all(&mut self.history, self.now)?;
        Ok(self.history)
    }
}
