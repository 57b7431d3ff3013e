//! Whether two tool calls are the same call, and whether they ended the same way.

use std::sync::Arc;

use crate::trace::typed::ErrorInfo;
use crate::trace::{Address, Outcome, RawValue};

/// A tool call that ended, as far as it is compared with others.
#[derive(Clone, Debug)]
pub(crate) struct ToolStep {
    /// The tool's name.
    pub tool: Arc<str>,
    /// The tool and its arguments, or the key that it was given in their place.
    pub call: u64,
    /// How it ended: outcome, result, output, error.
    pub result: u64,
    /// The sort of its failure; its text does not count.
    pub failure: Option<u64>,
    /// Its close line.
    pub at: Address,
}

/// How deep values are compared member by member. Below that, equal text is equal.
const MAX_DEPTH: u32 = 32;

impl ToolStep {
    /// From the fields of a close line, by their names. `tool` is the tool's name as an earlier step has it,
    /// if one does. Members named in `volatile` don't count.
    pub fn of<'a>(
        field: impl Fn(&'static str) -> Option<RawValue<'a>>,
        outcome: Outcome,
        at: Address,
        volatile: &[String],
        known: impl Fn(&str) -> Option<Arc<str>>,
    ) -> Self {
        let identity = |value: RawValue<'_>| canonical(value.json(), volatile, 0);
        let named = |names: &[&'static str], start: u64| {
            names
                .iter()
                .fold(start, |sum, name| mix(sum, field(name).map_or(0, identity)))
        };
        let name = field("tool_id").and_then(|name| name.text());
        let name = name.as_deref().unwrap_or_default();
        let tool = known(name).unwrap_or_else(|| name.into());
        let start = hash(name.as_bytes());
        let call = match field("loop_key") {
            Some(key) => mix(start, hash(key.json().as_bytes())),
            None => named(&["args", "command"], start),
        };
        let ended = outcome as u64;
        let result = named(&["result", "stdout", "stderr", "exit_code", "error"], ended);
        let exit_code = field("exit_code").filter(|code| !matches!(code.json(), "0" | "null"));
        let failed = outcome.is_error() || exit_code.is_some();
        let failure = failed.then(|| {
            let error = field("error").map(ErrorInfo::from);
            let error_type = error.and_then(|error| error.error_type());
            let error_type = error_type.map_or(0, |name| hash(name.as_bytes()));
            mix(mix(ended, error_type), exit_code.map_or(0, identity))
        });
        Self {
            tool,
            call,
            result,
            failure,
            at,
        }
    }
}

/// Whether a call did not run because a limit was reached: it says nothing about loops.
pub(crate) fn is_stop(outcome: Outcome, error: Option<&ErrorInfo<'_>>) -> bool {
    outcome == Outcome::Denied && error.is_some_and(|error| error.guardrail().is_some())
}

/// A digest of a JSON value that does not depend on the order of an object's members or on spaces.
fn canonical(json: &str, volatile: &[String], depth: u32) -> u64 {
    let json = json.trim_ascii();
    let value = RawValue::new(json);
    match json.as_bytes().first() {
        Some(b'{') if depth < MAX_DEPTH => {
            let members = value.members();
            let members = members.filter(|(name, _)| !volatile.iter().any(|it| it == name));
            // A sum, because the order does not count.
            members.fold(1, |sum: u64, (name, value)| {
                let member = canonical(value.json(), volatile, depth + 1);
                sum.wrapping_add(mix(hash(name.as_bytes()), member))
            })
        }
        Some(b'[') if depth < MAX_DEPTH => value.items().fold(2, |sum, item| {
            mix(sum, canonical(item.json(), volatile, depth + 1))
        }),
        _ => hash(json.as_bytes()),
    }
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Both halves of the product: every bit of the result depends on every bit of both.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ SEED) * u128::from(b ^ 0xd6e8_feb8_6659_fd93);
    (product as u64) ^ ((product >> 64) as u64)
}

/// A digest for comparisons in memory. Arguments are hashed while the session is locked, so it has to be fast;
/// equal digests of different values would be a wrong warning, no more.
fn hash(bytes: &[u8]) -> u64 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let start = mix(SEED, bytes.len() as u64);
    let sum = eights
        .iter()
        .fold(start, |sum, eight| mix(sum, u64::from_le_bytes(*eight)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(sum, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str, volatile: &[&str]) -> bool {
        let volatile: Vec<_> = volatile.iter().map(|name| (*name).to_owned()).collect();
        canonical(a, &volatile, 0) == canonical(b, &volatile, 0)
    }

    #[test]
    fn order_of_members_and_spaces_do_not_count() {
        let (a, b) = (
            r#"{"a":1,"b":{"c":[1,2]}}"#,
            r#"{ "b" : {"c":[1, 2]}, "a":1 }"#,
        );
        assert!(same(a, b, &[]));
        assert!(!same(a, r#"{"a":1,"b":{"c":[2,1]}}"#, &[]));
        assert!(!same(r#"{"a":"b"}"#, r#"{"b":"a"}"#, &[]));
        assert!(!same("[[1],2]", "[1,[2]]", &[]));
    }

    #[test]
    fn volatile_members_do_not_count_at_any_depth() {
        let at =
            |time: u32| format!(r#"{{"state":"failed","log":[{{"time":{time},"line":"x"}}]}}"#);
        assert!(!same(&at(1), &at(2), &[]));
        assert!(same(&at(1), &at(2), &["time"]));
    }

    #[test]
    fn deep_nesting_is_compared_as_text() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(same(&deep, &deep, &[]));
    }
}
