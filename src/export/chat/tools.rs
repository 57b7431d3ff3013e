//! Tool calls in messages, and the questions about them.

use serde_json::{Value, json};

use super::super::feed::Fed;
use super::{ASSISTANT, Change, Chat, Part, millis, part};
use crate::session::Node;
use crate::trace::Kind;
use crate::trace::typed::{Hitl, Permission, ToolCall};

/// Where the part of an open tool call is.
#[derive(Debug)]
pub(super) struct OpenTool {
    call: String,
    /// The number of its message, and the id once that is complete.
    pub number: u64,
    pub message: Option<String>,
    index: usize,
    created: u64,
    approval: Option<Value>,
}

impl OpenTool {
    /// The id of the question that was asked about it.
    fn asked(&self) -> Option<&str> {
        self.approval.as_ref()?["id"].as_str()
    }
}

impl Chat {
    pub(super) fn tool_call(&mut self, fed: &Fed, call: &ToolCall<'_>) {
        let data = part::tool(&fed.node, call, None);
        let id = call.message_id();
        let at = self.message(fed, ASSISTANT, id.as_deref());
        let announced = self.queue[at].parts.iter().position(|part| {
            !part.has_span && part.tool_call_id() == call.tool_call_id().as_deref()
        });
        let (at, index) = match announced {
            Some(index) => {
                self.queue[at].parts[index].data = data;
                (at, index)
            }
            None => self.push(fed, id.as_deref(), data),
        };
        let message = &mut self.queue[at];
        message.parts[index].has_span = true;
        message.open += 1;
        let tool = OpenTool {
            call: call.tool_call_id().unwrap_or_default().into_owned(),
            number: self.first + at as u64,
            message: None,
            index,
            created: message.parts[index].created,
            approval: None,
        };
        self.tools.extend(fed.node.span_id.map(|span| (span, tool)));
    }

    pub(super) fn tool_result(&mut self, fed: &Fed, call: &ToolCall<'_>) {
        let open = fed.node.span_id.and_then(|span| self.tools.remove(&span));
        let approval = open.as_ref().and_then(|tool| tool.approval.as_ref());
        let data = part::tool(&fed.node, call, approval);
        let now = millis(fed.node.end());
        let Some(open) = open else {
            let id = call.message_id();
            let (at, index) = self.push(fed, id.as_deref(), data);
            self.queue[at].parts[index].has_span = true;
            return;
        };
        match (self.index(open.number), open.message) {
            (Some(at), None) => {
                let message = &mut self.queue[at];
                message.open -= 1;
                message.updated = message.updated.max(now);
                message.bytes += call.result().map_or(0, |result| result.json().len());
                message.parts[open.index].data = data;
                message.parts[open.index].updated = now;
            }
            (_, Some(message)) => {
                let mut part = Part::new(data, open.created);
                part.updated = now;
                let index = open.index;
                self.changes.push(Change::Part {
                    message,
                    index,
                    part,
                });
            }
            _ => {}
        }
    }

    /// The input of a call as far as it has arrived.
    pub(super) fn tool_input(&mut self, fed: &Fed) {
        let id = fed
            .node
            .get("tool_call_id")
            .and_then(|id| id.text())
            .unwrap_or_default();
        let input = fed.node.content().unwrap_or_default();
        let data = json!({
            "type": "dynamic-tool", "toolName": "unknown", "toolCallId": id,
            "state": "input-streaming", "input": input,
        });
        let mut parts = self.queue.iter_mut().flat_map(|message| &mut message.parts);
        match parts.find(|part| part.arriving && part.tool_call_id() == Some(&id)) {
            Some(part) => part.data = data,
            None => {
                let (at, index) = self.push(fed, None, data);
                self.queue[at].parts[index].arriving = true;
            }
        }
    }

    /// Results as the model was sent them: they complete calls that have no span.
    pub(super) fn tool_message(&mut self, fed: &Fed) {
        for result in part::of_message(&fed.node) {
            let Some(output) = result.get("output") else {
                continue;
            };
            let messages = self.queue.iter_mut().rev();
            let mut parts = messages.flat_map(|message| &mut message.parts);
            let waits = |part: &&mut Part| {
                !part.has_span
                    && part.data["toolCallId"] == result["toolCallId"]
                    && part.tool_state() == Some("input-available")
            };
            if let Some(part) = parts.find(waits) {
                part.data["state"] = "output-available".into();
                part.data["output"] = output.clone();
                part.updated = millis(fed.node.start);
            }
        }
    }

    /// Remembers the call that an open permission is about.
    pub(super) fn permission_opened(&mut self, node: &Node) {
        let known = |call: &u64| self.tools.contains_key(call);
        let ids = node.span_id.zip(node.within().filter(known));
        self.permissions.extend(ids);
    }

    pub(super) fn permission(&mut self, node: &Node, permission: &Permission<'_>) {
        if let Some(id) = node.span_id {
            self.permissions.remove(&id);
        }
        let tool = node.within().and_then(|span| self.tools.get_mut(&span));
        if let Some(tool) = tool.filter(|_| permission.action().as_deref() == Some("deny")) {
            let why = [permission.source(), permission.pattern()];
            let why: Vec<_> = why.into_iter().flatten().collect();
            let id = permission
                .interrupt_id()
                .unwrap_or_else(|| tool.call.clone().into());
            tool.approval = Some(json!({"id": id, "approved": false, "reason": why.join(": ")}));
        }
    }

    pub(super) fn hitl(&mut self, node: &Node, hitl: &Hitl<'_>) {
        let call = self.call_of(node, hitl);
        let Some(tool) = call.and_then(|call| self.tools.get_mut(&call)) else {
            return;
        };
        let id = hitl.interrupt_id().unwrap_or_default();
        let answer = hitl.decision().and_then(|answer| answer.value());
        let answer = answer.filter(|_| node.kind == Kind::HitlResponse);
        let approval = part::approval(&id, answer);
        let is_answered = approval.get("approved").is_some();
        tool.approval = Some(approval.clone());
        let (number, index) = (tool.number, tool.index);
        if let Some(at) = self.index(number) {
            let part = &mut self.queue[at].parts[index];
            let state = if is_answered {
                "approval-responded"
            } else {
                "approval-requested"
            };
            part.data["state"] = state.into();
            part.data["approval"] = approval;
            part.updated = millis(node.start);
        }
    }

    /// The open call that a question or an answer is about: the one that it lies in; of an answer, the one whose
    /// question it is; else the newest one with the recorded id.
    fn call_of(&self, node: &Node, hitl: &Hitl<'_>) -> Option<u64> {
        let newest = |is_it: &dyn Fn(&OpenTool) -> bool| {
            let its = self.tools.iter().filter(|(_, tool)| is_it(tool));
            let newest = its.max_by_key(|(_, tool)| (tool.number, tool.index));
            newest.map(|(span, _)| *span)
        };
        let within = node.within();
        let within = within.map(|span| self.permissions.get(&span).copied().unwrap_or(span));
        let inside = within.filter(|span| self.tools.contains_key(span));
        let id = hitl.interrupt_id().filter(|id| !id.is_empty());
        let asked = || {
            let id = id.filter(|_| node.kind == Kind::HitlResponse)?;
            newest(&|tool| tool.asked().is_some_and(|asked| *asked == *id))
        };
        let named = || {
            let call = hitl.tool_call_id()?;
            newest(&|tool| tool.call == *call)
        };
        inside.or_else(asked).or_else(named)
    }
}
