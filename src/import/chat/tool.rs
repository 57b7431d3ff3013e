//! Tool calls in messages.

use std::io;

use serde_json::{Value, json};

use super::part::Part;
use super::{Chat, Fields, Message, ToolEnd, text};
use crate::import::history::Span;
use crate::trace::{Kind, Outcome, SpanKind};

impl Chat<'_> {
    pub(super) fn tool(&mut self, message: &Message, part: &Part) -> io::Result<()> {
        let data = &part.data;
        let id = text(data, "toolCallId").unwrap_or_default();
        let state = text(data, "state").unwrap_or_default();
        if state == "input-streaming" && part.kind == "dynamic-tool" {
            let piece = json!({"tool_call_id": id, "text": data.get("input"), "offset": 0});
            return self
                .history
                .event(Kind::ToolInputDelta, part.created, piece);
        }
        let name = part
            .kind
            .strip_prefix("tool-")
            .or_else(|| text(data, "toolName"));
        let mut call = json!({
            "tool_id": name.unwrap_or("unknown"),
            "tool_call_id": id,
            "args": data.get("input").or(data.get("rawInput")),
            "title": data.get("title"),
            "message_id": message.id,
        });
        let span = self
            .history
            .open(SpanKind::Tool, &part.key, part.created, call.clone())?;
        let approval = data.get("approval").and_then(Value::as_object);
        if let Some(approval) = approval {
            self.approval(span, part, id, approval, &mut call)?;
        }
        let outcome = ended(state, data, &mut call);
        // Ids may repeat: the number keeps calls of one moment apart.
        self.tools += 1;
        let end = part.updated.max(part.created);
        // A call without an end lasts as long as the session.
        let end = if outcome == Outcome::Interrupted {
            u64::MAX
        } else {
            end
        };
        self.ends.insert(
            (end, self.tools),
            ToolEnd {
                span,
                outcome,
                fields: call,
            },
        );
        Ok(())
    }

    /// What was decided about a call: by a rule if there is a reason, else by a person.
    fn approval(
        &mut self,
        span: Span,
        part: &Part,
        call_id: &str,
        approval: &Fields,
        call: &mut Value,
    ) -> io::Result<()> {
        let id = text(approval, "id").unwrap_or_default();
        let approved = approval.get("approved").and_then(Value::as_bool);
        let (at, tool) = (part.created, call["tool_id"].clone());
        match (approved, text(approval, "reason")) {
            // Made by an export of a call that was denied without an event.
            (Some(false), Some(reason)) if id == call_id => {
                if reason != "denied" {
                    call["error"] = json!({"message": reason});
                }
                Ok(())
            }
            (Some(false), Some(reason)) => {
                let (source, pattern) = match reason.split_once(": ") {
                    Some((source, pattern)) => (source, Some(pattern)),
                    None => (reason, None),
                };
                let question =
                    json!({"tool_id": tool, "tool_call_id": call_id, "pattern": pattern});
                let key = format!("{}/permission", part.key);
                let inner =
                    self.history
                        .open_in(span, SpanKind::Permission, &key, at, question.clone())?;
                let mut answer = question;
                answer["action"] = "deny".into();
                answer["source"] = source.into();
                answer["interrupt_id"] = id.into();
                self.history.close(inner, at, Outcome::Denied, answer)
            }
            (approved, _) => {
                let question =
                    json!({"interrupt_id": id, "tool_id": tool, "tool_call_id": call_id});
                self.history
                    .event_in(Some(span), Kind::HitlRequest, at, question)?;
                let Some(approved) = approved else {
                    return Ok(());
                };
                let decision = if approved { "approve" } else { "reject" };
                let answer =
                    json!({"interrupt_id": id, "tool_call_id": call_id, "decision": decision});
                self.history
                    .event_in(Some(span), Kind::HitlResponse, at, answer)
            }
        }
    }
}

/// How a call ended, and with what.
fn ended(state: &str, data: &Fields, call: &mut Value) -> Outcome {
    match state {
        "output-available" => {
            let output = data.get("output").cloned().unwrap_or_default();
            let streams = ["stdout", "stderr", "exit_code"];
            match output {
                Value::Object(output)
                    if !output.is_empty()
                        && output.keys().all(|name| streams.contains(&name.as_str())) =>
                {
                    output
                        .into_iter()
                        .for_each(|(name, value)| call[name] = value);
                }
                output => call["result"] = output,
            }
            Outcome::Ok
        }
        "output-error" => {
            call["error"] = json!({"message": data.get("errorText")});
            Outcome::Error
        }
        "output-denied" => Outcome::Denied,
        _ => Outcome::Interrupted,
    }
}
