//! A context on its way to other processes, and from them.

use std::process::Command;

use http::HeaderMap;
use serde_json::json;
use spanledger::{RemoteContext, SpanExt, spans};

use crate::process::with_env;
use crate::support::{LineExt, Recording};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A tool's context, and the line that says the same.
fn tool() -> (RemoteContext, spanledger::ledger::Line) {
    let recording = Recording::new();
    let told = recording.run(|| {
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
    (told, recording.trace().one("tool_call").clone())
}

fn traceparent(line: &spanledger::ledger::Line) -> String {
    let id = |id: &Option<String>| id.clone().unwrap();
    format!("00-{}-{}-01", id(&line.trace_id), id(&line.span_id))
}

#[test]
fn a_child_process_is_told_the_span_that_started_it() {
    let (told, line) = tool();
    let mut command = Command::new("sh");
    command.args(["-c", "echo $TRACEPARENT $TRACESTATE"]);
    told.to_command(&mut command);
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert_eq!(said.trim(), format!("{} vendor=1", traceparent(&line)));
}

#[test]
fn a_child_process_does_not_inherit_the_tracestate_of_another_trace() {
    let variables = [("TRACEPARENT", CALLER), ("TRACESTATE", "vendor=1")];
    with_env(&variables, || {
        let recording = Recording::new();
        let told = recording.run(|| {
            let run = spans::session_run("s", "planner").detached().start();
            run.remote_context().unwrap()
        });
        let mut command = Command::new("sh");
        command.args(["-c", "echo $TRACEPARENT $TRACESTATE"]);
        told.to_command(&mut command);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(said.trim(), told.traceparent());
    });
}

#[test]
fn headers_carry_a_context_there_and_back() {
    let (told, line) = tool();
    let mut headers = HeaderMap::new();
    headers.insert("tracestate", "stale=1".parse().unwrap());
    told.to_headers(&mut headers);
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
fn the_meta_of_an_mcp_request_carries_a_context_beside_what_is_there() {
    let (told, line) = tool();
    let mut params =
        json!({"name": "search", "_meta": {"progressToken": 1, "tracestate": "stale=1"}});
    let meta = params["_meta"].as_object_mut().unwrap();
    told.to_meta(meta);
    let expected = json!({
        "progressToken": 1, "traceparent": traceparent(&line), "tracestate": "vendor=1",
    });
    assert_eq!(params["_meta"], expected);
    let meta = params["_meta"].as_object().unwrap();
    assert_eq!(RemoteContext::from_meta(meta), Some(told));
}

#[test]
fn what_is_no_context_is_none() {
    let mut headers = HeaderMap::new();
    assert_eq!(RemoteContext::from_headers(&headers), None);
    headers.insert("traceparent", "00-0af7-b7ad-01".parse().unwrap());
    assert_eq!(RemoteContext::from_headers(&headers), None);
    let meta = json!({"traceparent": 7});
    assert_eq!(RemoteContext::from_meta(meta.as_object().unwrap()), None);
    // A tracestate that is none does not cost the parent.
    let caller: RemoteContext = CALLER.parse().unwrap();
    for bad in ["", "novalue", &"x=1,".repeat(200), "a=\u{1}"] {
        let context = caller.clone().with_tracestate(bad);
        assert_eq!(context.tracestate(), None, "{bad:?}");
        assert_eq!(context, caller);
    }
}

#[test]
fn a_handle_by_id_alone_has_no_span_to_tell() {
    let recording = Recording::new();
    assert_eq!(recording.handle().session("s").remote_context(), None);
    assert_eq!(tracing::Span::none().remote_context(), None);
}
