//! Loops: the last tool calls of a session repeat.
//!
//! Two questions are asked of calls that follow each other: is it the same call, and did it end the same way?

use std::collections::VecDeque;
use std::sync::Arc;

use super::identity::ToolStep;
use super::limits::{Limits, LoopPolicy};
use crate::trace::{Address, Refused, named_enum};

/// How many calls are compared.
const WINDOW: usize = 48;
/// How many patterns are remembered, so that each is reported once.
const MOST_KNOWN: usize = 256;

named_enum! {
    /// The sort of a loop.
    #[non_exhaustive]
    pub enum LoopKind {
        /// The same call with the same result, again and again.
        NoProgress = "no_progress",
        /// Several calls in turn, each time with the same results.
        Cycle = "cycle",
        /// The same call or calls, but the results change.
        Polling = "polling",
        /// One tool fails in the same way with any arguments.
        Drifting = "drifting",
    }
}

impl LoopKind {
    /// After how many repetitions it is one, unless the limits say otherwise.
    const fn default_repetitions(self) -> u32 {
        match self {
            Self::NoProgress | Self::Cycle => 3,
            Self::Polling => 5,
            Self::Drifting => 6,
        }
    }

    /// Whether [`LoopPolicy::Stop`] stops on it.
    pub(crate) const fn stops(self) -> bool {
        matches!(self, Self::NoProgress | Self::Cycle)
    }
}

/// A loop that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopWarning {
    /// Its sort.
    pub kind: LoopKind,
    /// The tools, in order.
    pub pattern: String,
    /// How often it occurred in a row.
    pub repetitions: u32,
    /// How many calls were compared.
    pub window_size: usize,
    /// The close lines of the calls that make the loop.
    pub evidence: Vec<Address>,
}

/// The last tool calls of a session.
#[derive(Clone, Debug)]
pub struct Loops {
    policy: LoopPolicy,
    /// By [`LoopKind`].
    repetitions: [u32; 4],
    window: VecDeque<ToolStep>,
    /// The patterns that were reported.
    known: VecDeque<u64>,
    /// The loop that the last calls make, if it stops.
    stop: Option<(LoopKind, u32, String)>,
    open_runs: u32,
}

/// A loop at the end of the window.
struct Found {
    kind: LoopKind,
    /// How many calls it has before it repeats.
    period: usize,
    repetitions: usize,
    /// Equal for the same loop, wherever in it one starts.
    key: u64,
}

impl Loops {
    /// No calls yet.
    pub fn new(limits: &Limits) -> Self {
        let repetitions = LoopKind::ALL.map(|kind| {
            let given = limits.repetitions[kind as usize];
            given.unwrap_or(kind.default_repetitions()).max(2)
        });
        Self {
            policy: limits.loop_policy(),
            repetitions,
            window: VecDeque::new(),
            known: VecDeque::new(),
            stop: None,
            open_runs: 0,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.policy != LoopPolicy::Off
    }

    /// A run starts. The first of several that are open begins anew: loops are looked for inside a run.
    pub(crate) fn run_started(&mut self) {
        if self.open_runs == 0 {
            self.window.clear();
            self.known.clear();
            self.stop = None;
        }
        self.open_runs += 1;
    }

    pub(crate) fn run_ended(&mut self) {
        self.open_runs = self.open_runs.saturating_sub(1);
    }

    pub(crate) fn has_run(&self) -> bool {
        self.open_runs > 0
    }

    /// The process of the runs that are open is gone.
    pub(crate) fn runs_lost(&mut self) {
        self.open_runs = 0;
    }

    /// A turn starts: the agent gets another chance. If the loop goes on, it stops again.
    pub(crate) fn turn_started(&mut self) {
        self.stop = None;
    }

    /// The name of a tool as an earlier call has it.
    pub(crate) fn known_tool(&self, name: &str) -> Option<Arc<str>> {
        let mut steps = self.window.iter().rev();
        let step = steps.find(|step| *step.tool == *name)?;
        Some(Arc::clone(&step.tool))
    }

    /// A tool call ended. Returns the loop that it completes, if that was not reported before.
    pub(crate) fn push(&mut self, step: ToolStep) -> Option<LoopWarning> {
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(step);
        self.stop = None;
        let found = self.find()?;
        let threshold = self.repetitions[found.kind as usize];
        if self.policy == LoopPolicy::Stop && found.kind.stops() {
            let pattern = self.pattern(&found);
            self.stop = Some((found.kind, found.repetitions as u32, pattern));
        }
        if self.known.contains(&found.key) {
            return None;
        }
        if self.known.len() == MOST_KNOWN {
            self.known.pop_front();
        }
        self.known.push_back(found.key);
        let calls = (found.period * found.repetitions).min(self.window.len());
        let evidence = self.last(calls.min(found.period * threshold as usize));
        Some(LoopWarning {
            kind: found.kind,
            pattern: self.pattern(&found),
            repetitions: found.repetitions as u32,
            window_size: self.window.len(),
            evidence: evidence.map(|step| step.at).collect(),
        })
    }

    /// Why the next call of the session is refused, if it is.
    pub(crate) fn stopped(&self) -> Option<Refused> {
        let (kind, repetitions, pattern) = self.stop.as_ref()?;
        let threshold = self.repetitions[*kind as usize];
        let what = match kind {
            LoopKind::NoProgress => "made no progress",
            _ => "went in a circle",
        };
        let counted = format!("{pattern} {what} {repetitions} times");
        let (threshold, actual) = (f64::from(threshold), f64::from(*repetitions));
        Some(Refused::stopped("loop", threshold, actual, &counted))
    }

    /// The last `n` steps, in order.
    fn last(&self, n: usize) -> impl Iterator<Item = &ToolStep> {
        self.window.range(self.window.len() - n..)
    }

    fn pattern(&self, found: &Found) -> String {
        let block = self.last(found.period * found.repetitions);
        let tools: Vec<_> = block.take(found.period).map(|step| &*step.tool).collect();
        tools.join(" -> ")
    }

    /// The loop that the last calls make, the worst sort first.
    fn find(&self) -> Option<Found> {
        self.repeated_calls().or_else(|| self.repeated_failures())
    }

    /// The last calls as a loop of the same calls.
    fn repeated_calls(&self) -> Option<Found> {
        let [no_progress, cycle, polling, _] = self.repetitions.map(|n| n as usize);
        let periods = 2..=self.window.len() / cycle.min(polling);
        let mut steps = self.window.iter().rev();
        let last = steps.next()?.call;
        // Mostly a call is new within the longest period.
        if steps
            .take(*periods.end().max(&1))
            .all(|step| step.call != last)
        {
            return None;
        }
        let same_call = |a: &ToolStep, b: &ToolStep| a.call == b.call;
        let same = |a: &ToolStep, b: &ToolStep| a.call == b.call && a.result == b.result;
        let in_a_row = self.repeated(1, same);
        if in_a_row >= no_progress {
            return Some(self.found(LoopKind::NoProgress, 1, in_a_row));
        }
        for period in periods.clone() {
            let repetitions = self.repeated(period, same);
            if repetitions >= cycle && self.is_mixed(period) {
                return Some(self.found(LoopKind::Cycle, period, repetitions));
            }
        }
        for period in std::iter::once(1).chain(periods) {
            let repetitions = self.repeated(period, same_call);
            if repetitions >= polling && (period == 1 || self.is_mixed(period)) {
                return Some(self.found(LoopKind::Polling, period, repetitions));
            }
        }
        None
    }

    /// The last calls as a row of failures of one sort.
    fn repeated_failures(&self) -> Option<Found> {
        let same_failure = |a: &ToolStep, b: &ToolStep| {
            a.failure.is_some() && a.failure == b.failure && a.tool == b.tool
        };
        let failed = self.repeated(1, same_failure);
        let is_loop = failed >= self.repetitions[LoopKind::Drifting as usize] as usize;
        is_loop.then(|| self.found(LoopKind::Drifting, 1, failed))
    }

    fn found(&self, kind: LoopKind, period: usize, repetitions: usize) -> Found {
        Found {
            kind,
            period,
            repetitions,
            key: self.key(kind, period),
        }
    }

    /// How often the last `period` steps occurred in a row, the last time included; 0 if there are not so many.
    fn repeated(&self, period: usize, same: impl Fn(&ToolStep, &ToolStep) -> bool) -> usize {
        let steps = &self.window;
        let Some(earlier) = steps.len().checked_sub(period) else {
            return 0;
        };
        let pairs = (0..earlier).rev();
        let equal = pairs.take_while(|at| same(&steps[*at], &steps[at + period]));
        equal.count() / period + 1
    }

    /// Whether the last `period` steps are not all the same call.
    fn is_mixed(&self, period: usize) -> bool {
        let mut calls = self.last(period).map(|step| step.call);
        let first = calls.next();
        calls.any(|call| Some(call) != first)
    }

    fn key(&self, kind: LoopKind, period: usize) -> u64 {
        let mut steps = self.last(period);
        let sum = match kind {
            LoopKind::Drifting => steps.find_map(|step| step.failure).unwrap_or(0),
            _ => steps.fold(0, |sum, step| sum ^ step.call.rotate_left(17)),
        };
        // The kind and the period count too.
        sum.wrapping_add((kind as u64) << 8 | period as u64)
    }
}

#[cfg(test)]
mod tests;
