//! `agentdbg`: a run directory. A run is a session with one run.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::document::read_document;
use super::history::{Fields, History, fields};
use super::lines::JsonLines;
use super::time::given_time;
use super::{Import, ImportError};
use crate::trace::{Kind, Outcome, SpanKind, event_kind};

const RUN: &str = "run.json";
const EVENTS: &str = "events.jsonl";

/// The directory of a run that the path of one of its files means.
pub(super) fn run_dir(path: &Path) -> &Path {
    let is_part = path.ends_with(RUN) || path.ends_with(EVENTS);
    let dir = path.parent().filter(|_| is_part && path.is_file());
    match dir {
        Some(dir) if dir.as_os_str().is_empty() => Path::new("."),
        dir => dir.unwrap_or(path),
    }
}

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let dir = run_dir(path);
    let document = dir.join(RUN);
    let (_, run) = read_document(&document)?;
    let spec = run["spec_version"].as_str();
    if spec != Some("0.1") {
        let why = format!("spec_version {}; 0.1 can be imported", run["spec_version"]);
        return Err(ImportError::new(&document, why));
    }
    // The directory's name counts, also for the tool itself.
    let name = dir.canonicalize().ok();
    let name = name
        .as_deref()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str());
    let id = name.or(run["run_id"].as_str()).unwrap_or("run").to_owned();
    let failed = |error| ImportError::new(&document, error);
    let started = given_time(run.get("started_at"), "started_at").map_err(failed)?;
    let mut reader = RunReader {
        history: History::new(import, "agentdbg", &id),
        started: started.unwrap_or(0),
        run,
        begun: false,
        prompt: None,
        error: None,
        own_error: None,
    };
    let mut lines = JsonLines::open(import, &dir.join(EVENTS))?;
    while let Some(event) = lines.next()? {
        let added = reader.take(event);
        added.map_err(|error| lines.error(error))?;
    }
    let source = [document.as_path(), lines.path()];
    let ended = reader.end(&source);
    ended.map_err(failed)?;
    Ok(vec![reader.history])
}

/// Writes the session of a run.
struct RunReader<'a> {
    history: History<'a>,
    run: Value,
    started: u64,
    begun: bool,
    /// The user's last message. Each model call repeats it.
    prompt: Option<String>,
    /// The event before, if it was an error.
    error: Option<Fields>,
    own_error: Option<Fields>,
}

impl RunReader<'_> {
    fn take(&mut self, event: Fields) -> io::Result<()> {
        let is = |kind: &str| event.get("event_type").is_some_and(|is| is == kind);
        if !std::mem::replace(&mut self.begun, true) {
            let start = event.get("payload").cloned().unwrap_or_default();
            let fields = run_fields(&self.run, &start);
            self.history.start_run(self.started, fields)?;
        }
        // An error just before the end of a run that failed is the run's own.
        let error = self.error.take();
        match is("RUN_END") && self.run["status"] == "error" {
            true => self.own_error = error,
            false => error.map_or(Ok(()), |error| self.add(&error))?,
        }
        if is("ERROR") {
            self.error = Some(event);
            return Ok(());
        }
        self.add(&event)
    }

    fn end(&mut self, source: &[&Path]) -> io::Result<()> {
        if let Some(error) = self.error.take() {
            self.add(&error)?;
        }
        if !self.begun {
            let fields = run_fields(&self.run, &Value::Null);
            self.history.start_run(self.started, fields)?;
        }
        self.history.keep_files(source)?;
        let outcome = match self.run["status"].as_str() {
            Some("ok") => Outcome::Ok,
            Some("error") => Outcome::Error,
            // The source doesn't say how it ended, or whether it did.
            _ => return Ok(()),
        };
        let time = given_time(self.run.get("ended_at"), "ended_at")?;
        let time = time.unwrap_or(self.history.last());
        let error = self.own_error.take();
        let error = error.and_then(|mut event| event.remove("payload"));
        self.history.end_run(time, outcome, json!({"error": error}))
    }

    fn add(&mut self, event: &Fields) -> io::Result<()> {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        let Some(kind) = text("event_type") else {
            return Err(io::Error::other("no `event_type`"));
        };
        let end = given_time(event.get("ts"), "ts")?.unwrap_or(self.history.last());
        let ms = event.get("duration_ms").and_then(Value::as_u64);
        let start = end.saturating_sub(ms.unwrap_or(0).saturating_mul(1_000_000));
        let payload = event.get("payload").cloned().unwrap_or_default();
        let call = Call {
            id: text("event_id").unwrap_or_default(),
            start,
            end,
            payload: &payload,
        };
        let history = &mut self.history;
        match kind {
            "RUN_START" | "RUN_END" => Ok(()),
            "LLM_CALL" => {
                self.prompt(&call)?;
                llm_call(&mut self.history, &call)
            }
            "TOOL_CALL" => tool_call(history, &call, event.get("meta").unwrap_or(&Value::Null)),
            "STATE_UPDATE" => history.event(Kind::StateUpdate, end, payload),
            "ERROR" => history.event(Kind::Error, end, json!({"error": payload})),
            "LOOP_WARNING" => {
                let warning = json!({
                    "pattern": payload["pattern"],
                    "repetitions": payload["repetitions"],
                    "window_size": payload["window_size"],
                    "evidence_event_ids": payload["evidence_event_ids"],
                });
                history.event(Kind::LoopWarning, end, warning)
            }
            unknown => {
                let with = match payload {
                    Value::Object(members) => members,
                    value => fields(json!({"payload": value})),
                };
                history.line_in(None, &event_kind(&unknown.to_lowercase()), end, &with)
            }
        }
    }

    /// Adds the user's message that a model call answers, unless the call before answered it too.
    fn prompt(&mut self, call: &Call<'_>) -> io::Result<()> {
        let prompt = user_message(&call.payload["prompt"]);
        if prompt.is_none() || prompt == self.prompt {
            return Ok(());
        }
        let message = json!({"content": prompt});
        self.prompt = prompt;
        self.history.event(Kind::MessageUser, call.start, message)
    }
}

/// The event of a model call or a tool call.
struct Call<'a> {
    id: &'a str,
    start: u64,
    end: u64,
    payload: &'a Value,
}

/// What a run is about, from its file and its first event.
fn run_fields(run: &Value, start: &Value) -> Value {
    json!({
        "agent": run["run_name"].as_str().unwrap_or("agentdbg"),
        "run_name": run["run_name"],
        "workspace_root": start["cwd"],
        "external_ids": {"agentdbg": run["run_id"]},
        "process": {"argv": start["argv"], "cwd": start["cwd"], "platform": start["platform"]},
    })
}

fn outcome(payload: &Value) -> Outcome {
    match payload["status"].as_str() {
        Some("ok") => Outcome::Ok,
        Some("error") => Outcome::Error,
        _ => Outcome::Unset,
    }
}

/// The user's message in a prompt: a text, or the last one in a list of messages or in the body of a request.
fn user_message(prompt: &Value) -> Option<String> {
    let messages = match prompt {
        Value::String(text) => return Some(text.clone()),
        Value::Object(body) => body.get("messages")?,
        other => other,
    };
    let mut messages = messages.as_array()?.iter().rev();
    let last = messages.find(|message| message["role"] == "user")?;
    match &last["content"] {
        Value::String(text) => Some(text.clone()),
        parts => {
            let parts = parts.as_array()?.iter();
            let texts = parts.filter_map(|part| part["text"].as_str());
            Some(texts.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
        }
    }
}

/// The body of the request that a prompt is, if it is more than a text.
fn request(prompt: &Value) -> Value {
    match prompt {
        Value::Array(messages) => json!({"messages": messages}),
        Value::Object(_) => prompt.clone(),
        _ => Value::Null,
    }
}

fn llm_call(history: &mut History<'_>, event: &Call<'_>) -> io::Result<()> {
    let &Call {
        id,
        start,
        end,
        payload,
    } = event;
    // Its own writer masks these counts as secrets: a text is unknown.
    let count = |name: &str| payload["usage"][name].as_u64();
    let usage = json!({
        "input_tokens": count("prompt_tokens"),
        "output_tokens": count("completion_tokens"),
        "total_tokens": count("total_tokens"),
    });
    let call = json!({
        "provider_id": payload["provider"],
        "model_id": payload["model"],
        "temperature": payload["temperature"],
        "request": request(&payload["prompt"]),
        "finish_reason": payload["stop_reason"],
        "usage": fields(usage),
        "error": payload["error"],
    });
    let open = json!({"provider_id": payload["provider"], "model_id": payload["model"]});
    let span = history.open(SpanKind::Model, id, start, open)?;
    if !payload["response"].is_null() {
        let response = match &payload["response"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        history.event_in(
            Some(span),
            Kind::MessageAssistant,
            end,
            json!({"content": response}),
        )?;
    }
    history.close(span, end, outcome(payload), call)
}

fn tool_call(history: &mut History<'_>, event: &Call<'_>, meta: &Value) -> io::Result<()> {
    let &Call {
        id,
        start,
        end,
        payload,
    } = event;
    let open =
        json!({"tool_id": payload["tool_name"], "tool_call_id": id, "args": payload["args"]});
    let span = history.open(SpanKind::Tool, id, start, open.clone())?;
    let mut call = open;
    call["result"] = payload["result"].clone();
    call["error"] = payload["error"].clone();
    // The format has no members for them.
    for name in ["stdout", "stderr", "exit_code"] {
        call[name] = meta[name].clone();
    }
    history.close(span, end, outcome(payload), call)
}
