//! The subagents of a pair of turns, compared as sessions of their own.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use super::align::Pair;
use super::rows::{Change, DiffRow, RowKind, Side, TurnDiff};
use super::sketch::{Subagent, TurnSketch};
use super::{DiffVerdict, Divergence};
use crate::read::session_dir;

/// Subagents deeper than this are not compared.
pub(super) const DEEPEST: usize = 8;

/// A subagent of each session that belong together.
pub(super) struct SubagentPair {
    a: Subagent,
    b: Subagent,
}

/// Pairs the subagents of two turns: the n-th of an agent with the n-th.
pub(super) fn pairs(pair: &Pair) -> Vec<SubagentPair> {
    let of = |turn: &Option<TurnSketch>| -> Vec<Subagent> {
        let turn = turn.as_ref();
        turn.map(|turn| turn.subagents.clone()).unwrap_or_default()
    };
    let mut free: HashMap<String, Vec<Subagent>> = HashMap::new();
    for subagent in of(&pair.b).into_iter().rev() {
        free.entry(subagent.agent.clone())
            .or_default()
            .push(subagent);
    }
    let pairs = of(&pair.a).into_iter().filter_map(|a| {
        let b = free.get_mut(&a.agent)?.pop()?;
        Some(SubagentPair { a, b })
    });
    pairs.collect()
}

impl SubagentPair {
    /// The directories of their sessions, beside those of the two that started them. `None`: one is not there.
    pub fn sessions(&self, a: &Path, b: &Path) -> Option<[PathBuf; 2]> {
        let there = |session, id| beside(session, id).filter(|dir| dir.is_dir());
        Some([there(a, &self.a.session)?, there(b, &self.b.session)?])
    }

    /// Adds their row to the turn. Returns the difference in them.
    pub fn add_to(&self, turn: &mut TurnDiff, verdict: &DiffVerdict) -> Option<Divergence> {
        let side = |subagent: &Subagent| Side {
            address: Some(subagent.address),
            title: subagent.agent.clone(),
            input: subagent.session.clone(),
            ..Side::default()
        };
        let first = verdict.first.as_ref().map(|first| self.outside(first));
        turn.rows.push(DiffRow {
            kind: RowKind::Subagent,
            change: match first {
                Some(_) => Change::Changed,
                None => Change::Same,
            },
            a: Some(side(&self.a)),
            b: Some(side(&self.b)),
            notes: first
                .iter()
                .map(|first| format!("{}: {}", first.cause, first.detail))
                .collect(),
        });
        turn.diverges |= first.is_some();
        first
    }

    /// A difference in the subagents, as the sessions that started them see it.
    fn outside(&self, first: &Divergence) -> Divergence {
        let turn = first.turn.map(|turn| format!(" in turn {turn}"));
        let (agent, turn) = (&self.a.agent, turn.unwrap_or_default());
        let own = || Box::new([self.a.session.clone(), self.b.session.clone()]);
        Divergence {
            detail: format!("subagent {agent}{turn}: {}", first.detail),
            sessions: Some(first.sessions.clone().unwrap_or_else(own)),
            ..first.clone()
        }
    }

    /// Whether a difference of the sessions themselves comes after the subagents started.
    pub fn are_before(&self, first: &Divergence) -> bool {
        match (first.a, first.b) {
            (Some(a), _) => self.a.address < a,
            (None, Some(b)) => self.b.address < b,
            (None, None) => false,
        }
    }
}

/// The directories of the sessions that a divergence is in, where `a` and `b` are those that were compared.
pub(super) fn sessions_of(first: &Divergence, a: &Path, b: &Path) -> io::Result<[PathBuf; 2]> {
    let Some(ids) = &first.sessions else {
        return Ok([a.to_owned(), b.to_owned()]);
    };
    match (beside(a, &ids[0]), beside(b, &ids[1])) {
        (Some(a), Some(b)) => Ok([a, b]),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// The directory of another session under the root of this one.
fn beside(session: &Path, id: &str) -> Option<PathBuf> {
    let root = session.parent()?.parent()?;
    Some(session_dir(root, id))
}
