//! A context sent to and received from other processes.

use std::process::Command;

use http::HeaderMap;
use serde_json::json;
use spanledger::{RemoteContext, SpanExt, spans};

use crate::support::child::with_env;
use crate::support::{LineExt, Recording};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A tool's context, and its line.
fn tool() -> (RemoteContext, spanledger::trace::Line) {
    let recording = Recording::new();
    let context = recording.run(|| {
        let caller = CALLER.parse::<RemoteContext>().unwrap();
        let caller = caller.with_tracestate("vendor=1");
        let run = spans::session_run("s", "planner").parent(caller).start();
        let _run = run.enter();
        let tool = spans::tool_call("bash", "c1").start();
        assert_eq!(
            tool.session().unwrap().remote_context(),
            tool.remote_context()
        );
        tool.remote_context().unwrap()
    });
    (context, recording.trace().one("tool_call").clone())
}

fn traceparent(line: &spanledger::trace::Line) -> String {
    let id = |id: &Option<String>| id.clone().unwrap();
    format!("00-{}-{}-01", id(&line.trace_id), id(&line.span_id))
}

#[test]
fn child_process_gets_the_current_span() {
    let (context, line) = tool();
    let mut command = Command::new("sh");
    command.args(["-c", "echo $TRACEPARENT $TRACESTATE"]);
    context.to_command(&mut command);
    let stdout = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert_eq!(stdout.trim(), format!("{} vendor=1", traceparent(&line)));
}

#[test]
fn child_process_gets_no_foreign_tracestate() {
    let variables = [("TRACEPARENT", CALLER), ("TRACESTATE", "vendor=1")];
    with_env(&variables, || {
        let recording = Recording::new();
        let context = recording.run(|| {
            let run = spans::session_run("s", "planner").detached().start();
            run.remote_context().unwrap()
        });
        let mut command = Command::new("sh");
        command.args(["-c", "echo $TRACEPARENT $TRACESTATE"]);
        context.to_command(&mut command);
        let stdout = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(stdout.trim(), context.traceparent());
    });
}

#[test]
fn headers_round_trip() {
    let (context, line) = tool();
    let mut headers = HeaderMap::new();
    headers.insert("tracestate", "stale=1".parse().unwrap());
    context.to_headers(&mut headers);
    assert_eq!(headers["traceparent"], traceparent(&line));
    assert_eq!(headers["tracestate"], "vendor=1");
    let arrived = RemoteContext::from_headers(&headers).unwrap();
    let recording = Recording::new();
    recording.run(|| drop(spans::session_run("s", "server").parent(arrived).start()));
    let trace = recording.trace();
    let run = trace.one("session_end");
    assert_eq!(run.trace_id, line.trace_id);
    assert_eq!(run.parent_span_id, line.span_id);
    assert_eq!(run.get("tracestate"), "vendor=1");
}

#[test]
fn mcp_meta_round_trips_beside_other_members() {
    let (context, line) = tool();
    let mut params =
        json!({"name": "search", "_meta": {"progressToken": 1, "tracestate": "stale=1"}});
    let meta = params["_meta"].as_object_mut().unwrap();
    context.to_meta(meta);
    let expected = json!({
        "progressToken": 1, "traceparent": traceparent(&line), "tracestate": "vendor=1",
    });
    assert_eq!(params["_meta"], expected);
    let meta = params["_meta"].as_object().unwrap();
    assert_eq!(RemoteContext::from_meta(meta), Some(context));
}

#[test]
fn invalid_context_is_none() {
    let mut headers = HeaderMap::new();
    assert_eq!(RemoteContext::from_headers(&headers), None);
    headers.insert("traceparent", "00-0af7-b7ad-01".parse().unwrap());
    assert_eq!(RemoteContext::from_headers(&headers), None);
    let meta = json!({"traceparent": 7});
    assert_eq!(RemoteContext::from_meta(meta.as_object().unwrap()), None);
    // An invalid tracestate does not discard the parent.
    let caller: RemoteContext = CALLER.parse().unwrap();
    for bad in ["", "novalue", &"x=1,".repeat(200), "a=\u{1}"] {
        let context = caller.clone().with_tracestate(bad);
        assert_eq!(context.tracestate(), None, "{bad:?}");
        assert_eq!(context, caller);
    }
}

#[test]
fn handle_by_id_has_no_span_context() {
    let recording = Recording::new();
    assert_eq!(recording.handle().session("s").remote_context(), None);
    assert_eq!(tracing::Span::none().remote_context(), None);
}
