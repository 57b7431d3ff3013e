//! The output of commands, compared with `tests/snapshots/*.txt`. Run with `SPANLEDGER_BLESS=1` to
//! rewrite the files, and review the difference.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use spanledger::view::text::columns;
use tempfile::TempDir;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(path)
}

/// A copy of the fixture that can be damaged.
struct Root(TempDir);

impl Root {
    fn empty() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// Some sessions of the fixture.
    fn of(sessions: &[&str]) -> Self {
        let root = Self::empty();
        for id in sessions {
            let from = here("fixtures/v1/sessions").join(id);
            for (path, bytes) in files(&from) {
                let to = root.session(id).join(path.strip_prefix(&from).unwrap());
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                std::fs::write(to, bytes).unwrap();
            }
        }
        root
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn session(&self, id: &str) -> PathBuf {
        self.path().join("sessions").join(id)
    }

    /// Changes a session's first segment.
    fn change(&self, id: &str, change: impl FnOnce(&mut Vec<String>)) {
        let path = self.session(id).join("trace.0001.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        change(&mut lines);
        std::fs::write(path, lines.concat()).unwrap();
    }

    /// The command's output, errors and exit code.
    fn run(&self, width: usize, args: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_spanledger"))
            .args(args)
            .args(["--utc", "--color", "never", "--root"])
            .arg(self.path())
            .env("COLUMNS", width.to_string())
            .env_remove("SPANLEDGER_DIR")
            .output()
            .unwrap();
        let text = |bytes| {
            let text = String::from_utf8(bytes).unwrap();
            text.replace(&self.path().display().to_string(), "ROOT")
        };
        let mut printed = format!("$ COLUMNS={width} spanledger {}\n", args.join(" "));
        printed.push_str(&text(output.stdout));
        let errors = text(output.stderr);
        printed.extend(errors.lines().map(|line| format!("stderr: {line}\n")));
        if let Some(code) = output.status.code().filter(|code| *code != 0) {
            printed.push_str(&format!("exit code: {code}\n"));
        }
        printed
    }

    fn show(&self, id: &str) -> String {
        self.run(80, &["show", id])
    }
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            all.push((path, bytes));
        }
    }
    all
}

#[track_caller]
fn assert_snapshot(name: &str, printed: &str) {
    let path = here("snapshots").join(format!("{name}.txt"));
    if std::env::var_os("SPANLEDGER_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, printed).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    if kept != printed {
        let same = kept
            .lines()
            .zip(printed.lines())
            .take_while(|(a, b)| a == b);
        panic!(
            "{} differs from line {} on; SPANLEDGER_BLESS=1 accepts what was printed:\n{printed}",
            path.display(),
            same.count() + 1
        );
    }
    for line in printed.lines().filter(|line| !line.starts_with("stderr: ")) {
        assert!(!line.ends_with(' '), "blanks at the end of {line:?}");
    }
}

/// No row is wider than the terminal.
#[track_caller]
fn assert_fits(printed: &str, width: usize) {
    for line in printed.lines().filter(|line| !line.starts_with("stderr: ")) {
        assert!(columns(line) <= width, "{} columns: {line}", columns(line));
    }
}

#[test]
fn whole_session() {
    let printed = Root::of(&["ses_whole"]).show("ses_whole");
    assert_snapshot("whole", &printed);
    assert_fits(&printed, 80);
}

#[test]
fn whole_session_in_a_wide_terminal() {
    let printed = Root::of(&["ses_whole"]).run(160, &["show", "ses_whole"]);
    assert_snapshot("whole_wide", &printed);
    assert_fits(&printed, 160);
}

/// The same session as a page.
#[test]
fn transcript() {
    let root = Root::of(&["ses_whole", "ses_whole-review"]);
    let markdown = |args: &[&str]| {
        let all = [&["transcript", "ses_whole", "--format", "markdown"], args].concat();
        root.run(80, &all)
    };
    assert_snapshot("transcript", &markdown(&[]));
    assert_snapshot("transcript_brief", &markdown(&["--detail", "brief"]));
    assert_snapshot(
        "transcript_turn",
        &markdown(&["--detail", "full", "--turn", "1"]),
    );
}

#[test]
fn transcript_of_what_went_wrong() {
    let ids = ["ses_interrupted", "ses_gap", "ses_masked"];
    let root = Root::of(&ids);
    let pages = ids.map(|id| root.run(80, &["transcript", id, "--format", "markdown"]));
    assert_snapshot("transcript_wrong", &pages.concat());
}

#[test]
fn one_turn_with_its_context() {
    let printed = Root::of(&["ses_whole"]).run(80, &["show", "ses_whole", "--turn", "1"]);
    assert_snapshot("one_turn", &printed);
}

#[test]
fn interrupted_session() {
    let printed = Root::of(&["ses_interrupted"]).show("ses_interrupted");
    assert_snapshot("interrupted", &printed);
}

#[test]
fn resumed_session() {
    let printed = Root::of(&["ses_resumed"]).show("ses_resumed");
    assert_snapshot("resumed", &printed);
}

#[test]
fn gap() {
    assert_snapshot("gap", &Root::of(&["ses_gap"]).show("ses_gap"));
}

#[test]
fn masked_secret() {
    assert_snapshot("masked", &Root::of(&["ses_masked"]).show("ses_masked"));
}

#[test]
fn torn_tail() {
    let root = Root::of(&["ses_interrupted"]);
    root.change("ses_interrupted", |lines| {
        let last = lines.last_mut().unwrap();
        last.truncate(last.len() / 2);
    });
    assert_snapshot("torn_tail", &root.show("ses_interrupted"));
}

#[test]
fn bit_flip_loses_one_line() {
    let root = Root::of(&["ses_interrupted"]);
    root.change("ses_interrupted", |lines| {
        lines[3] = lines[3].replacen("\"kind\":", "\"kind\"z", 1);
    });
    assert_snapshot("bit_flip", &root.show("ses_interrupted"));
}

#[test]
fn hole_in_seq_is_damage() {
    let root = Root::of(&["ses_interrupted"]);
    root.change("ses_interrupted", |lines| drop(lines.drain(3..5)));
    assert_snapshot("hole_in_seq", &root.show("ses_interrupted"));
}

#[test]
fn unknown_kind_with_fields() {
    assert_snapshot(
        "unknown_kind",
        &Root::of(&["ses_future"]).show("ses_future"),
    );
}

#[test]
fn newer_format_version_is_refused() {
    let root = Root::of(&["ses_blob"]);
    root.change("ses_blob", |lines| {
        for line in lines {
            *line = line.replacen("\"v\":1", "\"v\":2", 1);
        }
    });
    let printed = root.show("ses_blob");
    assert_snapshot("newer_version", &printed);
    assert!(printed.contains("version 2") && printed.contains("version 1"));
    assert!(printed.ends_with("exit code: 3\n"));
    // `last` does not report that there is none.
    assert_snapshot("newer_version_last", &root.show("last"));
}

#[test]
fn newer_segment_is_shown_as_far_as_readable() {
    let root = Root::of(&["ses_resumed"]);
    let second = root.session("ses_resumed").join("trace.0002.jsonl");
    let text = std::fs::read_to_string(&second).unwrap();
    std::fs::write(second, text.replace("{\"v\":1", "{\"v\":2")).unwrap();
    assert_snapshot("newer_segment", &root.show("ses_resumed"));
}

#[test]
fn empty_root() {
    let root = Root::empty();
    assert_snapshot("empty_show", &root.show("last"));
    assert_snapshot("empty_list", &root.run(80, &["list"]));
}

#[test]
fn session_not_found() {
    assert_snapshot("not_found", &Root::of(&["ses_gap"]).show("ses_nope"));
}

#[test]
fn no_root_explains_how_to_set_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_spanledger"))
        .args(["show", "--utc", "--color", "never"])
        .env_clear()
        .output()
        .unwrap();
    let printed = format!(
        "$ env -i spanledger show\n{}stderr: {}exit code: {}\n",
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
        output.status.code().unwrap(),
    );
    assert_snapshot("no_root", &printed);
}

/// All sessions, a century later: their age is 0 whenever the test runs.
fn of_the_future() -> Root {
    let ids: Vec<String> = std::fs::read_dir(here("fixtures/v1/sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let root = Root::of(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    for (path, bytes) in files(root.path()) {
        if let Ok(text) = String::from_utf8(bytes) {
            std::fs::write(path, text.replace("\"2026-11-16T", "\"2126-11-16T")).unwrap();
        }
    }
    root
}

#[test]
fn list_in_80_columns() {
    let printed = of_the_future().run(80, &["list", "--tree"]);
    assert_snapshot("list_80", &printed);
    assert_fits(&printed, 80);
}

#[test]
fn list_in_160_columns() {
    let printed = of_the_future().run(160, &["list", "--tree"]);
    assert_snapshot("list_160", &printed);
    assert_fits(&printed, 160);
}

/// A session in which everything that can hold text holds this one.
fn with_text(text: &str) -> Root {
    let root = Root::empty();
    let dir = root.session("ses_hostile");
    std::fs::create_dir_all(&dir).unwrap();
    let mut trace = String::new();
    let mut put = |kind: &str, turn: Value, span: Value, parent: Value, payload: Value| {
        let seq = trace.lines().count() + 1;
        let mut line = json!({
            "v": 1,
            "seg": 1,
            "seq": seq,
            "ts": format!("2126-11-16T09:00:00.{seq:06}Z"),
            "kind": kind,
            "session_id": "ses_hostile",
            "turn": turn,
            "trace_id": "00000000000000000000000000000001",
            "span_id": span,
            "parent_span_id": parent,
            "payload": payload,
        });
        line.as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        trace.push_str(&format!("{line}\n"));
    };
    let id = |n: u64| Value::from(format!("{n:016x}"));
    let none = Value::Null;
    let process = json!({"pid": 1, "host": text, "exe": text});
    put(
        "segment",
        none.clone(),
        none.clone(),
        none.clone(),
        json!({"writer": text, "spanledger": text, "process": process}),
    );
    put(
        "session_start",
        none.clone(),
        id(1),
        none.clone(),
        json!({"agent": text, "model_id": text, "provider_id": text, "variant": text, "title": text}),
    );
    put(
        "turn_start",
        1.into(),
        id(2),
        id(1),
        json!({"turn_index": 1}),
    );
    put(
        "message_user",
        1.into(),
        id(2),
        none.clone(),
        json!({"content": text}),
    );
    put(
        "tool_call",
        1.into(),
        id(3),
        id(2),
        json!({"tool_id": text, "args": {"command": text}}),
    );
    put(
        "permission_request",
        1.into(),
        id(4),
        id(3),
        json!({"tool_id": text, "action": "ask", "pattern": text, "source": text}),
    );
    put(
        "permission_evaluate",
        1.into(),
        id(4),
        id(3),
        json!({"action": "ask", "pattern": text, "source": text, "decided_by": text, "outcome": "ok", "duration_ns": 1}),
    );
    put(
        "tool_result",
        1.into(),
        id(3),
        id(2),
        json!({"tool_id": text, "args": {"command": text}, "result": text, "outcome": "error", "duration_ns": 2, "error": {"error_type": text, "message": text}}),
    );
    put(
        "model_result",
        1.into(),
        id(5),
        id(2),
        json!({"model_id": "m", "variant": text, "finish_reason": "stop", "outcome": text}),
    );
    put(
        "tool_result",
        1.into(),
        id(6),
        id(2),
        json!({"tool_id": "t", "outcome": "ok", "exit_code": text}),
    );
    put(
        "attempt",
        1.into(),
        id(2),
        none.clone(),
        json!({"id": "a", "metrics": {"m": text}}),
    );
    put(text, 1.into(), id(2), none.clone(), json!({text: text}));
    put(
        "message_assistant",
        1.into(),
        id(2),
        none.clone(),
        json!({"content": text}),
    );
    put(
        "turn_end",
        1.into(),
        id(2),
        id(1),
        json!({"outcome": text, "stop_reason": text, "duration_ns": 7}),
    );
    put(
        "session_end",
        none.clone(),
        id(1),
        none,
        json!({"outcome": text, "stop_reason": text}),
    );
    std::fs::write(dir.join("trace.0001.jsonl"), trace).unwrap();
    root
}

const COMMANDS: [&[&str]; 4] = [
    &["show", "ses_hostile"],
    &["show", "ses_hostile", "--full"],
    &["show", "ses_hostile", "--turn", "1"],
    &["list"],
];

#[test]
fn control_characters_are_escaped() {
    let root = with_text("a\x1b[2J\x1b]0;x\x07b\u{202e}c\u{2066}d\0e\u{9b}31mf\u{200f}g\rh\u{8}i");
    let unfitted: [&[&str]; 3] = [
        &["show", "ses_hostile", "--event", "1:8"],
        &["show", "ses_hostile", "--tools"],
        &["show", "ses_hostile", "--permissions"],
    ];
    for command in COMMANDS.into_iter().chain(unfitted) {
        let printed = root.run(80, command);
        let harmful = |c: &char| {
            (c.is_control() && *c != '\n')
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        let found: Vec<char> = printed.chars().filter(harmful).collect();
        assert!(
            found.is_empty(),
            "{command:?} lets through {found:?}:\n{printed:?}"
        );
    }
    assert_snapshot("hostile", &root.show("ses_hostile"));
}

#[test]
fn line_of_a_million_characters_is_truncated() {
    let root = with_text(&"x".repeat(1_000_000));
    let shown = root.show("ses_hostile");
    assert_snapshot("million", &shown);
    for printed in [shown, root.run(80, COMMANDS[2]), root.run(80, &["list"])] {
        assert_fits(&printed, 80);
        assert!(printed.lines().count() < 200);
    }
}

#[test]
fn wide_and_combining_characters_stay_aligned() {
    let root =
        with_text("日本語 e\u{301}te\u{301} 👩\u{200d}🔬 ﷽ プロジェクトの全体を確認してください");
    for command in COMMANDS {
        assert_fits(&root.run(80, command), 80);
    }
    assert_snapshot("wide", &root.show("ses_hostile"));
    assert_snapshot("wide_list", &root.run(80, &["list"]));
}
