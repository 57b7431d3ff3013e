//! `atif`: a trajectory of Harbor, with the trajectories of its subagents. Each is a session.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::document::read_document;
use super::history::{Fields, History, Span, fields};
use super::time::iso_time;
use super::{Import, ImportError};
use crate::trace::{Kind, Outcome, SpanKind, hex_digest};

const FORMAT: &str = "atif";
const VERSION: &str = "ATIF-v1.";

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let (raw, document) = read_document(path)?;
    let mut all = Trajectories {
        import,
        raw: &raw,
        written: Vec::new(),
        ids: HashSet::new(),
    };
    let read = all.trajectory(&document, None);
    read.map_err(|error| ImportError::new(path, error))?;
    Ok(all.written)
}

struct Trajectories<'a, 'r> {
    import: &'a Import,
    raw: &'r str,
    written: Vec<History<'a>>,
    ids: HashSet<String>,
}

impl Trajectories<'_, '_> {
    /// Writes a trajectory and those inside.
    fn trajectory(&mut self, document: &Value, parent: Option<&str>) -> io::Result<()> {
        let version = document["schema_version"].as_str();
        if !version.is_some_and(|version| version.starts_with(VERSION)) {
            let why = format!(
                "schema_version {}; {VERSION}x can be imported",
                document["schema_version"]
            );
            return Err(io::Error::other(why));
        }
        let id = self.id(document, parent);
        if !self.ids.insert(id.clone()) {
            return Err(io::Error::other(format!(
                "two trajectories have the id {id:?}"
            )));
        }
        let steps = document["steps"].as_array();
        let steps = steps.ok_or_else(|| io::Error::other(format!("{id:?} has no `steps`")))?;
        let mut trajectory = Trajectory {
            history: History::new(self.import, FORMAT, &id),
            model: document["agent"]["model_name"].clone(),
            summary: None,
            hidden: Vec::new(),
            before: None,
            calls: 0,
        };
        trajectory.begin(document, parent, steps)?;
        for (index, step) in steps.iter().enumerate() {
            let number = index + 1;
            let written = trajectory.step(step, number, steps.len() == 1);
            written
                .map_err(|error| io::Error::other(format!("step {number} of {id:?}: {error}")))?;
        }
        self.written.push(trajectory.finish(self.raw)?);
        let inside = document["subagent_trajectories"].as_array();
        inside
            .into_iter()
            .flatten()
            .try_for_each(|one| self.trajectory(one, Some(&id)))
    }

    /// Inside of another one, the session is often that of the outermost.
    fn id(&self, document: &Value, parent: Option<&str>) -> String {
        let text = |name: &str| document[name].as_str().filter(|id| !id.is_empty());
        let names = match parent {
            None => ["session_id", "trajectory_id"],
            Some(_) => ["trajectory_id", "session_id"],
        };
        let given = names
            .into_iter()
            .filter_map(text)
            .find(|id| !self.ids.contains(*id));
        given.map(str::to_owned).unwrap_or_else(|| match parent {
            None => format!("atif-{}", &hex_digest(self.raw.as_bytes())[..24]),
            Some(parent) => format!("{parent}-{}", self.ids.len()),
        })
    }
}

struct Trajectory<'a> {
    history: History<'a>,
    /// The model of steps that name none.
    model: Value,
    /// A compaction that happened after the next step: when, and its summary.
    summary: Option<(u64, Value)>,
    /// Steps that are hidden, until one is not.
    hidden: Vec<String>,
    /// The last step that is not hidden.
    before: Option<String>,
    calls: usize,
}

/// A text, or the texts of a list of parts.
fn content(message: &Value) -> String {
    let of_parts = |parts: &Vec<Value>| {
        let texts = parts.iter().filter_map(|part| part["text"].as_str());
        texts.collect::<Vec<_>>().join("\n\n")
    };
    match message {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.as_array().map_or_else(|| other.to_string(), of_parts),
    }
}

/// The files among the parts of a message.
fn attachments(message: &Value) -> Option<Value> {
    let files = message
        .as_array()?
        .iter()
        .filter(|part| part["type"] != "text");
    let files = files.map(|part| {
        let source = &part["source"];
        Value::from(fields(
            json!({"media_type": source["media_type"], "url": source["path"]}),
        ))
    });
    let files: Vec<_> = files.collect();
    (!files.is_empty()).then(|| files.into())
}

impl<'a> Trajectory<'a> {
    fn begin(&mut self, document: &Value, parent: Option<&str>, steps: &[Value]) -> io::Result<()> {
        let mut times = steps
            .iter()
            .filter_map(|step| iso_time(step["timestamp"].as_str()?));
        let start = times.next().unwrap_or(0);
        let agent = &document["agent"];
        let text = |value: &Value, name: &str| {
            let text = value[name].as_str();
            text.filter(|text| *text != "unknown").map(str::to_owned)
        };
        let version = text(agent, "version").map(|version| json!({"version": version}));
        let extra = json!({"notes": document["notes"], "extra": document["extra"], "agent": agent["extra"]});
        let extra = fields(extra);
        self.history.start_run(
            start,
            json!({
                "agent": text(agent, "name"),
                "model_id": agent["model_name"],
                "process": version,
                "parent_session_id": parent,
                "metadata": (!extra.is_empty()).then_some(extra),
            }),
        )?;
        if let Some(tools) = agent["tool_definitions"].as_array() {
            let tools = Value::from(tools.clone());
            let digest = hex_digest(tools.to_string().as_bytes());
            self.history.event(
                Kind::ToolCatalog,
                start,
                json!({"digest": digest, "tools": tools}),
            )?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Value, number: usize, is_only: bool) -> io::Result<()> {
        let time = step["timestamp"]
            .as_str()
            .and_then(iso_time)
            .unwrap_or(self.history.last());
        let extra = &step["extra"];
        let id = format!("step-{number}");
        let text = content(&step["message"]);
        if extra["summary"] == true {
            self.compact(None)?;
            self.summary = Some((time, text.into()));
            return Ok(());
        }
        let is_hidden = extra["hidden"] == true;
        if !is_hidden {
            self.rewind()?;
        }
        let message = json!({
            "content": text,
            "message_id": id,
            "attachments": attachments(&step["message"]),
            "complete": (extra["incomplete"] == true).then_some(false),
        });
        match step["source"].as_str() {
            Some("system") if number == 1 && extra["address"].is_null() => {
                let digest = hex_digest(text.as_bytes());
                // A trajectory has at least one step.
                if !text.is_empty() || !is_only {
                    self.history.event(
                        Kind::SystemPrompt,
                        time,
                        json!({"digest": digest, "body": text}),
                    )?;
                }
                return Ok(());
            }
            Some("system") => self.history.event(Kind::MessageSystem, time, message)?,
            Some("user") => {
                self.history.start_turn(time, Outcome::Unset)?;
                self.history.event(Kind::MessageUser, time, message)?;
            }
            Some("agent") => self.agent(step, time, &id, message)?,
            source => return Err(io::Error::other(format!("unknown source {source:?}"))),
        }
        self.compact(Some(id.clone()))?;
        match is_hidden {
            true => self.hidden.push(id),
            false => self.before = Some(id),
        }
        Ok(())
    }

    /// Writes the compaction whose summary stands before this step, which was kept.
    fn compact(&mut self, kept: Option<String>) -> io::Result<()> {
        let Some((time, summary)) = self.summary.take() else {
            return Ok(());
        };
        // It hides what came before.
        self.hidden.clear();
        let fields = json!({"summary": summary, "tail_start_id": kept});
        let span = self
            .history
            .open(SpanKind::Compaction, &time.to_string(), time, Value::Null)?;
        self.history.close(span, time, Outcome::Ok, fields)
    }

    /// Hides the steps since the last one that was not hidden.
    fn rewind(&mut self) -> io::Result<()> {
        if self.hidden.is_empty() || self.summary.is_some() {
            return Ok(());
        }
        let ids = std::mem::take(&mut self.hidden);
        let rewind = json!({"to_message_id": self.before, "hidden_ids": ids});
        self.history
            .event(Kind::Rewind, self.history.last(), rewind)
    }

    fn agent(&mut self, step: &Value, time: u64, id: &str, message: Value) -> io::Result<()> {
        let is_ours = !step["extra"]["address"].is_null();
        let model = match &step["model_name"] {
            Value::Null if is_ours => &Value::Null,
            Value::Null => &self.model,
            named => named,
        };
        let mut call = json!({"model_id": model});
        let span = self.history.open(SpanKind::Model, id, time, call.clone())?;
        if let Some(reasoning) = step["reasoning_content"].as_str() {
            let line = json!({"content": reasoning, "message_id": id});
            self.history
                .event_in(Some(span), Kind::MessageReasoning, time, line)?;
        }
        // A step without a text has a message if something refers to it.
        let extra = &step["extra"];
        let is_marked = extra["hidden"] == true || extra["incomplete"] == true;
        let is_named = is_marked || self.summary.is_some();
        let has_text = message["content"] != "" || message["attachments"].is_array();
        if has_text || is_named {
            self.history
                .event_in(Some(span), Kind::MessageAssistant, time, message)?;
        }
        call["usage"] = step["metrics"].as_object().map(usage).into();
        self.history.close(span, time, Outcome::Unset, call)?;
        self.tools(step, time, span)
    }

    fn tools(&mut self, step: &Value, time: u64, model: Span) -> io::Result<()> {
        let results = step["observation"]["results"].as_array();
        let mut results: Vec<_> = results.into_iter().flatten().collect();
        for call in step["tool_calls"].as_array().into_iter().flatten() {
            let id = call["tool_call_id"].as_str().unwrap_or_default();
            let of_call = |result: &&Value| result["source_call_id"] == id;
            let result = results.iter().position(of_call);
            let result = result.map(|at| results.remove(at));
            self.tool(call, result, time, model)?;
        }
        for result in results {
            self.subagents(result, None, time)?;
            let text = content(&result["content"]);
            if !text.is_empty() {
                self.history
                    .event(Kind::MessageTool, time, json!({"content": text}))?;
            }
        }
        let unread = step["extra"]["unread_subagents"].as_array();
        for child in unread.into_iter().flatten() {
            self.history
                .event(Kind::Subagent, time, json!({"child_session_id": child}))?;
        }
        Ok(())
    }

    fn tool(
        &mut self,
        call: &Value,
        result: Option<&Value>,
        time: u64,
        model: Span,
    ) -> io::Result<()> {
        let mut fields = json!({
            "tool_id": call["function_name"],
            "tool_call_id": call["tool_call_id"],
            "args": call["arguments"],
            "model_span_id": format!("{:016x}", model.id()),
        });
        self.calls += 1;
        let key = self.calls.to_string();
        let span = self
            .history
            .open(SpanKind::Tool, &key, time, fields.clone())?;
        let mut outcome = Outcome::Interrupted;
        if let Some(result) = result {
            self.subagents(result, Some(span), time)?;
            let extra = &result["extra"];
            let known = extra["outcome"].as_str().and_then(Outcome::parse);
            outcome = match extra["is_error"].as_bool() {
                Some(true) => known.unwrap_or(Outcome::Error),
                _ => Outcome::Ok,
            };
            if !result["content"].is_null() {
                fields["result"] = content(&result["content"]).into();
            } else {
                outcome = Outcome::Interrupted;
            }
        }
        self.history.close(span, time, outcome, fields)
    }

    /// The subagents that a result refers to.
    fn subagents(&mut self, result: &Value, span: Option<Span>, time: u64) -> io::Result<()> {
        let named = match &result["subagent_trajectory_ref"] {
            Value::Array(named) => named.clone(),
            Value::Null => Vec::new(),
            one => vec![one.clone()],
        };
        for one in named {
            let id = ["trajectory_id", "session_id"]
                .into_iter()
                .find_map(|name| one[name].as_str());
            let subagent = json!({"child_session_id": id});
            self.history
                .event_in(span, Kind::Subagent, time, subagent)?;
        }
        Ok(())
    }

    fn finish(mut self, raw: &str) -> io::Result<History<'a>> {
        self.compact(None)?;
        self.rewind()?;
        self.history.keep_source(raw)?;
        Ok(self.history)
    }
}

fn usage(metrics: &Fields) -> Value {
    let get = |name: &str| metrics.get(name).cloned().unwrap_or_default();
    let usage = json!({
        "input_tokens": get("prompt_tokens"),
        "output_tokens": get("completion_tokens"),
        "cache_read_tokens": get("cached_tokens"),
        "cost_usd": get("cost_usd"),
    });
    fields(usage).into()
}
