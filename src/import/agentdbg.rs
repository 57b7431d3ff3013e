//! `agentdbg`: a run directory. A run is a session with one run.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::document::read_document;
use super::history::{Fields, History};
use super::lines::JsonLines;
use super::{Import, ImportError};
use crate::trace::{Kind, Outcome, SpanKind, parse_time};

pub(super) fn read<'a>(import: &'a Import, dir: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let document = dir.join("run.json");
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
    let mut history = History::new(import, "agentdbg", &id);
    let started = run["started_at"].as_str().and_then(parse_time).unwrap_or(0);
    let mut lines = JsonLines::open(&dir.join("events.jsonl"))?;
    let mut begun = false;
    // An error just before the end of a run that failed is the run's own.
    let mut error: Option<Fields> = None;
    while let Some(event) = lines.next()? {
        let is = |kind: &str| event.get("event_type").is_some_and(|is| is == kind);
        let own = error.take_if(|_| !(is("RUN_END") && run["status"] == "error"));
        let added = begin(&mut history, &mut begun, started, &run, &event)
            .and_then(|()| own.map_or(Ok(()), |error| add(&mut history, &error)));
        added.map_err(|error| lines.error(error))?;
        match is("ERROR") {
            true => error = Some(event),
            false => add(&mut history, &event).map_err(|error| lines.error(error))?,
        }
    }
    let own = error.take_if(|_| run["status"] != "error");
    own.map_or(Ok(()), |error| add(&mut history, &error))
        .map_err(|error| lines.error(error))?;
    let source = [document.as_path(), lines.path()];
    let error = error.and_then(|mut event| event.remove("payload"));
    let ended = end(&mut history, begun, started, &run, &source, error);
    ended.map_err(|error| ImportError::new(dir, error))?;
    Ok(vec![history])
}

fn end(
    history: &mut History<'_>,
    begun: bool,
    started: u64,
    run: &Value,
    source: &[&Path],
    error: Option<Value>,
) -> io::Result<()> {
    if !begun {
        history.start_run(started, run_fields(run, &Value::Null))?;
    }
    history.keep_files(source)?;
    let outcome = match run["status"].as_str() {
        Some("ok") => Outcome::Ok,
        Some("error") => Outcome::Error,
        _ => return Ok(()),
    };
    let time = run["ended_at"].as_str().and_then(parse_time);
    let time = time.unwrap_or(history.last());
    history.end_run(time, outcome, json!({"error": error}))
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

/// Starts the run before its first event.
fn begin(
    history: &mut History<'_>,
    begun: &mut bool,
    started: u64,
    run: &Value,
    event: &Fields,
) -> io::Result<()> {
    if std::mem::replace(begun, true) {
        return Ok(());
    }
    let payload = event.get("payload").cloned().unwrap_or_default();
    history.start_run(started, run_fields(run, &payload))
}

fn add(history: &mut History<'_>, event: &Fields) -> io::Result<()> {
    let text = |name: &str| event.get(name).and_then(Value::as_str);
    let Some(kind) = text("event_type") else {
        return Err(io::Error::other("no `event_type`"));
    };
    let end = text("ts").and_then(parse_time).unwrap_or(history.last());
    let ms = event
        .get("duration_ms")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    let start = end.saturating_sub(ms.saturating_mul(1_000_000));
    let payload = event.get("payload").cloned().unwrap_or_default();
    let id = text("event_id").unwrap_or_default();
    match kind {
        "RUN_START" | "RUN_END" => Ok(()),
        "LLM_CALL" => llm_call(history, id, start, end, &payload),
        "TOOL_CALL" => tool_call(history, id, start, end, &payload),
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
        other => Err(io::Error::other(format!("unknown event_type {other:?}"))),
    }
}

fn outcome(payload: &Value) -> Outcome {
    match payload["status"].as_str() {
        Some("ok") => Outcome::Ok,
        Some("error") => Outcome::Error,
        _ => Outcome::Unset,
    }
}

fn llm_call(
    history: &mut History<'_>,
    id: &str,
    start: u64,
    end: u64,
    payload: &Value,
) -> io::Result<()> {
    if payload["prompt"].is_string() {
        history.event(
            Kind::MessageUser,
            start,
            json!({"content": payload["prompt"]}),
        )?;
    }
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
        "request": payload["prompt"].as_object(),
        "finish_reason": payload["stop_reason"],
        "usage": super::history::fields(usage),
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

fn tool_call(
    history: &mut History<'_>,
    id: &str,
    start: u64,
    end: u64,
    payload: &Value,
) -> io::Result<()> {
    let open =
        json!({"tool_id": payload["tool_name"], "tool_call_id": id, "args": payload["args"]});
    let span = history.open(SpanKind::Tool, id, start, open.clone())?;
    let mut call = open;
    call["result"] = payload["result"].clone();
    call["error"] = payload["error"].clone();
    history.close(span, end, outcome(payload), call)
}
