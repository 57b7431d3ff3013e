//! What `spanledger mirror` does with sessions that were recorded for an endpoint.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use spanledger::mirror::Otlp;
use spanledger::{Outcome, SpanExt, spans};
use tempfile::TempDir;

use crate::support::Recording;
use crate::support::cli::{self, Done, run};
use crate::support::otlp_server::{OtlpServer, Reply};

/// An endpoint without a server.
const OTHER: &str = "http://127.0.0.1:1";
const OTHER_SHOWN: &str = "http://127.0.0.1:1/v1/traces";

fn recorded_for(endpoint: &str, ids: &[&str]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    record_for(root.path(), endpoint, ids);
    root
}

/// Records a session of one span for each id, for an endpoint that gets nothing.
pub fn record_for(root: &Path, endpoint: &str, ids: &[&str]) {
    let otlp = Otlp::new()
        .endpoint(endpoint)
        .linger(Duration::from_secs(3600));
    let recording = Recording::with(|builder| {
        let builder = builder.root(root).otlp(otlp);
        // It has failed once more when it ends, and sends nothing later.
        builder.shutdown_timeout(Duration::from_secs(60))
    });
    recording.run(|| {
        for id in ids {
            let run = spans::session_run(*id, "planner").start();
            run.finish(Outcome::Ok);
        }
    });
    recording.end();
}

/// An address that a server is started at after something was recorded for it.
fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Adds a session that was recorded with no endpoint.
fn add_unassigned(root: TempDir) -> TempDir {
    let recording = Recording::again(root);
    recording.run(|| drop(spans::session_run("ses_own", "planner").start()));
    recording.end()
}

fn once(root: &TempDir, url: &str, options: &[&str]) -> Done {
    let args = [&["mirror", "--once", "--endpoint", url], options].concat();
    run(root.path(), &args)
}

#[test]
fn other_endpoints_sessions_are_named() {
    let root = recorded_for(OTHER, &["ses_1", "ses_2"]);
    let server = OtlpServer::start();
    let url = server.url();
    let done = once(&root, &url, &[]);
    let expected = format!(
        "Nothing to send to {url}/v1/traces. 2 sessions were recorded for {OTHER_SHOWN}; \
         send them here with --any-endpoint.\n"
    );
    assert_eq!((done.code, done.out.as_str()), (1, expected.as_str()));
    let done = once(&root, &url, &["--json"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(
        done.objects()[0]["other_endpoints"],
        json!({OTHER_SHOWN: 2})
    );
    assert_eq!(server.received().len(), 0);
    let done = once(&root, &url, &["--any-endpoint"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.starts_with("2 spans sent"), "{done:?}");
    assert!(!root.path().join("outbox/ses_1.0001").exists());
}

#[test]
fn skipped_session_beside_a_sent_one_exits_1() {
    let root = add_unassigned(recorded_for(OTHER, &["ses_1"]));
    let server = OtlpServer::start();
    let done = once(&root, &server.url(), &[]);
    assert_eq!(done.code, 1, "{done:?}");
    let expected = format!(
        "1 span sent to {}/v1/traces. 1 session was recorded for {OTHER_SHOWN}; \
         send it here with --any-endpoint.\n",
        server.url()
    );
    assert_eq!(done.out, expected);
}

#[test]
fn corrected_protocol_and_path_send_what_was_recorded() {
    let server = OtlpServer::start();
    let address = server.address();
    let root = recorded_for(&format!("https://{address}/wrong"), &["ses_1"]);
    let done = cli::spanledger(root.path())
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=agents")
        .args(["mirror", "--once", "--endpoint", &server.url()])
        .output();
    let done = Done::from(done.unwrap());
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.out, format!("1 span sent to http://{address}\n"));
    // Sent by this spelling is sent by every other.
    let done = once(&root, &server.url(), &["--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.objects()[0]["requests"], 0);
    assert_eq!(server.received().len(), 1);
}

#[test]
fn resend_names_other_endpoints() {
    let address = closed_port();
    let root = recorded_for(&format!("http://{address}"), &["ses_1"]);
    let server = OtlpServer::at(address, [Reply::http(400)]);
    assert_eq!(once(&root, &server.url(), &[]).code, 1);
    let args = ["mirror", "--resend", "--endpoint", OTHER];
    let done = run(root.path(), &args);
    assert_eq!(done.code, 1, "{done:?}");
    let recorded = format!("1 session was recorded for {}/v1/traces", server.url());
    assert!(done.out.contains(&recorded), "{done:?}");
}

#[test]
fn newer_mapping_is_named() {
    let root = recorded_for(OTHER, &["ses_1"]);
    let path = root.path().join("sessions/ses_1/trace.0001.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"mapping\":1", "\"mapping\":9")).unwrap();
    let done = once(&root, OTHER, &[]);
    assert_eq!(done.code, 3, "{done:?}");
    let why = "recorded by a newer spanledger (export format 9";
    assert!(done.err.contains(why), "{done:?}");
}

#[test]
fn status_names_the_endpoint_it_was_recorded_for() {
    let root = recorded_for(OTHER, &["ses_1"]);
    let status = |endpoint: &str| {
        let mut command = cli::spanledger(root.path());
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        let done = command.args(["mirror", "--status"]).output();
        Done::from(done.unwrap()).out
    };
    let same = format!("  recorded for {OTHER_SHOWN}; `spanledger mirror --once` sends it\n");
    let text = status("https://127.0.0.1:1/other");
    assert!(text.contains(&same), "{text}");
    // Without the variable, the command needs the endpoint.
    let text = status("");
    let given = format!("`spanledger mirror --once --endpoint {OTHER_SHOWN}` sends it\n");
    assert!(text.contains(&given), "{text}");
    let text = status("http://127.0.0.1:2");
    let other =
        "`spanledger mirror --once --any-endpoint` sends it to http://127.0.0.1:2/v1/traces\n";
    assert!(text.contains(other), "{text}");
    let json = run(root.path(), &["mirror", "--status", "--json"]).objects();
    assert_eq!(json[0]["endpoints"], json!([OTHER_SHOWN]));
    let text = run(root.path(), &["status"]).out;
    let recorded = format!(", recorded for {OTHER_SHOWN}\n");
    assert!(text.contains(&recorded), "{text}");
    let json = run(root.path(), &["status", "--json"]).json();
    assert_eq!(json["mirror"]["endpoints"], json!([OTHER_SHOWN]));
}

#[test]
fn status_names_only_endpoints_of_unsent_segments() {
    let address = closed_port();
    let root = recorded_for(&format!("http://{address}"), &["ses_1"]);
    let server = OtlpServer::at(address, []);
    assert_eq!(once(&root, &server.url(), &[]).code, 0);
    record_for(root.path(), OTHER, &["ses_1"]);
    for command in [&["mirror", "--status"][..], &["status"]] {
        let text = run(root.path(), command).out;
        assert!(text.contains(OTHER_SHOWN), "{text}");
        assert!(!text.contains(&server.url()), "{text}");
    }
}

/// The address of a gRPC port, as the collector has it: it sends its settings at once.
fn grpc_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"\0\0\0\x04\0\0\0\0\0");
        }
    });
    format!("http://{address}")
}

#[test]
fn grpc_port_is_named_with_the_variable_to_set() {
    let root = add_unassigned(tempfile::tempdir().unwrap());
    let url = grpc_port();
    let why = "answered with HTTP/2: it looks like a gRPC port; \
               set OTEL_EXPORTER_OTLP_PROTOCOL=grpc (only port 4317 implies it)\n";
    let done = once(&root, &url, &["--patience", "0s"]);
    assert_eq!(done.code, 1, "{done:?}");
    let expected = format!("{url}/v1/traces accepted nothing: {why}");
    assert!(done.err.contains(&expected), "{done:?}");
    let done = run(root.path(), &["doctor", "--endpoint", &url]);
    assert_eq!(done.code, 1, "{done:?}");
    let found = format!("endpoint     {url}/v1/traces: {why}");
    assert!(done.out.contains(&found), "{done:?}");
}

/// It was taken for a refusal of the spans, which were then never sent.
#[test]
fn https_port_refuses_no_spans() {
    let root = add_unassigned(tempfile::tempdir().unwrap());
    let answer = Reply::Http {
        status: 400,
        headers: Vec::new(),
        body: "Client sent an HTTP request to an HTTPS server.\n".into(),
    };
    let server = OtlpServer::scripted([answer]);
    let done = once(&root, &server.url(), &["--patience", "0s"]);
    assert_eq!(done.code, 1, "{done:?}");
    let advice = "the port expects TLS: write https:// in front of its address";
    assert!(done.err.contains(advice), "{done:?}");
    let done = once(&root, &server.url(), &[]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.starts_with("1 span sent to "), "{done:?}");
}

/// What a server answers that repeats the path.
fn echo(status: u16) -> Reply {
    let body = format!("Cannot POST /api/{TOKEN}/v1/traces?key={TOKEN}");
    Reply::Http {
        status,
        headers: Vec::new(),
        body: body.into(),
    }
}

const TOKEN: &str = "Zm9yIG5vYm9keQ0815";

#[test]
fn token_in_the_address_is_never_shown() {
    let address = closed_port();
    let url = format!("http://me:{TOKEN}@{address}/api/{TOKEN}?key={TOKEN}");
    let root = recorded_for(&url, &["ses_1"]);
    // `doctor` asks once, `mirror` fails once and is refused once.
    let server = OtlpServer::at(address, [echo(404), echo(404), echo(400)]);
    let once = ["mirror", "--once", "--patience", "0s", "--endpoint", &url];
    let shown = format!("http://{address}/api/***/v1/traces");
    let commands: [(&[&str], i32); 7] = [
        (&["doctor", "--endpoint", &url], 1),
        (&once, 1),
        (&["mirror", "--status"], 0),
        (&["status"], 0),
        (&["show", "last", "--event", "1:1"], 0),
        (&once, 1),
        (&["mirror", "--status", "--json"], 0),
    ];
    for (args, code) in commands {
        let done = run(root.path(), args);
        let all = done.out + &done.err;
        assert_eq!(done.code, code, "{args:?} {all}");
        assert!(!all.contains(TOKEN), "{args:?} {all}");
        assert!(
            all.contains(&shown) || args.contains(&"--json"),
            "{args:?} {all}"
        );
    }
    let session = std::fs::read_dir(root.path().join("sessions/ses_1")).unwrap();
    let texts = session.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let texts: String = texts.collect();
    assert!(texts.contains("Cannot POST /api/"), "a dead letter");
    assert!(!texts.contains(TOKEN), "{texts}");
    // Its requests have it.
    assert_eq!(server.received()[2].path, format!("/api/{TOKEN}/v1/traces"));
}
