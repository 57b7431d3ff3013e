//! `codex`: a rollout file of Codex. Its events say where turns begin and what they used, its response items
//! what was said and which tools were called.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::history::{Fields, History, Span, fields};
use super::lines::JsonLines;
use super::{Import, ImportError};
use crate::trace::{Kind, Outcome, SpanKind, parse_time};

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let mut lines = JsonLines::open(import, path)?;
    let first = lines.next()?.unwrap_or_default();
    let meta = first
        .get("payload")
        .filter(|_| is(&first, "type", "session_meta"));
    let id = meta.and_then(|meta| meta["id"].as_str());
    let (Some(meta), Some(id)) = (meta, id) else {
        return Err(lines.error("a rollout begins with `session_meta` and its id"));
    };
    let mut rollout = Rollout {
        history: History::new(import, "codex", id),
        provider: meta["model_provider"].clone(),
        model: Value::Null,
        waiting_since: 0,
        used: Value::Null,
        calls: 0,
        tools: HashMap::new(),
        repeated: None,
    };
    let time = time(&first).ok_or_else(|| lines.error("no `timestamp`"))?;
    let begun = rollout.begin(meta, id, time);
    begun.map_err(|error| lines.error(error))?;
    while let Some(line) = lines.next()? {
        rollout.add(&line).map_err(|error| lines.error(error))?;
    }
    let finished = rollout.finish(path);
    Ok(vec![
        finished.map_err(|error| ImportError::new(path, error))?,
    ])
}

fn is(line: &Fields, name: &str, text: &str) -> bool {
    line.get(name).and_then(Value::as_str) == Some(text)
}

fn time(line: &Fields) -> Option<u64> {
    line.get("timestamp")?.as_str().and_then(parse_time)
}

struct Rollout<'a> {
    history: History<'a>,
    provider: Value,
    model: Value,
    /// When the model was asked: after a message or the result of a tool.
    waiting_since: u64,
    /// The tokens of the session so far. They are reported more than once.
    used: Value,
    calls: u64,
    /// Tool calls without a result.
    tools: HashMap<String, (Span, Value)>,
    /// While lines of the session that this one was forked from are repeated.
    repeated: Option<Repeated>,
}

/// What a fork or a subagent begins with: lines of its parent, written at once or with their old times.
#[derive(Clone, Copy)]
struct Repeated {
    /// When the session began, by its id.
    session: Option<u64>,
    /// Later lines are the session's own, if no turn says when it began.
    until: u64,
}

impl Repeated {
    /// Repeated lines are written within less time.
    const LONGEST: u64 = 2_000_000_000;

    fn new(id: &str, time: u64) -> Self {
        Self {
            session: uuid_time(id),
            until: time.saturating_add(Self::LONGEST),
        }
    }

    /// Whether this line is the session's own.
    fn is_over(self, payload: &Value, time: u64) -> bool {
        let turn = payload["turn_id"].as_str().and_then(uuid_time);
        match (turn, self.session) {
            (Some(turn), Some(session)) => turn >= session,
            _ => time > self.until,
        }
    }
}

/// The milliseconds that a UUID of version 7 begins with.
fn uuid_time(uuid: &str) -> Option<u64> {
    let (high, low) = (uuid.get(..8)?, uuid.get(9..13)?);
    let is_timed = uuid.get(14..15) == Some("7");
    let millis = || u64::from_str_radix(&format!("{high}{low}"), 16).ok();
    is_timed.then(millis)?
}

impl<'a> Rollout<'a> {
    fn begin(&mut self, meta: &Value, id: &str, time: u64) -> io::Result<()> {
        self.waiting_since = time;
        let spawned = &meta["source"]["subagent"]["thread_spawn"]["parent_thread_id"];
        let parent = spawned.as_str().or(meta["parent_thread_id"].as_str());
        let forked = meta["forked_from_id"].as_str();
        if parent.or(forked).is_some() {
            self.repeated = Some(Repeated::new(id, time));
        }
        let branched = forked.filter(|_| parent.is_none());
        self.history.start_run(
            time,
            json!({
                "agent": "codex",
                "provider_id": meta["model_provider"],
                "parent_session_id": parent,
                "branched_from": branched.map(|session| json!({"session_id": session})),
                "workspace_root": meta["cwd"],
                "external_ids": {"codex": id},
                "process": {"version": meta["cli_version"], "cwd": meta["cwd"], "git": meta["git"]},
            }),
        )
    }

    fn add(&mut self, line: &Fields) -> io::Result<()> {
        let time = time(line).unwrap_or(self.history.last());
        let payload = line.get("payload").cloned().unwrap_or_default();
        let part = payload["type"].as_str().unwrap_or_default();
        self.repeated
            .take_if(|repeated| repeated.is_over(&payload, time));
        match (line.get("type").and_then(Value::as_str), part) {
            (Some("turn_context"), _) => {
                self.model = payload["model"].clone();
                Ok(())
            }
            (Some("event_msg"), "user_message") => {
                // Old rollouts don't say where a turn ends.
                self.history.end_turn(self.history.last(), Outcome::Ok)?;
                self.history.start_turn(time, Outcome::Ok)?;
                self.waiting_since = time;
                let message = json!({"content": payload["message"]});
                self.history.event(Kind::MessageUser, time, message)
            }
            (Some("event_msg"), "token_count") => self.used(&payload["info"], time),
            (Some("event_msg"), "task_complete") => self.history.end_turn(time, Outcome::Ok),
            (Some("event_msg"), "turn_aborted") => {
                let why = json!({"status": "idle", "message": payload["reason"]});
                self.history.event(Kind::SessionStatus, time, why)?;
                self.close_tools(time, Outcome::Interrupted)?;
                self.history.end_turn(time, Outcome::Interrupted)
            }
            (Some("response_item"), "message") if payload["role"] == "assistant" => {
                let message = json!({"content": text(&payload["content"])});
                self.history.event(Kind::MessageAssistant, time, message)
            }
            (Some("response_item"), "reasoning") => {
                let summary = text(&payload["summary"]);
                match summary.is_empty() {
                    true => Ok(()),
                    false => {
                        let message = json!({"content": summary});
                        self.history.event(Kind::MessageReasoning, time, message)
                    }
                }
            }
            (Some("response_item"), "function_call" | "custom_tool_call") => {
                self.call(&payload, time)
            }
            (Some("response_item"), "function_call_output" | "custom_tool_call_output") => {
                self.output(&payload, time)
            }
            (Some("compacted"), _) => self.compacted(&payload, time),
            _ => Ok(()),
        }
    }

    /// A report of the tokens that the last answer used.
    fn used(&mut self, info: &Value, time: u64) -> io::Result<()> {
        if !info.is_object() || info["total_token_usage"] == self.used {
            return Ok(());
        }
        self.used = info["total_token_usage"].clone();
        if self.repeated.is_some() {
            return Ok(());
        }
        self.calls += 1;
        let last = &info["last_token_usage"];
        let usage = fields(json!({
            "input_tokens": last["input_tokens"],
            "cache_read_tokens": last["cached_input_tokens"],
            "output_tokens": last["output_tokens"],
            "reasoning_tokens": last["reasoning_output_tokens"],
            "total_tokens": last["total_tokens"],
        }));
        let mut call = json!({
            "provider_id": self.provider,
            "model_id": self.model,
            "context_window": info["model_context_window"],
        });
        let key = self.calls.to_string();
        let span = self
            .history
            .open(SpanKind::Model, &key, self.waiting_since, call.clone())?;
        call["usage"] = usage.into();
        self.history.close(span, time, Outcome::Ok, call)
    }

    fn call(&mut self, payload: &Value, time: u64) -> io::Result<()> {
        let key = payload["call_id"].as_str().unwrap_or_default().to_owned();
        let given = payload.get("arguments").or(payload.get("input"));
        let parsed = given
            .and_then(Value::as_str)
            .map(serde_json::from_str::<Value>);
        let args = match parsed {
            Some(Ok(args)) => args,
            _ => given.cloned().unwrap_or_default(),
        };
        let call = json!({"tool_id": payload["name"], "tool_call_id": key, "args": args});
        let span = self
            .history
            .open(SpanKind::Tool, &key, time, call.clone())?;
        self.tools.insert(key, (span, call));
        Ok(())
    }

    fn output(&mut self, payload: &Value, time: u64) -> io::Result<()> {
        self.waiting_since = time;
        let key = payload["call_id"].as_str().unwrap_or_default();
        let Some((span, mut call)) = self.tools.remove(key) else {
            return Ok(());
        };
        // A text that may begin with the exit code of a command, or an object in a text that has it.
        let text = payload["output"].as_str();
        let parsed = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let output = parsed
            .filter(Value::is_object)
            .unwrap_or_else(|| payload["output"].clone());
        let code = output["metadata"]["exit_code"].as_i64();
        let code = code.or_else(|| exit_code(output.as_str()?));
        call["exit_code"] = code.into();
        call["result"] = match output.get("output") {
            Some(result) => result.clone(),
            None => output,
        };
        let outcome = match code {
            Some(0) => Outcome::Ok,
            Some(_) => Outcome::Error,
            None => Outcome::Unset,
        };
        self.history.close(span, time, outcome, call)
    }

    fn compacted(&mut self, payload: &Value, time: u64) -> io::Result<()> {
        let compaction = json!({"summary": payload["message"]});
        let key = time.to_string();
        let span = self
            .history
            .open(SpanKind::Compaction, &key, time, Value::Null)?;
        self.history.close(span, time, Outcome::Ok, compaction)
    }

    /// Closes the tool calls without a result, in their order.
    fn close_tools(&mut self, time: u64, outcome: Outcome) -> io::Result<()> {
        let mut open: Vec<_> = self.tools.drain().map(|(_, call)| call).collect();
        open.sort_by_key(|(span, _)| (span.start(), span.id()));
        for (span, call) in open {
            self.history.close(span, time, outcome, call)?;
        }
        Ok(())
    }

    fn finish(mut self, source: &Path) -> io::Result<History<'a>> {
        self.close_tools(self.history.last(), Outcome::Unset)?;
        self.history.keep_files(&[source])?;
        Ok(self.history)
    }
}

/// The exit code in the lines before the output of a command. Those also have the time that it took.
fn exit_code(text: &str) -> Option<i64> {
    let head = text.lines().take_while(|line| *line != "Output:").take(8);
    let (mut code, mut is_command) = (None, false);
    for line in head {
        is_command |= line.starts_with("Wall time");
        let number = line.strip_prefix("Exit code: ");
        let number = number.or_else(|| line.strip_prefix("Process exited with code "));
        code = code.or_else(|| number?.trim().parse().ok());
    }
    code.filter(|_| is_command)
}

/// The texts of a list of blocks.
fn text(blocks: &Value) -> String {
    let blocks = blocks.as_array().into_iter().flatten();
    let texts: Vec<_> = blocks.filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n\n")
}
