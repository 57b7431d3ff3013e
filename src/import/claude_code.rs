//! `claude-code`: a session file as Claude Code writes it, with the subagents that are in it.
//!
//! One answer of the model is several lines with the same message id and the same usage, which is counted once.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::history::{Fields, History, Span, fields};
use super::lines::JsonLines;
use super::{Import, ImportError};
use crate::trace::{Kind, Outcome, SpanKind, parse_time};

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let mut lines = JsonLines::open(import, path)?;
    let mut sessions: BTreeMap<String, Session<'a>> = BTreeMap::new();
    let mut title = None;
    let mut main = None;
    while let Some(entry) = lines.next()? {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        if text("type") == Some("summary") {
            title = text("summary").map(str::to_owned);
            continue;
        }
        let (Some(id), Some(time)) = (text("sessionId"), text("timestamp").and_then(parse_time))
        else {
            // Other lines, such as snapshots of files, belong to no conversation.
            continue;
        };
        main.get_or_insert_with(|| id.to_owned());
        let side = entry.get("isSidechain").and_then(Value::as_bool) == Some(true);
        let key = match text("agentId").filter(|_| side) {
            Some(agent) => format!("{id}-{agent}"),
            None if side => format!("{id}-sidechain"),
            None => id.to_owned(),
        };
        let parent = side.then(|| id.to_owned());
        let session = sessions
            .entry(key.clone())
            .or_insert_with(|| Session::new(History::new(import, "claude-code", &key), parent));
        session
            .add(&entry, time)
            .map_err(|error| lines.error(error))?;
    }
    let Some(main) = main else {
        return Err(ImportError::new(path, "no entry of a session is in it"));
    };
    let children: Vec<_> = sessions
        .keys()
        .filter(|key| **key != main)
        .cloned()
        .collect();
    let mut finished = Vec::new();
    for (key, session) in sessions {
        let is_main = key == main;
        let title = title.as_deref().filter(|_| is_main);
        let children = if is_main { children.as_slice() } else { &[] };
        let done = session.finish(title, children, path);
        finished.push(done.map_err(|error| ImportError::new(path, error))?);
    }
    Ok(finished)
}

struct Session<'a> {
    history: History<'a>,
    parent: Option<String>,
    begun: bool,
    /// The answer whose lines are being read.
    answer: Option<Answer>,
    /// When the line before was written: an answer began then.
    before: u64,
    /// Tool calls without a result.
    tools: HashMap<String, (Span, Value)>,
}

struct Answer {
    id: String,
    began: u64,
    ended: u64,
    message: Value,
    blocks: Vec<Value>,
}

impl<'a> Session<'a> {
    fn new(history: History<'a>, parent: Option<String>) -> Self {
        Self {
            history,
            parent,
            begun: false,
            answer: None,
            before: 0,
            tools: HashMap::new(),
        }
    }

    fn add(&mut self, entry: &Fields, time: u64) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.before = time;
            let get = |name: &str| entry.get(name).cloned().unwrap_or_default();
            self.history.start_run(time, json!({
                "agent": "claude-code",
                "workspace_root": get("cwd"),
                "parent_session_id": self.parent,
                "external_ids": {"claude_code": get("sessionId")},
                "process": {"version": get("version"), "cwd": get("cwd"), "git": {"branch": get("gitBranch")}},
            }))?;
        }
        let message = entry.get("message").cloned().unwrap_or_default();
        match entry.get("type").and_then(Value::as_str) {
            Some("assistant") => self.assistant(message, time)?,
            Some("user") => self.user(entry, &message, time)?,
            Some("system") => self.system(entry, time)?,
            _ => {}
        }
        self.before = time;
        Ok(())
    }

    fn assistant(&mut self, message: Value, time: u64) -> io::Result<()> {
        let id = message["id"].as_str().unwrap_or_default().to_owned();
        if self
            .answer
            .as_ref()
            .is_some_and(|answer| answer.id != id || id.is_empty())
        {
            self.end_answer()?;
        }
        let answer = self.answer.get_or_insert_with(|| Answer {
            id,
            began: self.before,
            ended: time,
            message: Value::Null,
            blocks: Vec::new(),
        });
        answer.ended = time;
        answer.blocks.extend(blocks(&message["content"]));
        // The last line has the final counts.
        answer.message = message;
        Ok(())
    }

    /// Writes the answer that was read.
    fn end_answer(&mut self) -> io::Result<()> {
        let Some(answer) = self.answer.take() else {
            return Ok(());
        };
        let Answer {
            id,
            began,
            ended,
            message,
            blocks,
        } = answer;
        let open = json!({"provider_id": "anthropic", "model_id": message["model"]});
        let span = self.history.open(SpanKind::Model, &id, began, open)?;
        for block in &blocks {
            let (kind, content) = match block["type"].as_str() {
                Some("text") => (Kind::MessageAssistant, &block["text"]),
                Some("thinking") => (Kind::MessageReasoning, &block["thinking"]),
                _ => continue,
            };
            let said = json!({"content": content, "message_id": id});
            self.history.event_in(Some(span), kind, ended, said)?;
        }
        let call = json!({
            "provider_id": "anthropic",
            "model_id": message["model"],
            "response_id": id,
            "finish_reason": message["stop_reason"],
            "usage": usage(&message["usage"]),
        });
        self.history.close(span, ended, Outcome::Ok, call)?;
        for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
            let key = block["id"].as_str().unwrap_or_default().to_owned();
            let call = json!({
                "tool_id": block["name"],
                "tool_call_id": key,
                "args": block["input"],
                "message_id": id,
            });
            let span = self
                .history
                .open(SpanKind::Tool, &key, ended, call.clone())?;
            self.tools.insert(key, (span, call));
        }
        Ok(())
    }

    fn user(&mut self, entry: &Fields, message: &Value, time: u64) -> io::Result<()> {
        self.end_answer()?;
        let all = blocks(&message["content"]);
        let texts = all.iter().filter_map(|block| block["text"].as_str());
        let text = texts.collect::<Vec<_>>().join("\n\n");
        for block in all.iter().filter(|block| block["type"] == "tool_result") {
            self.tool_result(entry, block, time)?;
        }
        let is_results = all.iter().any(|block| block["type"] == "tool_result");
        if is_results && text.is_empty() {
            return Ok(());
        }
        self.history.start_turn(time, Outcome::Ok)?;
        let message = json!({
            "content": text,
            "message_id": entry.get("uuid"),
            "parts": all.iter().any(|block| block["type"] != "text").then_some(&all),
        });
        self.history.event(Kind::MessageUser, time, message)
    }

    fn tool_result(&mut self, entry: &Fields, block: &Value, time: u64) -> io::Result<()> {
        let key = block["tool_use_id"].as_str().unwrap_or_default();
        let Some((span, mut call)) = self.tools.remove(key) else {
            return Ok(());
        };
        let failed = block["is_error"].as_bool() == Some(true);
        let content = blocks(&block["content"]);
        let texts: Vec<_> = content
            .iter()
            .filter_map(|block| block["text"].as_str())
            .collect();
        call["result"] = texts.join("\n").into();
        let output = |name: &str| {
            entry
                .get("toolUseResult")
                .and_then(|result| result.get(name))
                .cloned()
        };
        call["stdout"] = output("stdout").unwrap_or_default();
        call["stderr"] = output("stderr").unwrap_or_default();
        if failed {
            call["error"] = json!({"message": texts.join("\n")});
        }
        let outcome = if failed { Outcome::Error } else { Outcome::Ok };
        self.history.close(span, time, outcome, call)
    }

    fn system(&mut self, entry: &Fields, time: u64) -> io::Result<()> {
        let subtype = entry.get("subtype").and_then(Value::as_str);
        if subtype != Some("compact_boundary") {
            return Ok(());
        }
        self.end_answer()?;
        let data = entry.get("compactMetadata").cloned().unwrap_or_default();
        let manual = data["trigger"].as_str().map(|trigger| trigger == "manual");
        let compaction = json!({
            "trigger": data["trigger"],
            "manual": manual,
            "auto": manual.map(|manual| !manual),
            "input_tokens": data["preTokens"],
        });
        let key = entry
            .get("uuid")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let span = self
            .history
            .open(SpanKind::Compaction, key, time, compaction.clone())?;
        self.history.close(span, time, Outcome::Ok, compaction)
    }

    fn finish(
        mut self,
        title: Option<&str>,
        children: &[String],
        source: &Path,
    ) -> io::Result<History<'a>> {
        self.end_answer()?;
        let mut history = self.history;
        let last = history.last();
        for (span, call) in self.tools.into_values() {
            history.close(span, last, Outcome::Unset, call)?;
        }
        if let Some(title) = title {
            history.event(Kind::SessionTitle, last, json!({"title": title}))?;
        }
        for child in children {
            let subagent = json!({"agent": "claude-code", "child_session_id": child});
            history.event(Kind::Subagent, last, subagent)?;
        }
        history.keep_files(&[source])?;
        Ok(history)
    }
}

/// The content of a message as blocks. A text is one.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

/// Their input tokens leave out what came from the cache or went to it; ours have all.
fn usage(usage: &Value) -> Option<Fields> {
    let count = |name: &str| usage[name].as_u64();
    let (read, write) = (
        count("cache_read_input_tokens"),
        count("cache_creation_input_tokens"),
    );
    let uncached = count("input_tokens");
    let all = uncached.map(|tokens| tokens + read.unwrap_or(0) + write.unwrap_or(0));
    usage.is_object().then(|| {
        fields(json!({
            "input_tokens": all,
            "input_uncached_tokens": uncached,
            "output_tokens": count("output_tokens"),
            "cache_read_tokens": read,
            "cache_write_tokens": write,
        }))
    })
}
