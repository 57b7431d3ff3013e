//! Any text: redaction never panics, masking twice changes nothing, and a planted secret stays masked
//! wherever it stands.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use spanledger::redact::{MaskKey, Redaction, Redactor, Tally};

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    Redactor::new(&Redaction::new(), MaskKey::new([7; 32])).expect("there are no patterns")
});

/// Secrets with shapes of their own, spelled so that no scanner reports this file.
const SECRETS: [&str; 4] = [
    concat!("gh", "p_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"),
    concat!("sk-", "ant-api03-A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"),
    concat!("gl", "pat-A1b2C3d4E5f6G7h8I9j0"),
    concat!("np", "m_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"),
];

fn redact(text: &str) -> String {
    REDACTOR.text(text, &mut Tally::default()).into_owned()
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let once = redact(text);
    assert_eq!(redact(&once), once);
    // The first byte says where the secret stands, and where the stream is split.
    let at = usize::from(bytes.first().copied().unwrap_or(0)) * text.len() / 255;
    let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let secret = SECRETS[at % SECRETS.len()];
    let planted = format!("{} {secret} {}", &text[..at], &text[at..]);
    assert!(!redact(&planted).contains(secret));
    for size in [1, 1 + at % 17, 64] {
        let streamed = REDACTOR.stream(chunks(&planted, size));
        assert!(!streamed.contains(secret), "by {size}: {streamed}");
    }
    // A stream that is JSON, under a name that says what the value is.
    let json = format!("{{\"a\":{},\"password\":\"{PASSWORD}\"}}", quoted(text));
    assert!(!redact(&json).contains(PASSWORD));
    for size in [1, 1 + at % 17, 64] {
        let streamed = REDACTOR.stream(chunks(&json, size));
        assert!(!streamed.contains(PASSWORD), "by {size}: {streamed}");
    }
});

/// A secret that only the name before it gives away.
const PASSWORD: &str = "correct-horse-4711";

/// `text` as a JSON string.
fn quoted(text: &str) -> String {
    let mut json = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json + "\""
}

/// `text` in pieces of `size` characters.
fn chunks(text: &str, size: usize) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(size).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}
