//! Secrets known by their own shape: a literal that gives them away, and runs around it.
//!
//! A shape is found at its literal, which the scanner's one automaton looks for; the runs before
//! and after are then read byte by byte, without going back. That keeps the whole search linear,
//! and the table needs no compiling.

use std::ops::Range;

use super::bytes::{
    self, ALNUM, BASE64, Class, DIGIT, HEX, Mix, UNDER, URL64, WORD, opens, varied,
};
use super::literals;

/// One kind of secret.
pub(super) struct Shape {
    /// The name in masks.
    pub(super) rule: &'static str,
    /// The text that must be there, in exactly this case.
    pub(super) literal: &'static str,
    /// What must stand right before the literal.
    before: Option<Run>,
    /// What must follow it, in order.
    after: &'static [Part],
    /// A last look at the whole secret.
    check: fn(&[u8]) -> bool,
    /// Whether the literal itself is part of the secret.
    keeps_literal: bool,
    /// How much of an unbounded run is read before the shape is certain. Bounds the work at each
    /// of many literals within one run; unbounded only where no literal inside a run counts.
    glance: usize,
}

/// Between `min` and `max` bytes of a class; as many as there are.
#[derive(Clone, Copy)]
pub(super) struct Run {
    class: Class,
    min: usize,
    max: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Part {
    Run(Run),
    Literal(&'static str),
    /// Whatever there is of a class, be it nothing.
    Rest(Class),
    /// At most this many runs of a class, each after a dot.
    Dotted(Class, usize),
}

/// No upper bound: a longer run than usual is still all secret.
const ANY: usize = usize::MAX;

/// At least `min` bytes of `class`.
pub(super) const fn run(class: Class, min: usize) -> Part {
    Part::Run(Run {
        class,
        min,
        max: ANY,
    })
}

/// Exactly `count` bytes of `class`, not followed by another.
pub(super) const fn exactly(class: Class, count: usize) -> Part {
    Part::Run(Run {
        class,
        min: count,
        max: count,
    })
}

pub(super) const fn between(class: Class, min: usize, max: usize) -> Part {
    Part::Run(Run { class, min, max })
}

pub(super) const fn literal(text: &'static str) -> Part {
    Part::Literal(text)
}

pub(super) const fn rest(class: Class) -> Part {
    Part::Rest(class)
}

pub(super) const fn shape(
    rule: &'static str,
    literal: &'static str,
    after: &'static [Part],
) -> Shape {
    Shape {
        rule,
        literal,
        before: None,
        after,
        check: anything,
        keeps_literal: false,
        glance: 256,
    }
}

impl Shape {
    /// Requires a run of `class` right before the literal.
    pub(super) const fn after_run(mut self, class: Class, min: usize, max: usize) -> Self {
        self.before = Some(Run { class, min, max });
        self
    }

    /// Looks once more at the whole secret.
    pub(super) const fn checked(mut self, check: fn(&[u8]) -> bool) -> Self {
        self.check = check;
        self
    }

    /// Reads every run in full, and counts the literal only at the start of one.
    pub(super) const fn in_full(mut self) -> Self {
        self.glance = ANY;
        self
    }

    /// Leaves the literal readable, masking only what follows it.
    pub(super) const fn keeping_literal(mut self) -> Self {
        self.keeps_literal = true;
        self
    }

    /// The texts to search for: the literal, or for a very short one all it can follow or start.
    pub(super) fn triggers(&self) -> impl Iterator<Item = String> {
        let around: &[u8] = match self.literal.len() {
            0..literals::SHORTEST => b"0123456789abcdef",
            _ => b" ",
        };
        around
            .iter()
            .map(|&byte| match (self.literal.len(), self.before) {
                (literals::SHORTEST.., _) => self.literal.to_owned(),
                (_, Some(_)) => format!("{}{}", char::from(byte), self.literal),
                (_, None) => format!("{}{}", self.literal, char::from(byte)),
            })
    }

    /// The secret at a hit of one of the [`triggers`](Self::triggers).
    pub(super) fn matches_hit(
        &self,
        text: &[u8],
        at: usize,
    ) -> Option<(Range<usize>, Range<usize>)> {
        let extra = self.literal.len() < literals::SHORTEST && self.before.is_some();
        self.matches(text, at + usize::from(extra))
    }

    /// The secret whose literal starts at `at` (in any case), as whole and secret.
    fn matches(&self, text: &[u8], at: usize) -> Option<(Range<usize>, Range<usize>)> {
        let literal_end = at + self.literal.len();
        if text.get(at..literal_end)? != self.literal.as_bytes() {
            return None;
        }
        let start = match self.before {
            Some(run) => {
                let start = bytes::run_start(text, at, run.class, run.max.saturating_add(1));
                if !(run.min..=run.max).contains(&(at - start)) {
                    return None;
                }
                start
            }
            None => at,
        };
        // A short literal inside a name (`task_sk_…`) is mostly part of that name.
        let blockers = match self.literal.len() {
            _ if self.glance == ANY => URL64,
            0..4 => WORD,
            _ => ALNUM,
        };
        if is_word(self.literal) && !opens(text, start, blockers) {
            return None;
        }
        let mut end = literal_end;
        for part in self.after {
            match *part {
                Part::Run(run) => {
                    let most = if run.max == ANY {
                        self.glance
                    } else {
                        run.max + 1
                    };
                    let run_end = bytes::run_end(text, end, run.class, most);
                    if !(run.min..=run.max).contains(&(run_end - end)) {
                        return None;
                    }
                    end = run_end;
                }
                Part::Literal(expected) => {
                    if !text[end..].starts_with(expected.as_bytes()) {
                        return None;
                    }
                    end += expected.len();
                }
                Part::Rest(class) => end = bytes::run_end(text, end, class, ANY),
                Part::Dotted(class, most) => {
                    for _ in 0..most {
                        if text.get(end) == Some(&b'.') {
                            end = bytes::run_end(text, end + 1, class, ANY);
                        }
                    }
                }
            }
        }
        let body = &text[literal_end..end];
        if (body.len() >= 8 && !varied(body, 5)) || !(self.check)(&text[start..end]) {
            return None;
        }
        // Only now that it is one: the rest of a long run.
        if let Some(Part::Run(run)) = self.after.last()
            && run.max == ANY
        {
            end = bytes::run_end(text, end, run.class, ANY);
        }
        let secret = if self.keeps_literal {
            literal_end..end
        } else {
            start..end
        };
        Some((start..end, secret))
    }
}

/// Whether the literal starts with a letter or digit, so that one before it would go on a word.
fn is_word(literal: &str) -> bool {
    literal
        .as_bytes()
        .first()
        .is_some_and(|&b| bytes::is(ALNUM, b))
}

pub(super) fn anything(_: &[u8]) -> bool {
    true
}

/// Not words joined by dashes: some stretch between them is long and holds a digit, or mixes
/// cases as random text does.
pub(super) fn random(secret: &[u8]) -> bool {
    secret.split(|&b| b == b'-' || b == b'_').any(|part| {
        let mix = Mix::of(part);
        part.len() >= 12 && (mix.digit > 0 || (mix.lower > 2 && mix.upper > 2))
    })
}

/// Letters and digits both.
pub(super) fn mixed(secret: &[u8]) -> bool {
    let mix = Mix::of(secret);
    mix.digit > 0 && mix.letters() > 0
}

/// Three base64url parts, of which the first two are JSON objects, or five as in encrypted tokens.
pub(super) fn json_web_token(secret: &[u8]) -> bool {
    let mut parts = secret.split(|&b| b == b'.');
    let (Some(_), Some(second)) = (parts.next(), parts.next()) else {
        return false;
    };
    let third = parts.next();
    second.starts_with(b"eyJ") || third.is_some_and(|t| t.len() >= 16)
}

/// The parts of a JSON Web Token after its `eyJ`.
pub(super) const WEB_TOKEN: &[Part] = &[run(URL64, 9), Part::Dotted(URL64, 4)];

/// The AWS secret key written close after an access key id that ends at `from`.
pub(super) fn secret_near_id(text: &[u8], from: usize) -> Option<Range<usize>> {
    let mut at = from;
    let limit = text.len().min(from + 160);
    while at < limit {
        if !bytes::is(BASE64, text[at]) {
            at += 1;
            continue;
        }
        // A leading `=` belongs to an assignment, not to the key.
        while at < limit && text[at] == b'=' {
            at += 1;
        }
        let end = bytes::run_end(text, at, BASE64, 64);
        let mix = Mix::of(&text[at..end]);
        if end - at == 40 && mix.lower > 2 && mix.upper > 2 && mix.digit > 0 {
            return Some(at..end);
        }
        at = end.max(at + 1);
    }
    None
}

/// Classes the table of vendors names.
pub(super) const HEX_DASH: Class = HEX | bytes::DASH;
pub(super) const DOTTED: Class = URL64 | bytes::DOT;
pub(super) const LOWER_DIGIT: Class = bytes::LOWER | DIGIT;
pub(super) const UNDERSCORED: Class = ALNUM | UNDER;

/// A Discord bot token whose first letters, the base64 of an id's first digits, are at `at`.
pub(super) fn bot_token(text: &[u8], at: usize) -> Option<Range<usize>> {
    if !opens(text, at, URL64) {
        return None;
    }
    let id = bytes::run_end(text, at, ALNUM, 31);
    let time = dotted(text, id)?;
    let hash = dotted(text, time)?;
    let end = bytes::run_end(text, hash, URL64, usize::MAX);
    let sized = (23..=30).contains(&(id - at)) && (5..=7).contains(&(time - id - 1)) && hash > time;
    (sized && end - time > 27 && mixed(&text[at..id])).then_some(at..end)
}

/// The end of a dot and the run after it.
fn dotted(text: &[u8], at: usize) -> Option<usize> {
    (text.get(at) == Some(&b'.')).then(|| bytes::run_end(text, at + 1, URL64, usize::MAX))
}

/// The ways a bot token can start: the base64 of an id's first three digits.
pub(super) fn bot_token_starts() -> impl Iterator<Item = String> {
    /// The first digit, 1 to 9, and the upper half of the second, which all digits share.
    const FIRST: [&str; 9] = ["MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"];
    /// The lower half of the second digit, 0 to 9.
    const SECOND: [&str; 10] = ["A", "E", "I", "M", "Q", "U", "Y", "c", "g", "k"];
    /// The third digit, 0 to 9.
    const THIRD: &str = "wxyz012345";
    let two = FIRST
        .iter()
        .flat_map(|first| SECOND.iter().map(move |second| (first, second)));
    two.flat_map(|(first, second)| {
        THIRD.chars().map(move |third| {
            let mut start = String::with_capacity(4);
            start.extend([*first, *second]);
            start.push(third);
            start
        })
    })
}
