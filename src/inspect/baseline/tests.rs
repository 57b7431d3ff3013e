use super::*;

fn measures() -> Measures {
    Measures {
        session_id: "ses_1".into(),
        steps: 10,
        calls: 20,
        tokens: Some(1_000),
        cost_usd: Some(0.5),
        cost_partial: false,
        duration_ms: 2_000.0,
        tools: ["bash", "edit"].map(String::from).into(),
        sequence: ["bash", "edit", "bash"].map(String::from).into(),
        loops: 0,
        errors: 1,
        ending: Ending::Completed,
    }
}

fn failed(session: &Measures, limits: &CheckLimits) -> Vec<CheckKind> {
    let baseline = Baseline {
        sessions: vec![measures()],
    };
    let checks = check(session, Some(&baseline), limits).into_iter();
    let failed = checks.filter(|check| !check.passed);
    failed.map(|check| check.kind).collect()
}

#[test]
fn each_check_finds_its_own_change() {
    let limits = CheckLimits {
        divergence: Some(0.0),
        tolerance: 0.25,
        ..CheckLimits::default()
    };
    assert_eq!(failed(&measures(), &limits), []);
    type Change = fn(&mut Measures);
    let changes: [(CheckKind, Change); 10] = [
        (CheckKind::Steps, |m| m.steps = 13),
        (CheckKind::Calls, |m| m.calls = 26),
        (CheckKind::Tokens, |m| m.tokens = Some(1_251)),
        (CheckKind::Cost, |m| m.cost_usd = Some(0.63)),
        (CheckKind::Duration, |m| m.duration_ms = 2_501.0),
        (CheckKind::NewTools, |m| m.tools.extend(["web".into()])),
        (CheckKind::Loops, |m| m.loops = 1),
        (CheckKind::Errors, |m| m.errors = 2),
        (CheckKind::Status, |m| m.ending = Ending::Limit),
        (CheckKind::Divergence, |m| m.sequence.truncate(2)),
    ];
    for (kind, change) in changes {
        let mut session = measures();
        change(&mut session);
        assert_eq!(failed(&session, &limits), [kind]);
        let ignored = CheckLimits {
            ignore: vec![kind],
            ..limits.clone()
        };
        assert_eq!(failed(&session, &ignored), []);
    }
}

#[test]
fn what_is_not_known_does_not_pass() {
    let limits = CheckLimits::default();
    let mut session = measures();
    session.cost_partial = true;
    session.tokens = None;
    assert_eq!(
        failed(&session, &limits),
        [CheckKind::Tokens, CheckKind::Cost]
    );
}

#[test]
fn a_given_limit_replaces_the_baseline() {
    let mut session = measures();
    session.steps = 100;
    let limits = CheckLimits {
        steps: Some(100),
        ..CheckLimits::default()
    };
    assert_eq!(failed(&session, &limits), []);
    assert_eq!(
        check(&session, None, &limits).len(),
        1,
        "without a baseline only what was given is checked"
    );
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("baseline.json");
    let baseline = Baseline {
        sessions: vec![measures(), measures()],
    };
    std::fs::write(&path, baseline.to_json().to_string()).unwrap();
    assert_eq!(Baseline::read(&path).unwrap(), baseline);
    for (text, expected) in [
        ("{", "is no baseline"),
        ("{}", "no number `spanledger_baseline`"),
        (r#"{"spanledger_baseline":2}"#, "has version 2"),
        (
            r#"{"spanledger_baseline":1,"sessions":[]}"#,
            "no `sessions`",
        ),
        (
            r#"{"spanledger_baseline":1,"sessions":[{}]}"#,
            "`sessions[0]` lacks",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Baseline::read(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
