//! One turn in full: everything that explains why the model did what it did.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::style::Style;
use super::text::{columns, cost, count, cut, line, pad, wrap};
use crate::event::Usage;
use crate::session::{Chapter, Node, body};

/// What was in force in a turn, and what it used: the timeline aside, everything an inspection
/// needs.
#[derive(Clone, Debug, Default)]
pub struct TurnFacts {
    /// Which turn.
    pub turn: Option<u32>,
    /// The five counts and the cost: the model calls' sum, else what the turn says itself.
    pub usage: Usage,
    /// Model, variant and temperature of each call, without repetitions.
    pub models: Vec<ModelUsed>,
    /// The system prompt: its digest, and its text where that can be found.
    pub system_prompt: Option<(String, Option<String>)>,
    /// The tool catalog, the same way.
    pub tool_catalog: Option<(String, Option<String>)>,
    /// The permission rules, the same way.
    pub permission_rules: Option<(String, Option<String>)>,
    /// How often each tool was called.
    pub called: BTreeMap<String, u64>,
    /// Each decision: the tool, the pattern, the action, who decided.
    pub decisions: Vec<Value>,
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

impl TurnFacts {
    /// Gathers them, reading the texts behind the digests from the session.
    pub fn gather(session: &Path, chapter: &Chapter) -> io::Result<Self> {
        let mut facts = Self {
            turn: chapter.turn,
            ..Self::default()
        };
        for node in &chapter.nodes {
            facts.take(node);
        }
        if facts.usage.is_empty()
            && let Some(own) = chapter.span.as_ref().and_then(usage)
        {
            facts.usage = own;
        }
        let text = |digest: &Option<String>| -> io::Result<Option<(String, Option<String>)>> {
            let Some(digest) = digest else {
                return Ok(None);
            };
            let text = body(session, digest)?.map(|(_, text)| text);
            Ok(Some((digest.clone(), text)))
        };
        facts.system_prompt = text(&chapter.digests.system_prompt)?;
        facts.tool_catalog = text(&chapter.digests.tool_catalog)?;
        facts.permission_rules = text(&chapter.digests.permission_rules)?;
        Ok(facts)
    }

    fn take(&mut self, node: &Node) {
        let text = |name: &str| node.text(name).map(std::borrow::Cow::into_owned);
        match node.kind.as_ref() {
            "model_call" => {
                let model = ModelUsed {
                    provider_id: text("provider_id"),
                    model_id: text("model_id"),
                    variant: text("variant"),
                    temperature: node.get("temperature").and_then(|v| v.f64()),
                };
                if !self.models.contains(&model) {
                    self.models.push(model);
                }
                if let Some(used) = usage(node) {
                    self.usage.add(&used);
                }
            }
            "tool_call" => {
                *self
                    .called
                    .entry(text("tool_id").unwrap_or_default())
                    .or_default() += 1
            }
            "permission_request" => self.decisions.push(json!({
                "address": node.address.to_string(),
                "tool_id": text("tool_id"),
                "pattern": text("pattern"),
                "action": text("action"),
                "source": text("source"),
                "decided_by": text("decided_by"),
                "decision": node.get("decision").and_then(|v| v.value()),
                "rule": node.get("rule").and_then(|v| v.value()),
                "permission_rules_digest": text("permission_rules_digest"),
            })),
            _ => {}
        }
    }

    /// As JSON, with stable names.
    pub fn to_json(&self) -> Value {
        let texts = |text: &Option<(String, Option<String>)>, parse: bool| {
            text.as_ref().map(|(digest, body)| {
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
        json!({
            "turn": self.turn,
            "usage": self.usage.to_json(),
            "models": models.collect::<Vec<_>>(),
            "system_prompt": texts(&self.system_prompt, false),
            "tool_catalog": texts(&self.tool_catalog, true),
            "tools_called": self.called,
            "permission_rules": texts(&self.permission_rules, true),
            "decisions": self.decisions,
        })
    }

    /// All of it, for people.
    pub fn lines(&self, style: &Style) -> Vec<String> {
        let usage = &self.usage;
        let mut out = vec![style.bold("Tokens and cost")];
        out.push(format!(
            "  input {}   output {}   reasoning {}   cache read {}   cache write {}",
            count(usage.input_tokens),
            count(usage.output_tokens),
            count(usage.reasoning_tokens),
            count(usage.cache_read_tokens),
            count(usage.cache_write_tokens),
        ));
        out.push(format!("  cost {}", cost(usage.cost_usd)));
        out.push(style.bold("Model"));
        for model in &self.models {
            let word = |text: &Option<String>| line(text.as_deref().unwrap_or("–")).into_owned();
            let text = format!(
                "  {}/{}   variant {}   temperature {}",
                word(&model.provider_id),
                word(&model.model_id),
                word(&model.variant),
                model.temperature.map_or("–".into(), |t| t.to_string()),
            );
            out.push(cut(&text, style.width).into_owned());
        }
        if self.models.is_empty() {
            out.push("  no model was called".into());
        }
        out.extend(self.prompt_lines(style));
        out.extend(self.tool_lines(style));
        out.extend(self.permission_lines(style));
        out
    }

    /// The system prompt in force.
    pub fn prompt_lines(&self, style: &Style) -> Vec<String> {
        let mut out = title("System prompt", &self.system_prompt, style);
        if let Some((_, Some(text))) = &self.system_prompt {
            let indented = |text: String| format!("  {text}");
            out.extend(wrap(text, style.width - 2).into_iter().map(indented));
        }
        out
    }

    /// The tools there were, and which were called.
    pub fn tool_lines(&self, style: &Style) -> Vec<String> {
        let mut out = title("Tools", &self.tool_catalog, style);
        let text = self
            .tool_catalog
            .as_ref()
            .and_then(|(_, text)| text.as_deref());
        let tools: Vec<Value> = text
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let name = |tool: &Value| match tool {
            Value::String(name) => name.clone(),
            tool => tool
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or("?")
                .to_owned(),
        };
        for tool in &tools {
            let name = name(tool);
            let called = match self.called.get(&name) {
                Some(1) => "called once".into(),
                Some(n) => format!("called {n} times"),
                None => "not called".to_owned(),
            };
            let what = tool
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let name = beside(&line(&name), 16);
            let text = format!("  {name} {called:<16} {}", line(what));
            out.push(cut(&text, style.width).trim_end().to_owned());
        }
        let known: Vec<_> = tools.iter().map(name).collect();
        for (name, n) in self.called.iter().filter(|(name, _)| !known.contains(name)) {
            let times = if *n == 1 {
                "once".into()
            } else {
                format!("{n} times")
            };
            let name = cut(&line(name), style.width.saturating_sub(40).max(16)).into_owned();
            let name = beside(&name, 16);
            out.push(format!("  {name} called {times}, not in the catalog"));
        }
        out
    }

    /// The rules in force, and each decision.
    pub fn permission_lines(&self, style: &Style) -> Vec<String> {
        let mut out = title("Permissions", &self.permission_rules, style);
        let text = self
            .permission_rules
            .as_ref()
            .and_then(|(_, text)| text.as_deref());
        let rules: Vec<Value> = text
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let said = |value: &Value, name: &str| {
            let text = value.get(name).and_then(Value::as_str).unwrap_or("–");
            line(text).into_owned()
        };
        for rule in &rules {
            out.push(
                cut(
                    &format!(
                        "  rule      {:<6} {} {} ({})",
                        said(rule, "action"),
                        said(rule, "permission"),
                        said(rule, "pattern"),
                        said(rule, "source"),
                    ),
                    style.width,
                )
                .into_owned(),
            );
        }
        for made in &self.decisions {
            let mut text = format!(
                "  decision  {:<6} {} {} by {}",
                said(made, "action"),
                said(made, "tool_id"),
                said(made, "pattern"),
                said(made, "source"),
            );
            if made["decided_by"].is_string() {
                text.push_str(&format!(", {}", said(made, "decided_by")));
            }
            match &made["decision"] {
                Value::Null => {}
                Value::String(decision) => text.push_str(&format!(": {}", line(decision))),
                decision => text.push_str(&format!(": {}", line(&decision.to_string()))),
            }
            text.push_str(&format!("  {}", said(made, "address")));
            out.push(cut(&text, style.width).into_owned());
        }
        out
    }
}

/// A safe text that takes at least so many columns.
fn beside(text: &str, width: usize) -> String {
    pad(text, width.max(columns(text)))
}

fn title(name: &str, text: &Option<(String, Option<String>)>, style: &Style) -> Vec<String> {
    let digest = match text {
        None => "none was recorded".to_owned(),
        Some((digest, Some(_))) => line(digest.get(..12).unwrap_or(digest)).into_owned(),
        Some((digest, None)) => format!("{}: its text is not in this trace", line(digest)),
    };
    vec![format!("{}  {}", style.bold(name), style.dim(&digest))]
}

fn usage(node: &Node) -> Option<Usage> {
    match node.get("usage")?.value()? {
        Value::Object(map) => Some(Usage::from_json(&map)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_names_of_tools_keep_the_columns() {
        let tools = r#"[{"name":"read"},{"name":"読む"}]"#.to_owned();
        let facts = TurnFacts {
            tool_catalog: Some(("d".into(), Some(tools))),
            called: [("書く".into(), 1)].into(),
            ..TurnFacts::default()
        };
        let lines = facts.tool_lines(&Style::plain());
        let called = |line: &String| columns(&line[..line.find("called").unwrap()]);
        assert_eq!(called(&lines[1]) - 4, 19);
        assert_eq!(called(&lines[2]), called(&lines[1]));
        assert_eq!(called(&lines[3]), 19);
    }
}
