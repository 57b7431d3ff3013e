//! What was in force in a turn, and what it used.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::lookup::body;
use super::node::Node;
use super::turns::Turn;
use crate::trace::typed::{ModelCall, Permission, ToolCall};
use crate::trace::{Address, Kind, Usage};

/// What was in force in a turn, and what it used: with the timeline, all that explains why the model
/// did what it did.
#[derive(Clone, Debug, Default)]
pub struct TurnFacts {
    /// The turn's index.
    pub turn: Option<u32>,
    /// Tokens and cost: the sum of the model calls, or the turn's own if they have none.
    pub usage: Usage,
    /// Each model that was called.
    pub models: Vec<ModelUsed>,
    /// The system prompt.
    pub system_prompt: Option<InForce>,
    /// The tool catalog.
    pub tool_catalog: Option<InForce>,
    /// The permission rules.
    pub permission_rules: Option<InForce>,
    /// How often each tool was called.
    pub called: BTreeMap<String, u64>,
    /// Each permission decision.
    pub decisions: Vec<Decision>,
}

/// A text in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// Its digest.
    pub digest: String,
    /// The text, if the trace has it.
    pub body: Option<String>,
}

/// A model as it was called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelUsed {
    /// Its provider.
    pub provider_id: Option<String>,
    /// Its name.
    pub model_id: Option<String>,
    /// Its variant.
    pub variant: Option<String>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
}

/// A permission decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The line that has it.
    pub address: Address,
    /// The tool that asked.
    pub tool_id: Option<String>,
    /// The pattern that matched.
    pub pattern: Option<String>,
    /// allow, ask or deny.
    pub action: Option<String>,
    /// Where the rule comes from.
    pub source: Option<String>,
    /// Who decided, if a person was asked.
    pub decided_by: Option<String>,
    /// The person's decision.
    pub decision: Option<Value>,
    /// The rule.
    pub rule: Option<Value>,
    /// The digest of the rules in force.
    pub permission_rules_digest: Option<String>,
}

impl TurnFacts {
    /// Collects them. Reads the texts behind the digests from the session.
    pub fn gather(session: &Path, turn: &Turn) -> io::Result<Self> {
        let mut facts = Self {
            turn: turn.index,
            ..Self::default()
        };
        for node in &turn.nodes {
            facts.add(node);
        }
        if facts.usage.is_empty()
            && let Some(own) = turn.span.as_ref().and_then(Node::usage)
        {
            facts.usage = own;
        }
        let text = |digest: &Option<String>| -> io::Result<Option<InForce>> {
            let Some(digest) = digest.clone() else {
                return Ok(None);
            };
            let body = body(session, &digest)?.map(|(_, text)| text);
            Ok(Some(InForce { digest, body }))
        };
        facts.system_prompt = text(&turn.digests.system_prompt)?;
        facts.tool_catalog = text(&turn.digests.tool_catalog)?;
        facts.permission_rules = text(&turn.digests.permission_rules)?;
        Ok(facts)
    }

    fn add(&mut self, node: &Node) {
        let own = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
        match node.kind {
            Kind::ModelCall => {
                let call: ModelCall<'_> = node.view();
                let model = ModelUsed {
                    provider_id: own(call.provider_id()),
                    model_id: own(call.model_id()),
                    variant: own(call.variant()),
                    temperature: call.temperature(),
                };
                if !self.models.contains(&model) {
                    self.models.push(model);
                }
                self.usage.add(&call.usage().unwrap_or_default());
            }
            Kind::ToolCall => {
                let tool = own(node.view::<ToolCall<'_>>().tool_id());
                *self.called.entry(tool.unwrap_or_default()).or_default() += 1;
            }
            Kind::PermissionRequest => {
                let made: Permission<'_> = node.view();
                self.decisions.push(Decision {
                    address: node.address,
                    tool_id: own(made.tool_id()),
                    pattern: own(made.pattern()),
                    action: own(made.action()),
                    source: own(made.source()),
                    decided_by: own(made.decided_by()),
                    decision: made.decision().and_then(|value| value.value()),
                    rule: made.rule().and_then(|value| value.value()),
                    permission_rules_digest: own(made.permission_rules_digest()),
                });
            }
            _ => {}
        }
    }

    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        let in_force = |text: &Option<InForce>, parse: bool| {
            text.as_ref().map(|InForce { digest, body }| {
                let body = body.as_ref().map(|body| match parse {
                    true => serde_json::from_str(body).unwrap_or_else(|_| body.clone().into()),
                    false => Value::String(body.clone()),
                });
                json!({"digest": digest, "body": body})
            })
        };
        let models = self.models.iter().map(|model| {
            json!({
                "provider_id": model.provider_id,
                "model_id": model.model_id,
                "variant": model.variant,
                "temperature": model.temperature,
            })
        });
        let decisions = self.decisions.iter().map(|made| {
            json!({
                "address": made.address.to_string(),
                "tool_id": made.tool_id,
                "pattern": made.pattern,
                "action": made.action,
                "source": made.source,
                "decided_by": made.decided_by,
                "decision": made.decision,
                "rule": made.rule,
                "permission_rules_digest": made.permission_rules_digest,
            })
        });
        json!({
            "turn": self.turn,
            "usage": self.usage.to_json(),
            "models": models.collect::<Vec<_>>(),
            "system_prompt": in_force(&self.system_prompt, false),
            "tool_catalog": in_force(&self.tool_catalog, true),
            "tools_called": self.called,
            "permission_rules": in_force(&self.permission_rules, true),
            "decisions": decisions.collect::<Vec<_>>(),
        })
    }
}
