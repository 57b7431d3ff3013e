//! What an agent is allowed, and what of it is used up.

use std::time::Duration;

use super::counts::Counts;
use super::loops::LoopKind;
use crate::trace::{Refused, SpanKind, named_enum, setters};

/// What an agent may do in a session, its subagents included. What is not set is not limited.
///
/// A call counts when its span starts, also one that is then denied. Tokens and money count when a model call
/// ends; the next call after the limit is reached is refused. Where limits are set, tool calls are also
/// searched for loops, which are recorded ([`LoopPolicy::Warn`]).
///
/// ```
/// use std::time::Duration;
/// use spanledger::{Limits, LoopPolicy};
/// let limits = Limits::new()
///     .tool_calls(50)
///     .duration(Duration::from_secs(900))
///     .cost_usd(2.0)
///     .on_loop(LoopPolicy::Stop);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "give them to `builder().limits(…)`"]
pub struct Limits {
    pub(super) tool_calls: Option<u64>,
    pub(super) model_calls: Option<u64>,
    pub(super) turns: Option<u64>,
    pub(super) duration: Option<Duration>,
    pub(super) tokens: Option<u64>,
    pub(super) cost_usd: Option<f64>,
    pub(super) on_loop: Option<LoopPolicy>,
    /// By [`LoopKind`].
    pub(super) repetitions: [Option<u32>; 4],
    pub(super) volatile: Vec<String>,
}

named_enum! {
    /// What is done about loops.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum LoopPolicy {
        /// Tool calls are not compared.
        Off = "off",
        /// A loop is recorded as a `loop_warning`.
        #[default]
        Warn = "warn",
        /// The same, and after `no_progress` or `cycle` the session's next model or tool call is refused, until
        /// another turn starts.
        Stop = "stop",
    }
}

impl Limits {
    /// No limits; loops are warned of.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// How many tool calls may start.
        pub fn tool_calls(self, most: u64) { self.tool_calls = Some(most) }

        /// How many model calls may start.
        pub fn model_calls(self, most: u64) { self.model_calls = Some(most) }

        /// How many turns may start.
        pub fn turns(self, most: u64) { self.turns = Some(most) }

        /// How long the session's runs may take together. The time between two runs does not count.
        pub fn duration(self, most: Duration) { self.duration = Some(most) }

        /// How many tokens may be used, input and output together.
        pub fn tokens(self, most: u64) { self.tokens = Some(most) }

        /// How much may be spent: the recorded `cost_usd`, else by the price of the model. A model whose price is
        /// not known is reported once in the trace, and not counted.
        pub fn cost_usd(self, most: f64) { self.cost_usd = Some(most) }

        /// What is done about loops. By default [`LoopPolicy::Warn`].
        pub fn on_loop(self, policy: LoopPolicy) { self.on_loop = Some(policy) }

        /// After how many repetitions something is a loop, at least 2. By default 3 for `no_progress` and `cycle`,
        /// 5 for `polling`, 6 for `drifting`.
        ///
        /// ```
        /// use spanledger::Limits;
        /// use spanledger::watch::LoopKind;
        /// let limits = Limits::new().repetitions(LoopKind::NoProgress, 5);
        /// ```
        pub fn repetitions(self, kind: LoopKind, at_least: u32) { self.repetitions[kind as usize] = Some(at_least) }

        /// A member of arguments and results, at any depth, that does not count when calls are compared: a
        /// timestamp, a request id.
        pub fn volatile(self, name: impl Into<String>) { self.volatile.push(name.into()) }
    }

    /// These limits, and `other`'s where these have none.
    pub(crate) fn or(self, other: Self) -> Self {
        let mut repetitions = self.repetitions;
        for (own, other) in repetitions.iter_mut().zip(other.repetitions) {
            *own = own.or(other);
        }
        Self {
            tool_calls: self.tool_calls.or(other.tool_calls),
            model_calls: self.model_calls.or(other.model_calls),
            turns: self.turns.or(other.turns),
            duration: self.duration.or(other.duration),
            tokens: self.tokens.or(other.tokens),
            cost_usd: self.cost_usd.or(other.cost_usd),
            on_loop: self.on_loop.or(other.on_loop),
            repetitions,
            volatile: match self.volatile.is_empty() {
                true => other.volatile,
                false => self.volatile,
            },
        }
    }

    /// What can't be meant: the limit, and what is wrong with it.
    pub(crate) fn mistake(&self) -> Option<(&'static str, String)> {
        if let Some(cost) = self
            .cost_usd
            .filter(|cost| !(cost.is_finite() && *cost >= 0.0))
        {
            return Some(("cost_usd", format!("{cost} is no amount of money")));
        }
        for kind in LoopKind::ALL {
            if let Some(n) = self.repetitions[kind as usize].filter(|n| *n < 2) {
                let why = format!("{n} is no repetition; at least 2 are");
                return Some((kind.as_str(), why));
            }
        }
        None
    }

    /// Whether nothing is limited and loops are not looked for.
    pub(crate) fn is_off(&self) -> bool {
        let off = Self {
            on_loop: Some(LoopPolicy::Off),
            repetitions: self.repetitions,
            volatile: self.volatile.clone(),
            ..Self::default()
        };
        *self == off
    }

    pub(crate) fn has_cost(&self) -> bool {
        self.cost_usd.is_some()
    }

    /// The members that don't count when calls are compared.
    pub(crate) fn volatile_names(&self) -> &[String] {
        &self.volatile
    }

    /// What is done about loops.
    pub(crate) fn loop_policy(&self) -> LoopPolicy {
        self.on_loop.unwrap_or_default()
    }

    /// Which limit a span that starts exceeds. `counts` include the span itself.
    pub(crate) fn exceeded(&self, kind: SpanKind, counts: &Counts) -> Option<Refused> {
        let over = |limit: Option<u64>, count: u64| limit.filter(|limit| count > *limit);
        let stop = |limit: &'static str, threshold: u64, actual: u64, counted: String| {
            Some(Refused::stopped(
                limit,
                threshold as f64,
                actual as f64,
                &counted,
            ))
        };
        if kind == SpanKind::Tool
            && let Some(limit) = over(self.tool_calls, counts.tool_calls)
        {
            let n = counts.tool_calls;
            return stop("max_tool_calls", limit, n, format!("this is tool call {n}"));
        }
        if kind == SpanKind::Model
            && let Some(limit) = over(self.model_calls, counts.model_calls)
        {
            let n = counts.model_calls;
            return stop(
                "max_model_calls",
                limit,
                n,
                format!("this is model call {n}"),
            );
        }
        if let Some(limit) = over(self.turns, counts.turns) {
            let n = counts.turns;
            return stop("max_turns", limit, n, format!("this is turn {n}"));
        }
        if let Some(limit) = self.tokens.filter(|limit| counts.tokens >= *limit) {
            let n = counts.tokens;
            return stop("max_tokens", limit, n, format!("{n} tokens are used"));
        }
        if let Some(limit) = self.cost_usd.filter(|limit| counts.cost_usd >= *limit) {
            let spent = format!("${:.4} is spent", counts.cost_usd);
            return Some(Refused::stopped(
                "max_cost_usd",
                limit,
                counts.cost_usd,
                &spent,
            ));
        }
        let active = Duration::from_nanos(counts.active_ns);
        let limit = self.duration.filter(|limit| active >= *limit)?;
        let (limit, active) = (limit.as_secs_f64(), active.as_secs_f64());
        let ran = format!("the session ran for {active:.1} s");
        Some(Refused::stopped("max_duration_s", limit, active, &ran))
    }
}

#[cfg(test)]
mod tests;
