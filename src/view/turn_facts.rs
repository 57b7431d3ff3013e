//! One turn in full: tokens, model, system prompt, tools and permissions.

use std::borrow::Cow;

use super::stats::{cost_source, cost_sum};
use super::style::Style;
use super::text::{columns, count, cut, duration, line, pad, wrap};
use crate::session::{InForce, ModelUsed, PermissionDecision, TurnFacts};
use crate::trace::Usage;

/// Everything about a turn but its timeline.
pub fn facts(facts: &TurnFacts<'_>, style: &Style) -> Vec<String> {
    let mut out = vec![style.bold("Tokens and cost")];
    out.push(format!("  {}", usage_text(&facts.usage)));
    let cost = cost_sum(&facts.cost) + &cost_source(&facts.cost);
    out.push(format!("  cost {cost}"));
    out.push(style.bold("Model"));
    for model in &facts.models {
        out.extend(style.rows(&format!("  {}", model_text(model))));
    }
    if facts.models.is_empty() {
        out.push("  no model was called".into());
    }
    out.extend(prompt(facts, style));
    out.extend(tools(facts, style));
    out.extend(permissions(facts, style));
    out
}

/// The tokens of a turn.
pub(super) fn usage_text(usage: &Usage) -> String {
    format!(
        "input {}   output {}   reasoning {}   cache read {}   cache write {}",
        count(usage.input_tokens),
        count(usage.output_tokens),
        count(usage.reasoning_tokens),
        count(usage.cache_read_tokens),
        count(usage.cache_write_tokens),
    )
}

/// A model as it was called.
pub(super) fn model_text(model: &ModelUsed) -> String {
    format!(
        "{}/{}   variant {}   temperature {}",
        known(model.provider_id.as_deref().map(Into::into)),
        known(model.model_id.as_deref().map(Into::into)),
        known(model.variant.as_deref().map(Into::into)),
        model.temperature.map_or("–".into(), |t| t.to_string()),
    )
}

/// The system prompt in force.
pub fn prompt(facts: &TurnFacts<'_>, style: &Style) -> Vec<String> {
    let mut out = vec![title("System prompt", &facts.system_prompt, style)];
    let prompt = facts.system_prompt.as_ref();
    let body = prompt.and_then(|prompt| prompt.body.as_deref());
    if let Some(body) = body.filter(|body| !body.is_empty()) {
        let lines = wrap(body, style.width - 2).into_iter();
        out.extend(lines.map(|text| format!("  {text}")));
    }
    out
}

/// The tools in the catalog, and how often each was called.
pub fn tools(facts: &TurnFacts<'_>, style: &Style) -> Vec<String> {
    let mut out = vec![title("Tools", &facts.tool_catalog, style)];
    let tools = facts.tool_catalog.iter().flat_map(InForce::tools);
    let mut known = Vec::new();
    for tool in tools {
        let name = tool.name.unwrap_or("?".into());
        let called = match facts.called.get(&*name) {
            Some(n) => times(*n),
            None => "not called".to_owned(),
        };
        let description = tool.description.unwrap_or_default();
        let (shown, description) = (padded(&line(&name)), line(&description));
        let text = format!("  {shown} {called:<16} {description}");
        out.extend(style.rows(text.trim_end()));
        known.push(name);
    }
    let others = facts.called.iter();
    for (name, n) in others.filter(|(name, _)| !known.contains(&name.as_str().into())) {
        let name = cut(&line(name), style.width.saturating_sub(40).max(16)).into_owned();
        let called = times(*n);
        out.push(format!("  {} {called}, not in the catalog", padded(&name)));
    }
    out
}

/// The permission rules in force, and each decision.
pub fn permissions(facts: &TurnFacts<'_>, style: &Style) -> Vec<String> {
    let mut out = vec![title("Permissions", &facts.permission_rules, style)];
    for rule in facts.permission_rules.iter().flat_map(InForce::rules) {
        let text = format!(
            "  rule      {:<6} {} {} ({})",
            known(rule.action),
            known(rule.permission),
            known(rule.pattern),
            known(rule.source),
        );
        out.extend(style.rows(&text));
    }
    for decision in &facts.decisions {
        out.extend(style.rows(&decision_line(decision)));
    }
    out
}

/// A decision: the result of the rules, the person's answer, and the rule if it differs from the pattern.
fn decision_line(decision: &PermissionDecision<'_>) -> String {
    let mut text = format!(
        "  decision  {:<6} {} {} by {}",
        known(decision.rule_action()),
        known(decision.permission.tool_id()),
        known(decision.pattern()),
        known(decision.source()),
    );
    if decision.is_asked() {
        let who = decision.decided_by().unwrap_or("a person".into());
        let answer = decision.answer_text().unwrap_or("no answer".into());
        text.push_str(&format!(", {}: {}", line(&who), line(&answer)));
        if let Some(ns) = decision.node.duration {
            text.push_str(&format!(", {}", duration(ns)));
        }
    }
    if let Some(rule) = decision.permission.rule() {
        let part = |name: &str| rule.get(name).and_then(|value| value.text());
        let (pattern, source) = (part("pattern"), part("source"));
        if pattern != decision.pattern() || source != decision.source() {
            text.push_str(&format!("  rule {}", line(rule.json())));
        }
    }
    text.push_str(&format!("  {}", decision.node.address));
    text
}

/// A safe text, or `–` for what isn't known.
fn known(text: Option<Cow<'_, str>>) -> String {
    line(&text.unwrap_or("–".into())).into_owned()
}

fn times(n: u64) -> String {
    match n {
        1 => "called once".into(),
        n => format!("called {n} times"),
    }
}

/// A safe text that takes at least 16 columns.
fn padded(text: &str) -> String {
    pad(text, 16.max(columns(text)))
}

fn title(name: &str, text: &Option<InForce>, style: &Style) -> String {
    let digest = match text {
        None => "not recorded".to_owned(),
        Some(InForce {
            digest,
            body: Some(_),
        }) => line(digest.get(..12).unwrap_or(digest)).into_owned(),
        Some(InForce { digest, .. }) => format!("{}: its text is not in this trace", line(digest)),
    };
    format!("{}  {}", style.bold(name), style.dim(&digest))
}

#[cfg(test)]
mod tests;
