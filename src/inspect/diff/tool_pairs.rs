//! The tools after a model call: paired by name and arguments, in any order.

use std::collections::{HashMap, VecDeque};

use super::Cause;
use super::comparison::Difference;
use super::content::{hash, quotes};
use super::round_rows::retried;
use super::rows::{Change, DiffRow, RowKind, Side};
use super::sketch::Tool;

/// How many calls before and after one may run in parallel with it.
const NEAR: usize = 32;

/// A tool call of each session that belong together.
pub(super) struct ToolPair<'a> {
    a: &'a Tool,
    b: &'a Tool,
    /// One session ran it earlier than the other, and not in parallel.
    moved: bool,
}

/// Pairs tool calls: those with equal arguments first, then those of the same tool. The rest has no partner.
pub(super) fn pair<'a>(
    a: &'a [Tool],
    b: &'a [Tool],
) -> (Vec<ToolPair<'a>>, Vec<(&'a Tool, Change)>) {
    let mut of_b: Vec<Option<usize>> = vec![None; b.len()];
    let mut of_a: Vec<Option<usize>> = vec![None; a.len()];
    let rules: [fn(&Tool) -> u64; 3] = [Tool::whole_key, Tool::call_key, |tool| hash(&tool.name)];
    for key in rules {
        let mut free: HashMap<u64, VecDeque<usize>> = HashMap::new();
        for (j, tool) in b.iter().enumerate().filter(|(j, _)| of_b[*j].is_none()) {
            free.entry(key(tool)).or_default().push_back(j);
        }
        for (i, tool) in a.iter().enumerate() {
            if of_a[i].is_none()
                && let Some(j) = free.get_mut(&key(tool)).and_then(VecDeque::pop_front)
            {
                (of_a[i], of_b[j]) = (Some(j), Some(i));
            }
        }
    }
    let pairs = of_a.iter().enumerate().filter_map(|(i, j)| {
        let (i, j) = (i, (*j)?);
        let moved = i != j && !is_parallel(a, i) && !is_parallel(b, j);
        Some(ToolPair {
            a: &a[i],
            b: &b[j],
            moved,
        })
    });
    let left = |of: &[Option<usize>], tools: &'a [Tool], change| -> Vec<(&'a Tool, Change)> {
        let free = tools
            .iter()
            .zip(of)
            .filter(|(_, partner)| partner.is_none());
        free.map(|(tool, _)| (tool, change)).collect()
    };
    let mut unmatched = left(&of_a, a, Change::OnlyA);
    unmatched.extend(left(&of_b, b, Change::OnlyB));
    (pairs.collect(), unmatched)
}

/// Whether a call overlaps in time with another one near it.
fn is_parallel(tools: &[Tool], at: usize) -> bool {
    let own = &tools[at];
    let near = at.saturating_sub(NEAR)..(at + NEAR).min(tools.len());
    let mut others = near.filter(|index| *index != at).map(|index| &tools[index]);
    others.any(|other| other.start < own.end && own.start < other.end)
}

impl ToolPair<'_> {
    /// What differs, and the cause.
    fn difference(&self) -> Option<(Cause, String)> {
        let (a, b) = (self.a, self.b);
        let name = &a.name;
        if a.args != b.args {
            let (old, new) = quotes(&a.args.text, &b.args.text);
            return Some((
                Cause::ToolResult,
                format!("{name}: other arguments: {old} → {new}"),
            ));
        }
        if a.rules != b.rules && (a.is_denied() != b.is_denied() || a.decision != b.decision) {
            let decision = |tool: &'_ Tool| tool.decision.clone().unwrap_or_else(|| "–".into());
            let detail = format!("{name}: {} → {}", decision(a), decision(b));
            return Some((Cause::PermissionRules, detail));
        }
        if a.is_same_result(b) {
            return None;
        }
        let detail = if a.is_denied() != b.is_denied() {
            let which = if a.is_denied() { "first" } else { "second" };
            format!("denied in the {which} session")
        } else if a.exit_code != b.exit_code {
            let code = |tool: &'_ Tool| tool.exit_code.clone().unwrap_or_else(|| "–".into());
            format!("other exit code: {} → {}", code(a), code(b))
        } else if a.output != b.output {
            let (old, new) = quotes(&a.output.text, &b.output.text);
            format!("other output: {old} → {new}")
        } else {
            let outcome = |tool: &Tool| tool.outcome.map_or("open", |outcome| outcome.as_str());
            format!("other outcome: {} → {}", outcome(a), outcome(b))
        };
        Some((Cause::ToolResult, format!("{name}: {detail}")))
    }

    pub fn found(&self) -> Option<Difference> {
        let (cause, detail) = self.difference()?;
        let (a, b) = (Some(self.a.address), Some(self.b.address));
        Some(Difference::new(cause, detail, a, b))
    }

    pub fn row(&self) -> DiffRow {
        let difference = self.difference();
        let mut notes: Vec<_> = difference
            .iter()
            .map(|(_, detail)| detail.clone())
            .collect();
        notes.extend(retried(self.a.retries, self.b.retries));
        if self.moved {
            notes.push("in another order".to_owned());
        }
        DiffRow {
            kind: RowKind::Tool,
            change: match difference {
                Some(_) => Change::Changed,
                None => Change::Same,
            },
            a: Some(side(self.a)),
            b: Some(side(self.b)),
            notes,
        }
    }
}

/// The row of a call that only one session has.
pub(super) fn one_sided_row(tool: &Tool, change: Change) -> DiffRow {
    DiffRow::only(RowKind::Tool, change, side(tool))
}

fn side(tool: &Tool) -> Side {
    Side {
        address: Some(tool.address),
        title: tool.name.clone(),
        input: tool.args.text.clone(),
        text: tool.output.text.clone(),
        duration: Some(tool.end.saturating_sub(tool.start)),
        ..Side::default()
    }
}
