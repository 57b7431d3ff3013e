use super::*;

#[test]
fn lists_are_sorted_for_binary_search() {
    for list in [
        KEY_OWNERS,
        PASS_OWNERS,
        DESCRIBES,
        OTHER_TOKENS,
        ASKS,
        CODE_FILES,
    ] {
        assert!(list.is_sorted(), "{list:?}");
    }
    assert!(SINGLES.is_sorted_by_key(|(word, _)| word));
}

#[test]
fn a_name_is_split_whatever_its_style() {
    for (name, words) in [
        ("api_key", "api key"),
        ("apiKey", "api key"),
        ("X-Api-Key", "x api key"),
        ("HTTPAuthorization", "http authorization"),
        ("APIKEY", "apikey"),
        ("user.passwordHash2", "user password hash"),
        ("sessionIDs", "session ids"),
        ("", ""),
    ] {
        assert_eq!(words_of(name), words);
    }
}
