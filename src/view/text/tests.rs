use super::*;

#[test]
fn nothing_that_moves_a_terminal_gets_through() {
    let hostile = "a\x1b[2Jb\u{202e}c\0d\re\u{200b}f\u{9b}31m\u{e0041}";
    let safe = line(hostile);
    assert!(!safe.contains(is_unsafe), "{safe:?}");
    assert_eq!(
        safe,
        "a\\x1b[2Jb\\u{202e}c\\x00d\\re\\u{200b}f\\x9b31m\\u{e0041}"
    );
}

#[test]
fn wide_and_combining_characters_keep_the_columns() {
    assert_eq!(columns(&pad("日本語", 10)), 10);
    assert_eq!(columns(&pad("e\u{301}e\u{301}", 6)), 6);
    assert_eq!(columns(&cut("日本語日本語", 5)), 5);
    assert!(
        wrap("日本語 日本語 日本語日本語日本語", 9)
            .iter()
            .all(|l| columns(l) <= 9)
    );
}

/// A heart is as narrow as a letter until a mark behind it asks for the picture.
#[test]
fn pictures_keep_the_columns() {
    let hearts = "\u{2764}\u{fe0f}".repeat(30);
    assert_eq!(columns(&hearts), 60);
    assert_eq!(columns(&cut(&hearts, 11)), 11);
    assert_eq!(columns(&pad(&hearts, 10)), 10);
    assert_eq!(cut_id(&hearts, 9), "❤\u{fe0f}❤\u{fe0f}…❤\u{fe0f}❤\u{fe0f}");
    assert!(wrap(&hearts, 9).iter().all(|l| columns(l) <= 9));
}

#[test]
fn a_million_characters_are_cut_at_once() {
    let long = "x".repeat(1_000_000);
    assert_eq!(columns(&cut(&long, 40)), 40);
}
