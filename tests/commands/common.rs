//! What all commands have in common: color, times, pipes, ids and exit codes.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use spanledger::{events, spans};
use tempfile::TempDir;

use crate::support::Recording;
use crate::support::cli::{Done, run, spanledger};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1")
}

/// What a command prints on a terminal of its own.
fn on_a_terminal(command: &mut Command) -> String {
    let (mut ours, mut theirs) = (0, 0);
    let null = std::ptr::null_mut();
    // SAFETY: both are valid places for a descriptor, and nothing else is asked for.
    let made = unsafe { libc::openpty(&mut ours, &mut theirs, null, null.cast(), null.cast()) };
    assert_eq!(made, 0);
    // SAFETY: both were just opened and are owned here only.
    let (ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let mut child = command.stdout(theirs).spawn().unwrap();
    // The command keeps its end in `command`; gone with it.
    command.stdout(Stdio::null());
    let mut printed = Vec::new();
    // A terminal whose other end is closed is an error to read from, as it is an end.
    let _ = (&ours).read_to_end(&mut printed);
    assert!(child.wait().unwrap().success());
    String::from_utf8(printed).unwrap()
}

#[test]
fn color_is_for_terminals_or_on_request() {
    let show = || {
        let mut command = spanledger(&fixture());
        command.args(["show", "ses_whole"]);
        command
    };
    let has_colours = |text: &str| text.contains("\x1b[");
    let text = on_a_terminal(&mut show());
    assert!(text.contains("ses_whole") && has_colours(&text), "{text}");
    assert!(!has_colours(&on_a_terminal(show().env("NO_COLOR", "1"))));
    assert!(!has_colours(&on_a_terminal(
        show().args(["--color", "never"])
    )));
    // Set and empty is as good as not set.
    assert!(has_colours(&on_a_terminal(show().env("NO_COLOR", ""))));

    let piped = |args: &[&str]| run(&fixture(), &[&["show", "ses_whole"], args].concat()).out;
    assert!(!has_colours(&piped(&[])));
    assert!(has_colours(&piped(&["--color", "always"])));
    // Without color it is the same text.
    let colourless = |text: &str| {
        let parts = text.split("\x1b[").enumerate();
        let plain = |(at, part): (usize, &str)| match at {
            0 => part.to_owned(),
            _ => part.split_once('m').unwrap().1.to_owned(),
        };
        parts.map(plain).collect::<String>()
    };
    assert_eq!(colourless(&piped(&["--color", "always"])), piped(&[]));
}

#[test]
fn times_are_local_unless_utc() {
    let show = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_spanledger"))
            .args(["show", "ses_whole", "--root"])
            .arg(fixture())
            .args(args)
            .env("TZ", "Etc/GMT-9")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(show(&[]).contains("time 2026-11-16 18:00:00 to 18:00:12"));
    assert!(show(&["--utc"]).contains("time 2026-11-16 09:00:00 to 09:00:12"));
}

#[test]
fn closed_pipe_ends_quietly() {
    let root = TempDir::new().unwrap();
    assert_eq!(run(root.path(), &["demo", "--json"]).code, 0);
    // More than a pipe holds.
    let sessions = root.path().join("sessions");
    let path = sessions.read_dir().unwrap().next().unwrap().unwrap().path();
    let trace = std::fs::read_to_string(path.join("trace.0001.jsonl")).unwrap();
    for n in 0..40 {
        let copy = sessions.join(format!("copy-{n}"));
        std::fs::create_dir(&copy).unwrap();
        std::fs::write(copy.join("trace.0001.jsonl"), &trace).unwrap();
        // A reader that finishes early must not report missing blobs.
        if let Ok(blobs) = path.join("blobs").read_dir() {
            std::fs::create_dir(copy.join("blobs")).unwrap();
            for blob in blobs.map(|blob| blob.unwrap()) {
                let copied = copy.join("blobs").join(blob.file_name());
                std::fs::copy(blob.path(), copied).unwrap();
            }
        }
    }
    for args in [
        &["grep", "."][..],
        &["list", "--json"],
        &["show", "last", "--json", "--full"],
    ] {
        let mut child = spanledger(root.path())
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut String::new()).unwrap();
        drop(out);
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{args:?}: {done:?}");
        assert!(done.stderr.is_empty(), "{args:?}: {done:?}");
    }
}

#[test]
fn id_prefix_is_enough() {
    let root = fixture();
    for args in [
        &["show", "ses_int", "--turn", "1"][..],
        &["grep", "long test", "ses_int"],
        &["tail", "ses_int", "--no-follow"],
        &["find", "ses_int"],
    ] {
        let done = run(&root, args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        assert!(!done.out.is_empty(), "{args:?}");
    }
    // A session comes before the subagents that are named after it.
    let done = run(&root, &["show", "ses_who"]);
    assert!(done.out.starts_with("ses_whole  builder"), "{done:?}");
}

#[test]
fn exit_codes() {
    let root = fixture();
    for (args, code) in [
        (&["list"][..], 0),
        (&["show", "ses_whole"], 0),
        (&["grep", "no such text anywhere"], 1),
        (&["show", "nobody"], 2),
        (&["find", "nobody"], 2),
        (&["show", "ses_whole", "--turn", "9"], 2),
        (&["show", "--no-such-switch"], 2),
        (&["list", "--since", "yesterday"], 2),
        (&["show", "last", "--event", "1:2", "--errors"], 2),
    ] {
        let done = run(&root, args);
        assert_eq!(done.code, code, "{args:?}: {done:?}");
        assert_eq!(done.err.is_empty(), code < 2, "{args:?}: {done:?}");
    }
}

#[test]
fn unreadable_root_is_named_by_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::write(&root, "no directory").unwrap();
    let name = root.to_str().unwrap();
    for args in [
        "list",
        "show",
        "find x",
        "grep x",
        "tail",
        "status",
        "stats --all",
        "summary",
        "context",
        "permissions --all",
        "recover",
        "prune --keep 1",
        "mirror --status",
        "mirror --once --endpoint http://127.0.0.1:1",
    ] {
        let done = run(&root, &args.split(' ').collect::<Vec<_>>());
        assert_eq!(done.code, 2, "{args}: {done:?}");
        assert_eq!(done.err.matches(name).count(), 1, "{args}: {done:?}");
    }
}

/// The id is no file name, so the directory has another name, and the first line, which has the id, is
/// damaged.
#[test]
fn every_command_takes_a_damaged_session_by_name_or_path() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("Ses/One", "planner").start();
        let _run = run.clone().entered();
        events::message_user("Found").emit();
    });
    let root = recording.end();
    let dir = spanledger::read::session_dir(root.path(), "Ses/One");
    let segment = dir.join("trace.0001.jsonl");
    let text = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(&segment, text.replacen("{\"v\":1", "{\"v\"!1", 1)).unwrap();
    let (name, path) = (dir.file_name().unwrap(), dir.to_str().unwrap());
    let slash = format!("{path}/");
    for session in ["Ses/One", name.to_str().unwrap(), path, &slash] {
        for args in [
            &["show", session][..],
            &["show", session, "--event", "1:2"],
            &["stats", session],
            &["summary", session],
            &["context", session],
            &["permissions", session],
            &["tail", session, "--no-follow"],
            &["grep", "Found", session],
            &["find", session],
            &["recover", session, "--dry-run"],
            &["mirror", "--status", "--session", session],
        ] {
            let done = run(root.path(), args);
            assert!(!done.out.is_empty(), "{args:?}: {done:?}");
            assert!(!done.err.contains("no session"), "{args:?}: {done:?}");
        }
        // Nothing listens on this port: both commands get as far as the session and the endpoint.
        let url = "http://127.0.0.1:1";
        let once = ["mirror", "--once", "--endpoint", url, "--patience", "0s"];
        let done = run(root.path(), &[&once[..], &["--session", session]].concat());
        assert!(done.err.contains("is not a segment header"), "{done:?}");
        let asked = ["verify", "--tempo", url, "--wait", "0s", session];
        let done = run(root.path(), &asked);
        assert!(done.err.contains("connect error"), "{done:?}");
    }
}

/// DEL, C1 and marks that reverse the reading order are allowed in JSON and affect a terminal.
#[test]
fn json_of_every_command_is_safe_for_a_terminal() {
    const HOSTILE: &str = "a\u{7f}b\u{9b}31mc\u{202e}d\u{2066}e\u{e0041}";
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", HOSTILE).start().entered();
        events::message_user(HOSTILE).message_id("msg_1").emit();
        events::permission_rules(serde_json::json!([{"permission": HOSTILE}])).emit();
        let _turn = spans::session_turn().start().entered();
        events::message_user(HOSTILE).emit();
        let root = recording.dir.path();
        for args in [
            &["list"][..],
            &["show"],
            &["show", "--turn", "1"],
            &["show", "--permissions"],
            &["show", "--event", "1:3"],
            &["find", "msg_1"],
            &["grep", "31m"],
            &["tail", "ses_1", "--no-follow"],
            &["status"],
            &["mirror", "--status"],
            &["recover", "--dry-run"],
            &["prune", "--keep", "0", "--dry-run"],
        ] {
            let done = Done::from(spanledger(root).args(args).arg("--json").output().unwrap());
            assert_eq!(done.code, 0, "{args:?}: {done:?}");
            let is_hostile = |c: &char| HOSTILE.contains(*c) && !c.is_ascii_graphic();
            let found = done.out.chars().find(is_hostile);
            assert_eq!(found, None, "{args:?}: {done:?}");
        }
        // It is the same text.
        let shown = run(root, &["show", "--event", "1:3", "--json"]).json();
        assert_eq!(shown["payload"]["content"], HOSTILE);
    });
}
