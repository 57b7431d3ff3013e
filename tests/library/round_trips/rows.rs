//! The rows of an export, without what an import may change. `docs/formats.md` names each of these.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
#[cfg(feature = "sqlite")]
use serde_json::json;
#[cfg(feature = "sqlite")]
use spanledger::trace::Line;

/// The rows of an export, in order. Prompts and catalogs come last.
pub fn read(format: &str, path: &Path) -> Vec<Value> {
    let mut rows = match format {
        "chat-sqlite" => {
            let mut rows = tables(path, &["chat_sessions", "chat_messages", "chat_parts"]);
            // A database has those of all sessions. The ones that no message names belong to none.
            let named = format!("{rows:?}");
            let assets = ["system_prompts", "tool_catalogs", "permission_rules"];
            rows.extend(tables(path, &assets));
            let is_named = |row: &Value| {
                row["digest"]
                    .as_str()
                    .is_none_or(|digest| named.contains(digest))
            };
            rows.retain(is_named);
            rows
        }
        "trace-sqlite" => tables(path, &["events"]),
        "chat-json" => document(path),
        "atif" | "trial" => vec![serde_json::from_slice(&fs::read(path).unwrap()).unwrap()],
        "otlp-json" => otlp_spans(path),
        _ => {
            let path = match path.is_dir() {
                true => path.join("events.jsonl"),
                false => path.to_owned(),
            };
            let text = fs::read_to_string(path).unwrap();
            let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
            rows.collect()
        }
    };
    let digest = |row: &Value| {
        row["data"]["digest"]
            .as_str()
            .or(row["digest"].as_str())
            .map(str::to_owned)
    };
    rows.sort_by_cached_key(digest);
    if format == "trajectory" {
        number_steps(&mut rows);
    }
    rows
}

/// The spans of requests, in the order of their ids.
fn otlp_spans(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut spans = Vec::new();
    for line in text.lines() {
        let request: Value = serde_json::from_str(line).unwrap();
        let lists = request["resourceSpans"].as_array().unwrap().iter();
        let lists = lists.flat_map(|one| one["scopeSpans"].as_array().unwrap());
        spans.extend(lists.flat_map(|one| one["spans"].as_array().unwrap().clone()));
    }
    spans.sort_by_cached_key(|span| span["spanId"].to_string());
    spans
}

/// Attributes are in any order. Where a line was and what its writer counted is not carried.
#[cfg(feature = "mirror")]
pub fn otlp_span(span: &mut Value) {
    if let Some(Value::Array(attributes)) = span.get_mut("attributes") {
        attributes.retain(|one| {
            let key = one["key"].as_str().unwrap();
            key != "agent.trace.address" && !key.starts_with("agent.totals.")
        });
        attributes.sort_by_cached_key(|one| one["key"].to_string());
    }
    for part in ["events", "links"] {
        let parts = span.get_mut(part).and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(otlp_span);
    }
}

/// The record has no turns, so its session has one.
pub fn trial(record: &mut Value) {
    record["outputs"]["agent_result"]["turns_used"] = Value::Null;
}

/// Numbers the steps of a trajectory without holes: a model call without entries is not in it.
fn number_steps(rows: &mut [Value]) {
    let steps: BTreeSet<u64> = rows.iter().filter_map(|row| row["step"].as_u64()).collect();
    for row in rows {
        let step = row["step"].as_u64().filter(|step| *step > 0);
        if let Some(step) = step {
            row["step"] = steps.range(1..=step).count().into();
        }
    }
}

fn document(path: &Path) -> Vec<Value> {
    let mut document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let mut rows = vec![document["session"].take()];
    for message in document["messages"].as_array_mut().unwrap() {
        rows.push(message["message"].take());
        rows.append(message["parts"].as_array_mut().unwrap());
    }
    for assets in ["system_prompts", "tool_catalogs", "permission_rules"] {
        rows.append(document[assets].as_array_mut().unwrap());
    }
    rows
}

#[cfg(not(feature = "sqlite"))]
fn tables(_: &Path, _: &[&str]) -> Vec<Value> {
    unreachable!()
}

#[cfg(feature = "sqlite")]
fn tables(path: &Path, tables: &[&str]) -> Vec<Value> {
    use rusqlite::types::ValueRef;
    let database = rusqlite::Connection::open(path).unwrap();
    let mut all = Vec::new();
    for table in tables {
        let mut query = database
            .prepare(&format!("SELECT * FROM {table} ORDER BY rowid"))
            .unwrap();
        let names: Vec<String> = query.column_names().map(String::from).collect();
        let mut rows = query.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let mut object = json!({});
            for (at, name) in names.iter().enumerate() {
                object[name] = match row.get_ref(at).unwrap() {
                    ValueRef::Null => Value::Null,
                    ValueRef::Integer(number) => number.into(),
                    ValueRef::Real(number) => number.into(),
                    ValueRef::Text(text) | ValueRef::Blob(text) => {
                        std::str::from_utf8(text).unwrap().into()
                    }
                };
            }
            all.push(object);
        }
    }
    all
}

fn remove(object: &mut Value, names: &[&str]) {
    if let Some(members) = object.as_object_mut() {
        names.iter().for_each(|name| {
            members.remove(*name);
        });
    }
}

pub fn trajectory(row: &mut Value) {
    remove(&mut row["metadata"], &["seg", "seq", "span_id"]);
    // A result's time is that of its call and its duration, in milliseconds.
    if row["role"] == "tool_result" {
        remove(row, &["timestamp"]);
    }
}

pub fn agentdbg(row: &mut Value) {
    remove(row, &["event_id", "run_id", "parent_id", "meta"]);
    remove(&mut row["payload"], &["evidence_event_ids"]);
    if row["event_type"] == "RUN_END" {
        // Both ends of a run are milliseconds.
        remove(row, &["duration_ms"]);
        remove(&mut row["payload"]["summary"], &["duration_ms"]);
    }
}

pub fn atif(row: &mut Value) {
    if row["schema_version"].is_string() {
        remove(row, &["trajectory_id"]);
    }
    for step in row["steps"].as_array_mut().into_iter().flatten() {
        remove(&mut step["extra"], &["address"]);
    }
    for inside in row["subagent_trajectories"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        atif(inside);
    }
}

pub fn chat(row: &mut Value) {
    if row["type"].is_string() && row["data"].is_object() {
        return chat(&mut row["data"]);
    }
    let parse = |row: &mut Value, name: &str| {
        if let Some(text) = row[name].as_str() {
            row[name] = serde_json::from_str(text).unwrap();
        } else {
            remove(row, &[name]);
        }
    };
    parse(row, "metadata_json");
    parse(row, "data_json");
    remove(&mut row["metadata_json"], &["address", "message_id"]);
    remove(&mut row["data_json"]["data"], &["message_id"]);
    remove(row, &["updated_at"]);
}

#[cfg(feature = "sqlite")]
pub fn trace_sqlite(row: &mut Value) {
    if row["kind"] == "import" {
        *row = Value::Null;
        return;
    }
    remove(row, &["id"]);
    let mut payload: Value = serde_json::from_str(row["payload_json"].as_str().unwrap()).unwrap();
    remove(&mut payload["spanledger"], &["seg", "seq"]);
    remove(&mut payload, &["totals"]);
    row["payload_json"] = payload;
}

/// The lines of a session, apart from those that are not exported.
#[cfg(feature = "sqlite")]
pub fn lines(lines: &[Line]) -> Vec<Value> {
    let left_out = [
        "segment",
        "checkpoint",
        "message_delta",
        "tool_input_delta",
        "span_update",
        "import",
    ];
    let lines = lines
        .iter()
        .filter(|line| !left_out.contains(&line.kind.as_str()));
    let line = |line: &Line| {
        let mut payload = line.payload.clone();
        let closes = payload.get("closes").and_then(Value::as_str);
        let kind = closes.unwrap_or(&line.kind).to_owned();
        payload.remove("totals");
        json!([
            kind,
            line.turn,
            line.trace_id,
            line.span_id,
            line.parent_span_id,
            payload
        ])
    };
    lines.map(line).collect()
}
