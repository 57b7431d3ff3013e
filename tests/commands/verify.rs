//! `spanledger verify` against scripted servers that fail or answer oddly, and over TLS.

use std::time::Duration;

use spanledger::mirror::Otlp;
use spanledger::mirror::verify::{Backend, Verify};
use spanledger::{Outcome, SpanExt, spans};
use tempfile::TempDir;
use tonic::Code;

use crate::mirror::endpoints::record_for;
use crate::support::cli::{self, Done, run, spanledger};
use crate::support::otlp_server::{Authority, OtlpServer, Reply};
use crate::support::{Recording, Trace};

fn recorded() -> TempDir {
    let recording = Recording::new();
    recording.run(|| {
        spans::session_run("ses_1", "planner")
            .start()
            .finish(Outcome::Ok);
    });
    recording.end()
}

fn plain(status: u16, body: &'static str) -> Reply {
    Reply::Http {
        status,
        headers: Vec::new(),
        body: body.into(),
    }
}

/// The result of `verify` for a server that identifies as Tempo and then answers this.
fn verify_against(reply: Reply) -> Done {
    let server = OtlpServer::scripted([plain(200, "echo"), reply]);
    run(
        recorded().path(),
        &["verify", "--tempo", &server.url(), "--wait", "0s", "--json"],
    )
}

#[test]
fn unknown_trace_is_missing() {
    let done = verify_against(plain(404, "trace not found"));
    assert_eq!(done.code, 1, "{done:?}");
    let missing = &done.json()["findings"][0];
    assert_eq!(missing["what"], "missing");
    let why = "not exported yet (recorded with no endpoint; run `spanledger mirror --once`)";
    assert_eq!(missing["why"], why);
}

#[test]
fn missing_span_names_the_endpoint_it_was_recorded_for() {
    let root = tempfile::tempdir().unwrap();
    record_for(root.path(), "http://127.0.0.1:1", &["ses_1"]);
    let server = OtlpServer::scripted([plain(200, "echo"), plain(404, "trace not found")]);
    let args = ["verify", "--tempo", &server.url(), "--wait", "0s"];
    let done = run(root.path(), &args);
    assert_eq!(done.code, 1, "{done:?}");
    let why = "missing: not exported yet (recorded for http://127.0.0.1:1/v1/traces; run `spanledger mirror --once`)";
    assert!(done.out.contains(why), "{done:?}");
}

#[test]
fn refused_span_is_missing_with_the_reason() {
    let root = recorded();
    let refuses = OtlpServer::scripted([Reply::grpc(Code::InvalidArgument, "odd span")]);
    let sent = cli::spanledger(root.path())
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .args(["mirror", "--once", "--endpoint", &refuses.url()])
        .output();
    assert_eq!(Done::from(sent.unwrap()).code, 1);
    let server = OtlpServer::scripted([plain(200, "echo"), plain(404, "")]);
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
fn state_directory_decides_what_was_sent() {
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().to_str().unwrap();
    let why = |root: &TempDir, state: &[&str]| {
        let server = OtlpServer::scripted([plain(200, "echo"), plain(404, "")]);
        let url = server.url();
        let args = ["verify", "--tempo", &url, "--wait", "0s", "--json"];
        let done = run(root.path(), &[&args, state].concat());
        assert_eq!(done.code, 1, "{done:?}");
        done.json()["findings"][0]["why"].clone()
    };
    let not_sent = "not exported yet (recorded with no endpoint; run `spanledger mirror --once`)";
    for (reply, reason) in [
        (plain(200, "{}"), None),
        (plain(400, "odd span"), Some("odd span")),
    ] {
        let root = recorded();
        assert_eq!(why(&root, &["--state", dir]), not_sent);
        let server = OtlpServer::scripted([reply]);
        let url = server.url();
        let args = ["mirror", "--once", "--endpoint", &url, "--state", dir];
        let done = run(root.path(), &args);
        assert_eq!(done.code, i32::from(reason.is_some()), "{done:?}");
        let known = why(&root, &["--state", dir]);
        match reason {
            Some(reason) => {
                assert!(known.as_str().unwrap().contains(reason), "{known}")
            }
            None => assert!(known.is_null(), "{known}"),
        }
        assert_eq!(why(&root, &[]), not_sent);
    }
}

#[test]
fn unusable_state_directory_is_refused() {
    let root = recorded();
    let server = OtlpServer::scripted([plain(200, "echo")]);
    let dir = root.path().to_str().unwrap();
    let args = ["verify", "--tempo", &server.url(), "--state", dir];
    let done = run(root.path(), &args);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("it is inside the root"), "{done:?}");
}

#[test]
fn failing_backend_is_not_missing_spans() {
    for (reply, expected) in [
        (plain(500, "out of memory"), "500"),
        (plain(401, "who are you?"), "401"),
        (plain(200, "<html>"), "invalid JSON"),
        (Reply::BreakOff(200), "127.0.0.1"),
    ] {
        let done = verify_against(reply);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains(expected), "{done:?}");
        assert!(done.out.is_empty(), "{done:?}");
    }
}

#[test]
fn absent_server_is_reported() {
    let done = run(
        recorded().path(),
        &["verify", "--jaeger", "http://127.0.0.1:9"],
    );
    assert_eq!(done.code, 2);
    assert!(done.err.contains("http://127.0.0.1:9: "), "{done:?}");
}

#[test]
fn request_has_base_path_and_headers() {
    let root = recorded();
    let server = OtlpServer::scripted([plain(200, "echo"), plain(404, "")]);
    let url = format!("{}/tempo/", server.url());
    let done = spanledger(root.path())
        // Credentials for the collector are not sent to this server.
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
fn private_authority_over_tls() {
    let authority = Authority::new();
    let root = recorded();
    let file = root.path().join("ca.pem");
    std::fs::write(&file, &authority.pem).unwrap();
    let ask = |more: &[&str]| {
        let server = OtlpServer::secure(authority.server("127.0.0.1"));
        server.then(plain(200, "echo"));
        server.then(plain(404, ""));
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
fn exactly_one_backend_is_required() {
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
fn progress_on_a_terminal() {
    let recording = Recording::new();
    recording.run(|| {
        for _ in 0..2 {
            let run = spans::session_run("ses_1", "planner").start();
            run.finish(Outcome::Ok);
        }
    });
    let root = recording.end();
    let missing = || plain(404, "");
    let server = OtlpServer::scripted([plain(200, "echo"), missing(), missing()]);
    let mut verify = spanledger(root.path());
    verify.args(["verify", "--tempo", &server.url(), "--wait", "0s"]);
    let printed = cli::stderr_on_terminal(&mut verify);
    assert!(printed.contains("\r1 of 2 traces"), "{printed:?}");
}

#[test]
fn endless_wait_retries_while_spans_are_missing() {
    let root = recorded();
    let server = OtlpServer::scripted([plain(200, "echo"), plain(404, ""), plain(500, "enough")]);
    let at = Otlp::new().endpoint(server.url());
    let tempo = Verify::connect(Backend::Tempo, at).unwrap();
    let tempo = tempo.wait(Duration::MAX);
    let asked = tempo.session(root.path().join("sessions/ses_1"), &mut |_, _| {});
    assert!(asked.unwrap_err().to_string().contains("enough"));
    assert_eq!(server.received().len(), 3);
}
