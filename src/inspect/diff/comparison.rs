//! Compares pairs of turns, and finds the first difference and its cause.

use super::align::Pair;
use super::content::{quote, quotes};
use super::round_rows::{asset_row, input_side, model_row, one_sided_rows};
use super::rows::{Change, DiffRow, RowKind, Side, TurnDiff};
use super::sketch::{Call, InputMessage, RecordedRequest, Round, Tool, TurnSketch};
use super::subagents::SubagentPair;
use super::tool_pairs::{self, ToolPair};
use super::{Cause, DiffVerdict, Divergence, Inputs, layers};
use crate::session::{Digests, Role};
use crate::trace::Address;

/// A difference that may be the first one.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub cause: Cause,
    pub detail: String,
    pub a: Option<Address>,
    pub b: Option<Address>,
}

impl Difference {
    pub fn new(cause: Cause, detail: String, a: Option<Address>, b: Option<Address>) -> Self {
        Self {
            cause,
            detail,
            a,
            b,
        }
    }
}

/// What was found so far.
#[derive(Default)]
pub(super) struct Comparison {
    first: Option<Divergence>,
    calls: usize,
    /// A call that was compared has no recorded request.
    unrecorded: bool,
    /// The assets that are shown already, by cause and digests.
    shown: Vec<(Cause, [Option<String>; 2])>,
}

/// Two turns while they are compared.
struct TurnPair<'a> {
    diff: TurnDiff,
    /// The digests in force at the call that is compared.
    digests: [Digests; 2],
    /// What differs in the results that the next call is given.
    pending: Vec<Difference>,
    /// Tools have run in the turn, so their results have rows already.
    ran_tools: bool,
    a: &'a TurnSketch,
    b: &'a TurnSketch,
}

impl Comparison {
    pub fn finish(self) -> (Inputs, Option<Divergence>) {
        let inputs = match self.calls > 0 && !self.unrecorded {
            true => Inputs::Recorded,
            false => Inputs::Reconstructed,
        };
        (inputs, self.first)
    }

    pub fn turn(&mut self, pair: Pair) -> TurnDiff {
        let used = |turn: &TurnSketch| (turn.usage.clone(), turn.duration);
        let diff = TurnDiff {
            a: pair.a.as_ref().and_then(|turn| turn.index),
            b: pair.b.as_ref().and_then(|turn| turn.index),
            alone: pair.a.is_none() || pair.b.is_none(),
            used: [pair.a.as_ref().map(used), pair.b.as_ref().map(used)],
            ..TurnDiff::default()
        };
        let empty = TurnSketch::default();
        let (a, b) = (pair.a.as_ref(), pair.b.as_ref());
        let mut turns = TurnPair {
            diff,
            digests: [a, b].map(|turn| turn.map(|turn| turn.digests.clone()).unwrap_or_default()),
            pending: Vec::new(),
            ran_tools: false,
            a: a.unwrap_or(&empty),
            b: b.unwrap_or(&empty),
        };
        if turns.diff.alone {
            self.alone(&mut turns, a.is_some());
        } else {
            self.rounds(&mut turns);
        }
        turns.diff
    }

    /// Adds the comparison of two subagents to the turn that started them. `is_first`: there was no difference before
    /// that turn.
    pub fn subagents(
        &mut self,
        turn: &mut TurnDiff,
        pair: &SubagentPair,
        verdict: &DiffVerdict,
        is_first: bool,
    ) {
        let Some(inside) = pair.add_to(turn, verdict) else {
            return;
        };
        let is_earlier = |first: &Divergence| first.sessions.is_none() && pair.are_before(first);
        if self
            .first
            .as_ref()
            .is_none_or(|first| is_first && is_earlier(first))
        {
            self.first = Some(Divergence {
                turn: turn.index(),
                ..inside
            });
        }
    }

    /// Whether no difference was found so far.
    pub fn is_equal(&self) -> bool {
        self.first.is_none()
    }

    /// Notes a difference. The first one counts; of several at one place, the first cause.
    fn diverge(&mut self, turns: &mut TurnPair<'_>, mut found: Vec<Difference>) -> bool {
        found.sort_by_key(|found| found.cause);
        let Some(found) = found.into_iter().next() else {
            return false;
        };
        turns.diff.diverges = true;
        if self.first.is_none() {
            self.first = Some(Divergence {
                turn: turns.diff.index(),
                cause: found.cause,
                detail: found.detail,
                a: found.a,
                b: found.b,
                digests: Box::new(turns.digests.clone()),
                sessions: None,
            });
        }
        true
    }

    /// A turn that only one session has.
    fn alone(&mut self, turns: &mut TurnPair<'_>, is_first: bool) {
        let (turn, change) = match is_first {
            true => (turns.a, Change::OnlyA),
            false => (turns.b, Change::OnlyB),
        };
        let message = turn.rounds.first().and_then(|round| round.inputs.first());
        let quoted = message.map_or(String::new(), |message| {
            format!(": {}", quote(&message.content.text))
        });
        let at = message.map(|message| message.address).or(turn.address);
        let (a, b) = change.sides(at);
        let which = change.which();
        let detail = format!("only the {which} session has this turn{quoted}");
        let found = Difference::new(Cause::UserInput, detail, a, b);
        for round in &turn.rounds {
            turns.diff.rows.extend(one_sided_rows(round, change));
        }
        self.diverge(turns, vec![found]);
    }

    fn rounds(&mut self, turns: &mut TurnPair<'_>) {
        let (a, b) = (turns.a, turns.b);
        let has_calls = |turn: &TurnSketch| turn.rounds.iter().any(|round| round.call.is_some());
        if !has_calls(a) && !has_calls(b) {
            let found = self.assets(turns, [None, None]);
            self.diverge(turns, found);
        }
        self.one_by_one(turns, &a.rounds, &b.rounds);
        self.flush(turns);
        self.aside(turns);
    }

    /// The n-th round of one session with the n-th of the other.
    fn one_by_one(&mut self, turns: &mut TurnPair<'_>, a: &[Round], b: &[Round]) {
        for at in 0..a.len().max(b.len()) {
            match (a.get(at), b.get(at)) {
                (Some(a), Some(b)) => self.round(turns, a, b),
                (Some(round), None) => self.extra(turns, round, Change::OnlyA),
                (None, Some(round)) => self.extra(turns, round, Change::OnlyB),
                (None, None) => {}
            }
        }
    }

    /// Results that no call of this turn is given.
    fn flush(&mut self, turns: &mut TurnPair<'_>) {
        let pending = std::mem::take(&mut turns.pending);
        self.diverge(turns, pending);
    }

    /// A round that only one session has.
    fn extra(&mut self, turns: &mut TurnPair<'_>, round: &Round, change: Change) {
        self.flush(turns);
        turns.diff.rows.extend(one_sided_rows(round, change));
        let which = change.which();
        let message = round.inputs.first();
        let message = message.filter(|message| message.role == Role::User);
        let tool = round.tools.first().map(|tool| tool.address);
        let at = message.map(|message| message.address);
        let at = at.or(round.called()).or(tool).or(round.answered);
        let (cause, what) = match (message, &round.call) {
            (Some(message), _) => (Cause::UserInput, quote(&message.content.text)),
            (None, Some(_)) => (self.no_cause(), "another model call".to_owned()),
            (None, None) => (self.no_cause(), "another step".to_owned()),
        };
        let detail = format!("only the {which} session has {what}");
        let (a, b) = change.sides(at);
        self.diverge(turns, vec![Difference::new(cause, detail, a, b)]);
    }

    /// The cause of another answer to the same input.
    fn no_cause(&self) -> Cause {
        match self.calls > 0 && !self.unrecorded {
            true => Cause::None,
            false => Cause::Unknown,
        }
    }

    fn round(&mut self, turns: &mut TurnPair<'_>, a: &Round, b: &Round) {
        let calls = a.call.as_ref().zip(b.call.as_ref());
        let mut found = std::mem::take(&mut turns.pending);
        if let Some((a, b)) = calls {
            self.calls += 1;
            self.unrecorded |= a.request.is_none() || b.request.is_none();
            turns.digests = [a.digests.clone(), b.digests.clone()];
            found.extend(self.assets(turns, [Some(a), Some(b)]));
        }
        let inputs = compare_inputs(turns, &a.inputs, &b.inputs);
        let requests = calls.and_then(|(a, b)| a.request.as_ref().zip(b.request.as_ref()));
        match requests {
            Some((one, other)) => found.extend(sent(one, other, inputs, a, b)),
            None => found.extend(inputs),
        }
        let is_other_input = self.diverge(turns, found);
        let (pairs, unmatched) = tool_pairs::pair(&a.tools, &b.tools);
        let answer = answers(a, b, &unmatched);
        turns
            .diff
            .rows
            .extend(model_row(a, b, answer.as_deref(), calls));
        if let Some(detail) = answer {
            let at = |round: &Round| {
                let tool = round.tools.first().map(|tool| tool.address);
                round.called().or(round.answered).or(tool)
            };
            // The requests are those of the calls, if both were recorded.
            let (cause, same) = match requests {
                Some(_) => (Cause::None, "same request"),
                None => (Cause::Unknown, "same input as far as recorded"),
            };
            let detail = format!("{same}, another answer: {detail}");
            if !is_other_input {
                self.diverge(turns, vec![Difference::new(cause, detail, at(a), at(b))]);
            }
        }
        self.tools(turns, &pairs, &unmatched);
    }

    fn tools(
        &mut self,
        turns: &mut TurnPair<'_>,
        pairs: &[ToolPair<'_>],
        unmatched: &[(&Tool, Change)],
    ) {
        turns.ran_tools |= !pairs.is_empty() || !unmatched.is_empty();
        for pair in pairs {
            turns.pending.extend(pair.found());
            turns.diff.rows.push(pair.row());
        }
        for (tool, change) in unmatched {
            turns
                .diff
                .rows
                .push(tool_pairs::one_sided_row(tool, *change));
        }
    }

    /// The prompt, the catalog, the rules, the model and the parameters.
    fn assets(&mut self, turns: &mut TurnPair<'_>, calls: [Option<&Call>; 2]) -> Vec<Difference> {
        let [a, b] = calls;
        let changed = match (a, b) {
            (Some(a), Some(b)) => layers::fixed(a, b),
            _ => layers::assets(&turns.digests[0], &turns.digests[1]),
        };
        let address =
            |call: Option<&Call>, turn: &TurnSketch| call.map(|call| call.address).or(turn.address);
        let (at_a, at_b) = (address(a, turns.a), address(b, turns.b));
        let mut all = Vec::new();
        for (cause, detail) in changed {
            if let Some((kind, digests)) = asset_row(cause, &turns.digests) {
                let shown = (cause, digests.clone());
                if !self.shown.contains(&shown) {
                    self.shown.push(shown);
                    let side = |digest: &Option<String>, address| Side {
                        address,
                        text: digest.clone().unwrap_or_default(),
                        ..Side::default()
                    };
                    turns.diff.rows.push(DiffRow {
                        kind,
                        change: Change::Changed,
                        a: Some(side(&digests[0], at_a)),
                        b: Some(side(&digests[1], at_b)),
                        notes: vec![detail.clone()],
                    });
                }
            }
            all.push(Difference::new(cause, detail, at_a, at_b));
        }
        all
    }

    /// Calls for other purposes: the n-th of a purpose with the n-th.
    fn aside(&mut self, turns: &mut TurnPair<'_>) {
        let (a, b) = (turns.a, turns.b);
        let mut purposes: Vec<_> = a.aside.iter().chain(&b.aside).map(|(of, _)| of).collect();
        purposes.sort_unstable();
        purposes.dedup();
        for purpose in purposes {
            let of = |turn: &'_ TurnSketch| -> Vec<Round> {
                let aside = turn.aside.iter().filter(|(known, _)| known == purpose);
                aside.map(|(_, round)| round.clone()).collect()
            };
            self.one_by_one(turns, &of(a), &of(b));
        }
    }
}

/// The messages before two calls. Adds the rows.
fn compare_inputs(
    turns: &mut TurnPair<'_>,
    a: &[InputMessage],
    b: &[InputMessage],
) -> Vec<Difference> {
    let mut found = Vec::new();
    let (a, b) = (in_order(a), in_order(b));
    for at in 0..a.len().max(b.len()) {
        let (one, other) = (a.get(at).copied(), b.get(at).copied());
        let change = match (one, other) {
            (Some(a), Some(b)) if a.role == b.role && a.content == b.content => Change::Same,
            (Some(_), Some(_)) => Change::Changed,
            (Some(_), None) => Change::OnlyA,
            _ => Change::OnlyB,
        };
        if change != Change::Same {
            let role = one.or(other).map(|message| message.role);
            let text = |message: Option<&InputMessage>| match message {
                Some(message) => quote(&message.content.text),
                None => "nothing".to_owned(),
            };
            let cause = match role {
                Some(Role::Tool) => Cause::ToolResult,
                Some(Role::System) => Cause::SystemPrompt,
                _ => Cause::UserInput,
            };
            let detail = format!("{} → {}", text(one), text(other));
            let [a, b] = [one, other].map(|message| Some(message?.address));
            found.push(Difference::new(cause, detail, a, b));
        }
        let is_tool = one
            .or(other)
            .is_some_and(|message| message.role == Role::Tool);
        if is_tool && turns.ran_tools {
            continue;
        }
        turns.diff.rows.push(DiffRow {
            kind: RowKind::Input,
            change,
            a: one.map(input_side),
            b: other.map(input_side),
            notes: Vec::new(),
        });
    }
    found
}

/// Messages in their order; results of tools, which may be parallel, last and sorted.
fn in_order(messages: &[InputMessage]) -> Vec<&InputMessage> {
    let is_tool = |message: &&InputMessage| message.role == Role::Tool;
    let mut order: Vec<_> = messages.iter().filter(|one| !is_tool(one)).collect();
    let mut results: Vec<_> = messages.iter().filter(is_tool).collect();
    results.sort_by_key(|message| message.content.hash);
    order.append(&mut results);
    order
}

/// What two recorded requests have different in their messages, in the words of the messages' own lines where
/// those differ as well.
fn sent(
    one: &RecordedRequest,
    other: &RecordedRequest,
    inputs: Vec<Difference>,
    a: &Round,
    b: &Round,
) -> Vec<Difference> {
    let Some((cause, detail)) = layers::messages(one, other) else {
        return Vec::new();
    };
    let named = inputs.into_iter().find(|found| found.cause == cause);
    vec![named.unwrap_or_else(|| Difference::new(cause, detail, a.called(), b.called()))]
}

/// What differs in the answers to two calls, if anything does.
fn answers(a: &Round, b: &Round, unmatched: &[(&Tool, Change)]) -> Option<String> {
    if a.answer != b.answer {
        let (old, new) = quotes(&a.answer.text, &b.answer.text);
        return Some(format!("{old} → {new}"));
    }
    if a.asks != b.asks {
        let calls = |round: &Round| {
            let names: Vec<_> = round.asks.iter().map(|ask| ask.name.as_str()).collect();
            match names.is_empty() {
                true => "no tools".to_owned(),
                false => names.join(", "),
            }
        };
        let (old, new) = (calls(a), calls(b));
        return Some(match old == new {
            true => format!("calls {old} with other arguments"),
            false => format!("calls {old} → {new}"),
        });
    }
    if let Some((tool, change)) = unmatched.first() {
        let (which, tool) = (change.which(), &tool.name);
        return Some(format!("only the {which} session calls {tool}"));
    }
    let (a, b) = (a.call.as_ref()?, b.call.as_ref()?);
    if a.failed != b.failed {
        let text = |call: &Call| match (&call.error, call.failed) {
            (Some(error), _) => quote(error),
            (None, true) => "an error".to_owned(),
            (None, false) => "no error".to_owned(),
        };
        return Some(format!("{} → {}", text(a), text(b)));
    }
    let (old, new) = (a.finish_reason.as_ref()?, b.finish_reason.as_ref()?);
    (old != new).then(|| format!("stopped by {old} → {new}"))
}
