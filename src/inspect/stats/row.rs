//! One row of the statistics.

use serde_json::{Value, json};

use crate::cost::Cost;
use crate::inspect::Quantiles;
use crate::trace::Usage;

/// What was counted under one key, or in all.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StatsRow {
    /// Sessions that no other session started.
    pub sessions: u64,
    /// Sessions of subagents.
    pub subagents: u64,
    /// Turns that ended.
    pub turns: u64,
    /// Model calls that ended.
    pub model_calls: u64,
    /// Tool calls that ended.
    pub tool_calls: u64,
    /// Tokens; a count that no call reported is unknown.
    pub usage: Usage,
    /// The input of the calls that reported how much of it was cached.
    pub input_with_cache: u64,
    /// What the calls cost.
    pub cost: Cost,
    /// How long model calls took, in nanoseconds.
    pub model_time: Quantiles,
    /// How long tool calls took, in nanoseconds.
    pub tool_time: Quantiles,
    /// The time to the first token, in nanoseconds.
    pub first_token: Quantiles,
    /// Model and tool calls that failed.
    pub errors: u64,
    /// Calls that a rule or a person denied.
    pub denials: u64,
    /// How long a person was waited for, in nanoseconds.
    pub waited: u64,
}

impl StatsRow {
    /// Adds another row.
    pub fn merge(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.subagents += other.subagents;
        self.turns += other.turns;
        self.model_calls += other.model_calls;
        self.tool_calls += other.tool_calls;
        self.usage.add(&other.usage);
        self.input_with_cache += other.input_with_cache;
        self.cost.merge(&other.cost);
        self.model_time.merge(&other.model_time);
        self.tool_time.merge(&other.tool_time);
        self.first_token.merge(&other.first_token);
        self.errors += other.errors;
        self.denials += other.denials;
        self.waited = self.waited.saturating_add(other.waited);
    }

    pub(super) fn add_usage(&mut self, usage: &Usage) {
        self.usage.add(&Usage {
            usage_details: None,
            // `cost` has it.
            cost_usd: None,
            ..usage.clone()
        });
        if usage.cache_read_tokens.is_some() {
            self.input_with_cache += usage.input_tokens.unwrap_or(0);
        }
    }

    /// The part of the input that came from a cache, from 0 to 1; `None` if no call reported it.
    pub fn cache_rate(&self) -> Option<f64> {
        let read = self.usage.cache_read_tokens?;
        (self.input_with_cache > 0).then(|| read as f64 / self.input_with_cache as f64)
    }

    /// Model and tool calls.
    pub fn calls(&self) -> u64 {
        self.model_calls + self.tool_calls
    }

    /// For the order of rows: cost first, then calls.
    pub(super) fn weight(&self) -> f64 {
        self.cost.usd().unwrap_or(0.0) * 1e12 + self.calls() as f64
    }

    /// As JSON, with stable names. Durations are in milliseconds.
    pub fn to_json(&self) -> Value {
        let usage = &self.usage;
        json!({
            "sessions": self.sessions,
            "subagents": self.subagents,
            "turns": self.turns,
            "model_calls": self.model_calls,
            "tool_calls": self.tool_calls,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "cache_rate": self.cache_rate(),
            "cost": self.cost.to_json(),
            "model_ms": milliseconds(&self.model_time),
            "tool_ms": milliseconds(&self.tool_time),
            "first_token_ms": milliseconds(&self.first_token),
            "errors": self.errors,
            "denials": self.denials,
            "waited_ms": self.waited as f64 / 1e6,
        })
    }
}

fn milliseconds(times: &Quantiles) -> Value {
    let at = |part| times.at(part).map(|ns| ns as f64 / 1e6);
    json!({"p50": at(0.5), "p95": at(0.95), "max": at(1.0)})
}
