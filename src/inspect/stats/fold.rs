//! How each line of a session changes the rows.

use std::collections::{HashMap, HashSet};

use super::{By, StatsRow};
use crate::inspect::waits::Waits;
use crate::session::Item;
use crate::trace::typed::{ModelCall, ModelUsage, Run, ToolCall, owned, set};
use crate::trace::{Kind, Outcome, RawLine, SpanKind, Usage, parse_time, time_text};

/// The key of what has no name.
const UNNAMED: &str = "(unnamed)";

/// What was counted so far, of all sessions.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub total: StatsRow,
    pub rows: HashMap<String, StatsRow>,
}

/// One session, while it is read.
#[derive(Debug, Default)]
pub(super) struct SessionFold {
    pub sums: Sums,
    by: Option<By>,
    since: u64,
    /// The session's id.
    pub session: String,
    /// The session that started this one.
    pub parent: Option<String>,
    /// The sessions that this one started.
    pub subagents: Vec<String>,
    agent: String,
    provider: Option<String>,
    model: String,
    /// The model calls that are open, with the usage that events inside them reported.
    calls: HashMap<String, Usage>,
    /// Whether a model call of the run had usage; then the run's own is the same again.
    counted_in_run: bool,
    /// The same for turns.
    counted_in_turns: HashSet<u32>,
    waits: Waits,
    /// The keys whose row counts this session.
    seen: HashSet<String>,
    /// Whether anything is counted.
    active: bool,
    /// When the line was written that is counted.
    time: u64,
    last: u64,
}

impl SessionFold {
    pub fn new(by: Option<By>, since: u64, sums: Sums) -> Self {
        Self {
            by,
            since,
            sums,
            ..Self::default()
        }
    }

    pub fn add_line(&mut self, line: &RawLine<'_>) {
        if self.session.is_empty() {
            self.session = line.session_id.clone().into_owned();
        }
        if !is_counted(line.kind()) {
            return;
        }
        let used = self.used_inside(line);
        if line.kind() == Kind::ModelCall {
            return;
        }
        let time = parse_time(line.ts).unwrap_or(0);
        self.last = self.last.max(time);
        self.time = time;
        let waited = self.waits.add_line(line);
        if time < self.since {
            return self.remember(line);
        }
        let item = Item::of(line);
        if waited.ns > 0 || waited.denied {
            let tool = item.name();
            self.change_rows(None, tool.as_deref(), |row| {
                row.waited = row.waited.saturating_add(waited.ns);
                row.denials += u64::from(waited.denied);
            });
        }
        match &item {
            Item::ModelCall(call) => self.model_call(line, call, used),
            Item::ToolCall(call) => self.tool_call(call),
            Item::ModelUsage(_) => {
                if let Some(used) = used {
                    self.usage(line, &used, time);
                }
            }
            Item::Turn(turn) => {
                self.change_rows(None, None, |row| row.turns += 1);
                let own = turn.usage().filter(|usage| !usage.is_empty());
                let counted_inside = line.turn.is_some_and(|n| self.counted_in_turns.remove(&n));
                if let Some(own) = own.filter(|_| !counted_inside) {
                    self.usage(line, &own, turn.start().unwrap_or(time));
                }
            }
            Item::Run(run) if line.closes() == Some(SpanKind::Run) => {
                let own = run.usage().filter(|usage| !usage.is_empty());
                if let Some(own) = own.filter(|_| !self.counted_in_run) {
                    self.usage(line, &own, run.start().unwrap_or(time));
                }
                self.counted_in_run = false;
            }
            _ => self.remember(line),
        }
    }

    /// The usage that events reported: of a line outside of model calls its own, of a model call that ends the sum
    /// of those inside it, where the later ones replace the earlier ones.
    fn used_inside(&mut self, line: &RawLine<'_>) -> Option<Usage> {
        let span = line.span_id.unwrap_or_default();
        if line.kind() == Kind::ModelCall {
            self.calls.insert(span.to_owned(), Usage::default());
            return None;
        }
        if line.closes() == Some(SpanKind::Model) {
            return self.calls.remove(span);
        }
        let reported = ModelUsage::of(line)?.usage();
        match self.calls.get_mut(span) {
            Some(inside) => {
                inside.merge(&reported);
                None
            }
            None => Some(reported),
        }
    }

    /// Takes over what later lines depend on.
    fn remember(&mut self, line: &RawLine<'_>) {
        match Item::of(line) {
            Item::Run(run) => self.run_opened(&run),
            Item::SessionUpdate(update) => {
                set(&mut self.provider, update.provider_id());
                self.model = owned(update.model_id()).unwrap_or(std::mem::take(&mut self.model));
            }
            Item::Subagent(child) => self.subagents.extend(owned(child.child_session_id())),
            _ => {}
        }
    }

    fn run_opened(&mut self, run: &Run<'_>) {
        if let Some(agent) = run.agent() {
            self.agent = agent.into_owned();
        }
        set(&mut self.provider, run.provider_id());
        if let Some(model) = run.model_id() {
            self.model = model.into_owned();
        }
        let parent = run.parent_session_id();
        set(&mut self.parent, parent.filter(|id| *id != self.session));
    }

    fn model_call(&mut self, line: &RawLine<'_>, call: &ModelCall<'_>, inside: Option<Usage>) {
        let model = call.response_model().or_else(|| call.model_id());
        let failed = call.outcome().is_some_and(Outcome::is_error);
        let own = call.usage().filter(|usage| !usage.is_empty());
        let usage = own.or(inside).unwrap_or_default();
        self.count_usage(line.turn, &usage);
        let at = call.start().unwrap_or(self.time);
        let mut cost = crate::cost::Cost::default();
        cost.add_usage_of(call, &usage, self.provider.as_deref(), &self.model, at);
        let agent = call.agent();
        let duration = known_duration(call.outcome(), call.duration_ns());
        let ttft = call.ttft_ms();
        let key = self.key(agent.as_deref(), model.as_deref(), None);
        self.add(key, |row| {
            row.model_calls += 1;
            row.errors += u64::from(failed);
            row.add_usage(&usage);
            row.cost.merge(&cost);
            if let Some(ns) = duration {
                row.model_time.add(ns);
            }
            if let Some(ms) = ttft {
                row.first_token.add(ms.saturating_mul(1_000_000));
            }
        });
    }

    fn tool_call(&mut self, call: &ToolCall<'_>) {
        let failed = call.outcome().is_some_and(Outcome::is_error);
        let duration = known_duration(call.outcome(), call.duration_ns());
        let agent = call.agent();
        let tool = call.tool_id().unwrap_or(UNNAMED.into());
        self.change_rows(agent.as_deref(), Some(&tool), |row| {
            row.tool_calls += 1;
            row.errors += u64::from(failed);
            if let Some(ns) = duration {
                row.tool_time.add(ns);
            }
        });
    }

    /// Usage that no model call has.
    fn usage(&mut self, line: &RawLine<'_>, usage: &Usage, at: u64) {
        self.count_usage(line.turn, usage);
        let mut cost = crate::cost::Cost::default();
        cost.add(self.provider.as_deref(), &self.model, usage, at);
        let model = self.model.clone();
        let key = self.key(None, Some(&model), None);
        self.add(key, |row| {
            row.add_usage(usage);
            row.cost.merge(&cost);
        });
    }

    fn count_usage(&mut self, turn: Option<u32>, usage: &Usage) {
        if !usage.is_empty() {
            self.counted_in_run = true;
            self.counted_in_turns.extend(turn);
        }
    }

    /// Changes the rows of a tool, or of what is no call.
    fn change_rows(
        &mut self,
        agent: Option<&str>,
        tool: Option<&str>,
        change: impl Fn(&mut StatsRow),
    ) {
        let key = self.key(agent, None, tool);
        self.add(key, change);
    }

    /// The row that a line is counted in; none if it is about something else than the rows are.
    fn key<'k>(
        &'k self,
        agent: Option<&'k str>,
        model: Option<&'k str>,
        tool: Option<&'k str>,
    ) -> Option<String> {
        let named = |name: &str| match name {
            "" => UNNAMED.to_owned(),
            name => name.to_owned(),
        };
        Some(match self.by? {
            By::Model => named(model?),
            By::Tool => named(tool?),
            By::Agent => named(agent.unwrap_or(&self.agent)),
            By::Session => self.session.clone(),
            By::Day => time_text(self.time, 0).split('T').next()?.to_owned(),
        })
    }

    fn add(&mut self, key: Option<String>, change: impl Fn(&mut StatsRow)) {
        self.active = true;
        change(&mut self.sums.total);
        let Some(key) = key else { return };
        if !self.seen.contains(&key) {
            self.seen.insert(key.clone());
        }
        change(self.sums.rows.entry(key).or_default());
    }

    /// Adds what only the end shows.
    pub fn finish(&mut self) {
        let rest = self.waits.rest();
        let key = match self.by {
            Some(By::Session) => Some(self.session.clone()),
            Some(By::Agent) => Some(self.agent.clone()),
            _ => None,
        };
        if rest > 0 && self.last >= self.since {
            self.add(key, |row| {
                row.waited = row.waited.saturating_add(rest);
            });
        }
        let is_subagent = self.parent.is_some();
        let count = |row: &mut StatsRow| match is_subagent {
            true => row.subagents += 1,
            false => row.sessions += 1,
        };
        if self.active {
            count(&mut self.sums.total);
        }
        for key in self.seen.drain() {
            if let Some(row) = self.sums.rows.get_mut(&key) {
                count(row);
            }
        }
    }
}

/// How long a call took. Of one that was interrupted only the least is known: it has no place in a median.
fn known_duration(outcome: Option<Outcome>, ns: Option<u64>) -> Option<u64> {
    ns.filter(|_| outcome != Some(Outcome::Interrupted))
}

/// Whether lines of a kind are looked at.
fn is_counted(kind: Kind) -> bool {
    use Kind::{HitlRequest, HitlResponse, ModelUsage, SessionUpdate, Subagent};
    let is_other = matches!(
        kind,
        ModelUsage | SessionUpdate | Subagent | HitlRequest | HitlResponse
    );
    let opens = matches!(kind.opens(), Some(SpanKind::Run | SpanKind::Model));
    kind.is_close() || opens || is_other
}
