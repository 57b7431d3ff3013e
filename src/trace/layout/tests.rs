use super::*;

#[test]
fn safe_ids_are_their_own_directory_and_others_never_climb_or_collide() {
    let generated = crate::trace::new_session_id();
    for id in ["a", "ses_0193c2f0", "9-lives", &"x".repeat(100), &generated] {
        assert_eq!(session_dir_name(id), id);
    }
    let odd = [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc",
        "A",
        "con",
        "nul",
        "lpt1",
        "_a",
        "-a",
        "a b",
        "ü",
        "a\0b",
        "~",
        &"x".repeat(101),
        &"y".repeat(10_000),
    ];
    let mut names: Vec<_> = odd.iter().map(|id| session_dir_name(id)).collect();
    for name in &names {
        assert!(name.len() <= 75 && name.contains('~'), "{name}");
        assert!(
            name.bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'~'))
        );
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), odd.len());
    assert_ne!(session_dir_name("A"), session_dir_name("a"));
}
