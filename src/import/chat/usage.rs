//! Tokens in the classes of the chat formats.

use serde_json::Value;

use super::Fields;
use crate::trace::Usage;

/// The tokens of a message.
pub(super) fn usage(metadata: &Fields) -> Option<Usage> {
    let usage = metadata.get("usage")?.as_object()?;
    let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    let cost = metadata.get("cost_usd").and_then(Value::as_f64);
    let counts = ["input", "output", "reasoning", "cache_read", "cache_write"].map(count);
    Some(classes(counts, cost.filter(|cost| *cost > 0.0)))
}

/// Tokens in five classes that don't overlap: input, output, reasoning, cache read, cache written.
pub(super) fn classes(counts: [u64; 5], cost_usd: Option<f64>) -> Usage {
    let [input, output, reasoning, read, write] = counts;
    let known = |count: u64| (count > 0).then_some(count);
    let sum = |counts: [u64; 3]| known(counts.into_iter().fold(0, u64::saturating_add));
    Usage {
        input_tokens: sum([input, read, write]),
        input_uncached_tokens: known(input),
        output_tokens: sum([output, reasoning, 0]),
        output_text_tokens: known(output),
        reasoning_tokens: known(reasoning),
        cache_read_tokens: known(read),
        cache_write_tokens: known(write),
        cost_usd,
        ..Usage::default()
    }
}
