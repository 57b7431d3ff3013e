//! `spanledger tail`, read line by line, while this process or a killed one writes.
//! it, read line by line.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;
use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::support::cli::{self, Running, Victim, run};

/// A row without its clock.
fn row(line: &str) -> String {
    let (clock, rest) = line.split_at(8);
    assert!(
        clock.chars().all(|c| c.is_ascii_digit() || c == ':'),
        "{line}"
    );
    rest.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn event_is_shown_when_recorded() {
    let recording = Recording::new();
    let session = recording.handle().session("ses_1");
    session.title("before");
    let mut tail = Running::start(recording.dir.path(), &["tail", "ses_1"]);
    assert!(row(&tail.line()).starts_with("1:1 process"));
    assert_eq!(row(&tail.line()), "1:2 title before");
    session.title("after");
    assert_eq!(row(&tail.line()), "1:3 title after");
    session.report_status("busy");
    assert_eq!(row(&tail.line()), "1:4 status busy");
}

#[test]
fn last_events_come_first() {
    let recording = Recording::new();
    let session = recording.handle().session("ses_1");
    for n in 0..30 {
        session.title(&format!("title {n}"));
    }
    let mut tail = Running::start(recording.dir.path(), &["tail", "ses_1", "-n", "2"]);
    assert_eq!(row(&tail.line()), "1:30 title title 28");
    assert_eq!(row(&tail.line()), "1:31 title title 29");
    session.title("after");
    assert_eq!(row(&tail.line()), "1:32 title after");
}

#[test]
fn later_subagent_is_followed_stranger_is_not() {
    let recording = Recording::new();
    let root = recording.dir.path();
    recording.run(|| {
        let run = spans::session_run("main", "planner").start();
        let mut tail = Running::start(root, &["tail", "main", "-n", "1"]);
        assert_eq!(row(&tail.line()), "1:2 run planner");
        spans::session_run("stranger", "other")
            .detached()
            .start()
            .finish(Outcome::Ok);
        let child = spans::session_run("child", "worker").child_of(&run).start();
        // The child's first two lines and the parent's line about it, in any order.
        let mut rows = [(); 3].map(|()| row(&tail.line()));
        rows.sort();
        assert!(rows[0].starts_with("1:3 subagent"), "{rows:?}");
        assert!(rows[1].starts_with("child 1:1 process"), "{rows:?}");
        assert_eq!(rows[2], "child 1:2 run worker subagent of main");
        let inner = spans::session_run("inner", "helper")
            .child_of(&child)
            .start();
        let mut rows = [(); 3].map(|()| row(&tail.line()));
        rows.sort();
        assert!(rows[0].starts_with("child 1:3 subagent"), "{rows:?}");
        assert!(rows[1].starts_with("inner 1:1 process"), "{rows:?}");
        assert_eq!(rows[2], "inner 1:2 run helper subagent of child");
        run.in_scope(|| events::message_user("go on").emit());
        assert_eq!(row(&tail.line()), "1:4 user go on");
        drop(inner);
    });
}

#[test]
fn without_session_all_live_ones_are_followed() {
    let recording = Recording::new();
    let root = recording.dir.path();
    recording.run(|| {
        spans::session_run("over", "planner")
            .start()
            .finish(Outcome::Ok);
        let live = spans::session_run("live", "planner").start();
        let mut tail = Running::start(root, &["tail", "-n", "1"]);
        assert_eq!(row(&tail.line()), "live 1:2 run planner");
        let new = spans::session_run("new", "worker").start();
        assert!(row(&tail.line()).starts_with("new 1:1 process"));
        assert_eq!(row(&tail.line()), "new 1:2 run worker");
        // An ended session resumes.
        recording.handle().session("over").title("not quite");
        assert_eq!(row(&tail.line()), "over 1:4 title not quite");
        drop((live, new));
    });
}

#[test]
fn unreadable_session_does_not_end_it() {
    let recording = Recording::new();
    let root = recording.dir.path();
    // A segment that is no file.
    let broken = root.join("sessions/broken");
    std::fs::create_dir_all(broken.join("trace.0001.jsonl")).unwrap();
    let mut tail = Running::start(root, &["tail"]);
    assert!(tail.line().contains("nothing is running"));
    std::fs::write(broken.join("something"), "new").unwrap();
    recording.handle().session("ses_1").title("first");
    assert!(row(&tail.line()).starts_with("ses_1 1:1 process"));
    assert_eq!(row(&tail.line()), "ses_1 1:2 title first");
}

#[test]
fn idle_root_is_reported_and_awaited() {
    let recording = Recording::new();
    let mut tail = Running::start(recording.dir.path(), &["tail"]);
    assert!(tail.line().contains("nothing is running"));
    recording.handle().session("ses_1").title("first");
    assert!(row(&tail.line()).starts_with("ses_1 1:1 process"));
    assert_eq!(row(&tail.line()), "ses_1 1:2 title first");
}

#[test]
fn streamed_text_is_not_repeated_when_whole() {
    let recording = Recording::new();
    let root = recording.dir.path();
    recording.run(|| {
        let run = spans::session_run("ses_1", "writer").start();
        let mut tail = Running::start(root, &["tail", "ses_1", "-n", "1"]);
        tail.line();
        let mut out = run.stream("msg_1");
        for word in [
            "Once ", "upon ", "a ", "time.\n", "There ", "was ", "a ", "fox ", "here.",
        ] {
            out.push(word);
        }
        out.end();
        run.in_scope(|| events::message_user("more").emit());
        assert!(row(&tail.line()).ends_with("writes Once upon a time."));
        assert!(row(&tail.line()).ends_with("writes There was a fox here."));
        assert!(row(&tail.line()).ends_with("user more"));
    });
}

#[test]
fn paused_stream_is_shown_so_far() {
    let recording = Recording::new();
    let root = recording.dir.path();
    recording.run(|| {
        let run = spans::session_run("ses_1", "writer").start();
        let mut tail = Running::start(root, &["tail", "ses_1", "-n", "1"]);
        tail.line();
        let mut out = run.stream("msg_1");
        out.push("I think that it is best to ");
        // The recorder holds back the end of the text.
        assert!(row(&tail.line()).ends_with("writes I think that it"));
        out.abort("overloaded");
        assert!(row(&tail.line()).ends_with("writes is best to"));
        assert!(row(&tail.line()).ends_with("assistant (stopped here)"));
    });
}

#[test]
fn kind_filter() {
    let recording = Recording::new();
    let session = recording.handle().session("ses_1");
    session.title("one");
    let args = [
        "tail",
        "ses_1",
        "--kind",
        "session_title",
        "--kind",
        "error",
    ];
    let mut tail = Running::start(recording.dir.path(), &args);
    assert_eq!(row(&tail.line()), "1:2 title one");
    session.report_status("busy");
    session.record(events::error(&std::io::Error::other("it broke")));
    assert!(row(&tail.line()).starts_with("1:4 error"));
}

#[test]
fn everything_since_an_address() {
    let recording = Recording::new();
    let session = recording.handle().session("ses_1");
    for n in 2..=20 {
        session.title(&format!("title {n}"));
    }
    let args = ["tail", "ses_1", "--from", "1:5", "--no-follow"];
    let done = run(recording.dir.path(), &args);
    assert_eq!(done.code, 0, "{done:?}");
    let rows: Vec<_> = done.out.lines().map(row).collect();
    assert_eq!(rows.len(), 16);
    assert_eq!(rows[0], "1:5 title title 5");
}

#[test]
fn unknown_address_exits_2() {
    let recording = Recording::new();
    recording.handle().session("ses_1").title("one");
    let root = recording.dir.path();
    let done = run(root, &["tail", "ses_1", "--from", "3:9"]);
    assert_eq!(done.code, 2);
    assert!(
        done.err.contains("no line 3:9; it has 1 segment\n"),
        "{done:?}"
    );
    assert_eq!(run(root, &["tail", "--from", "1:1"]).code, 2);
    assert_eq!(run(root, &["tail", "ses_1", "--from", "x"]).code, 2);
}

#[test]
fn json_lines_equal_the_trace() {
    let recording = Recording::new();
    recording.handle().session("ses_1").title("one");
    let args = ["tail", "ses_1", "--no-follow", "--json"];
    let done = run(recording.dir.path(), &args);
    let dir = spanledger::read::session_dir(recording.dir.path(), "ses_1");
    let file = std::fs::read_to_string(dir.join("trace.0001.jsonl")).unwrap();
    assert_eq!(done.out, file);
}

fn victim() {
    cli::in_victim(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.clone().entered();
        let _tool = spans::tool_call("bash", "call_1").start().entered();
        cli::wait_to_be_killed();
    });
}

#[test]
fn death_and_resume_are_reported() {
    victim();
    let dir = tempfile::tempdir().unwrap();
    let first = Victim::start(dir.path());
    let pid = first.pid();
    let mut tail = Running::start(dir.path(), &["tail", "ses_1", "-n", "1"]);
    assert_eq!(row(&tail.line()), "1:3 tool bash");
    first.kill();
    let died = tail.line();
    assert!(
        died.contains(&format!("(pid {pid}) died with tool bash open")),
        "{died}"
    );
    let second = Victim::start(dir.path());
    let lines = tail.until("is resumed");
    let resumed = format!("-- ses_1 is resumed by pid {}", second.pid());
    assert_eq!(lines.last(), Some(&resumed));
    let rows: Vec<_> = lines[..3].iter().map(|line| row(line)).collect();
    assert!(rows[0].starts_with("2:1 process"), "{rows:?}");
    assert!(rows[1].starts_with("2:2 tool bash") && rows[1].ends_with("INTERRUPTED"));
    assert!(row(&tail.line()).contains("resumed planner"));
    second.kill();
    tail.until("died");
}

#[test]
fn recovery_is_not_reported_as_resume() {
    victim();
    let dir = tempfile::tempdir().unwrap();
    Victim::start(dir.path()).kill();
    let mut tail = Running::start(dir.path(), &["tail", "ses_1", "-n", "1"]);
    tail.until("died");
    assert_eq!(run(dir.path(), &["recover"]).code, 0);
    let lines = tail.until("run ended");
    assert!(
        !lines.iter().any(|line| line.starts_with("--")),
        "{lines:?}"
    );
}

#[test]
fn json_death_is_a_notice() {
    victim();
    let dir = tempfile::tempdir().unwrap();
    let agent = Victim::start(dir.path());
    let pid = agent.pid();
    let mut tail = Running::start(dir.path(), &["tail", "--json", "-n", "1"]);
    tail.until("\"tool_call\"");
    agent.kill();
    let notice: Value = serde_json::from_str(&tail.line()).unwrap();
    assert_eq!(notice["notice"], "writer_died");
    assert_eq!(notice["session_id"], "ses_1");
    assert_eq!(notice["pid"], pid);
    assert_eq!(notice["open"]["name"], "bash");
    assert_eq!(notice["open"]["address"], "1:3");
}

#[test]
fn closed_pipe_ends_it_while_idle() {
    let recording = Recording::new();
    recording.handle().session("ses_1").title("one");
    let mut child = cli::spanledger(recording.dir.path())
        .args(["tail", "ses_1", "-n", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
}

#[test]
fn escape_in_a_title_does_not_reach_the_terminal() {
    let recording = Recording::new();
    recording
        .handle()
        .session("ses_1")
        .title("a\u{1b}[2J\u{202e}b\nc");
    let done = run(recording.dir.path(), &["tail", "ses_1", "--no-follow"]);
    assert!(
        done.out.ends_with("title      a\\x1b[2J\\u{202e}b⏎c\n"),
        "{done:?}"
    );
}

#[test]
fn ctrl_c_ends_after_a_whole_line() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let mut answer = run.stream("msg_1");
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let mut tail = cli::spanledger(recording.dir.path())
                .args(["tail", "ses_1"])
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut out = std::io::BufReader::new(tail.stdout.take().unwrap());
            let mut printed = String::new();
            while !printed.contains("planner") {
                assert_ne!(out.read_line(&mut printed).unwrap(), 0, "{printed:?}");
            }
            answer.push("The gasket is worn and ");
            // SAFETY: a child of ours that has not been waited for.
            unsafe { libc::kill(tail.id() as i32, signal) };
            std::io::Read::read_to_string(&mut out, &mut printed).unwrap();
            let status = tail.wait().unwrap();
            assert_eq!(status.code(), Some(0), "{status:?} {printed:?}");
            assert!(printed.ends_with('\n'), "{printed:?}");
        }
    });
}

#[test]
fn last_json_lines_leave_out_old_deltas() {
    let recording = Recording::new();
    recording.run(|| {
        let run_span = spans::session_run("ses_1", "planner").start();
        let mut stream = run_span.stream("msg_1");
        for piece in 0..20 {
            stream.push(&format!("piece {piece}\n"));
        }
        stream.end();
        let turn = spans::session_turn().child_of(&run_span).start();
        turn.finish(Outcome::Ok);
    });
    let args = ["tail", "ses_1", "-n", "5", "--no-follow", "--json"];
    let done = run(recording.dir.path(), &args);
    assert_eq!(done.lines().len(), 5, "{done:?}");
}

#[test]
fn rows_of_a_session_and_its_subagent_are_aligned() {
    let recording = Recording::new();
    recording.run(|| {
        let run_span = spans::session_run("main", "planner").start();
        let child = spans::session_run("child", "worker")
            .child_of(&run_span)
            .start();
        child.in_scope(|| events::message_user("inside").emit());
        run_span.in_scope(|| events::message_user("outside").emit());
    });
    let args = ["tail", "main", "--no-follow", "-n", "4"];
    let done = run(recording.dir.path(), &args);
    let column = |text: &str| {
        let row = done.out.lines().find(|line| line.ends_with(text));
        row.unwrap_or_else(|| panic!("{done:?}"))
            .find(text)
            .unwrap()
    };
    assert_eq!(column("inside"), column("outside"), "{}", done.out);
}
