//! The conditions on a secret that rules name as their `check`, for what a pattern cannot express.

use super::pattern::Pattern;
use super::placeholders;
use super::text::{Mix, is_strong};

/// A condition on the bytes of a secret.
pub(super) type Check = fn(&[u8]) -> bool;

/// The check that `rules.toml` calls `name`.
pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        "mixed" => mixed,
        "mixed-case" => mixed_case,
        "strong" => is_strong,
        "not-word" => not_word,
        "random" => random,
        "generated" => placeholders::is_generated,
        "not-placeholder" => not_placeholder,
        "not-reference" => not_reference,
        "not-example" => not_example,
        "url-password" => url_password,
        "user-and-password" => user_and_password,
        "argument" => argument,
        _ => return None,
    })
}

/// Letters and digits both.
fn mixed(secret: &[u8]) -> bool {
    let mix = Mix::of(secret);
    mix.digit > 0 && mix.letters() > 0
}

/// Small letters, capitals and digits.
fn mixed_case(secret: &[u8]) -> bool {
    let mix = Mix::of(secret);
    mix.lower > 2 && mix.upper > 2 && mix.digit > 0
}

/// A digit, or a capital after a small letter.
fn not_word(secret: &[u8]) -> bool {
    let camel = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    secret.iter().any(u8::is_ascii_digit) || secret.windows(2).any(camel)
}

/// Neither a reference nor a word that stands for a secret in documentation.
fn not_placeholder(secret: &[u8]) -> bool {
    !placeholders::stands_for_secret(secret)
}

/// Not `$NAME`, `${…}`, `$(…)`, `<…>`, `{…}` or `{{ … }}`, nor asterisks.
fn not_reference(secret: &[u8]) -> bool {
    static REFERENCE: Pattern = Pattern::new(r"\$[\w{(]|<|\{(?:\{|.*\}$)|\*+$");
    !secret.is_empty() && !REFERENCE.is_match(secret)
}

/// Not words joined by dashes: some stretch between them is long and holds a digit, or mixes
/// cases as random text does.
fn random(secret: &[u8]) -> bool {
    secret.split(|&b| b == b'-' || b == b'_').any(|part| {
        let mix = Mix::of(part);
        part.len() >= 12 && (mix.digit > 0 || (mix.lower > 2 && mix.upper > 2))
    })
}

/// Not one of the key ids in the documentation of AWS.
fn not_example(secret: &[u8]) -> bool {
    !secret.ends_with(b"EXAMPLE")
}

/// Neither a reference (`${DB_PASS}`) nor a filler.
fn url_password(secret: &[u8]) -> bool {
    match secret {
        [b'%', digit, _, _, ..] if digit.is_ascii_hexdigit() => true,
        [] | [_] | [b'$' | b'<' | b'{' | b'%', ..] => false,
        // A quote that closes a list's item is not the password's: `['http://a:80','b@c']`.
        _ => {
            let ends_item = |pair: &[u8]| pair[0] == b'\'' && b",)]};:".contains(&pair[1]);
            let words: [&[u8]; 4] = [b"pass", b"password", b"passwd", b"pwd"];
            let is_word = words.iter().any(|word| secret.eq_ignore_ascii_case(word));
            !is_word
                && !secret.windows(2).any(ends_item)
                && !secret.iter().all(|b| matches!(b, b'*' | b'x' | b'.'))
        }
    }
}

/// Neither a short number (a port), nor another option, nor a reference.
fn argument(secret: &[u8]) -> bool {
    let number = secret.len() < 4 && secret.iter().all(u8::is_ascii_digit);
    !number && !secret.starts_with(b"-") && not_reference(secret)
}

/// Base64 of printable text with a colon in it.
fn user_and_password(base64: &[u8]) -> bool {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte: &u8| DIGITS.iter().position(|d| d == byte).unwrap_or(0) as u32;
    let digits = base64.split(|b| *b == b'=').next().unwrap_or_default();
    let decoded = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, byte| bits << 6 | digit(byte));
        let bytes = (bits << (6 * (4 - four.len()))).to_be_bytes();
        bytes.into_iter().skip(1).take(four.len() - 1)
    });
    let decoded: Vec<u8> = decoded.collect();
    decoded.contains(&b':')
        && !decoded.iter().any(u8::is_ascii_control)
        && (base64.len().is_multiple_of(4) || base64.len() > 512)
}
