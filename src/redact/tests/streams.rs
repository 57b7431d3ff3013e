//! Texts that arrive piece by piece: what they take, what is held back, and what is not let through.

use super::super::stream::{Piece, StreamState};
use super::*;

/// What became of a text that came in pieces.
pub(super) struct Streamed {
    /// What was written.
    pub(super) shown: String,
    /// How many bytes were looked at for that.
    pub(super) looked_at: usize,
    /// The most that was ever held back.
    most_held: usize,
}

/// Streams `text` in pieces of `size` bytes or a little more.
fn stream(redactor: &Redactor, text: &str, size: usize) -> Streamed {
    stream_by(redactor, text, std::iter::repeat(size))
}

/// Streams `text` in pieces of so many bytes each, or a little more.
pub(super) fn stream_by(
    redactor: &Redactor,
    text: &str,
    mut sizes: impl Iterator<Item = usize>,
) -> Streamed {
    let before = WORK.get();
    let mut state = StreamState::default();
    let mut shown = String::new();
    let mut written = 0;
    let mut most_held = 0;
    let mut so_far = 0;
    loop {
        let last = so_far == text.len();
        let next = so_far + sizes.next().unwrap_or(1)..=text.len();
        so_far = next
            .into_iter()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(text.len());
        let arrived = &text[..so_far];
        while let Some(piece) = redactor.next_piece(&mut state, arrived, last) {
            let Piece {
                range, redacted, ..
            } = piece;
            assert_eq!(range.start, written, "nothing is left out or told twice");
            assert!(range.end > range.start);
            written = range.end;
            shown += &redacted;
        }
        most_held = most_held.max(so_far - written);
        if last {
            assert_eq!(written, text.len(), "all is told in the end");
            return Streamed {
                shown,
                looked_at: WORK.get() - before,
                most_held,
            };
        }
    }
}

/// What is written of a text that came in small pieces.
pub(super) fn streamed(text: &str) -> String {
    stream(redactor(), text, 5).shown
}

const LINE: &str = "MIIEpAIBAAKCAQEA7bq0Zx1yPq8nT2vQm3LkJ9sWcR4dUeF6gH5iK0oB1aNzXtYv";
const PROSE: &str = "Nobody knows why it does so, but everyone agrees that it looks happy.\n";
const KIB: usize = 1024;
/// What may be held back at most, and what comes in until it is looked at.
const MOST_HELD: usize = 73 * KIB;

fn begin() -> String {
    let dashes = "-".repeat(5);
    format!("{dashes}BEGIN RSA PRIVATE KEY{dashes}\n")
}

fn end() -> String {
    begin().replace("BEGIN", "END")
}

/// `text` again and again, `length` bytes of it.
fn repeated(text: &str, length: usize) -> String {
    text.repeat(length / text.len() + 1)[..length].to_owned()
}

fn key_lines(length: usize) -> String {
    repeated(&format!("{LINE}\n"), length)
}

/// A token that any rule knows by its shape.
fn token() -> String {
    concat!("gh", "p_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8").to_owned()
}

/// Whether any eight bytes of a key's lines are in `shown`.
fn shows_key(shown: &str) -> bool {
    let line = [LINE, LINE].concat();
    let parts = line.as_bytes().windows(8);
    let mut parts = parts.filter_map(|part| std::str::from_utf8(part).ok());
    parts.any(|part| shown.contains(part))
}

/// `shown` with `…` for each row of masks.
fn without_masks(shown: &str) -> String {
    let masks = r"(\[masked rule=[\w.:-]+ bytes=\d+ hmac=[0-9a-f]{16} key=[0-9a-f]{8}\])+";
    let masks = regex::Regex::new(masks).expect("the pattern compiles");
    masks.replace_all(shown, "…").into_owned()
}

/// Texts that keep much held back, or that a rule would look at again and again, and how often
/// each byte of them may be looked at. What comes word by word is looked at in its context each
/// time.
fn tedious() -> Vec<(&'static str, usize, String)> {
    let long = 160 * KIB;
    let words = repeated(PROSE, long).replace('\n', " ");
    let no_spaces = repeated("abcdefghij.0123456789/", long);
    let key = key_lines(long);
    vec![
        ("an unfinished key", 8, begin() + &key),
        ("one all in one line", 8, begin() + &repeated(LINE, long)),
        ("one with spaces", 8, begin() + &key.replace('\n', " ")),
        ("one escaped", 8, begin() + &key.replace('\n', "\\n")),
        ("one of PuTTY's", 8, format!("Private-Lines: 14\n{key}")),
        (
            "keys that begin",
            200,
            repeated(&(begin() + LINE + "\n"), 20 * KIB),
        ),
        ("about keys", 300, begin() + &repeated(PROSE, 40 * KIB)),
        ("no spaces", 8, no_spaces.clone()),
        ("nothing but names", 8, repeated("token.password/", long)),
        ("a value without end", 8, format!("password={no_spaces}")),
        (
            "a token without end",
            8,
            token() + &repeated("A1b2C3d4", long),
        ),
        ("a cookie without end", 20, format!("Cookie: {words}")),
        (
            "a quote left open",
            100,
            format!("password = \"{}", &words[..70 * KIB]),
        ),
        (
            "many of them",
            5000,
            repeated("password='a `b \\\"c \\\\\"d \" ", 8 * KIB),
        ),
        (
            "masks left open",
            500,
            repeated("[masked rule=x bytes=", 20 * KIB),
        ),
        ("dashes", 8, "-".repeat(long)),
        ("East Asian words", 1000, "東京は日本の首都で、".repeat(200)),
        ("English words", 1000, repeated(PROSE, 20 * KIB)),
    ]
}

#[test]
fn a_stream_takes_what_its_length_says_and_holds_little_whatever_it_says() {
    for (what, most, text) in tedious() {
        let streamed = stream(redactor(), &text, 4);
        let per_byte = streamed.looked_at / text.len();
        assert!(per_byte <= most, "{what}: each byte {per_byte} times");
        let held = streamed.most_held;
        assert!(held <= MOST_HELD, "{what}: {held} held back");
    }
}

#[test]
fn a_key_that_never_ends_is_masked_from_its_beginning_on() {
    for line_end in ["\n", "\r\n", " ", "\\n", "\\\\n", ""] {
        let key = (begin() + &key_lines(100 * KIB)).replace('\n', line_end);
        let text = format!("Here it is: {key}");
        for size in [3, 64, 5000, 200 * KIB] {
            let shown = stream(redactor(), &text, size).shown;
            assert!(!shows_key(&shown), "{line_end:?} by {size}");
            let clean = without_masks(&shown);
            assert_eq!(clean.trim_end(), "Here it is: …", "{line_end:?} by {size}");
            assert!(shown.contains("[masked rule=private-key bytes="));
        }
    }
}

#[test]
fn what_follows_a_key_too_long_to_be_held_is_told() {
    let (begin, end, lines) = (begin(), end(), key_lines(80 * KIB));
    let (lines, another) = (lines.trim_end(), key_lines(5 * KIB));
    let after = "Keep it safe, please. ".repeat(4);
    let sized = |text: &str| {
        let shown = [1, 16, 999, 200 * KIB].map(|size| stream(redactor(), text, size).shown);
        assert!(!shown.iter().any(|shown| shows_key(shown)));
        shown.map(|shown| without_masks(&shown))
    };
    for clean in sized(&format!("Look:\n{begin}{lines}\n{end}{after}")) {
        assert_eq!(clean, format!("Look:\n…\n{after}"));
    }
    // Where it breaks off, up to what can't be a key's.
    for clean in sized(&format!("Look:\n{begin}{lines}\n(and so on)\n{after}")) {
        assert_eq!(clean, format!("Look:\n…(and so on)\n{after}"));
    }
    for clean in sized(&format!(
        "Look:\n{begin}{lines}\n{begin}{another}{end}{after}"
    )) {
        assert_eq!(clean.replace(['…', '\n'], ""), format!("Look:{after}"));
    }
    for clean in sized(&format!(
        "{{\"key\":\"{begin}{lines}\",\"note\":\"{after}\"}}"
    )) {
        assert_eq!(clean, format!("{{\"key\":\"…\",\"note\":\"{after}\"}}"));
    }
}

#[test]
fn prose_about_keys_is_not_held_back_to_its_end() {
    let text = format!(
        "Such files start with {}{}",
        begin(),
        repeated(PROSE, 80 * KIB)
    );
    let streamed = stream(redactor(), &text, 61);
    assert!(streamed.most_held <= 33 * KIB, "{}", streamed.most_held);
    let clean = without_masks(&streamed.shown);
    assert!(
        clean.starts_with("Such files start with …"),
        "{}",
        &clean[..80]
    );
    assert!(clean.ends_with(&text[text.len() - 79 * KIB..]));
}

#[test]
fn a_value_too_long_to_be_held_is_masked_to_its_end() {
    let no_spaces = repeated("abcdefghij.0123456789/", 150 * KIB);
    let words = repeated(PROSE, 150 * KIB).replace('\n', " ");
    let after = "and then it worked as it should";
    for (before, secret, between) in [
        ("password=", &no_spaces, " "),
        ("{\"a\":1,\"token\":\"", &no_spaces, "\", \"b\": 2} "),
        ("Cookie: ", &format!("id={words}"), "\n"),
    ] {
        let text = format!("{before}{secret}{between}{after}");
        for size in [4, 1000, 200 * KIB] {
            let shown = stream(redactor(), &text, size).shown;
            let clean = without_masks(&shown);
            assert_eq!(
                clean.replace(' ', ""),
                format!("{before}…{between}{after}").replace(' ', "")
            );
        }
    }
}

#[test]
fn a_match_of_the_user_s_that_goes_over_lines_is_masked_to_the_end() {
    let redactor = with(&Redaction::new().rule("private", "(?s)CONFIDENTIAL.*"));
    let text = format!("Now this: CONFIDENTIAL\n{}", repeated(PROSE, 90 * KIB));
    let shown = stream(&redactor, &text, 1000).shown;
    assert_eq!(without_masks(&shown), "Now this: …");
    // One that takes in a quote which is not there yet.
    let redactor = with(&Redaction::new().rule("quoted", "\"[^\"]*\""));
    let text = format!(
        "Now this: \"{}\" and more",
        repeated(PROSE, 90 * KIB).replace('\n', " ")
    );
    let shown = stream(&redactor, &text, 1000).shown;
    assert!(without_masks(&shown).starts_with("Now this: …"));
    assert!(!shown.contains("Nobody knows"));
}

#[test]
fn a_secret_in_much_text_without_spaces_is_masked_wherever_it_stands() {
    let filler = repeated("abcdefghij.0123456789/", 80 * KIB);
    // Around where it is cut: what comes after is 32 KiB, or 64.
    for at in (30 * KIB..34 * KIB)
        .step_by(509)
        .chain((62 * KIB..66 * KIB).step_by(509))
    {
        let text = format!("{}/{}/{}", &filler[..at], token(), &filler[at..]);
        let shown = stream(redactor(), &text, 37).shown;
        let expected = format!("{}/…/{}", &filler[..at], &filler[at..]);
        assert!(without_masks(&shown) == expected, "at {at}");
    }
}
