//! A root is sent by another process: every span once, whatever the server answers.

use std::path::Path;
use std::time::Duration;

use spanledger::mirror::{CatchUp, Otlp, Protocol, Sent, backlog};
use spanledger::session::Store;
use spanledger::{Outcome, SpanExt, events, spans};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tracing_subscriber::layer::SubscriberExt;

use crate::support::otlp_server::{OtlpServer, Reply};
use crate::support::{Recording, Trace};

/// A session of a process that is gone: a run, a turn, some tools.
fn recorded(tools: usize) -> tempfile::TempDir {
    let recording = Recording::new();
    recording.run(|| session(tools));
    recording.end()
}

fn session(tools: usize) {
    let run = spans::session_run("ses_1", "planner").start();
    let _run = run.enter();
    let turn = spans::session_turn().start();
    let _turn = turn.enter();
    events::message_user("hello").emit();
    for n in 0..tools {
        let tool = spans::tool_call("bash", format!("call_{n}"))
            .args("ls")
            .start();
        tool.record_result("a long enough result");
        tool.finish(Outcome::Ok);
    }
    turn.finish(Outcome::Ok);
    run.finish(Outcome::Ok);
}

fn pass(root: &Path, server: &OtlpServer) -> Sent {
    let otlp = Otlp::new().endpoint(server.url()).protocol(Protocol::Grpc);
    let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    let pass = CatchUp::new(root, to).patience(Duration::ZERO);
    pass.run(&mut |_, _| {}).unwrap()
}

/// Replaces a session by another one of the same name, with so many tools.
fn begun_again(root: &Path, tools: usize) {
    std::fs::remove_dir_all(Store::new(root).dir("ses_1")).unwrap();
    let (layer, guard) = spanledger::builder().root(root).build().unwrap();
    let registry = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(registry, || session(tools));
    drop(guard);
}

/// The ids of all spans that were taken, in the order in which they came.
fn span_ids(server: &OtlpServer) -> Vec<String> {
    let requests = server.received();
    let spans = requests.iter().flat_map(|request| {
        let request = request.request.as_ref().unwrap();
        let scopes = request.resource_spans.iter().flat_map(|r| &r.scope_spans);
        scopes.flat_map(|scope| &scope.spans)
    });
    spans
        .map(|span| {
            span.span_id
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect()
        })
        .collect()
}

/// The ids of all spans that the trace closed, in order.
fn closed(root: &Path) -> Vec<String> {
    let trace = Trace::read(root);
    let close = |kind: &str| matches!(kind, "tool_result" | "turn_end" | "session_end");
    let lines = trace.lines().filter(|line| close(&line.kind));
    lines.map(|line| line.span_id.clone().unwrap()).collect()
}

#[test]
fn closed_spans_are_sent_once() {
    let root = recorded(5);
    let server = OtlpServer::start();
    let sent = pass(root.path(), &server);
    assert_eq!((sent.spans, sent.dead, sent.stopped), (7, 0, None));
    assert_eq!(span_ids(&server), closed(root.path()));

    let again = pass(root.path(), &server);
    assert_eq!((again.spans, again.requests), (0, 0));
    let store = Store::new(root.path());
    let left = backlog(&store, &store.dir("ses_1"), None).unwrap();
    assert_eq!((left.bytes, left.sent, left.dead_letters), (0, 7, 0));
}

#[test]
fn unaccepted_spans_are_resent_byte_identical() {
    let root = recorded(3);
    let busy = OtlpServer::scripted([Reply::grpc(Code::Unavailable, "full")]);
    let sent = pass(root.path(), &busy);
    assert_eq!(sent.spans, 0);
    assert!(sent.stopped.unwrap().contains("full"));

    let server = OtlpServer::start();
    assert_eq!(pass(root.path(), &server).spans, 5);
    assert_eq!(server.received()[0].raw, busy.received()[0].raw);
}

#[test]
fn next_pass_resumes_at_the_failed_request() {
    // While one is under way the next is being read; the last is read before its turn.
    for taken in 0..3 {
        let root = recorded(4_500);
        let mut script = vec![Reply::Ok; taken];
        script.push(Reply::grpc(Code::Unavailable, "full"));
        let failing = OtlpServer::scripted(script);
        let first = pass(root.path(), &failing);
        assert!(first.stopped.unwrap().contains("full"));
        let requests = failing.received().len();
        assert_eq!((first.requests, requests), (taken as u64 + 1, taken + 1));
        let store = Store::new(root.path());
        let left = backlog(&store, &store.dir("ses_1"), None).unwrap();
        assert_eq!(left.sent, first.spans);
        assert!(left.bytes > 0);

        let server = OtlpServer::start();
        let rest = pass(root.path(), &server);
        assert_eq!((rest.requests, rest.stopped), (3 - taken as u64, None));
        let mut ids = span_ids(&failing);
        ids.truncate(first.spans as usize);
        ids.extend(span_ids(&server));
        assert_eq!(ids, closed(root.path()));
    }
}

#[test]
fn corrupt_cursor_is_overwritten() {
    let root = recorded(3);
    let cursor = Store::new(root.path())
        .dir("ses_1")
        .join("trace.0001.cursor");
    std::fs::write(&cursor, "no cursor ".repeat(50)).unwrap();
    let server = OtlpServer::start();
    assert_eq!(pass(root.path(), &server).spans, 5);
    assert_eq!(pass(root.path(), &server).requests, 0);
}

#[test]
fn refused_credentials_lose_nothing() {
    let root = recorded(2);
    let server = OtlpServer::scripted([Reply::grpc(Code::Unauthenticated, "who are you?")]);
    let sent = pass(root.path(), &server);
    assert_eq!((sent.spans, sent.dead), (0, 0));
    assert!(sent.stopped.is_some());
    assert_eq!(pass(root.path(), &OtlpServer::start()).spans, 4);
}

#[test]
fn bad_span_becomes_a_dead_letter_alone() {
    let root = recorded(2);
    let bad = || Reply::grpc(Code::InvalidArgument, "bad span");
    // Four spans: refused together, the first half refused, its first span refused alone.
    let server = OtlpServer::scripted([bad(), bad(), bad()]);
    let sent = pass(root.path(), &server);
    assert_eq!((sent.spans, sent.dead, sent.stopped), (3, 1, None));
    let session = Store::new(root.path()).dir("ses_1");
    let letters = std::fs::read_to_string(session.join("dead.0001.jsonl")).unwrap();
    let letter: serde_json::Value = serde_json::from_str(letters.lines().next().unwrap()).unwrap();
    assert_eq!(letters.lines().count(), 1);
    assert_eq!(letter["span_id"], closed(root.path())[0]);
    assert!(letter["reason"].as_str().unwrap().contains("bad span"));
}

fn large() -> Reply {
    Reply::grpc(
        Code::ResourceExhausted,
        "grpc: received message larger than max (9 vs. 4)",
    )
}

#[test]
fn oversized_message_is_split() {
    let root = recorded(2);
    let server = OtlpServer::scripted([large(), large()]);
    let sent = pass(root.path(), &server);
    assert_eq!((sent.spans, sent.dead, sent.stopped), (4, 0, None));
    assert_eq!(server.received().len(), 5);
}

/// A run with a tool that gave a lot, recorded by one who wanted its content sent; a pass over it.
fn pass_with_content(server: &OtlpServer) -> (tempfile::TempDir, Sent) {
    let nobody = Otlp::new().endpoint("http://127.0.0.1:1").content(true);
    let recording = Recording::with(|b| b.otlp(nobody).shutdown_timeout(Duration::ZERO));
    recording.run(|| {
        let run = spans::session_run("ses_1", "planner").start();
        let _run = run.enter();
        let tool = spans::tool_call("bash", "call_1").start();
        tool.record_result(&"so much ".repeat(1000));
        tool.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    let root = recording.end();
    let otlp = Otlp::new().endpoint(server.url()).protocol(Protocol::Grpc);
    let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    let pass = CatchUp::new(root.path(), to)
        .any_endpoint(true)
        .patience(Duration::ZERO);
    // Its own mirror has ended when its lock is free.
    let sent = loop {
        match pass.run(&mut |_, _| {}) {
            Err(spanledger::Error::MirrorBusy { .. }) => std::thread::yield_now(),
            sent => break sent.unwrap(),
        }
    };
    (root, sent)
}

#[test]
fn oversized_span_is_sent_without_content() {
    // Two spans: too large together, the first one too large alone.
    let server = OtlpServer::scripted([large(), large()]);
    let (root, sent) = pass_with_content(&server);
    assert_eq!((sent.spans, sent.dead, sent.stopped), (2, 0, None));
    let [tool, run] = &closed(root.path())[..] else {
        panic!("two spans")
    };
    let ids = [tool, run, tool, tool, run].map(String::clone);
    assert_eq!(span_ids(&server), ids);
    let contains = |request: usize, text: &str| {
        let raw = &server.received()[request].raw;
        raw.windows(text.len()).any(|part| part == text.as_bytes())
    };
    assert!(contains(1, "so much so much") && !contains(1, "agent.content_removed"));
    assert!(!contains(2, "so much so much") && contains(2, "agent.content_removed"));
}

#[test]
fn oversized_span_without_content_is_a_dead_letter() {
    let server = OtlpServer::scripted([large(), large(), large()]);
    let (root, sent) = pass_with_content(&server);
    assert_eq!((sent.spans, sent.dead, sent.stopped), (1, 1, None));
    let session = Store::new(root.path()).dir("ses_1");
    let letter = std::fs::read_to_string(session.join("dead.0001.jsonl")).unwrap();
    let letter: serde_json::Value = serde_json::from_str(&letter).unwrap();
    assert_eq!(letter["span_id"], closed(root.path())[0]);
    assert!(letter["reason"].as_str().unwrap().contains("larger than"));
}

#[test]
fn retry_after_is_respected() {
    let later = Duration::from_secs(200);
    let details = ErrorDetails::with_retry_info(Some(later));
    let status = Status::with_error_details(Code::Unavailable, "busy", details);
    let over_grpc = Reply::Grpc {
        code: Code::Unavailable,
        message: "busy".into(),
        details: status.details().to_owned().into(),
    };
    let over_http = Reply::Http {
        status: 429,
        headers: vec![("retry-after", later.as_secs().to_string())],
        body: "busy".into(),
    };
    for (protocol, reply) in [
        (Protocol::Grpc, over_grpc),
        (Protocol::HttpProtobuf, over_http),
    ] {
        let root = recorded(1);
        let server = OtlpServer::scripted([reply]);
        let otlp = Otlp::new().endpoint(server.url()).protocol(protocol);
        let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
        // Patience for many tries, but not for that long.
        let pass = CatchUp::new(root.path(), to).patience(later / 2);
        let sent = pass.run(&mut |_, _| {}).unwrap();
        assert_eq!((sent.spans, sent.requests), (0, 1), "{protocol:?}");
        assert!(sent.stopped.unwrap().contains("busy"), "{protocol:?}");
    }
}

#[test]
fn partial_success_is_recorded_and_not_resent() {
    let root = recorded(2);
    let server = OtlpServer::scripted([Reply::Partial {
        rejected: 1,
        message: "one was odd".into(),
    }]);
    let sent = pass(root.path(), &server);
    assert_eq!((sent.spans, sent.dead), (3, 1));
    let session = Store::new(root.path()).dir("ses_1");
    let letters = std::fs::read_to_string(session.join("dead.0001.jsonl")).unwrap();
    let letter: serde_json::Value = serde_json::from_str(&letters).unwrap();
    assert_eq!((&letter["rejected"], &letter["of"]), (&1.into(), &4.into()));
    assert_eq!(pass(root.path(), &server).requests, 0);
    let left = backlog(&Store::new(root.path()), &session, None).unwrap();
    assert_eq!((left.sent, left.dead_letters, left.bytes), (3, 1, 0));
}

#[test]
fn live_writers_segment_is_left_to_its_process() {
    // No server listens there, so its own process can't send.
    let recording = Recording::with(|builder| builder.otlp_endpoint("http://127.0.0.1:1"));
    recording.run(|| drop(spans::session_run("ses_live", "planner").start()));
    let server = OtlpServer::start();
    let otlp = Otlp::new().endpoint(server.url()).protocol(Protocol::Grpc);
    let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    let pass = CatchUp::new(recording.dir.path(), to).any_endpoint(true);
    assert_eq!(pass.run(&mut |_, _| {}).unwrap().spans, 0);
    let _dir = recording.end();
    assert_eq!(pass.run(&mut |_, _| {}).unwrap().spans, 1);
    assert_eq!(server.received().len(), 1);
}

#[test]
fn two_senders_never_share_a_root() {
    let root = recorded(1);
    let lock = std::fs::File::create(root.path().join("mirror.lock")).unwrap();
    lock.lock().unwrap();
    let otlp = Otlp::new().endpoint("http://127.0.0.1:4317");
    let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    let impatient = CatchUp::new(root.path(), to).patience(Duration::ZERO);
    let error = impatient.run(&mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("mirror.lock"), "{error}");
}

#[test]
fn dead_letter_after_a_torn_line_is_read() {
    for torn in [
        &b"{\"v\":1,\"ts\":\"20"[..],
        b"{\"v\":1,\"reason\":\"\xe2\x82",
    ] {
        let root = recorded(0);
        let store = Store::new(root.path());
        let session = store.dir("ses_1");
        std::fs::write(session.join("dead.0001.jsonl"), torn).unwrap();
        let bad = || Reply::grpc(Code::InvalidArgument, "bad span");
        let server = OtlpServer::scripted([bad(), bad()]);
        let sent = pass(root.path(), &server);
        assert_eq!((sent.spans, sent.dead), (1, 1));
        let left = backlog(&store, &session, None).unwrap();
        assert_eq!((left.sent, left.dead_letters), (1, 1));
    }
}

#[test]
fn immediate_retries_are_limited_to_ten_a_second() {
    let root = recorded(0);
    let at_once = Reply::Http {
        status: 503,
        headers: vec![("retry-after", "0".to_owned())],
        body: "busy".into(),
    };
    let server = OtlpServer::scripted(std::iter::repeat_n(at_once, 1000));
    let otlp = Otlp::new()
        .endpoint(server.url())
        .protocol(Protocol::HttpProtobuf);
    let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
    let pass = CatchUp::new(root.path(), to).patience(Duration::from_millis(500));
    let sent = pass.run(&mut |_, _| {}).unwrap();
    assert!((2..=6).contains(&sent.requests), "{}", sent.requests);
}

#[test]
fn long_partial_success_message_is_accepted() {
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let root = recorded(2);
        let server = OtlpServer::scripted([Reply::Partial {
            rejected: 1,
            message: "odd ".repeat(50_000),
        }]);
        let otlp = Otlp::new().endpoint(server.url()).protocol(protocol);
        let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
        let pass = CatchUp::new(root.path(), to).patience(Duration::ZERO);
        let sent = pass.run(&mut |_, _| {}).unwrap();
        assert_eq!((sent.spans, sent.dead, sent.stopped), (3, 1, None));
    }
}

#[test]
fn reused_session_name_has_its_own_progress() {
    let bad = || Reply::grpc(Code::InvalidArgument, "bad span");
    for answer in [Reply::Ok, bad()] {
        let root = recorded(2);
        let server = OtlpServer::scripted([Reply::grpc(Code::Unavailable, "full"), answer, bad()]);
        let otlp = Otlp::new().endpoint(server.url()).protocol(Protocol::Grpc);
        let to = Otlp::resolve(Some(otlp), |_| None).unwrap().unwrap();
        let mut waited = false;
        let mut meanwhile = |_: &Sent, waiting: Option<&str>| {
            if waiting.is_some() && !std::mem::replace(&mut waited, true) {
                begun_again(root.path(), 20);
            }
        };
        CatchUp::new(root.path(), to).run(&mut meanwhile).unwrap();

        let store = Store::new(root.path());
        assert_eq!(
            backlog(&store, &store.dir("ses_1"), None)
                .unwrap()
                .dead_letters,
            0
        );
        let server = OtlpServer::start();
        assert_eq!(pass(root.path(), &server).spans, 22);
        assert_eq!(span_ids(&server), closed(root.path()));
    }
}
