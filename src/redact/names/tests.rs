use super::*;

#[test]
fn lists_are_complete_and_sorted_for_binary_search() {
    let stems = ["stems", "name_only_stems", "text_stems"];
    let sorted = [
        "password",
        "token",
        "weak",
        "header",
        "key_owners",
        "pass_owners",
        "describes",
        "other_tokens",
        "asks",
        "code_files",
        "placeholders",
        "parser_words",
        "query_names",
        "second_words",
        "vendors",
    ];
    assert_eq!(LISTS.len(), stems.len() + sorted.len());
    assert!(stems.iter().all(|name| !list(name).is_empty()));
    for name in sorted {
        assert!(!list(name).is_empty() && list(name).is_sorted(), "{name}");
    }
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
