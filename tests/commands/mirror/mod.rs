//! `spanledger mirror`.

pub mod endpoints;
mod shutdown;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;
use spanledger::{Outcome, SpanExt, spans};

use crate::support::cli::{self, Running, Victim, run};
use crate::support::otlp_server;
use crate::support::otlp_server::{OtlpServer, Reply};
use crate::support::{Recording, Trace};

fn recorded() -> tempfile::TempDir {
    let recording = Recording::new();
    recording.run(|| {
        spans::session_run("ses_1", "planner")
            .start()
            .finish(Outcome::Ok)
    });
    recording.end()
}

#[test]
fn sends_pending_spans_and_reports() {
    let root = recorded();
    let server = OtlpServer::start();
    let done = run(
        root.path(),
        &["mirror", "--once", "--endpoint", &server.url(), "--json"],
    );
    assert_eq!(done.code, 0, "{done:?}");
    let sent = done.objects();
    assert_eq!(
        (&sent[0]["spans"], &sent[0]["dead"]),
        (&1.into(), &0.into())
    );
    assert_eq!(server.received().len(), 1);

    let status = run(root.path(), &["mirror", "--status", "--json"]).objects();
    assert_eq!(status[0]["session_id"], "ses_1");
    assert_eq!(
        (&status[0]["unsent_bytes"], &status[0]["sent_spans"]),
        (&0.into(), &1.into())
    );
}

#[test]
fn sends_the_recorded_bytes_as_an_agent_would() {
    let recording = Recording::with(|builder| builder.otlp_endpoint("http://127.0.0.1:1"));
    recording.run(|| {
        let tool = spans::tool_call("bash", "call_1").args("ls").start();
        tool.record_result("Cargo.toml");
        tool.finish(Outcome::Ok);
    });
    let root = recording.end();
    let server = OtlpServer::scripted([Reply::http(503)]);
    let url = server.url();
    let args = [
        "mirror",
        "--once",
        "--any-endpoint",
        "--endpoint",
        &url,
        "--patience",
        "0s",
    ];
    assert_eq!(run(root.path(), &args).code, 1);
    let mut other = cli::spanledger(root.path());
    other.args(args).envs([
        ("OTEL_SERVICE_NAME", "another"),
        ("OTEL_RESOURCE_ATTRIBUTES", "host.name=another"),
        (
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
            "SPAN_ONLY",
        ),
        ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "3"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
    ]);
    assert!(other.status().unwrap().success());
    let [first, second] = &server.received()[..] else {
        panic!("two requests")
    };
    assert_eq!(first.raw, second.raw);
}

#[test]
fn progress_on_a_terminal() {
    let root = recorded();
    let server = OtlpServer::start();
    let mut mirror = cli::spanledger(root.path());
    mirror.args(["mirror", "--once", "--json", "--endpoint", &server.url()]);
    let printed = cli::stderr_on_terminal(&mut mirror);
    assert!(printed.contains("\r1 span sent"), "{printed:?}");
    assert_eq!(server.received().len(), 1);
}

#[test]
fn span_of_a_killed_process_is_sent_as_interrupted() {
    cli::in_victim(|| {
        let run = spans::session_run("ses_killed", "planner").start();
        let _run = run.clone().entered();
        let _tool = spans::tool_call("bash", "call_1").start().entered();
        cli::wait_to_be_killed();
    });
    let root = tempfile::tempdir().unwrap();
    Victim::start(root.path()).kill();
    let status = run(root.path(), &["mirror", "--status"]);
    let row =
        "  2 spans left open by a dead process; `spanledger mirror --once` closes and sends them";
    assert!(status.lines().contains(&row), "{status:?}");
    let status = run(root.path(), &["mirror", "--status", "--json"]).objects();
    assert_eq!(status[0]["left_open"], 2);
    let status = run(root.path(), &["status"]).out;
    assert!(
        status.contains("`spanledger mirror --once` also sends it"),
        "{status}"
    );
    let server = OtlpServer::start();
    let done = run(
        root.path(),
        &["mirror", "--once", "--endpoint", &server.url()],
    );
    assert_eq!(done.code, 0, "{done:?}");
    let received = server.received();
    let requests = received
        .iter()
        .filter_map(|received| received.request.as_ref());
    let spans: Vec<_> = requests
        .flat_map(|request| &request.resource_spans)
        .flat_map(|resource| &resource.scope_spans)
        .flat_map(|scope| &scope.spans)
        .collect();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["execute_tool bash", "invoke_agent planner"]);
    assert_eq!(spans[0].parent_span_id, spans[1].span_id);
    // They ended at their process's last line.
    let trace = Trace::read(root.path());
    let last = trace.lines().filter(|line| line.seg == 1).last();
    let last: jiff::Timestamp = last.unwrap().ts.parse().unwrap();
    for span in spans {
        assert_eq!(i128::from(span.end_time_unix_nano), last.as_nanosecond());
        assert!(
            span.status
                .as_ref()
                .unwrap()
                .message
                .contains("interrupted")
        );
    }
}

#[test]
fn missing_endpoint_explains_how_to_set_one() {
    let root = recorded();
    let done = run(root.path(), &["mirror"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{done:?}");
}

#[test]
fn absent_server_is_a_finding_and_loses_nothing() {
    let root = recorded();
    // A port without a listener.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let done = run(
        root.path(),
        &["mirror", "--once", "--endpoint", &url, "--patience", "0s"],
    );
    assert_eq!(done.code, 1, "{done:?}");
    assert!(
        done.err.contains("/v1/traces accepted nothing: "),
        "{done:?}"
    );
    let server = OtlpServer::start();
    let done = run(
        root.path(),
        &["mirror", "--once", "--endpoint", &server.url()],
    );
    assert!(done.out.starts_with("1 span sent"), "{done:?}");
}

#[test]
fn waits_while_another_process_sends() {
    let root = recorded();
    let server = OtlpServer::start();
    let lock = root.path().join("mirror.lock");
    std::fs::write(&lock, "77\n").unwrap();
    let other = std::fs::File::open(&lock).unwrap();
    other.lock().unwrap();
    let endpoint = ["--endpoint", &server.url()].map(str::to_owned);
    let mut args = vec!["mirror", "--once"];
    args.extend(endpoint.iter().map(String::as_str));
    let impatient = [&args[..], &["--patience", "1s"]].concat();
    let done = run(root.path(), &impatient);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(
        done.err
            .contains("spanledger process (pid 77) is already exporting"),
        "{done:?}"
    );
    assert_eq!(server.received().len(), 0);

    let mut patient = cli::spanledger(root.path());
    let mut patient = patient.args(&args).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(patient.stderr.take().unwrap()).lines();
    let printed = printed.next().unwrap().unwrap();
    assert!(
        printed.contains("waiting: another process is exporting"),
        "{printed}"
    );
    assert_eq!(server.received().len(), 0);
    other.unlock().unwrap();
    assert!(patient.wait().unwrap().success());
    assert_eq!(server.received().len(), 1);
}

#[test]
fn unwritable_file_is_named() {
    let root = recorded();
    std::fs::create_dir(root.path().join("mirror.lock")).unwrap();
    let args = ["mirror", "--once", "--endpoint", "http://127.0.0.1:1"];
    let done = run(root.path(), &args);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("mirror.lock"), "{done:?}");
}

/// Two sessions of a span each.
fn two_recorded() -> tempfile::TempDir {
    let recording = Recording::new();
    recording.run(|| {
        for id in ["ses_1", "ses_2"] {
            let run = spans::session_run(id, "planner").start();
            run.finish(Outcome::Ok);
        }
    });
    recording.end()
}

/// How many spans of each of the two were sent, and how many dead letters there are.
fn sent_and_dead(root: &std::path::Path) -> [(u64, u64); 2] {
    ["ses_1", "ses_2"].map(|id| {
        let args = ["mirror", "--status", "--session", id, "--json"];
        let status = run(root, &args).objects().remove(0);
        assert_eq!(status["session_id"], id);
        let number = |name: &str| status[name].as_u64().unwrap();
        (number("sent_spans"), number("dead_letters"))
    })
}

#[test]
fn named_session_only() {
    let root = two_recorded();
    let server = OtlpServer::start();
    let url = server.url();
    let send = |id: &str| {
        let args = ["mirror", "--once", "--session", id, "--endpoint", &url];
        run(root.path(), &args)
    };
    let done = send("ses_2");
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.starts_with("1 span sent"), "{done:?}");
    assert_eq!(sent_and_dead(root.path()), [(0, 0), (1, 0)]);
    assert_eq!(send("ses_3").code, 2);
    assert_eq!(send("ses_1").code, 0);
    assert_eq!(sent_and_dead(root.path()), [(1, 0), (1, 0)]);
    assert_eq!(server.received().len(), 2);
}

#[test]
fn dead_letters_of_the_named_session_only() {
    let root = two_recorded();
    let server = OtlpServer::scripted(std::iter::repeat_n(Reply::http(400), 3));
    let url = server.url();
    run(root.path(), &["mirror", "--once", "--endpoint", &url]);
    assert_eq!(sent_and_dead(root.path()).map(|(_, dead)| dead), [1, 1]);
    let args = [
        "mirror",
        "--resend",
        "--session",
        "ses_2",
        "--endpoint",
        &url,
    ];
    let done = run(root.path(), &args);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(sent_and_dead(root.path()).map(|(_, dead)| dead), [1, 0]);
}

#[test]
fn without_once_it_follows_new_sessions() {
    let mut root = recorded();
    let server = OtlpServer::start();
    let url = server.url();
    let args = ["mirror", "--endpoint", &url, "--json"];
    let mut mirror = Running::start(root.path(), &args);
    let spans = |line: String| serde_json::from_str::<Value>(&line).unwrap()["spans"].clone();
    assert_eq!(spans(mirror.line()), 1);
    for n in 2..4 {
        let recording = Recording::again(root);
        recording.run(|| {
            let run = spans::session_run(format!("ses_{n}"), "planner").start();
            run.finish(Outcome::Ok);
        });
        root = recording.end();
        assert_eq!(spans(mirror.line()), 1);
    }
    assert_eq!(server.received().len(), 3);
}

#[test]
fn killed_agent_is_noticed() {
    cli::in_victim(|| {
        let _run = spans::session_run("ses_killed", "planner")
            .start()
            .entered();
        cli::wait_to_be_killed();
    });
    let root = tempfile::tempdir().unwrap();
    let victim = Victim::start(root.path());
    let server = OtlpServer::start();
    let url = server.url();
    let args = ["mirror", "--endpoint", &url, "--json"];
    let mut mirror = Running::start(root.path(), &args);
    victim.kill();
    mirror.until("\"spans\":1");
}

#[test]
fn resent_dead_letter_is_resolved() {
    let root = recorded();
    let bad = || Reply::http(400);
    let server = OtlpServer::scripted([bad(), bad()]);
    let url = server.url();
    let letters = || {
        let status = run(root.path(), &["mirror", "--status", "--json"]).objects();
        status[0]["dead_letters"].as_u64().unwrap()
    };
    run(root.path(), &["mirror", "--once", "--endpoint", &url]);
    assert_eq!(letters(), 1);
    for command in [&["mirror", "--status"][..], &["status"]] {
        let printed = run(root.path(), command).out;
        assert!(printed.contains("HTTP 400"), "{printed}");
    }
    let resend = || {
        let args = ["mirror", "--resend", "--endpoint", &url, "--json"];
        run(root.path(), &args).objects().remove(0)
    };
    // Still refused: nothing changes.
    let again = resend();
    assert_eq!((&again["spans"], &again["dead"]), (&0.into(), &1.into()));
    assert_eq!(letters(), 1);
    let taken = resend();
    assert_eq!((&taken["spans"], &taken["dead"]), (&1.into(), &0.into()));
    assert_eq!(letters(), 0);
    assert_eq!(resend()["requests"], 0);
    let received = server.received();
    assert_eq!(received[0].raw, received[2].raw);
}

#[test]
fn resent_span_counts_as_sent() {
    let root = recorded();
    let server = OtlpServer::scripted([Reply::http(400)]);
    let url = server.url();
    let sent = || {
        let status = run(root.path(), &["mirror", "--status", "--json"]).objects();
        status[0]["sent_spans"].as_u64().unwrap()
    };
    run(root.path(), &["mirror", "--once", "--endpoint", &url]);
    assert_eq!(sent(), 0);
    run(root.path(), &["mirror", "--resend", "--endpoint", &url]);
    assert_eq!(sent(), 1);
}

#[test]
fn resend_includes_all_of_a_partial_success() {
    let recording = Recording::new();
    recording.run(|| {
        for _ in 0..3 {
            let run = spans::session_run("ses_1", "planner").start();
            run.finish(Outcome::Ok);
        }
    });
    let root = recording.end();
    let server = OtlpServer::scripted([Reply::Partial {
        rejected: 2,
        message: "odd".into(),
    }]);
    let url = server.url();
    run(root.path(), &["mirror", "--once", "--endpoint", &url]);
    let args = ["mirror", "--resend", "--endpoint", &url, "--json"];
    let done = run(root.path(), &args).objects();
    assert_eq!(done[0]["spans"], 3);
    let received = server.received();
    assert_eq!(received[0].raw, received[1].raw);
    let status = run(root.path(), &["mirror", "--status", "--json"]).objects();
    assert_eq!(status[0]["dead_letters"], 0);
    assert_eq!(status[0]["sent_spans"], 3, "each counts once");
}

#[test]
fn status_reports_the_lag() {
    let recording = Recording::with(|builder| builder.otlp_endpoint("http://127.0.0.1:1"));
    recording.run(|| drop(spans::session_run("ses_1", "planner").start()));
    let root = recording.end();
    let status = run(root.path(), &["mirror", "--status", "--json"]).objects();
    assert!(status[0]["unsent_bytes"].as_u64().unwrap() > 0);
    assert_eq!(status[0]["marked_segments"], 1);
    assert!(status[0]["unsent_since"].as_str().unwrap().ends_with('Z'));
    let all = run(root.path(), &["status", "--json"]).json();
    assert_eq!(all["mirror"]["unsent_bytes"], status[0]["unsent_bytes"]);
    let text = run(root.path(), &["status"]);
    assert!(text.out.contains("mirror"), "{text:?}");
}

#[test]
fn status_lag_is_of_the_oldest_segment() {
    let mut root = recorded();
    let recording = Recording::again(root);
    recording.run(|| drop(spans::session_run("ses_1", "planner").start()));
    root = recording.end();
    let status = run(root.path(), &["mirror", "--status", "--json"]).objects();
    let trace = Trace::read(root.path());
    assert_eq!(trace.all("segment").len(), 2);
    assert_eq!(status[0]["unsent_since"], *trace.all("segment")[0].ts);
}

/// A session whose segment is no file, first among all by its name.
fn add_unreadable(root: &std::path::Path) -> String {
    let session = root.join("sessions/a");
    std::fs::create_dir_all(session.join("trace.0001.jsonl")).unwrap();
    session.to_str().unwrap().to_owned()
}

#[test]
fn unreadable_session_is_named_others_are_sent() {
    let root = recorded();
    let session = add_unreadable(root.path());
    let server = OtlpServer::start();
    let url = server.url();
    let once = ["mirror", "--once", "--endpoint", &url, "--json"];
    let done = run(root.path(), &once);
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.err.contains(&session), "{done:?}");
    let report = &done.objects()[0];
    assert_eq!(report["spans"], 1);
    assert_eq!(report["unreadable"][0]["dir"], *session);
    assert_eq!(server.received().len(), 1);
}

#[test]
fn follow_skips_an_unreadable_session() {
    let root = recorded();
    add_unreadable(root.path());
    let server = OtlpServer::start();
    let url = server.url();
    let args = ["mirror", "--endpoint", &url, "--json"];
    let mut mirror = Running::start(root.path(), &args);
    mirror.until("\"spans\":1");
    let recording = Recording::again(root);
    recording.run(|| {
        let run = spans::session_run("ses_2", "planner").start();
        run.finish(Outcome::Ok);
    });
    let _root = recording.end();
    mirror.until("\"spans\":1");
    assert_eq!(server.received().len(), 2);
}

#[test]
fn status_names_an_unreadable_session() {
    let root = recorded();
    let session = add_unreadable(root.path());
    let done = run(root.path(), &["mirror", "--status", "--json"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert_eq!(done.objects().len(), 1, "{done:?}");
    assert!(done.err.contains(&session), "{done:?}");
}

#[test]
fn missing_root_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("typo");
    let done = run(&root, &["mirror", "--endpoint", "http://127.0.0.1:1"]);
    assert_eq!(done.code, 2, "{done:?}");
    let said = format!("{} does not exist", root.display());
    assert!(done.err.contains(&said), "{done:?}");
    assert!(!root.exists());
}

#[test]
fn invalid_setting_is_named_by_its_option() {
    let root = recorded();
    let done = run(root.path(), &["mirror", "--endpoint", "collector"]);
    assert_eq!(done.code, 2, "{done:?}");
    let expected = "spanledger: --endpoint can't be used: ";
    assert!(done.err.starts_with(expected), "{done:?}");
}

#[test]
fn permanent_refusal_is_a_finding() {
    let root = recorded();
    let server = OtlpServer::scripted([Reply::http(400)]);
    let once = ["mirror", "--once", "--endpoint", &server.url()];
    let done = run(root.path(), &once);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.out.contains("1 refused for good"), "{done:?}");
    // Passed by: there is nothing to find any more.
    assert_eq!(run(root.path(), &once).code, 0);
}

#[test]
fn spans_without_endpoint_are_counted_separately() {
    let recording = Recording::with(|builder| builder.otlp_endpoint("http://127.0.0.1:1"));
    recording.run(|| drop(spans::session_run("ses_owed", "planner").start()));
    let recording = Recording::again(recording.end());
    recording.run(|| drop(spans::session_run("ses_unasked", "planner").start()));
    let root = recording.end();
    let status = |id: &str| {
        let args = ["mirror", "--status", "--session", id, "--json"];
        let status = run(root.path(), &args).objects().remove(0);
        ["unsent_bytes", "no_endpoint_bytes"].map(|name| status[name].as_u64().unwrap())
    };
    let [owed, for_nobody] = status("ses_owed");
    assert!(owed > 0 && for_nobody == 0, "{owed} {for_nobody}");
    let [unsent, for_nobody] = status("ses_unasked");
    assert!(unsent > 0 && for_nobody == unsent, "{unsent} {for_nobody}");
    let all = run(root.path(), &["status", "--json"]).json();
    assert_eq!(all["mirror"]["unsent_bytes"], owed);
    let table = run(root.path(), &["mirror", "--status"]).out;
    let row = table.lines().find(|row| row.starts_with("ses_unasked"));
    let row: Vec<_> = row.unwrap().split_whitespace().collect();
    assert_eq!(row[1..4], ["0", "B", "–"], "{table}");
}

#[test]
fn missing_scheme_gets_a_hint() {
    let root = recorded();
    let server = OtlpServer::start();
    let address = server.address().to_string();
    // A machine may have no authorities of its own.
    let authority = root.path().join("ca.pem");
    std::fs::write(&authority, otlp_server::Authority::new().pem).unwrap();
    let done = cli::spanledger(root.path())
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .env("OTEL_EXPORTER_OTLP_CERTIFICATE", authority)
        .args(["mirror", "--once", "--patience", "0s"])
        .args(["--endpoint", &address])
        .output();
    let done = cli::Done::from(done.unwrap());
    assert_eq!(done.code, 1, "{done:?}");
    for part in ["waiting: ", "http://", "OTEL_EXPORTER_OTLP_INSECURE=true"] {
        assert!(done.err.contains(part), "{part}: {done:?}");
    }
}
