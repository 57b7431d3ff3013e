//! Values that several formats write.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use serde_json::{Map, Value};

use crate::session::{Item, Node, NodeState};
use crate::trace::typed::ToolCall;
use crate::trace::{Outcome, RawValue};

/// A text as it is, anything else as JSON.
pub(super) fn text_of(value: RawValue<'_>) -> String {
    value
        .text()
        .map_or_else(|| json_text(value), |text| text.into_owned())
}

/// The value as JSON, without halves of surrogate pairs, which other parsers refuse.
pub(super) fn json_text(value: RawValue<'_>) -> String {
    let parsed = value
        .json()
        .contains("\\u")
        .then(|| value.value())
        .flatten();
    parsed.map_or_else(|| value.json().to_owned(), |parsed| parsed.to_string())
}

pub(super) fn object(value: RawValue<'_>) -> Option<Map<String, Value>> {
    match value.value()? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// The arguments of a tool call, as formats have them that take only objects.
pub(super) fn arguments(call: &ToolCall<'_>) -> Map<String, Value> {
    let Some(args) = call.args() else {
        return Map::new();
    };
    object(args).unwrap_or_else(|| Map::from_iter([("input".into(), text_of(args).into())]))
}

/// What a tool call gave back, as one text.
pub(super) fn output_text(node: &Node, call: &ToolCall<'_>) -> String {
    let output = call.result().or_else(|| call.stdout()).map(text_of);
    let stderr = call.stderr().map(text_of);
    let error = stderr.or_else(|| node.error());
    let failed = || {
        let outcome = node.outcome_name().unwrap_or_default();
        (!is_ok(node)).then(|| outcome.into_owned())
    };
    let texts: Vec<_> = [output, error].into_iter().flatten().collect();
    match texts.is_empty() {
        true => failed().unwrap_or_default(),
        false => texts.join("\n"),
    }
}

/// The members of an object that are known: not null.
pub(super) fn known(object: Value) -> Map<String, Value> {
    let Value::Object(mut members) = object else {
        return Map::new();
    };
    members.retain(|_, value| !value.is_null());
    members
}

/// The output of a tool call that has no place beside a result: where there is none, `stdout` is the result.
pub(super) fn unshown_output(call: &ToolCall<'_>) -> impl Iterator<Item = (&'static str, Value)> {
    let output = [
        ("stdout", call.stdout().filter(|_| call.result().is_some())),
        ("stderr", call.stderr()),
        ("exit_code", call.exit_code()),
    ];
    let known = output.into_iter();
    known.filter_map(|(name, value)| Some((name, value?.value()?)))
}

/// Whether this is an event that debuggers show beside the calls.
pub(super) fn is_event(node: &Node) -> bool {
    matches!(
        node.item(),
        Item::StateUpdate(_) | Item::LoopWarning(_) | Item::ErrorEvent(_)
    )
}

/// Whether a span ended well, as far as is known.
pub(super) fn is_ok(node: &Node) -> bool {
    matches!(node.outcome(), Some(Outcome::Ok | Outcome::Unset) | None)
}

pub(super) fn hex(span: u64) -> String {
    format!("{span:016x}")
}

/// Ids that don't repeat: `c1`, `c1#2`, ….
#[derive(Clone, Debug, Default)]
pub(super) struct UniqueIds {
    /// Hashes of the ids that were given out.
    taken: HashSet<u64>,
    /// The last number that an id was given out with, by its hash. A long session may have one id thousands of times.
    numbers: HashMap<u64, u32>,
    hasher: RandomState,
}

impl UniqueIds {
    /// The id, followed by the mark and a number if it is taken.
    pub fn take(&mut self, id: &str, mark: char) -> String {
        let hash = self.hasher.hash_one(id);
        if self.taken.insert(hash) {
            return id.to_owned();
        }
        let number = self.numbers.entry(hash).or_insert(1);
        loop {
            *number += 1;
            let unique = format!("{id}{mark}{number}");
            if self.taken.insert(self.hasher.hash_one(&unique)) {
                return unique;
            }
        }
    }
}

/// Tool calls by ids that don't repeat: `c1`, `c1#2`, ….
#[derive(Debug, Default)]
pub(super) struct CallIds {
    /// Ids have letters, digits, `_` and `-` only, as Anthropic's API wants them.
    pub plain: bool,
    ids: UniqueIds,
    open: HashMap<u64, String>,
}

impl CallIds {
    /// The id of a call that starts.
    pub fn open(&mut self, node: &Node, call: &ToolCall<'_>) -> String {
        let given = call.tool_call_id().unwrap_or_default();
        let id = self.unique(&given);
        self.open_as(node, id)
    }

    /// The same, of a call whose id is known.
    pub fn open_as(&mut self, node: &Node, id: String) -> String {
        let span = node.span_id.filter(|_| node.state == NodeState::Open);
        self.open.extend(span.map(|span| (span, id.clone())));
        id
    }

    /// An id for a call that was recorded with this one.
    pub fn unique(&mut self, given: &str) -> String {
        let given = if given.is_empty() { "call" } else { given };
        if !self.plain {
            return self.ids.take(given, '#');
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        self.ids.take(&given.replace(|c| !is_plain(c), "_"), '-')
    }

    /// The id of an open call, by its span.
    pub fn of(&self, span: Option<u64>) -> Option<&str> {
        self.open.get(&span?).map(String::as_str)
    }

    /// The id of a call that ended.
    pub fn close(&mut self, node: &Node, call: &ToolCall<'_>) -> String {
        let known = node.span_id.and_then(|span| self.open.remove(&span));
        known.unwrap_or_else(|| self.open(node, call))
    }
}
