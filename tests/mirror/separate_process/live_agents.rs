//! Live agents without an endpoint.

use std::fs::{File, OpenOptions};
use std::io::Write;

use spanledger::trace::{ReadItem, SegmentReader};
use spanledger::{Outcome, SpanExt, spans};
use tracing_subscriber::layer::SubscriberExt;

use crate::separate_process::setup::{each_once, mirror, record, recorded, until_sent};
use crate::support::Recording;
use crate::support::cli::{self, Running, Victim};
use crate::support::otlp_server::OtlpServer;

#[test]
fn closed_spans_are_sent_live_and_the_rest_at_exit() {
    let recording = Recording::new();
    let root = recording.dir.path();
    let server = OtlpServer::start();
    let url = server.url();
    let sent = |root: &std::path::Path| {
        let done = mirror(root, &["--once", "--endpoint", &url]);
        assert_eq!(done.code, 0, "{done:?}");
        done.objects()[0]["spans"].as_u64().unwrap()
    };
    let tool = |run: &tracing::Span| {
        let tool = spans::tool_call("bash", "call_1").child_of(run).start();
        tool.finish(Outcome::Ok);
    };
    let run = recording.run(|| spans::session_run("ses_1", "planner").start());
    assert_eq!(sent(root), 0);
    recording.run(|| tool(&run));
    assert_eq!(sent(root), 1);
    assert_eq!(sent(root), 0);
    recording.run(|| tool(&run));
    assert_eq!(sent(root), 1);
    recording.run(|| run.finish(Outcome::Ok));
    drop(run);
    let root = recording.end();
    assert_eq!(sent(root.path()), 1);
    assert_eq!(sent(root.path()), 0);
    let tool = "execute_tool bash";
    assert_eq!(each_once(&server), [tool, tool, "invoke_agent planner"]);
}

#[test]
fn incomplete_line_is_neither_sent_nor_skipped() {
    // What a living writer has written of its segment, at any moment.
    let whole = recorded(&["ses_1"]);
    let segment = "sessions/ses_1/trace.0001.jsonl";
    let bytes = std::fs::read(whole.path().join(segment)).unwrap();
    let mut reader = SegmentReader::open(whole.path().join(segment)).unwrap();
    let Some(ReadItem::Line(first)) = reader.next().unwrap() else {
        panic!("a first line");
    };
    let writer = first.payload().get("writer").unwrap().text().unwrap();
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("sessions/ses_1")).unwrap();
    std::fs::create_dir(root.path().join("writers")).unwrap();
    let lock = File::create(root.path().join("writers").join(&*writer)).unwrap();
    lock.lock().unwrap();

    let server = OtlpServer::start();
    let url = server.url();
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(root.path().join(segment))
        .unwrap();
    // The tool's close line and the run's are the last two.
    let ends: Vec<_> = ends(&bytes).collect();
    let [.., before, tool, run] = ends[..] else {
        panic!("three lines")
    };
    let mut at = 0;
    let cuts = [40, before + 10, tool - 1, tool, tool + 1, run - 1, run];
    let sent: Vec<u64> = cuts
        .into_iter()
        .map(|to| {
            file.write_all(&bytes[at..to]).unwrap();
            at = to;
            let done = mirror(root.path(), &["--once", "--endpoint", &url]);
            assert_eq!(done.code, 0, "{done:?}");
            done.objects()[0]["spans"].as_u64().unwrap()
        })
        .collect();
    assert_eq!(sent, [0, 0, 0, 1, 0, 0, 1]);
    assert_eq!(
        each_once(&server),
        ["execute_tool bash", "invoke_agent planner"]
    );
}

/// Where the lines end.
fn ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let newlines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    newlines.map(|(at, _)| at + 1)
}

#[test]
fn follow_sends_open_spans_after_a_kill() {
    cli::in_victim(|| {
        let run = spans::session_run("ses_killed", "planner").start();
        drop(spans::tool_call("ls", "call_1").child_of(&run).start());
        let _tool = spans::tool_call("bash", "call_2").child_of(&run).start();
        cli::wait_to_be_killed();
    });
    let root = tempfile::tempdir().unwrap();
    let server = OtlpServer::start();
    let url = server.url();
    let mut mirror = Running::start(root.path(), &["mirror", "--endpoint", &url, "--json"]);
    // It is at work.
    mirror.line();
    let victim = Victim::start(root.path());
    until_sent(&mut mirror, 1);
    assert_eq!(each_once(&server), ["execute_tool ls"]);
    victim.kill();
    until_sent(&mut mirror, 2);
    assert_eq!(
        each_once(&server),
        [
            "execute_tool ls",
            "execute_tool bash",
            "invoke_agent planner"
        ]
    );
}

#[test]
fn new_and_resumed_sessions_are_noticed() {
    let recording = Recording::again(recorded(&["ses_old"]));
    let root = recording.dir.path();
    record(&recording, "ses_1");
    let server = OtlpServer::start();
    let url = server.url();
    let mut mirror = Running::start(root, &["mirror", "--endpoint", &url, "--json"]);
    until_sent(&mut mirror, 4);
    for session in ["ses_1", "ses_2", "ses_old"] {
        record(&recording, session);
        until_sent(&mut mirror, 2);
    }
    assert_eq!(each_once(&server).len(), 10);
}

#[test]
fn named_session_sends_only_its_spans() {
    let recording = Recording::new();
    let root = recording.dir.path();
    record(&recording, "ses_1");
    let server = OtlpServer::start();
    let url = server.url();
    let args = ["mirror", "--session", "ses_1", "--endpoint", &url, "--json"];
    let mut mirror = Running::start(root, &args);
    until_sent(&mut mirror, 2);
    record(&recording, "ses_2");
    record(&recording, "ses_1");
    until_sent(&mut mirror, 2);
    assert_eq!(each_once(&server).len(), 4);
}

#[test]
fn self_sending_agent_is_left_alone() {
    // No server listens there, so its spans stay pending while it lives.
    let recording = Recording::with(|builder| builder.otlp_endpoint("http://127.0.0.1:1"));
    record(&recording, "ses_1");
    let server = OtlpServer::start();
    let url = server.url();
    let args = ["--once", "--any-endpoint", "--endpoint", &url];
    let root = recording.dir.path();
    assert_eq!(mirror(root, &args).objects()[0]["spans"], 0);
    let root = recording.end();
    assert_eq!(mirror(root.path(), &args).objects()[0]["spans"], 2);
    assert_eq!(each_once(&server).len(), 2);
}

#[test]
fn removed_and_restarted_session_is_noticed() {
    let root = recorded(&["main"]);
    let server = OtlpServer::start();
    let url = server.url();
    let mut mirror = Running::start(root.path(), &["mirror", "--endpoint", &url, "--json"]);
    until_sent(&mut mirror, 2);
    std::fs::remove_dir_all(root.path().join("sessions/main")).unwrap();
    let recording = Recording::again(root);
    record(&recording, "main");
    until_sent(&mut mirror, 2);
    // Also by the one that wrote to what was removed.
    std::fs::remove_dir_all(recording.dir.path().join("sessions/main")).unwrap();
    record(&recording, "main");
    until_sent(&mut mirror, 2);
    assert_eq!(each_once(&server).len(), 6);
}

#[test]
fn last_session_is_fixed_at_start() {
    cli::in_victim(|| {
        let run = spans::session_run("ses_killed", "planner").start();
        drop(spans::tool_call("ls", "call_1").child_of(&run).start());
        cli::wait_to_be_killed();
    });
    let root = tempfile::tempdir().unwrap();
    let victim = Victim::start(root.path());
    let server = OtlpServer::start();
    let url = server.url();
    let args = ["mirror", "--session", "last", "--endpoint", &url, "--json"];
    let mut mirror = Running::start(root.path(), &args);
    until_sent(&mut mirror, 1);
    let later = Recording::again(root);
    record(&later, "ses_later");
    victim.kill();
    until_sent(&mut mirror, 1);
    assert_eq!(
        each_once(&server),
        ["execute_tool ls", "invoke_agent planner"]
    );
}

#[test]
fn agents_in_a_replaced_root_are_noticed() {
    let root = recorded(&["ses_1"]);
    let server = OtlpServer::start();
    let url = server.url();
    let mut mirror = Running::start(root.path(), &["mirror", "--endpoint", &url, "--json"]);
    until_sent(&mut mirror, 2);
    // There are no file system notifications here any more, as on some file systems.
    for dir in ["writers", "sessions"] {
        std::fs::remove_dir_all(root.path().join(dir)).unwrap();
    }
    let recording = Recording::again(root);
    record(&recording, "ses_1");
    let root = recording.end();
    until_sent(&mut mirror, 2);
    assert_eq!(each_once(&server).len(), 4);
    drop(root);
}

#[test]
fn agent_with_endpoint_resumes_one_without() {
    cli::in_victim(|| {
        let _run = spans::session_run("ses_1", "killed").start();
        cli::wait_to_be_killed();
    });
    let root = tempfile::tempdir().unwrap();
    Victim::start(root.path()).kill();
    let (of_agent, of_command) = (OtlpServer::start(), OtlpServer::start());
    let builder = spanledger::builder().root(root.path());
    let (layer, guard) = builder.otlp_endpoint(of_agent.url()).build().unwrap();
    let agent = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&agent, || {
        let run = spans::session_run("ses_1", "planner").start();
        run.finish(Outcome::Ok);
    });
    let url = of_command.url();
    let args = ["--once", "--any-endpoint", "--endpoint", &url];
    // The agent recovered the dead one's spans in its own segment, without an endpoint.
    assert_eq!(mirror(root.path(), &args).objects()[0]["spans"], 1);
    drop(agent);
    guard.shutdown().unwrap();
    assert_eq!(mirror(root.path(), &args).objects()[0]["spans"], 0);
    assert_eq!(each_once(&of_command), ["invoke_agent killed"]);
    assert_eq!(each_once(&of_agent), ["invoke_agent planner"]);
}
