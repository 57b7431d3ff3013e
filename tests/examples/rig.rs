//! An agent built on the real rig: `examples/rig` runs against its scripted server, which checks each request, and
//! its trace is read.

use serde_json::{Value, json};
use spanledger::trace::Line;

use crate::support::cli;
use crate::support::request_schema;
use crate::support::rig::Rig;
use crate::support::{LineExt, Trace};

fn only_session(trace: &Trace) -> &[Line] {
    assert_eq!(trace.sessions.len(), 1, "{:?}", trace.sessions.keys());
    trace.sessions.values().next().unwrap()
}

/// The messages in order: role, text, and the types of the other parts.
fn conversation(trace: &Trace) -> Vec<(String, Value, Vec<Value>)> {
    let messages = trace.lines().filter_map(|line| {
        let who = line.kind.strip_prefix("message_")?;
        let parts = line.get("parts").as_array().into_iter().flatten();
        Some((
            who.to_owned(),
            line.get("content").clone(),
            parts.map(|part| part["type"].clone()).collect(),
        ))
    });
    messages.collect()
}

/// The whole of a calculation: two tools, three turns.
fn is_whole(rig: &Rig, provider: &str, model: &str, stream: bool, input: u64) {
    let trace = Trace::read(rig.path());
    let lines = only_session(&trace);
    assert!(trace.damage.is_empty());

    let run = trace.one("session_start");
    assert_eq!(run.text("agent"), "calculator");
    let end = trace.one("session_end");
    assert_eq!(end.get("totals.turns"), 3);
    assert_eq!(end.get("totals.model_calls"), 3);
    assert_eq!(end.get("totals.tool_calls"), 2);
    assert_eq!(end.get("totals.usage.input_tokens"), 3 * input + 3);
    assert_eq!(end.get("totals.usage.output_tokens"), 33);

    let calls = trace.all("model_result");
    for (nth, call) in calls.iter().enumerate() {
        let nth = nth as u64;
        assert_eq!(call.parent_span_id, run.span_id);
        assert_eq!(call.turn, Some(nth as u32 + 1));
        assert_eq!(call.text("provider_id"), provider);
        assert_eq!(call.text("model_id"), model);
        assert_eq!(call.get("stream"), stream);
        assert_eq!(call.get("usage.input_tokens"), input + nth);
        assert_eq!(call.get("usage.output_tokens"), 10 + nth);
        assert_eq!(call.get("usage.cache_read_tokens"), 64);
        assert!(call.text("response_id").ends_with(&nth.to_string()));
    }

    let tools = trace.all("tool_result");
    let fields_of = |tool: &Line| {
        let fields = ["tool_id", "args", "result", "outcome", "tool_type"];
        Value::Array(fields.map(|name| tool.get(name).clone()).into())
    };
    assert_eq!(
        fields_of(tools[0]),
        json!(["add", {"x": 19, "y": 23}, "42", "ok", "function"])
    );
    assert_eq!(
        fields_of(tools[1]),
        json!(["divide", {"x": 42, "y": 2}, "21", "ok", "function"])
    );
    for (tool, call) in tools.iter().zip(&calls) {
        assert_eq!(tool.parent_span_id, run.span_id);
        assert_eq!(tool.turn, call.turn);
        assert!(!tool.text("tool_call_id").is_empty());
    }

    let prompt = trace.one("system_prompt");
    assert_eq!(prompt.text("body"), "You calculate with tools.");
    assert_eq!(
        conversation(&trace),
        [
            ("user", json!("What is (19 + 23) / 2?"), vec![]),
            ("assistant", Value::Null, vec![json!("tool_call")]),
            ("tool", Value::Null, vec![json!("tool_call_response")]),
            ("assistant", Value::Null, vec![json!("tool_call")]),
            ("tool", Value::Null, vec![json!("tool_call_response")]),
            ("assistant", json!("It is 21."), vec![]),
        ]
        .map(|(who, text, parts)| (who.to_owned(), text, parts))
    );
    let traces = lines.iter().filter_map(|line| line.trace_id.as_deref());
    let traces: std::collections::HashSet<_> = traces.collect();
    assert_eq!(traces.len(), 1);

    let shown = cli::run(rig.path(), &["show", "last"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for text in [
        "calculator",
        model,
        "3 turns, 3 model calls, 2 tool calls, 0 errors",
        "Turn 1",
        "Turn 3",
        "What is (19 + 23) / 2?",
        r#"add  {"x":19,"y":23}"#,
        r#"divide  {"x":42,"y":2}"#,
        "It is 21.",
    ] {
        assert!(
            shown.out.contains(text),
            "{text:?} is not in\n{}",
            shown.out
        );
    }
}

/// Checks that the inputs of each call are a request that the server takes.
fn inputs_are_accepted(rig: &Rig) {
    for call in ["1", "2", "3"] {
        let inputs = |form: &str| {
            let args = ["replay", "last", "--inputs", "--call", call, "--as", form];
            cli::run(rig.path(), &args).json()
        };
        request_schema::openai(&inputs("openai")).unwrap();
        request_schema::anthropic(&inputs("anthropic")).unwrap();
    }
}

#[test]
fn openai() {
    let Some(rig) = Rig::run("openai") else {
        return;
    };
    is_whole(&rig, "openai", "gpt-4o", false, 100);
    inputs_are_accepted(&rig);
}

#[test]
fn openai_streaming() {
    let Some(rig) = Rig::run("openai --stream") else {
        return;
    };
    is_whole(&rig, "openai", "gpt-4o", true, 100);
}

// Anthropic counts cached input apart; rig adds it up, as the conventions want it.
#[test]
fn anthropic() {
    let Some(rig) = Rig::run("anthropic") else {
        return;
    };
    is_whole(&rig, "anthropic", "claude-sonnet-4-5", false, 172);
    inputs_are_accepted(&rig);
}

#[test]
fn anthropic_streaming() {
    let Some(rig) = Rig::run("anthropic --stream") else {
        return;
    };
    is_whole(&rig, "anthropic", "claude-sonnet-4-5", true, 172);
}

#[test]
fn failed_tool_is_recorded() {
    for args in ["openai fail", "anthropic fail --stream"] {
        let Some(rig) = Rig::run(args) else { return };
        let trace = Trace::read(rig.path());
        let tool = trace.one("tool_result");
        assert_eq!(tool.text("tool_id"), "divide");
        assert_eq!(tool.get("args"), &json!({"x": 42, "y": 0}));
        assert_eq!(tool.text("outcome"), "error");
        assert_eq!(tool.text("error.error_type"), "other");
        assert_eq!(trace.one("session_end").get("totals.errors"), 1);
        let shown = cli::run(rig.path(), &["show", "last", "--errors"]);
        assert!(shown.out.contains("divide"), "{}", shown.out);
    }
}

#[test]
fn retried_request_is_two_calls_in_one_turn() {
    for args in [
        "openai --request --fail 500",
        "anthropic --request --stream --fail 429",
    ] {
        let Some(rig) = Rig::run(args) else { return };
        let trace = Trace::read(rig.path());
        only_session(&trace);
        let calls = trace.all("model_result");
        let turns: Vec<_> = calls.iter().map(|call| call.turn.unwrap()).collect();
        assert_eq!(turns, [1, 1, 2, 3], "{args}");
        assert!(calls[0].payload.get("usage").is_none(), "nothing came back");
        assert!(calls[1].payload.get("usage").is_some());
        let asked = trace.find("message_user", "content", "What is (19 + 23) / 2?");
        assert_eq!(asked.turn, Some(1));
        assert_eq!(conversation(&trace).len(), 6);
    }
}

#[test]
fn web_request_calls_share_a_session() {
    let Some(rig) = Rig::run("openai --request") else {
        return;
    };
    let trace = Trace::read(rig.path());
    let lines = only_session(&trace);
    assert!(trace.all("session_start").is_empty(), "rig made no run");
    assert_eq!(trace.all("model_result").len(), 3);
    assert_eq!(trace.all("tool_result").len(), 2);
    assert_eq!(lines.last().unwrap().kind, "turn_end");
}

#[test]
fn nothing_is_recorded_twice_inside_our_session() {
    let Some(rig) = Rig::run("openai --session ses_ours") else {
        return;
    };
    let trace = Trace::read(rig.path());
    let run = trace.one("session_start");
    assert_eq!(run.session_id, "ses_ours");
    assert_eq!(run.text("agent"), "host");
    only_session(&trace);
    for line in [trace.all("model_result"), trace.all("tool_result")].concat() {
        assert_eq!(line.parent_span_id, run.span_id);
    }
    assert_eq!(trace.all("model_result").len(), 3);
    let totals = trace.one("session_end").get("totals.usage.input_tokens");
    assert_eq!(totals, 303);
}

#[test]
fn without_opt_in_there_is_no_text() {
    let Some(rig) = Rig::run("openai --no-content") else {
        return;
    };
    let trace = Trace::read(rig.path());
    assert_eq!(
        trace.one("session_end").get("totals.usage.input_tokens"),
        303
    );
    let tools: Vec<_> = trace.all("tool_result");
    assert_eq!(tools[0].text("tool_id"), "add");
    assert!(tools[0].payload.get("args").is_none());
    assert!(conversation(&trace).is_empty());
    let bytes = trace.bytes();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("What is") && !text.contains("It is 21."));
}

#[test]
fn killed_inside_a_tool_keeps_its_arguments() {
    for args in ["openai hang", "anthropic hang --stream"] {
        let Some(hanging) = Rig::hang(args) else {
            return;
        };
        let status = cli::run(hanging.path(), &["status"]);
        assert!(status.out.contains("tool wait"), "{status:?}");
        assert!(status.out.contains(r#"{"for":"ever"}"#), "{status:?}");
        let rig = hanging.kill();
        let recovered = cli::run(rig.path(), &["recover"]);
        assert_eq!(recovered.code, 0, "{recovered:?}");
        let trace = Trace::read(rig.path());
        let tool = trace.find("interrupted", "closes", "tool_result");
        assert_eq!(tool.text("tool_id"), "wait");
        assert_eq!(tool.get("args"), &json!({"for": "ever"}));
        let closed: Vec<_> = trace.all("interrupted");
        let closed = closed.iter().map(|line| line.text("closes"));
        let closed: std::collections::BTreeSet<_> = closed.collect();
        assert_eq!(
            closed,
            ["session_end", "tool_result", "turn_end"].into(),
            "what was open, and nothing else"
        );
        let shown = cli::run(rig.path(), &["show", "last"]);
        assert!(shown.out.contains("wait  ever"), "{}", shown.out);
    }
}
