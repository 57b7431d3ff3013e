use super::*;

fn attempt(seq: u64, id: &str, parent: Option<&str>) -> Attempt {
    Attempt {
        address: Address { seg: 1, seq },
        turn: None,
        id: id.into(),
        parent_id: parent.map(Into::into),
        rationale: None,
        parameters_changed: None,
        metrics: None,
        candidate_path: None,
        plot_artifact_path: None,
        notes: None,
        artifact: None,
    }
}

fn tree(attempts: &[(&str, Option<&str>)]) -> Vec<String> {
    let all = attempts.iter().enumerate();
    let all = all.map(|(n, (id, parent))| attempt(n as u64, id, *parent));
    let attempts = Attempts {
        all: all.collect(),
        ..Attempts::default()
    };
    let tree = attempts.tree().into_iter();
    tree.map(|(depth, one)| format!("{depth}{}", one.id))
        .collect()
}

#[test]
fn each_attempt_follows_the_one_that_it_continues() {
    let all = [
        ("a", None),
        ("b", Some("a")),
        ("c", None),
        ("d", Some("b")),
        ("e", Some("a")),
    ];
    assert_eq!(tree(&all), ["0a", "1b", "2d", "1e", "0c"]);
}

#[test]
fn unknown_and_circular_parents_are_at_the_top() {
    let all = [
        ("a", Some("gone")),
        ("b", Some("c")),
        ("c", Some("b")),
        ("d", Some("d")),
    ];
    assert_eq!(tree(&all), ["0a", "0d", "0b", "1c"]);
}

#[test]
fn repeated_id_is_shown_twice() {
    let all = [("a", None), ("a", None), ("b", Some("a"))];
    assert_eq!(tree(&all), ["0a", "1b", "0a"]);
}
