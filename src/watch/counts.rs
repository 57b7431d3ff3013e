//! What a session and its subagents did so far.

use crate::cost;
use crate::trace::{SpanKind, Usage};

/// How many models without a known price are named.
const MOST_UNPRICED: usize = 8;

/// What a session and its subagents did so far.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Counts {
    /// Tool calls that started.
    pub tool_calls: u64,
    /// Model calls that started.
    pub model_calls: u64,
    /// Turns that started.
    pub turns: u64,
    /// Tokens that were used, input and output.
    pub tokens: u64,
    /// What was spent, as far as costs or prices are known.
    pub cost_usd: f64,
    /// Model calls with tokens whose price is not known.
    pub unpriced: u64,
    /// How long the runs of the top session took, in nanoseconds.
    pub active_ns: u64,
}

/// What a model call used, and what it is known to cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used<'a> {
    pub usage: &'a Usage,
    pub provider: Option<&'a str>,
    pub model: Option<&'a str>,
    /// When the call ended, in nanoseconds since 1970.
    pub at: u64,
}

impl Used<'_> {
    /// Its tokens, input and output.
    pub fn tokens(&self) -> u64 {
        let Usage {
            input_tokens,
            output_tokens,
            total_tokens,
            ..
        } = self.usage;
        let sum = input_tokens
            .unwrap_or(0)
            .saturating_add(output_tokens.unwrap_or(0));
        total_tokens.unwrap_or(sum)
    }

    /// What it cost: as recorded, else by the price of the model. `None`: not known.
    fn cost(&self) -> Option<f64> {
        let recorded = self.usage.cost_usd.filter(|cost| cost.is_finite());
        recorded.or_else(|| cost::price(self.provider, self.model?, self.usage, self.at))
    }
}

impl Counts {
    /// These counts after so much time in runs.
    pub(crate) fn at(counts: &Self, active_ns: u64) -> Self {
        Self {
            active_ns,
            ..counts.clone()
        }
    }

    /// Counts a span that starts.
    pub(crate) fn start(&mut self, kind: SpanKind) {
        let count = match kind {
            SpanKind::Tool => &mut self.tool_calls,
            SpanKind::Model => &mut self.model_calls,
            SpanKind::Turn => &mut self.turns,
            _ => return,
        };
        *count = count.saturating_add(1);
    }

    /// Counts what was used. `false`: what it cost is not known.
    pub(crate) fn add_used(&mut self, used: Used<'_>, priced: bool) -> bool {
        self.tokens = self.tokens.saturating_add(used.tokens());
        if !priced {
            return true;
        }
        match used.cost() {
            Some(cost) => self.cost_usd += cost,
            None if used.tokens() > 0 => {
                self.unpriced = self.unpriced.saturating_add(1);
                return false;
            }
            None => {}
        }
        true
    }

    /// Adds what was counted elsewhere.
    pub(crate) fn add(&mut self, other: &Self) {
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
        self.turns = self.turns.saturating_add(other.turns);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost_usd += other.cost_usd;
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
        self.active_ns = self.active_ns.saturating_add(other.active_ns);
    }

    /// What was spent. `None`: the cost of no call is known.
    pub fn known_cost(&self) -> Option<f64> {
        (self.cost_usd > 0.0 || self.unpriced == 0 && self.tokens == 0).then_some(self.cost_usd)
    }
}

/// The time in which at least one run of the top session is open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunClock {
    open: u32,
    since: u64,
    before: u64,
}

impl RunClock {
    pub fn start(&mut self, now: u64) {
        if self.open == 0 {
            self.since = now;
        }
        self.open += 1;
    }

    pub fn end(&mut self, now: u64) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            self.before = self.before.saturating_add(now.saturating_sub(self.since));
            self.since = now;
        }
    }

    /// The runs that are open will not end: their process died when `now` was.
    pub fn lose(&mut self, now: u64) {
        while self.open > 0 {
            self.end(now);
        }
    }

    pub fn active(&self, now: u64) -> u64 {
        match self.open {
            0 => self.before,
            _ => self.before.saturating_add(now.saturating_sub(self.since)),
        }
    }
}

/// The models whose price is not known, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unpriced(pub Vec<String>);

impl Unpriced {
    /// Adds a model. `true`: it is new.
    pub fn add(&mut self, model: &str) -> bool {
        let is_new = self.0.len() < MOST_UNPRICED && !self.0.iter().any(|known| known == model);
        if is_new {
            self.0.push(model.to_owned());
        }
        is_new
    }
}

#[cfg(test)]
mod tests;
