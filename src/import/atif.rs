//! `atif`: a trajectory of Harbor, with the trajectories of its subagents. Each is a session.

mod heads;

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::document::{Members, Want, parse, read_members};
use super::history::{Fields, History, Span, fields};
use super::{Import, ImportError};
use crate::trace::{Kind, Outcome, SpanKind, hex_digest};
use heads::{Head, Heads, step_time, want};

const FORMAT: &str = "atif";

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let mut heads = Heads::default();
    read_members(path, &mut heads)?;
    let ids = heads.ids(path);
    let mut steps = Steps {
        import,
        path,
        heads: heads.all,
        ids: ids.map_err(|error| ImportError::new(path, error))?,
        next: 0,
        open: Vec::new(),
        written: Vec::new(),
    };
    read_members(path, &mut steps)?;
    let mut written = steps.written;
    written.sort_by_key(|(number, _)| *number);
    Ok(written.into_iter().map(|(_, history)| history).collect())
}

/// Writes the steps of all trajectories.
struct Steps<'a, 'p> {
    import: &'a Import,
    path: &'p Path,
    heads: Vec<Head>,
    ids: Vec<String>,
    /// The number of the next trajectory.
    next: usize,
    open: Vec<Trajectory<'a>>,
    written: Vec<(usize, History<'a>)>,
}

impl Members for Steps<'_, '_> {
    fn want(&mut self, name: &str) -> Want {
        want(name)
    }

    fn begin(&mut self) -> io::Result<()> {
        let number = self.next;
        self.next += 1;
        let (Some(head), Some(id)) = (self.heads.get(number), self.ids.get(number)) else {
            return Err(io::Error::other("it changed while it was read"));
        };
        let mut trajectory = Trajectory {
            history: History::new(self.import, FORMAT, id),
            number,
            model: head.get("agent")["model_name"].clone(),
            compactions: Vec::new(),
            kept: None,
            hidden: Vec::new(),
            before: None,
            steps: 0,
            calls: 0,
        };
        let parent = head.parent.map(|parent| self.ids[parent].as_str());
        trajectory.begin(head, parent)?;
        self.open.push(trajectory);
        Ok(())
    }

    fn value(&mut self, _: &str, step: &str) -> io::Result<()> {
        let Some(trajectory) = self.open.last_mut() else {
            return Ok(());
        };
        let step = parse(step)?;
        trajectory.steps += 1;
        let is_only = self.heads[trajectory.number].steps == 1;
        trajectory.step(&step, is_only).map_err(|error| {
            let (step, id) = (trajectory.steps, &self.ids[trajectory.number]);
            io::Error::other(format!("step {step} of {id:?}: {error}"))
        })
    }

    fn end(&mut self) -> io::Result<()> {
        if let Some(trajectory) = self.open.pop() {
            let number = trajectory.number;
            self.written.push((number, trajectory.finish(self.path)?));
        }
        Ok(())
    }
}

struct Trajectory<'a> {
    history: History<'a>,
    number: usize,
    /// The model of steps that name none.
    model: Value,
    /// Compactions that are not written yet: when they happened, and their summaries.
    compactions: Vec<(u64, Value)>,
    /// The first step that they kept, once it is known.
    kept: Option<String>,
    /// Steps that are hidden, until one is not.
    hidden: Vec<String>,
    /// The last step that is not hidden.
    before: Option<String>,
    steps: usize,
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
    fn begin(&mut self, head: &Head, parent: Option<&str>) -> io::Result<()> {
        let start = head.start.unwrap_or(0);
        let agent = head.get("agent");
        let text = |value: &Value, name: &str| {
            let text = value[name].as_str();
            text.filter(|text| *text != "unknown").map(str::to_owned)
        };
        let version = text(agent, "version").map(|version| json!({"version": version}));
        let extra = json!({"notes": head.get("notes"), "extra": head.get("extra"), "agent": agent["extra"]});
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

    fn step(&mut self, step: &Value, is_only: bool) -> io::Result<()> {
        let number = self.steps;
        let time = step_time(step).unwrap_or(self.history.last());
        let extra = &step["extra"];
        let id = format!("step-{number}");
        let text = content(&step["message"]);
        if extra["summary"] == true {
            if self.kept.is_some() {
                self.compact()?;
            }
            self.compactions.push((time, text.into()));
            return Ok(());
        }
        let is_hidden = extra["hidden"] == true;
        if !is_hidden {
            self.continue_conversation()?;
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
        if self.is_kept_next() {
            // The compaction hides what came before.
            self.hidden.clear();
            self.kept = Some(id.clone());
        }
        match is_hidden {
            true => self.hidden.push(id),
            false => self.before = Some(id),
        }
        Ok(())
    }

    /// Whether the next step is the first one that a compaction kept.
    fn is_kept_next(&self) -> bool {
        self.kept.is_none() && !self.compactions.is_empty()
    }

    /// Writes the rewind and the compactions that happened before a step that is visible, or before the end.
    fn continue_conversation(&mut self) -> io::Result<()> {
        if self.is_kept_next() {
            return Ok(());
        }
        self.rewind()?;
        // After the rewind, which would undo them.
        self.compact()
    }

    fn compact(&mut self) -> io::Result<()> {
        let kept = self.kept.take();
        let compactions = std::mem::take(&mut self.compactions);
        for (at, (time, summary)) in compactions.into_iter().enumerate() {
            let fields = json!({"summary": summary, "tail_start_id": kept});
            let key = format!("{time}-{at}");
            let span = self
                .history
                .open(SpanKind::Compaction, &key, time, Value::Null)?;
            self.history.close(span, time, Outcome::Ok, fields)?;
        }
        Ok(())
    }

    /// Hides the steps since the last one that was not hidden.
    fn rewind(&mut self) -> io::Result<()> {
        if self.hidden.is_empty() {
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
        let is_named = is_marked || self.is_kept_next();
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

    fn finish(mut self, source: &Path) -> io::Result<History<'a>> {
        self.rewind()?;
        self.compact()?;
        self.history.keep_files(&[source])?;
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
