//! Model calls: what the message of the model has of them.

use serde_json::{Value, json};

use super::super::feed::Fed;
use super::{ASSISTANT, Chat, Part, millis, session};
use crate::trace::Usage;
use crate::trace::typed::ModelCall;

impl Chat {
    /// Adds the usage that an event outside of model calls has reported.
    pub(super) fn usage_event(&mut self, fed: &Fed, used: Option<Usage>) {
        let current = self.current_index(fed.run);
        let current = current.filter(|at| self.queue[*at].role == ASSISTANT);
        if let Some((at, used)) = current.zip(used) {
            let counts = self.queue[at].counts.get_or_insert_default();
            counts.add(&used);
        }
    }

    pub(super) fn model_result(&mut self, fed: &Fed, call: &ModelCall<'_>, used: Option<Usage>) {
        let id = call.message_id();
        let at = self.message(fed, ASSISTANT, id.as_deref());
        let message = &mut self.queue[at];
        if self.steps.remove(&fed.run) || message.parts.is_empty() {
            // Nothing of its answer was recorded.
            let start = Part::new(json!({"type": "step-start"}), millis(fed.node.start));
            message.parts.push(start);
        }
        message.updated = millis(fed.node.end());
        if let Some(usage) = used {
            message.counts.get_or_insert_default().add(&usage);
        }
        let mut model = json!({"provider_id": call.provider_id(), "model_id": call.model_id()});
        model["variant"] = call.variant().into();
        model["temperature"] = call.temperature().into();
        let known = [
            (
                "model",
                Some(session::without_nulls(model)).filter(|model| *model != json!({})),
            ),
            (
                "system_prompt_digest",
                call.system_prompt_digest().map(Value::from),
            ),
            (
                "tool_catalog_digest",
                call.tool_catalog_digest().map(Value::from),
            ),
            (
                "permission_rules_digest",
                call.permission_rules_digest().map(Value::from),
            ),
            (
                "finish_reason",
                call.finish_reason()
                    .or_else(|| call.stop_reason())
                    .map(Value::from),
            ),
            ("error", fed.node.error().map(Value::from)),
        ];
        for (name, value) in known {
            message
                .metadata
                .extend(value.map(|value| (name.to_owned(), value)));
        }
    }
}

/// Whether a model call is part of the conversation.
pub(super) fn is_main(call: &ModelCall<'_>) -> bool {
    matches!(call.purpose().as_deref(), None | Some("main" | "subagent"))
}
