//! The examples run unchanged and record what their documentation promises.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::{LineExt, Trace};

/// The program of an example. `cargo test` builds them all; a test that is run alone builds its own.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap();
    let program = built.join("examples").join(name);
    if !program.exists() {
        let done = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--example", name])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("CARGO_TARGET_DIR", built.parent().unwrap())
            .status()
            .unwrap();
        assert!(done.success(), "example {name} does not build");
    }
    program
}

struct Ran {
    trace: Trace,
    stdout: String,
    stderr: String,
}

fn run_in(root: &Path, name: &str, env: &[(&str, &str)]) -> Ran {
    let output = Command::new(program(name))
        .env("SPANLEDGER_DIR", root)
        .env_remove("SPANLEDGER_DISABLED")
        .env_remove("RUST_LOG")
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{name} failed:\n{stdout}{stderr}");
    assert!(
        stdout.contains(&format!("trace: {}", root.display())),
        "{name} doesn't say where the trace is:\n{stdout}"
    );
    let trace = Trace::read(root);
    assert!(trace.damage.is_empty(), "{:?}", trace.damage);
    Ran {
        trace,
        stdout,
        stderr,
    }
}

fn run(name: &str) -> Ran {
    let dir = TempDir::new().unwrap();
    run_in(dir.path(), name, &[])
}

#[test]
fn minimal_records_turn_model_call_and_tool() {
    let ran = run("minimal");
    let trace = &ran.trace;
    assert_eq!(trace.one("message_user").turn, Some(1));
    assert_eq!(*trace.one("model_result").get("usage.input_tokens"), 812);
    let tool = trace.one("tool_result");
    assert_eq!(tool.text("outcome"), "ok");
    assert!(tool.get("result.files").as_u64().unwrap() > 0);
    assert_eq!(trace.one("session_end").text("outcome"), "ok");
    assert!(ran.stdout.contains("tool_result"), "{}", ran.stdout);
}

#[test]
fn guarded_agent_is_warned_then_stopped() {
    let ran = run("guarded");
    let trace = &ran.trace;
    assert_eq!(trace.all("session_start").len(), 1);
    let warning = trace.one("loop_warning");
    assert_eq!(warning.text("verdict"), "no_progress");
    let evidence = warning.get("evidence").as_array().unwrap();
    assert_eq!(evidence.len(), 3);
    let tools = trace.all("tool_result");
    let outcomes: Vec<_> = tools.iter().map(|line| line.text("outcome")).collect();
    assert_eq!(outcomes, ["denied", "ok", "ok", "ok"]);
    let addresses: Vec<_> = tools[1..]
        .iter()
        .map(|line| line.address().to_string())
        .collect();
    assert_eq!(*warning.get("evidence"), serde_json::json!(addresses));
    let stopped = trace.all("model_result");
    let stopped = stopped.last().unwrap();
    assert_eq!(stopped.text("outcome"), "denied");
    assert_eq!(stopped.text("error.guardrail"), "loop");
    let end = trace.one("session_end");
    assert_eq!(end.text("outcome"), "error");
    assert_eq!(end.text("error.guardrail"), "loop");
    assert_eq!(
        (
            end.get("error.threshold").as_u64(),
            end.get("error.actual").as_u64()
        ),
        (Some(3), Some(3))
    );
    assert_eq!(*end.get("totals.errors"), 1);
    assert!(
        ran.stdout.contains("the agent ended: the limit loop is 3"),
        "{}",
        ran.stdout
    );
}

#[test]
fn async_agent_records_parallel_tool_outcomes() {
    let trace = run("async_agent").trace;
    let tool = |id: &str| trace.find("tool_result", "tool_id", id);
    assert_eq!(tool("run_tests").text("outcome"), "ok");
    assert_eq!(tool("run_tests").text("result"), "312 passed");
    assert_eq!(tool("check_changelog").text("outcome"), "error");
    assert_eq!(tool("wait_for_mirror").text("outcome"), "timed_out");
    // All three were open before the first of them ended.
    let kinds: Vec<_> = trace
        .lines()
        .map(|line| line.kind.as_str())
        .filter(|kind| kind.starts_with("tool_"))
        .collect();
    assert_eq!(kinds[..3], ["tool_call"; 3]);
}

#[test]
fn async_agent_streams_and_has_a_subagent() {
    let trace = run("async_agent").trace;
    assert!(!trace.all("message_delta").is_empty());
    let answer = trace.find("message_assistant", "message_id", "msg_2");
    assert_eq!(
        answer.text("content"),
        "Almost: the tests pass, the changelog needs an entry."
    );
    let starts = trace.all("session_start");
    let start_of = |agent: &str| starts.iter().find(|line| line.text("agent") == agent);
    let (main, review) = (start_of("async").unwrap(), start_of("reviewer").unwrap());
    assert_eq!(review.text("parent_session_id"), main.session_id);
    assert_eq!(review.trace_id, main.trace_id);
    let subagent = trace.one("subagent");
    assert_eq!(subagent.session_id, main.session_id);
    assert_eq!(subagent.text("child_session_id"), review.session_id);
}

#[test]
fn server_records_answers_in_their_sessions() {
    let trace = run("server").trace;
    assert_eq!(trace.sessions.len(), 8);
    for (id, lines) in &trace.sessions {
        let one = |kind: &str| {
            let mut of_kind = lines.iter().filter(|line| line.kind == kind);
            let line = of_kind.next().unwrap_or_else(|| panic!("no {kind}"));
            assert!(of_kind.next().is_none(), "more than one {kind}");
            line
        };
        let (asked, answered) = (one("hitl_request"), one("hitl_response"));
        assert_eq!(asked.text("interrupt_id"), format!("int-{id}"));
        assert_eq!(answered.text("interrupt_id"), format!("int-{id}"));
        // On the permission that waits, though it came from another request.
        assert_eq!(answered.span_id, one("permission_request").span_id);
        let allowed = answered.text("decision") == "allow";
        let outcome = if allowed { "ok" } else { "denied" };
        assert_eq!(one("tool_result").text("outcome"), outcome);
        assert!(answered.seq < one("tool_result").seq);
    }
    let denied = trace.all("tool_result");
    let denied = denied.iter().filter(|l| l.text("outcome") == "denied");
    assert_eq!(denied.count(), 4);
}

#[test]
fn beside_fmt_logs_no_content() {
    let ran = run("beside_fmt");
    assert!(ran.stderr.contains("outside of every session"));
    assert!(ran.stderr.contains("read only in part"));
    assert!(!ran.stderr.contains("What does the contract say?"));
    assert_eq!(ran.trace.one("log").text("message"), "read only in part");
    assert_eq!(ran.trace.one("tool_result").text("result"), "§ 1 …");
}

#[test]
fn beside_fmt_switched_off_records_the_same() {
    let dir = TempDir::new().unwrap();
    let ran = run_in(dir.path(), "beside_fmt", &[("RUST_LOG", "off")]);
    assert_eq!(ran.stderr, "");
    assert_eq!(ran.trace.one("tool_result").text("outcome"), "ok");
    assert_eq!(ran.trace.all("log").len(), 1);
}

#[test]
fn recognize_records_library_spans() {
    let trace = run("recognize").trace;
    let run = trace.one("session_start");
    let around = trace.one("span_start");
    assert_eq!(around.text("name"), "agent.run");
    assert_eq!(around.parent_span_id, run.span_id);
    let tool = trace.one("tool_result");
    assert_eq!(tool.text("tool_id"), "shell_command");
    assert_eq!(tool.parent_span_id, around.span_id);
    let end = trace.one("session_end");
    assert_eq!(
        end.get("totals.turns"),
        2,
        "from one model call to the next"
    );
    assert_eq!(end.get("totals.usage.input_tokens"), 472);
}

#[test]
fn read_trace_summarizes_another_program() {
    let dir = TempDir::new().unwrap();
    let recorded = run_in(dir.path(), "minimal", &[]);
    let id = recorded.trace.sessions.keys().next().unwrap();
    let ran = run_in(dir.path(), "read_trace", &[]);
    assert_eq!(ran.trace.lines().count(), recorded.trace.lines().count());
    let summary = format!("{id} by minimal: ended, 1 turns, 1 tool calls, 0 errors");
    assert!(ran.stdout.contains(&summary), "{}", ran.stdout);
    assert!(ran.stdout.contains("812 tokens went in"), "{}", ran.stdout);
}

#[test]
fn read_trace_records_when_root_is_empty() {
    let ran = run("read_trace");
    assert!(ran.stdout.contains("clock"), "{}", ran.stdout);
    assert!(ran.stdout.contains("not known"), "{}", ran.stdout);
}

/// An entered span that is held across an `.await` mixes sessions, and nothing can detect that.
#[test]
fn async_code_enters_no_span_by_hand() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in [
        "README.md",
        "examples/async_agent.rs",
        "examples/server.rs",
        "examples/rig/src/main.rs",
    ] {
        let text = std::fs::read_to_string(top.join(file)).unwrap();
        let code = text.lines().filter(|line| {
            let line = line.trim_start();
            !line.starts_with("//") && (line.ends_with(';') || line.ends_with('{'))
        });
        for line in code {
            let enters = [".enter()", ".entered()"].iter();
            assert!(
                !enters.clone().any(|call| line.contains(call)),
                "{file}: {line}"
            );
        }
    }
}

#[test]
fn no_example_fails_at_its_shutdown() {
    // An agent that did its work must not exit with an error because the disk was full.
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![top.join("README.md"), top.join("examples/rig/src/main.rs")];
    for dir in ["examples", "docs"] {
        let entries = std::fs::read_dir(top.join(dir)).unwrap();
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    for file in files.iter().filter(|file| file.is_file()) {
        let text = std::fs::read_to_string(file).unwrap();
        // Hidden lines of documentation are its tests.
        let mut lines = text.lines().map(str::trim_start);
        let fails = lines.any(|line| line.starts_with("guard.shutdown()?"));
        assert!(!fails, "{}", file.display());
    }
}

#[test]
fn http_client_records_what_its_server_received() {
    use spanledger::inspect::replay::{Which, inputs};
    use spanledger::request::canonical;
    let (dir, received) = (
        TempDir::new().unwrap(),
        tempfile::NamedTempFile::new().unwrap(),
    );
    let path = received.path().to_str().unwrap();
    let ran = run_in(dir.path(), "http_client", &[("SPANLEDGER_RECEIVED", path)]);
    let session = ran.trace.one("session_start").session_id.clone();
    let session = spanledger::read::session_dir(dir.path(), &session);
    let bodies = std::fs::read_to_string(path).unwrap();
    assert_eq!(bodies.lines().count(), 2);
    for (index, body) in bodies.lines().enumerate() {
        let which = Which {
            call: Some(index + 1),
            ..Which::default()
        };
        let found = inputs(&session, which).unwrap().unwrap();
        assert_eq!(found.masked(), 1);
        let printed = canonical(&found.body);
        // The password is the only difference.
        let start = printed.find("[masked rule=").unwrap();
        let end = start + printed[start..].find(']').unwrap() + 1;
        let unmasked = format!("{}x9KfQ2mZ7pLw.{}", &printed[..start], &printed[end..]);
        assert_eq!(unmasked, canonical(&serde_json::from_str(body).unwrap()));
    }
}
