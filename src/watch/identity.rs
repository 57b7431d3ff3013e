//! Whether two tool calls are the same call, and whether they ended the same way.

use std::ops::Range;
use std::sync::Arc;

use crate::trace::typed::ErrorInfo;
use crate::trace::{Address, Outcome, RawValue, value_end};

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

/// The fields that are compared.
#[derive(Default)]
struct Compared<'a> {
    tool_id: Option<&'a [u8]>,
    loop_key: Option<&'a [u8]>,
    args: Option<&'a [u8]>,
    command: Option<&'a [u8]>,
    result: Option<&'a [u8]>,
    stdout: Option<&'a [u8]>,
    stderr: Option<&'a [u8]>,
    exit_code: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
}

impl<'a> Compared<'a> {
    fn of(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut compared = Self::default();
        for (name, value) in fields {
            let field = match name {
                b"tool_id" => &mut compared.tool_id,
                b"loop_key" => &mut compared.loop_key,
                b"args" => &mut compared.args,
                b"command" => &mut compared.command,
                b"result" => &mut compared.result,
                b"stdout" => &mut compared.stdout,
                b"stderr" => &mut compared.stderr,
                b"exit_code" => &mut compared.exit_code,
                b"error" => &mut compared.error,
                _ => continue,
            };
            field.get_or_insert(value);
        }
        compared
    }
}

impl ToolStep {
    /// From the fields of a close line, by their names. `known` finds a tool's name as an earlier step has it.
    /// Members named in `volatile` don't count. `None`: a limit stopped the call.
    pub fn of<'a>(
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        outcome: Outcome,
        at: Address,
        volatile: &[String],
        known: impl Fn(&str) -> Option<Arc<str>>,
    ) -> Option<Self> {
        let fields = Compared::of(fields);
        let error = || Some(ErrorInfo::from(value(fields.error?)?));
        // A call that did not run, because a limit was reached, says nothing about loops.
        if outcome == Outcome::Denied && error().is_some_and(|error| error.guardrail().is_some()) {
            return None;
        }
        let digest = |json: Option<&[u8]>| json.map_or(0, |json| canonical(json, volatile));
        let name = fields.tool_id.and_then(|name| value(name)?.text());
        let name = name.as_deref().unwrap_or_default();
        let tool = known(name).unwrap_or_else(|| name.into());
        let start = hash(name.as_bytes());
        let call = match fields.loop_key {
            Some(key) => mix(start, hash(key)),
            None => mix(mix(start, digest(fields.args)), digest(fields.command)),
        };
        let ended = outcome as u64;
        let results = [fields.result, fields.stdout, fields.stderr];
        let results = results.into_iter().chain([fields.exit_code, fields.error]);
        let result = results.fold(ended, |sum, value| mix(sum, digest(value)));
        let exit_code = fields.exit_code;
        let exit_code = exit_code.filter(|code| !matches!(*code, b"0" | b"null"));
        let failed = outcome.is_error() || exit_code.is_some();
        let failure = failed.then(|| {
            let error_type = error().and_then(|error| error.error_type());
            let error_type = error_type.map_or(0, |name| hash(name.as_bytes()));
            mix(mix(ended, error_type), digest(exit_code))
        });
        Some(Self {
            tool,
            call,
            result,
            failure,
            at,
        })
    }
}

/// A digest of a JSON value that does not depend on the order of an object's members or on spaces. Members named
/// in `volatile` don't count.
fn canonical(json: &[u8], volatile: &[String]) -> u64 {
    let bytes = json.trim_ascii();
    let mut value = Canonical {
        bytes,
        at: 0,
        volatile,
    };
    match bytes.first() {
        Some(b'{' | b'[') => value.value(0),
        _ => hash(bytes),
    }
}

/// Reads a JSON text once. What is malformed is compared as text.
struct Canonical<'a> {
    bytes: &'a [u8],
    at: usize,
    volatile: &'a [String],
}

impl<'a> Canonical<'a> {
    fn value(&mut self, depth: u32) -> u64 {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') if depth < MAX_DEPTH => self.object(depth),
            Some(b'[') if depth < MAX_DEPTH => self.array(depth),
            _ => hash(self.whole()),
        }
    }

    /// A sum, because the order of members does not count.
    fn object(&mut self, depth: u32) -> u64 {
        let mut sum = 1u64;
        self.at += 1;
        while let Some(b'"') = self.peek() {
            let start = self.at + 1;
            let name = self.string();
            let is_volatile = !self.volatile.is_empty() && self.is_volatile(start..self.at - 1);
            if self.peek() == Some(b':') {
                self.at += 1;
            }
            let value = self.value(depth + 1);
            if !is_volatile {
                sum = sum.wrapping_add(mix(name, value));
            }
            self.pass_comma();
        }
        self.close(sum, b'}')
    }

    fn array(&mut self, depth: u32) -> u64 {
        let mut sum = 2;
        self.at += 1;
        while self.peek().is_some_and(|byte| byte != b']') {
            sum = mix(sum, self.value(depth + 1));
            self.pass_comma();
        }
        self.close(sum, b']')
    }

    /// A string, hashed while its end is looked for, eight bytes at a time.
    fn string(&mut self) -> u64 {
        self.at += 1;
        let mut sum = 0;
        while let Some(rest) = self.bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            let word = rest
                .first_chunk()
                .map_or_else(|| last_word(rest), |word| u64::from_le_bytes(*word));
            let plain = plain_bytes(word);
            if plain == 8 {
                sum = mix(sum, word);
                self.at += 8;
                continue;
            }
            sum = mix(sum, word & ((1 << (8 * plain)) - 1));
            self.at += plain;
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return mix(sum, plain as u64);
                }
                // A backslash, and what it escapes.
                Some(byte) => {
                    let escaped = self.bytes.get(self.at + 1).copied().unwrap_or_default();
                    sum = mix(sum, u64::from(*byte) << 8 | u64::from(escaped));
                    self.at += 2;
                }
                None => {}
            }
        }
        self.at = self.bytes.len();
        sum
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn pass_comma(&mut self) {
        if self.peek() == Some(b',') {
            self.at += 1;
        }
    }

    /// The value at this place as it is spelled; all the rest if it has no end.
    fn whole(&mut self) -> &'a [u8] {
        let start = self.at;
        self.at = value_end(self.bytes, start).unwrap_or(self.bytes.len());
        &self.bytes[start..self.at]
    }

    fn close(&mut self, sum: u64, bracket: u8) -> u64 {
        match self.peek() {
            Some(byte) if byte == bracket => {
                self.at += 1;
                sum
            }
            _ => mix(sum, hash(self.whole())),
        }
    }

    fn is_volatile(&self, name: Range<usize>) -> bool {
        let name = self.bytes.get(name).unwrap_or_default();
        self.volatile.iter().any(|it| it.as_bytes() == name)
    }
}

/// How many bytes of eight come before the first quote or backslash.
fn plain_bytes(word: u64) -> usize {
    const ONES: u64 = u64::MAX / 255;
    let is = |byte: u8| {
        let same = word ^ (ONES * u64::from(byte));
        same.wrapping_sub(ONES) & !same & (ONES << 7)
    };
    ((is(b'"') | is(b'\\')).trailing_zeros() / 8) as usize
}

/// Fewer than eight bytes, and zeros.
fn last_word(bytes: &[u8]) -> u64 {
    let mut last = [0; 8];
    last[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(last)
}

fn value(json: &[u8]) -> Option<RawValue<'_>> {
    Some(RawValue::new(std::str::from_utf8(json).ok()?))
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
    // Not mixed with the seed, which would make it 0.
    let start = bytes.len() as u64;
    let (eights, rest) = bytes.as_chunks();
    let sum = eights
        .iter()
        .fold(start, |sum, eight| mix(sum, u64::from_le_bytes(*eight)));
    let last = match bytes.last_chunk() {
        // Some of these were counted before.
        Some(last) => u64::from_le_bytes(*last),
        None => last_word(rest),
    };
    mix(sum, last)
}

#[cfg(test)]
mod tests;
