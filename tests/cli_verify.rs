//! `spanledger verify` with servers that answer as no backend would, and over TLS.
#![cfg(feature = "cli")]

#[path = "support/cli.rs"]
mod cli;
#[path = "support/otlp_server/mod.rs"]
mod otlp_server;
mod support;

use std::time::Duration;

use cli::{Done, run, spanledger};
use otlp_server::{Authority, OtlpServer, Reply};
use spanledger::mirror::Otlp;
use spanledger::mirror::verify::{Backend, Verify};
use spanledger::{Outcome, SpanExt, spans};
use support::{Recording, Trace};
use tempfile::TempDir;
use tonic::Code;

fn recorded() -> TempDir {
    let recording = Recording::new();
    recording.run(|| {
        spans::session_run("ses_1", "planner")
            .start()
            .finish(Outcome::Ok);
    });
    recording.end()
}

fn says(status: u16, body: &'static str) -> Reply {
    Reply::Http {
        status,
        headers: Vec::new(),
        body: body.into(),
    }
}

/// What `verify` makes of a server that says it is Tempo, and then this.
fn told(reply: Reply) -> Done {
    let server = OtlpServer::scripted([says(200, "echo"), reply]);
    run(
        recorded().path(),
        &["verify", "--tempo", &server.url(), "--wait", "0s", "--json"],
    )
}

#[test]
fn a_trace_that_the_backend_does_not_know_is_missing() {
    let done = told(says(404, "trace not found"));
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(done.json()["findings"][0]["what"], "missing");
}

#[test]
fn a_span_that_a_server_refused_is_missing_for_that_reason() {
    let root = recorded();
    let refuses = OtlpServer::scripted([Reply::grpc(Code::InvalidArgument, "odd span")]);
    let sent = cli::spanledger(root.path())
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .args(["mirror", "--once", "--endpoint", &refuses.url()])
        .output();
    assert_eq!(Done::from(sent.unwrap()).code, 1);
    let server = OtlpServer::scripted([says(200, "echo"), says(404, "")]);
    let done = run(
        root.path(),
        &["verify", "--tempo", &server.url(), "--wait", "0s", "--json"],
    );
    assert_eq!(done.code, 1, "{done:?}");
    let why = done.json()["findings"][0]["why"].clone();
    let why = why.as_str().unwrap();
    assert!(why.contains("refused") && why.contains("odd span"), "{why}");
}

#[test]
fn what_is_missing_is_judged_by_the_state_of_the_mirror_that_sent_it() {
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().to_str().unwrap();
    let why = |root: &TempDir, state: &[&str]| {
        let server = OtlpServer::scripted([says(200, "echo"), says(404, "")]);
        let url = server.url();
        let args = ["verify", "--tempo", &url, "--wait", "0s", "--json"];
        let done = run(root.path(), &[&args, state].concat());
        assert_eq!(done.code, 1, "{done:?}");
        done.json()["findings"][0]["why"].clone()
    };
    let not_sent = "it was not sent yet";
    for (reply, told) in [
        (says(200, "{}"), None),
        (says(400, "odd span"), Some("odd span")),
    ] {
        let root = recorded();
        assert_eq!(why(&root, &["--state", dir]), not_sent);
        let server = OtlpServer::scripted([reply]);
        let url = server.url();
        let args = ["mirror", "--once", "--endpoint", &url, "--state", dir];
        let done = run(root.path(), &args);
        assert_eq!(done.code, i32::from(told.is_some()), "{done:?}");
        let known = why(&root, &["--state", dir]);
        match told {
            Some(told) => assert!(known.as_str().unwrap().contains(told), "{known}"),
            None => assert!(known.is_null(), "{known}"),
        }
        assert_eq!(why(&root, &[]), not_sent);
    }
}

#[test]
fn a_directory_that_can_not_be_a_state_is_refused() {
    let root = recorded();
    let server = OtlpServer::scripted([says(200, "echo")]);
    let dir = root.path().to_str().unwrap();
    let args = ["verify", "--tempo", &server.url(), "--state", dir];
    let done = run(root.path(), &args);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("it is in the root"), "{done:?}");
}

#[test]
fn a_backend_that_fails_is_not_a_backend_that_lacks_spans() {
    for (reply, said) in [
        (says(500, "out of memory"), "500"),
        (says(401, "who are you?"), "401"),
        (says(200, "<html>"), "no JSON"),
        (Reply::BreakOff(200), "127.0.0.1"),
    ] {
        let done = told(reply);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains(said), "{done:?}");
        assert!(done.out.is_empty(), "{done:?}");
    }
}

#[test]
fn nobody_there_is_said() {
    let done = run(
        recorded().path(),
        &["verify", "--jaeger", "http://127.0.0.1:9"],
    );
    assert_eq!(done.code, 2);
    assert!(done.err.contains("http://127.0.0.1:9: "), "{done:?}");
}

#[test]
fn it_asks_for_the_trace_below_the_address_and_with_the_headers_it_was_given() {
    let root = recorded();
    let server = OtlpServer::scripted([says(200, "echo"), says(404, "")]);
    let url = format!("{}/tempo/", server.url());
    let done = spanledger(root.path())
        // Credentials of the collector are not this server's business.
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
        .args([
            "verify",
            "--tempo",
            &url,
            "--header",
            "X-Scope-OrgID: team",
            "--wait",
            "0s",
        ])
        .output();
    assert_eq!(Done::from(done.unwrap()).code, 1);
    let received = server.received();
    let trace = Trace::read(root.path());
    let id = trace.one("session_end").trace_id.clone().unwrap();
    let paths: Vec<_> = received.iter().map(|got| got.path.as_str()).collect();
    assert_eq!(
        paths,
        ["/tempo/api/echo", &format!("/tempo/api/v2/traces/{id}")]
    );
    for got in received {
        assert_eq!(got.method, "GET");
        assert_eq!(got.header("x-scope-orgid"), Some("team"));
        assert_eq!(got.header("authorization"), None);
    }
}

#[test]
fn a_server_of_an_authority_of_our_own_is_asked_over_tls() {
    let authority = Authority::new();
    let root = recorded();
    let file = root.path().join("ca.pem");
    std::fs::write(&file, &authority.pem).unwrap();
    let ask = |more: &[&str]| {
        let server = OtlpServer::secure(authority.server("127.0.0.1"));
        server.then(says(200, "echo"));
        server.then(says(404, ""));
        let url = server.url();
        let args = [&["verify", "--wait", "0s", "--tempo", &url], more].concat();
        run(root.path(), &args)
    };
    let done = ask(&["--ca-certificate", file.to_str().unwrap()]);
    assert_eq!(done.code, 1, "{done:?}");
    let done = ask(&[]);
    assert_eq!(done.code, 2, "{done:?}");
}

#[test]
fn it_has_to_be_told_whom_to_ask_and_only_once() {
    let root = recorded();
    let done = run(root.path(), &["verify"]);
    assert!(
        done.err.contains("<--jaeger <URL>|--tempo <URL>>"),
        "{done:?}"
    );
    for args in [
        &["verify"][..],
        &["verify", "--tempo", "http://a", "--jaeger", "http://b"],
        &["verify", "--tempo", "ftp://a"],
        &["verify", "--tempo", "http://127.0.0.1:9", "--all", "ses_1"],
        &[
            "verify",
            "--tempo",
            "http://127.0.0.1:9",
            "--header",
            "nothing",
        ],
    ] {
        let done = run(root.path(), args);
        assert_eq!(done.code, 2, "{args:?}: {done:?}");
    }
}

#[test]
fn on_a_terminal_it_says_how_many_traces_are_done() {
    let recording = Recording::new();
    recording.run(|| {
        for _ in 0..2 {
            let run = spans::session_run("ses_1", "planner").start();
            run.finish(Outcome::Ok);
        }
    });
    let root = recording.end();
    let missing = || says(404, "");
    let server = OtlpServer::scripted([says(200, "echo"), missing(), missing()]);
    let mut verify = spanledger(root.path());
    verify.args(["verify", "--tempo", &server.url(), "--wait", "0s"]);
    let said = cli::said_to_terminal(&mut verify);
    assert!(said.contains("\r1 of 2 traces"), "{said:?}");
}

#[test]
fn who_waits_for_ever_asks_again_while_spans_are_missing() {
    let root = recorded();
    let server = OtlpServer::scripted([says(200, "echo"), says(404, ""), says(500, "enough")]);
    let at = Otlp::new().endpoint(server.url());
    let tempo = Verify::connect(Backend::Tempo, at).unwrap();
    let tempo = tempo.wait(Duration::MAX);
    let asked = tempo.session(root.path().join("sessions/ses_1"), &mut |_, _| {});
    assert!(asked.unwrap_err().to_string().contains("enough"));
    assert_eq!(server.received().len(), 3);
}
