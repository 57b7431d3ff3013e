//! Steps of the agent: a model call, its tool calls, and what they gave back.

use std::io;

use serde_json::{Value, json};

use super::super::history::{Fields, Span};
use super::Trajectory;
use super::members::{content, filled, metadata, outcome, time_in, usage};
use crate::trace::{Kind, Outcome, SpanKind};

/// The call of a tool, and the results that belong to it.
struct Call<'a> {
    call: &'a Value,
    results: Vec<&'a Value>,
}

impl<'a> Call<'a> {
    /// A call with the first of these results that names it. Ids may repeat.
    fn take(call: &'a Value, results: &mut Vec<&'a Value>) -> Self {
        let id = &call["tool_call_id"];
        let names_it = |result: &&Value| id.is_string() && result["source_call_id"] == *id;
        let own = results.iter().position(names_it);
        let own = own.map(|at| results.remove(at));
        Self {
            call,
            results: own.into_iter().collect(),
        }
    }
}

fn calls(step: &Value) -> impl Iterator<Item = &Value> {
    step["tool_calls"].as_array().into_iter().flatten()
}

fn results(step: &Value) -> impl Iterator<Item = &Value> {
    step["observation"]["results"]
        .as_array()
        .into_iter()
        .flatten()
}

/// The calls of a step with their results. A result that names none of them is about the whole step; it is given to the last
/// call. Without calls, the results are left.
fn calls_with_results(step: &Value) -> (Vec<Call<'_>>, Vec<&Value>) {
    let mut left: Vec<_> = results(step).collect();
    let mut calls: Vec<_> = calls(step)
        .map(|call| Call::take(call, &mut left))
        .collect();
    if let Some(last) = calls.last_mut() {
        let of_step = |result: &&Value| !result["content"].is_null();
        let (of_step, rest) = left.into_iter().partition::<Vec<_>, _>(of_step);
        last.results.extend(of_step);
        left = rest;
    }
    (calls, left)
}

impl Trajectory<'_> {
    pub(super) fn agent(
        &mut self,
        step: &Value,
        time: u64,
        id: &str,
        message: Value,
    ) -> io::Result<()> {
        let extra = &step["extra"];
        let is_ours = !extra["address"].is_null();
        let model = match &step["model_name"] {
            Value::Null if is_ours => &Value::Null,
            Value::Null => &self.model,
            named => named,
        };
        let mut call = json!({"model_id": model, "variant": effort(&step["reasoning_effort"])});
        let span = match step["llm_call_count"].as_u64() {
            Some(0) => None,
            _ => Some(self.history.open(SpanKind::Model, id, time, call.clone())?),
        };
        self.say(step, span, time, id, message)?;
        if let Some(span) = span {
            call["usage"] = usage(&step["metrics"]).into();
            call["finish_reason"] = extra["finish_reason"].clone();
            call["metadata"] = filled(step_metadata(step)).into();
            let end = time_in(extra, "ended_at").unwrap_or(time).max(time);
            self.history.close(span, end, Outcome::Unset, call)?;
        }
        self.tools(step, time, span)
    }

    /// Writes what the model thought and said.
    fn say(
        &mut self,
        step: &Value,
        span: Option<Span>,
        time: u64,
        id: &str,
        mut message: Value,
    ) -> io::Result<()> {
        if let Some(reasoning) = step["reasoning_content"].as_str() {
            let line = json!({"content": reasoning, "message_id": id});
            self.history
                .event_in(span, Kind::MessageReasoning, time, line)?;
        }
        // The model call has it.
        if span.is_some() {
            message["metadata"] = Value::Null;
        }
        // A step without a text has a message if something refers to it.
        let extra = &step["extra"];
        let is_marked = extra["hidden"] == true || extra["incomplete"] == true;
        let is_named = is_marked || self.is_kept_next();
        let has = |name: &str| message[name].is_array();
        let has_content = message["content"] != "" || has("attachments") || has("parts");
        if has_content || is_named {
            self.history
                .event_in(span, Kind::MessageAssistant, time, message)?;
        }
        Ok(())
    }

    /// A step that was copied from another trajectory, as the model was sent it: messages only, since its calls are counted
    /// there.
    pub(super) fn copied(
        &mut self,
        step: &Value,
        time: u64,
        id: &str,
        mut message: Value,
    ) -> io::Result<()> {
        let (calls, left) = calls_with_results(step);
        let asked = calls.iter().map(|Call { call, .. }| {
            json!({"type": "tool_call", "id": call["tool_call_id"], "name": call["function_name"], "arguments": call["arguments"]})
        });
        let asked: Vec<_> = asked.collect();
        if !asked.is_empty() {
            message["parts"] = asked.into();
        }
        self.say(step, None, time, id, message)?;
        for Call { call, results } in &calls {
            if let Some(text) = text_of(results) {
                let part = json!({"type": "tool_call_response", "id": call["tool_call_id"], "response": text});
                let line = json!({"parts": [part], "metadata": {"is_copied_context": true}});
                self.history.event(Kind::MessageTool, time, line)?;
            }
        }
        self.observe(&left, time)
    }

    fn tools(&mut self, step: &Value, time: u64, model: Option<Span>) -> io::Result<()> {
        let (calls, left) = calls_with_results(step);
        let is_ours = !step["extra"]["address"].is_null();
        for call in calls {
            self.tool(&call, is_ours, time, model)?;
        }
        self.observe(&left, time)?;
        self.unread_subagents(step, time)
    }

    fn tool(
        &mut self,
        Call { call, results }: &Call<'_>,
        is_ours: bool,
        time: u64,
        model: Option<Span>,
    ) -> io::Result<()> {
        let mut fields = json!({
            "tool_id": call["function_name"],
            "tool_call_id": call["tool_call_id"],
            "args": call["arguments"],
            "model_span_id": model.map(|model| format!("{:016x}", model.id())),
        });
        self.calls += 1;
        let key = self.calls.to_string();
        let start = time_in(&call["extra"], "started_at").unwrap_or(time);
        let span = self
            .history
            .open(SpanKind::Tool, &key, start, fields.clone())?;
        let mut end = start;
        // Our export has a result for each call that ended.
        let mut how = match is_ours {
            true => Outcome::Interrupted,
            false => Outcome::Unset,
        };
        let mut about = metadata(&call["extra"]);
        for result in results {
            self.subagents(result, Some(span), start)?;
            let extra = &result["extra"];
            about.extend(metadata(extra));
            if !result["content"].is_null() {
                how = outcome(extra);
                end = time_in(extra, "ended_at").unwrap_or(end).max(start);
                fields["exit_code"] = extra["exit_code"].clone();
            }
        }
        fields["result"] = text_of(results).into();
        fields["metadata"] = filled(about).into();
        self.history.close(span, end, how, fields)
    }

    /// What was observed without a call, as messages.
    pub(super) fn observe(&mut self, results: &[&Value], time: u64) -> io::Result<()> {
        for result in results {
            self.subagents(result, None, time)?;
            let text = content(&result["content"]);
            if !text.is_empty() {
                let line = json!({"content": text, "metadata": filled(metadata(&result["extra"]))});
                self.history.event(Kind::MessageTool, time, line)?;
            }
        }
        Ok(())
    }

    /// What a step of the user or the system observed: one message, with the step's id if it has no other.
    pub(super) fn observe_step(
        &mut self,
        step: &Value,
        time: u64,
        id: Option<&str>,
    ) -> io::Result<()> {
        let results: Vec<_> = results(step).collect();
        for result in &results {
            self.subagents(result, None, time)?;
        }
        if let Some(text) = text_of(&results) {
            let line = json!({"content": text, "message_id": id});
            self.history.event(Kind::MessageTool, time, line)?;
        }
        self.unread_subagents(step, time)
    }

    fn unread_subagents(&mut self, step: &Value, time: u64) -> io::Result<()> {
        let unread = step["extra"]["unread_subagents"].as_array();
        for child in unread.into_iter().flatten() {
            self.history
                .event(Kind::Subagent, time, json!({"child_session_id": child}))?;
        }
        Ok(())
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
}

/// The texts of results. None if there is no content.
fn text_of(results: &[&Value]) -> Option<String> {
    let contents = results.iter().map(|result| &result["content"]);
    let texts: Vec<_> = contents.filter(|of| !of.is_null()).map(content).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// The effort of reasoning: a word or a number.
fn effort(given: &Value) -> Option<String> {
    match given {
        Value::Null => None,
        Value::String(word) => Some(word.clone()),
        other => Some(other.to_string()),
    }
}

/// The metadata of a step, and how many calls of the model it stands for if that is not one.
pub(super) fn step_metadata(step: &Value) -> Fields {
    let mut metadata = metadata(&step["extra"]);
    if let Some(count) = step["llm_call_count"].as_u64().filter(|count| *count > 1) {
        metadata.insert("llm_call_count".into(), count.into());
    }
    if step["is_copied_context"] == true {
        metadata.insert("is_copied_context".into(), true.into());
    }
    metadata
}
