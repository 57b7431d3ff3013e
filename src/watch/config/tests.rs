use super::*;

fn read(text: &str) -> Result<Limits, String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("limits.toml");
    std::fs::write(&file, text).unwrap();
    Limits::from_file(&file).map_err(|error| {
        let place = error.place.rsplit('/').next().unwrap().to_owned();
        format!("{place}: {}", error.why)
    })
}

#[test]
fn file_sets_everything() {
    let text = "# what our agents may do\n[limits]\ntool_calls = 50 # per session\nmodel_calls=40\n\
        turns = 20\nduration = '15m'\ntokens = 500_000\ncost_usd = 2.5\non_loop = \"stop\"\n\
        volatile = [\"timestamp\", 'request#id']\n\n[limits.repetitions]\nno_progress = 4\n";
    let expected = Limits::new()
        .tool_calls(50)
        .model_calls(40)
        .turns(20)
        .duration(Duration::from_secs(900))
        .tokens(500_000)
        .cost_usd(2.5)
        .on_loop(LoopPolicy::Stop)
        .volatile("timestamp")
        .volatile("request#id")
        .repetitions(LoopKind::NoProgress, 4);
    assert_eq!(read(text), Ok(expected));
}

#[test]
fn mistakes_are_named_with_their_line() {
    for (text, expected) in [
        (
            "[limits]\n\nfoo = 1",
            "limits.toml:3: `foo` is no setting; expected tool_calls, ",
        ),
        (
            "[limits]\nturns = -1",
            "limits.toml:2: expected a whole number that is not negative",
        ),
        (
            "[limits]\nturns = \"9\"",
            "limits.toml:2: expected a whole number",
        ),
        (
            "[limits]\ncost_usd = -0.5",
            "limits.toml:2: expected an amount of US dollars",
        ),
        (
            "[limits]\nturns = many",
            "limits.toml:2: the value of `turns` is no number",
        ),
        (
            "[limits]\nturns",
            "limits.toml:2: expected `name = value`, found `turns`",
        ),
        (
            "turns = 1",
            "limits.toml:1: `turns` belongs in the table [limits]",
        ),
        ("[limit]", "limits.toml:1: `[limit]` is no table"),
        (
            "[limits]\nduration = \"soon\"",
            "limits.toml:2: expected seconds",
        ),
        (
            "[limits]\non_loop = \"abort\"",
            "limits.toml:2: expected \"off\", \"warn\"",
        ),
        (
            "[limits.repetitions]\ncycle = 1",
            "limits.toml:2: expected a number of repetitions",
        ),
        (
            "[limits.repetitions]\nspin = 3",
            "limits.toml:2: `spin` is no loop",
        ),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn variables_are_read() {
    let get = |name: &str| match name {
        "SPANLEDGER_MAX_TOOL_CALLS" => Some("7".to_owned()),
        "SPANLEDGER_MAX_DURATION" => Some("1.5h".to_owned()),
        "SPANLEDGER_ON_LOOP" => Some("stop".to_owned()),
        "SPANLEDGER_VOLATILE" => Some("ts, id".to_owned()),
        _ => None,
    };
    let expected = Limits::new()
        .tool_calls(7)
        .duration(Duration::from_secs(5400))
        .on_loop(LoopPolicy::Stop)
        .volatile("ts")
        .volatile("id");
    assert_eq!(Limits::from_env(get), Ok(Some(expected)));
    assert_eq!(Limits::from_env(|_| None), Ok(None));
    let get = |name: &str| (name == "SPANLEDGER_MAX_TURNS").then(|| "-3".to_owned());
    let error = Limits::from_env(get).unwrap_err();
    assert_eq!(error.place, "SPANLEDGER_MAX_TURNS=\"-3\"");
}
