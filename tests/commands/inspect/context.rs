//! `spanledger context`.

use serde_json::{Value, json};
use spanledger::{Outcome, SpanExt, events, spans};

use super::{model, session, tool, usage};
use crate::support::Recording;
use crate::support::cli::run;

#[test]
fn context_shows_calls_compactions_and_carried_results() {
    let recording = Recording::new();
    session(&recording, "ses_1", || {
        events::system_prompt("s".repeat(400)).emit();
        events::message_user("u".repeat(400))
            .message_id("m1")
            .emit();
        tool("read", &"r".repeat(3_200), Outcome::Ok);
        model("claude-sonnet-4-5", &usage(1_000, 500, 10));
        model("claude-sonnet-4-5", &usage(1_000, 900, 10));
        let compaction = spans::compaction_run().start();
        compaction.set("summary", "c".repeat(400));
        compaction.finish(Outcome::Ok);
        model("claude-sonnet-4-5", &usage(200, 0, 10));
        Outcome::Ok
    });
    let root = recording.dir.path();
    let items = run(root, &["context", "last", "--json"]).objects();
    let of = |kind: &str| -> Vec<&Value> {
        let items = items.iter();
        items.filter(|item| item["type"] == kind).collect()
    };
    let calls = of("call");
    assert_eq!(calls.len(), 3);
    let parts = &calls[0]["parts"];
    assert_eq!(
        (&parts["system"], &parts["user"], &parts["tool_results"]),
        (&json!(100), &json!(100), &json!(800))
    );
    assert_eq!(calls[1]["cached_tokens"], 900);
    let parts = &calls[2]["parts"];
    assert_eq!(
        (&parts["summary"], &parts["tool_results"]),
        (&json!(100), &json!(0))
    );
    assert_eq!(calls[2]["compacted"], true);
    assert_eq!(of("compaction").len(), 1);
    let result = of("tool_result")[0];
    assert_eq!(
        (&result["carried_calls"], &result["carried_tokens"]),
        (&json!(2), &json!(1_600))
    );
    // Of the first call: 500 fresh and 500 cached tokens; of the second: 100 and 900.
    let input = |fresh: f64, cached: f64| (fresh * 3.0 + cached * 0.3) * 1e-6;
    let expected = 0.8 * (input(500.0, 500.0) + input(100.0, 900.0));
    let usd = result["carried_usd"].as_f64().unwrap();
    assert!((usd - expected).abs() < 1e-9, "{usd}, {expected}");

    let text = run(root, &["context"]).out;
    for part in [
        "sss",
        "rrr",
        "ccc",
        "compaction: ~",
        "Carried tool results",
        "90%",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

/// A recorded request is measured, and not the history. With the smaller limit requests are in blobs.
#[test]
fn context_measures_requests_as_they_were_sent() {
    let schema = json!({"type": "object"});
    let openai = json!({"model": "gpt-5",
        "messages": [
            {"role": "system", "content": "s".repeat(400)},
            {"role": "user", "content": "u".repeat(800)},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "r".repeat(1_600)},
        ],
        "tools": [{"type": "function", "function": {"name": "ls", "parameters": schema}}]});
    let anthropic = json!({"model": "claude-sonnet-4-5", "max_tokens": 9, "system": "s".repeat(400),
        "messages": [
            {"role": "user", "content": "u".repeat(800)},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c1", "name": "ls", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "r".repeat(1_600)}]},
        ],
        "tools": [{"name": "ls", "input_schema": schema}]});
    for limit in [64 << 10, 600] {
        let recording = Recording::with(|builder| builder.inline_limit(limit));
        session(&recording, "ses_1", || {
            for body in [&openai, &anthropic] {
                events::message_user("not sent ".repeat(900)).emit();
                let call = spans::model_call("provider", "m").start();
                call.request(body);
                call.finish(Outcome::Ok);
            }
            Outcome::Ok
        });
        let items = run(recording.dir.path(), &["context", "ses_1", "--json"]).objects();
        let calls: Vec<_> = items.iter().filter(|item| item["type"] == "call").collect();
        let tokens = |part: &Value| (part.to_string().len() as f64 / 4.0).round() as u64;
        for (call, system, [user, assistant, result], tools) in [
            (
                calls[0],
                &openai["messages"][0],
                [1, 2, 3].map(|at| &openai["messages"][at]),
                &openai["tools"],
            ),
            (
                calls[1],
                &anthropic["system"],
                [0, 1, 2].map(|at| &anthropic["messages"][at]),
                &anthropic["tools"],
            ),
        ] {
            assert_eq!(call["inputs"], "recorded", "{call}");
            let expected = json!({
                "system": tokens(system), "tools": tokens(tools), "user": tokens(user),
                "assistant": tokens(assistant), "tool_results": tokens(result),
                "summary": 0, "other": 0,
            });
            assert_eq!(call["parts"], expected, "{limit}");
        }
    }
}
