//! The rows of a model call, of what goes into it and of what comes out.

use super::rows::{Change, DiffRow, RowKind, Side};
use super::sketch::{Ask, Call, InputMessage, Round};
use super::{Cause, layers, tool_pairs};
use crate::session::Digests;

pub(super) fn input_side(message: &InputMessage) -> Side {
    Side {
        address: Some(message.address),
        title: format!("{:?}", message.role).to_lowercase(),
        text: message.content.text.clone(),
        ..Side::default()
    }
}

fn model_side(round: &Round) -> Option<Side> {
    let call = round.call.as_ref();
    let address = call.map(|call| call.address).or(round.answered)?;
    let mut side = Side {
        address: Some(address),
        title: call.map_or("assistant".to_owned(), |call| call.model.clone()),
        text: round.answer.text.clone(),
        ..Side::default()
    };
    for Ask { name, args } in &round.asks {
        let line = if side.text.is_empty() { "" } else { "\n" };
        side.text
            .push_str(&format!("{line}calls {name} {}", args.text));
    }
    if let Some(call) = call {
        side.usage = call.usage.clone();
        side.duration = call.duration;
        if let Some(error) = call.error.as_ref().filter(|_| side.text.is_empty()) {
            side.text = error.clone();
        }
    }
    Some(side)
}

pub(super) fn model_row(
    a: &Round,
    b: &Round,
    answer: Option<&str>,
    calls: Option<(&Call, &Call)>,
) -> Option<DiffRow> {
    let (one, other) = (model_side(a), model_side(b));
    if one.is_none() && other.is_none() {
        return None;
    }
    let mut notes: Vec<_> = answer.map(str::to_owned).into_iter().collect();
    let mut is_changed = answer.is_some();
    if let Some((a, b)) = calls {
        let own = layers::fixed(a, b).into_iter();
        let own = own.filter(|(cause, _)| matches!(cause, Cause::Model | Cause::Parameters));
        let own: Vec<_> = own
            .map(|(cause, detail)| format!("{cause}: {detail}"))
            .collect();
        is_changed |= !own.is_empty();
        notes.extend(own);
        notes.extend(retried(a.retries, b.retries));
    }
    Some(DiffRow {
        kind: RowKind::Model,
        change: match (one.is_some(), other.is_some()) {
            (true, false) => Change::OnlyA,
            (false, true) => Change::OnlyB,
            _ if is_changed => Change::Changed,
            _ => Change::Same,
        },
        a: one,
        b: other,
        notes,
    })
}

/// That one session needed more attempts.
pub(super) fn retried(a: usize, b: usize) -> Option<String> {
    (a != b).then(|| format!("attempts: {} → {}", a + 1, b + 1))
}

/// The rows of a round that only one session has.
pub(super) fn one_sided_rows(round: &Round, change: Change) -> Vec<DiffRow> {
    let row = |kind, side| DiffRow::only(kind, change, side);
    let inputs = round.inputs.iter();
    let inputs = inputs.map(|message| row(RowKind::Input, input_side(message)));
    let model = model_side(round).map(|side| row(RowKind::Model, side));
    let tools = round
        .tools
        .iter()
        .map(|tool| tool_pairs::one_sided_row(tool, change));
    inputs.chain(model).chain(tools).collect()
}

/// The row of a prompt, a catalog or rules, and their digests.
pub(super) fn asset_row(
    cause: Cause,
    digests: &[Digests; 2],
) -> Option<(RowKind, [Option<String>; 2])> {
    let at = layers::ASSETS
        .iter()
        .position(|(asset, _)| *asset == cause)?;
    let digests = [0, 1].map(|session: usize| digests[session].all()[at].clone());
    Some((layers::ASSETS[at].1, digests))
}
