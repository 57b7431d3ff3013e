//! Damaged, hostile or very long traces, which no writer of ours produces: they are read to the
//! end, nothing in them is left out, and nothing blocks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use spanledger::read::{Follower, Start};
use spanledger::session::Turns;
use spanledger::trace::RawLine;
use tempfile::{TempDir, tempdir};

use crate::support::cli::{Done, Running, run};
use crate::support::written::{line, span, write};

fn session(root: &Path, id: &str, parent: Option<&str>) -> PathBuf {
    let run = json!({"agent": "planner", "parent_session_id": parent});
    write(root, id, 1, &[line(id, "session_start", run)])
}

fn message(root: &Path, id: &str, text: &str) -> PathBuf {
    let line = line(id, "message_user", json!({"content": text}));
    write(root, id, 1, &[line])
}

/// Runs a command to its end under a limit of the shell's.
fn limited(root: &Path, limit: &str, args: &[&str]) -> Done {
    let program = env!("CARGO_BIN_EXE_spanledger");
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            &format!("ulimit {limit}; exec \"$0\" \"$@\""),
            program,
        ])
        .arg("--root")
        .arg(root)
        .args(args);
    command.output().unwrap().into()
}

fn root() -> TempDir {
    tempdir().unwrap()
}

#[test]
fn cyclic_parents_are_all_in_the_tree() {
    let root = root();
    for (id, parent) in [
        ("ses_a", "ses_b"),
        ("ses_b", "ses_a"),
        ("ses_own", "ses_own"),
    ] {
        session(root.path(), id, Some(parent));
    }
    session(root.path(), "ses_0", None);
    for n in 1..=20 {
        let parent = format!("ses_{}", n - 1);
        session(root.path(), &format!("ses_{n}"), Some(&parent));
    }
    let done = run(root.path(), &["list", "--tree"]);
    let rows = done.lines().into_iter().skip(1);
    let id = |row: &str| Some(row[row.find("ses_")?..].split(' ').next()?.to_owned());
    let mut shown: Vec<_> = rows.filter_map(id).collect();
    assert_eq!(shown.len(), 24, "{}", done.out);
    shown.sort_unstable();
    shown.dedup();
    assert_eq!(shown.len(), 24, "{}", done.out);
}

#[test]
fn self_parent_or_resumed_subagent_is_shown_once() {
    let root = root();
    let names = |id: &str, child: &str| {
        line(
            id,
            "subagent",
            json!({"agent": "x", "child_session_id": child}),
        )
    };
    let lines = [
        names("ses_a", "ses_a"),
        names("ses_a", "ses_b"),
        names("ses_a", "ses_b"),
    ];
    write(root.path(), "ses_a", 1, &lines);
    let mut lines = vec![line(
        "ses_b",
        "message_user",
        json!({"content": "look here"}),
    )];
    lines.extend(vec![names("ses_b", "ses_a"); 30]);
    write(root.path(), "ses_b", 1, &lines);
    let done = run(root.path(), &["show", "ses_a", "--recursive"]);
    assert_eq!(done.out.matches("look here").count(), 1, "{}", done.out);
    assert_eq!(done.out.matches(" subagent   ").count(), 33, "{}", done.out);
}

#[test]
fn cyclic_spans_are_all_shown() {
    let root = root();
    let tool = |id, parent| {
        let name = format!("tool-{id}-");
        span("ses_1", "tool_result", id, parent, json!({"tool_id": name}))
    };
    let mut lines = vec![tool(1, 2), tool(2, 1), tool(3, 3), tool(4, 0)];
    // Too deep to indent.
    lines.extend((5..200).map(|id| tool(id, id - 1)));
    write(root.path(), "ses_1", 1, &lines);
    let done = run(root.path(), &["show", "ses_1"]);
    for id in 1..200 {
        let name = format!("tool-{id}-");
        assert_eq!(done.out.matches(&name).count(), 1, "{name}: {}", done.out);
    }
}

#[test]
fn fifo_as_segment_is_named_and_not_awaited() {
    let root = root();
    let dir = message(root.path(), "ses_1", "hello");
    let pipe = |dir: &Path, name: &str| {
        fs::create_dir_all(dir).unwrap();
        let made = Command::new("mkfifo").arg(dir.join(name)).status();
        assert!(made.unwrap().success());
    };
    pipe(&dir.with_file_name("ses_pipe"), "trace.0001.jsonl");
    Running::start(root.path(), &["list"]).until("ses_1");
    let done = run(root.path(), &["list"]);
    assert_eq!(done.code, 3);
    assert!(
        done.err.contains("ses_pipe/trace.0001.jsonl: not a file"),
        "{done:?}"
    );

    let sha256 = "a".repeat(64);
    pipe(&dir.join("blobs"), &sha256);
    let moved = json!({"content": {"$blob": sha256, "bytes": 9}});
    let lines = [
        line("ses_1", "message_user", moved),
        line("ses_1", "message_user", json!({"content": "after"})),
    ];
    write(root.path(), "ses_1", 1, &lines);
    Running::start(root.path(), &["grep", "after", "ses_1"]).until("after");
}

#[test]
fn escapes_in_ids_and_paths_do_not_reach_stderr() {
    let root = root();
    for name in ["a", "b"] {
        let id = format!("q\u{1b}[2J\u{202e}{name}");
        let dir = session(root.path(), &id, None);
        fs::rename(&dir, dir.with_file_name(format!("q~{name}"))).unwrap();
    }
    let broken = root.path().join("sessions/x\u{1b}[31m");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("trace.0001.jsonl"), "no line\n").unwrap();
    for args in [
        &["show", "q"] as &[_],
        &["show", "q~a", "--around", "1:99"],
        &["show", "q~a", "--run", "9"],
        &["show", "q~a", "--turn", "9"],
        &["show", "x"],
        &["list"],
        &["status"],
        &["grep", "z"],
        &["recover", "--dry-run"],
        &["prune", "--keep", "9"],
    ] {
        let done = run(root.path(), args);
        assert!(done.err.starts_with("spanledger: "), "{args:?}: {done:?}");
        let moves = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!done.err.contains(moves), "{args:?}: {done:?}");
    }
}

#[test]
fn more_segments_than_open_files_are_read_in_order() {
    let root = root();
    for seg in 1..=150 {
        let numbered = |n: u32| {
            let mut line = line(
                "ses_1",
                "message_user",
                json!({"content": format!("said {seg} {n}")}),
            );
            // Of two that follow each other, lines come in turns.
            line["ts"] = format!(
                "2026-11-16T00:{:02}:{:02}.000000Z",
                seg / 2 / 60,
                seg / 2 % 60 + n
            )
            .into();
            line
        };
        write(root.path(), "ses_1", seg, &[numbered(1), numbered(2)]);
    }
    let wide = run(root.path(), &["show", "ses_1", "--json"]);
    for args in [
        &["show", "ses_1", "--json"] as &[_],
        &["grep", "said", "ses_1", "--json"],
        &["tail", "ses_1", "--no-follow", "--json", "-n", "300"],
        &["list", "said 150 2", "--json"],
    ] {
        let done = limited(root.path(), "-n 100", args);
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{args:?}");
        let lines = done.lines().len();
        assert!(
            lines == 300 || lines == 301 || args[0] == "list",
            "{args:?}: {lines}"
        );
        if args[0] == "show" {
            assert_eq!(done.out, wide.out);
        }
    }
}

#[test]
fn list_does_not_buffer_a_long_damaged_segment() {
    let root = root();
    let long = line(
        "ses_1",
        "message_user",
        json!({"content": "x".repeat(64 << 10)}),
    );
    write(root.path(), "ses_1", 1, &vec![long; 1500]);
    let done = limited(root.path(), "-d 60000", &["list", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["session_id"], "ses_1");
}

#[test]
fn turn_without_end_does_not_delay_later_turns() {
    let mut turns = Turns::default();
    let mut come = 0;
    for turn in 1..=1000_u64 {
        for kind in ["turn_start", "turn_end"] {
            if (turn, kind) == (1, "turn_end") {
                continue;
            }
            let mut line = span("s", kind, turn, 0, json!({}));
            (line["turn"], line["seq"]) = (turn.into(), turn.into());
            turns.take(&RawLine::parse(line.to_string().as_bytes()).unwrap());
            come += std::iter::from_fn(|| turns.ready()).count();
        }
    }
    assert!(come > 500, "{come}");
    assert_eq!(come + turns.finish().len(), 1000);
}

#[test]
fn too_deep_nesting_is_searched_quickly() {
    let root = root();
    let dir = message(root.path(), "ses_1", "hello");
    let deep = 200_000;
    let args = format!(
        "{}{}\"needle\"{}",
        "[".repeat(deep),
        "1,".repeat(deep),
        "]".repeat(deep)
    );
    let text = line("ses_1", "tool_call", json!({"args": 0}));
    let text = text
        .to_string()
        .replacen("\"args\":0", &format!("\"args\":{args}"), 1);
    let text = text.replacen("\"seg\":1", "\"seg\":1,\"seq\":1", 1);
    fs::write(dir.join("trace.0001.jsonl"), text + "\n").unwrap();
    let done = run(root.path(), &["grep", "needle"]);
    assert_eq!((done.code, done.lines().len()), (0, 1), "{done:?}");
    assert!(
        done.out.starts_with("ses_1 1:1 tool_call args: needle"),
        "{done:?}"
    );
}

/// A session with a line in the middle that has a control character as it is: a bit of `[` flipped.
fn with_flipped_bit(root: &Path) {
    let lines = ["one", "t[wo", "three"];
    let lines = lines.map(|text| line("ses_1", "message_user", json!({"content": text})));
    let path = write(root, "ses_1", 1, &lines).join("trace.0001.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, text.replace("t[wo", "t\u{1b}wo")).unwrap();
}

#[test]
fn undecodable_line_is_damaged_not_missing() {
    let root = root();
    with_flipped_bit(root.path());
    let done = run(root.path(), &["show", "ses_1", "--event", "1:2"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.err.contains("line 1:2"), "{done:?}");
    assert_eq!(
        run(root.path(), &["show", "ses_1", "--event", "1:9"]).code,
        2
    );
}

#[test]
fn json_tail_prints_only_json() {
    let root = root();
    with_flipped_bit(root.path());
    let done = run(root.path(), &["tail", "ses_1", "--no-follow", "--json"]);
    let objects = done.objects();
    assert_eq!(objects.len(), 3, "{done:?}");
    assert_eq!(
        (&objects[1]["notice"], &objects[1]["address"]),
        (&json!("damaged"), &json!("1:2"))
    );
    assert_eq!(objects[2]["payload"]["content"], "three");
    assert_eq!(done.code, 3);
}

#[test]
fn lines_from_a_clock_ahead_are_kept() {
    let root = root();
    for (id, year) in [("ses_1", "2090"), ("ses_2", "9999")] {
        let lines = ["one", "two", "three"].map(|text| {
            let mut line = line(id, "message_user", json!({"content": text}));
            line["ts"] = format!("{year}-01-01T00:00:00.000000Z").into();
            line
        });
        write(root.path(), id, 1, &lines);
        let done = run(root.path(), &["tail", id, "--no-follow"]);
        assert_eq!(done.lines().len(), 3, "{done:?}");
    }
}

#[test]
fn unreadable_new_session_does_not_end_tail() {
    let root = root();
    message(root.path(), "ses_0", "hello");
    let mut all = Running::start(root.path(), &["tail"]);
    all.until("nothing is running");
    let mut one = Running::start(root.path(), &["tail", "ses_0"]);
    one.until("hello");
    // Moved there whole, so that they are seen as they are.
    fs::create_dir_all(root.path().join("ses_bad/trace.0001.jsonl")).unwrap();
    fs::rename(
        root.path().join("ses_bad"),
        root.path().join("sessions/ses_bad"),
    )
    .unwrap();
    message(root.path(), "ses_new", "still here");
    all.until("still here");
    let again = line("ses_0", "message_user", json!({"content": "and here"}));
    write(root.path(), "ses_0", 2, &[again]);
    one.until("and here");
}

#[test]
fn follower_reports_unreadable_session_once() {
    let root = root();
    fs::create_dir_all(root.path().join("sessions/ses_bad/trace.0001.jsonl")).unwrap();
    message(root.path(), "ses_1", "hello");
    let mut follower = Follower::root(root.path(), Start::Beginning).unwrap();
    let (mut lines, mut errors) = (0, 0);
    for _ in 0..4 {
        match follower.next(std::time::Duration::ZERO) {
            Ok(followed) => lines += usize::from(followed.is_some()),
            Err(_) => errors += 1,
        }
    }
    assert_eq!((lines, errors), (1, 1));
}
