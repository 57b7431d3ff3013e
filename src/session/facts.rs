//! What was in force in a turn, and what it used.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::decision::PermissionDecision;
use super::item::Item;
use super::lookup::body;
use super::node::Node;
use super::summary::Summary;
use super::turns::Turn;
use crate::cost::Cost;
use crate::trace::typed::owned;
use crate::trace::{RawValue, Usage};

/// What was in force in a turn, and what it used: with the timeline, all that explains why the model
/// did what it did.
#[derive(Clone, Debug, Default)]
pub struct TurnFacts<'a> {
    /// The turn's index.
    pub turn: Option<u32>,
    /// Tokens and cost: the sum of the model calls, or the turn's own if they have none.
    pub usage: Usage,
    /// The cost of the model calls, as recorded or by list prices.
    pub cost: Cost,
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
    pub decisions: Vec<PermissionDecision<'a>>,
}

/// A text in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// Its digest.
    pub digest: String,
    /// The text, if the trace has it.
    pub body: Option<String>,
}

/// A tool of the catalog.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tool<'a> {
    /// Its name.
    pub name: Option<Cow<'a, str>>,
    /// Its description for the model.
    pub description: Option<Cow<'a, str>>,
    /// Its arguments.
    pub schema: Option<RawValue<'a>>,
}

/// A permission rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedRule<'a> {
    /// allow, ask or deny.
    pub action: Option<Cow<'a, str>>,
    /// The permission that it is about, or the tool.
    pub permission: Option<Cow<'a, str>>,
    /// The pattern that a call has to match.
    pub pattern: Option<Cow<'a, str>>,
    /// Where the rule comes from.
    pub source: Option<Cow<'a, str>>,
}

impl InForce {
    /// The tools of a catalog.
    pub fn tools(&self) -> impl Iterator<Item = Tool<'_>> {
        self.items().map(|tool| {
            let text = |name: &str| tool.get(name).and_then(|value| value.text());
            Tool {
                name: tool.text().or_else(|| text("name")),
                description: text("description"),
                schema: tool.get("schema"),
            }
        })
    }

    /// The permission rules.
    pub fn rules(&self) -> impl Iterator<Item = RecordedRule<'_>> {
        self.items().map(|rule| {
            let text = |name: &str| rule.get(name).and_then(|value| value.text());
            RecordedRule {
                action: text("action"),
                permission: text("permission").or_else(|| text("tool")),
                pattern: text("pattern"),
                source: text("source"),
            }
        })
    }

    fn items(&self) -> impl Iterator<Item = RawValue<'_>> {
        let body = self.body.as_deref().unwrap_or_default();
        RawValue::new(body.trim()).items()
    }
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

impl<'a> TurnFacts<'a> {
    /// Collects them. Reads the texts behind the digests from the session.
    pub fn gather(session: &Path, turn: &'a Turn) -> io::Result<Self> {
        let in_force = |digest: &Option<String>| -> io::Result<Option<InForce>> {
            let Some(digest) = digest.clone() else {
                return Ok(None);
            };
            let body = body(session, &digest)?.map(|(_, text)| text);
            Ok(Some(InForce { digest, body }))
        };
        Ok(Self {
            system_prompt: in_force(&turn.digests.system_prompt)?,
            tool_catalog: in_force(&turn.digests.tool_catalog)?,
            permission_rules: in_force(&turn.digests.permission_rules)?,
            ..Self::of(turn)
        })
    }

    /// What the turn itself has: all but the texts behind the digests.
    pub fn of(turn: &'a Turn) -> Self {
        let mut facts = Self {
            turn: turn.index,
            usage: turn.usage(),
            cost: turn.cost(),
            decisions: turn.decisions(),
            ..Self::default()
        };
        for node in &turn.nodes {
            facts.add(node);
        }
        facts
    }

    fn add(&mut self, node: &Node) {
        match node.item() {
            Item::ModelCall(call) => {
                let model = ModelUsed {
                    provider_id: owned(call.provider_id()),
                    model_id: owned(call.model_id()),
                    variant: owned(call.variant()),
                    temperature: call.temperature(),
                };
                if !self.models.contains(&model) {
                    self.models.push(model);
                }
            }
            Item::ToolCall(call) => {
                let tool = owned(call.tool_id()).unwrap_or_default();
                *self.called.entry(tool).or_default() += 1;
            }
            _ => {}
        }
    }

    /// Adds what a session says of its model where the calls say nothing.
    pub fn complete(&mut self, session: &Summary) {
        for model in &mut self.models {
            if model.model_id == session.model_id {
                let own = |text: &mut Option<String>, other: &Option<String>| {
                    *text = text.take().or_else(|| other.clone());
                };
                own(&mut model.provider_id, &session.provider_id);
                own(&mut model.variant, &session.variant);
                model.temperature = model.temperature.or(session.temperature);
            }
        }
        self.models.dedup();
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
        let decisions = self.decisions.iter().map(PermissionDecision::to_json);
        json!({
            "turn": self.turn,
            "usage": self.usage.to_json(),
            "cost": self.cost.to_json(),
            "models": models.collect::<Vec<_>>(),
            "system_prompt": in_force(&self.system_prompt, false),
            "tool_catalog": in_force(&self.tool_catalog, true),
            "tools_called": self.called,
            "permission_rules": in_force(&self.permission_rules, true),
            "decisions": decisions.collect::<Vec<_>>(),
        })
    }
}
