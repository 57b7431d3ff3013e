//! `trajectory`: a file of steps. It says neither when things began nor which session it was: times come from
//! the entries or from the file, and the session is named after a digest of the file.
//!
//! A `conversation.jsonl` is read too: messages without steps.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::history::{Fields, History, Span};
use super::lines::{JsonLines, file_digest};
use super::messages::Messages;
use super::time::time_of;
use super::{Import, ImportError};
use crate::trace::{Kind, Outcome, SpanKind, parse_time};

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    // A file that is none is refused before all of it is read.
    let first = JsonLines::open(path)?.next()?.filter(is_message);
    let digest = file_digest(path).map_err(|error| ImportError::new(path, error))?;
    let modified = path.metadata().and_then(|meta| meta.modified());
    let since = modified.map(|time| time.duration_since(UNIX_EPOCH).unwrap_or_default());
    let now = since.map_or(0, |since| since.as_nanos() as u64);
    let mut lines = JsonLines::open(path)?;
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
    lines: &mut JsonLines,
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
    lines: &mut JsonLines,
) -> Result<History<'a>, ImportError> {
    let mut reader = Trajectory {
        history,
        now,
        step: 0,
        model: None,
        tools: HashMap::new(),
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
    let end = reader.now;
    reader.step_over(end).map_err(|error| lines.error(error))?;
    Ok(reader.history)
}

struct Trajectory<'a> {
    history: History<'a>,
    now: u64,
    step: u64,
    model: Option<Span>,
    /// The tool calls without a result, by the id or name that the result has.
    tools: HashMap<String, (Span, Value)>,
    begun: u64,
}

impl Trajectory<'_> {
    fn entry(&mut self, entry: &Fields) -> io::Result<()> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let (Some(step), Some(role)) = (entry.get("step").and_then(Value::as_u64), text("role"))
        else {
            return Err(io::Error::other("no `step` and `role`"));
        };
        let time = text("timestamp").and_then(parse_time);
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
            "tool_call" => self.tool_call(entry),
            "tool_result" => self.tool_result(entry),
            other => {
                let why = format!("unknown role {other:?}");
                Err(io::Error::other(why))
            }
        }
    }

    fn key(entry: &Fields) -> String {
        let id = entry
            .get("metadata")
            .and_then(|meta| meta.get("tool_call_id"));
        let key = id.or(entry.get("tool_name")).and_then(Value::as_str);
        key.unwrap_or_default().to_owned()
    }

    fn tool_call(&mut self, entry: &Fields) -> io::Result<()> {
        let key = Self::key(entry);
        let args = entry.get("arguments").or(entry.get("content"));
        let call = json!({
            "tool_id": entry.get("tool_name"),
            "tool_call_id": key,
            "args": args,
            "command": entry.get("command"),
        });
        let name = format!("{key}#{}", self.begun);
        let span = self
            .history
            .open(SpanKind::Tool, &name, self.now, call.clone())?;
        self.tools.insert(key, (span, call));
        Ok(())
    }

    fn tool_result(&mut self, entry: &Fields) -> io::Result<()> {
        let key = Self::key(entry);
        let open = match self.tools.remove(&key) {
            Some(open) => open,
            None => {
                self.tool_call(entry)?;
                match self.tools.remove(&key) {
                    Some(open) => open,
                    None => return Ok(()),
                }
            }
        };
        let (span, mut call) = open;
        let code = entry.get("exit_code").and_then(Value::as_i64);
        let outcome = entry
            .get("metadata")
            .and_then(|meta| meta.get("outcome")?.as_str());
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
        ] {
            call[to] = entry.get(from).cloned().unwrap_or_default();
        }
        let ms = entry.get("duration_ms").and_then(Value::as_u64);
        let end = ms.map_or(self.now, |ms| span.start() + ms.saturating_mul(1_000_000));
        self.history.close(span, end, outcome, call)
    }

    /// Ends the model call of a step.
    fn step_over(&mut self, time: u64) -> io::Result<()> {
        match self.model.take() {
            Some(span) => self.history.close(span, time, Outcome::Unset, Value::Null),
            None => Ok(()),
        }
    }
}
