//! Names, kinds, parents, attributes, times and status of every kind of span.

use serde_json::{Value, json};
use spanledger::mirror::otlp::Span;
use spanledger::mirror::otlp::span::SpanKind;
use spanledger::mirror::otlp::status::StatusCode;
use spanledger::{Outcome, SpanExt, Usage, spans};

use crate::map::setup::{assert_attributes, attributes, hmac, lines, mapped, named, one, sent};
use crate::support::Recording;

/// One of everything.
pub fn session() {
    let run = spans::session_run("ses_1", "planner")
        .model("anthropic", "sonnet")
        .temperature(0.5)
        .title("Fix the build")
        .tags(json!({"team": "core"}))
        .start();
    let usage = Usage {
        input_tokens: Some(900),
        input_uncached_tokens: Some(93),
        output_tokens: Some(40),
        reasoning_tokens: Some(12),
        cache_read_tokens: Some(800),
        cache_write_tokens: Some(7),
        cost_usd: Some(0.1 + 0.2),
        ..Usage::default()
    };
    run.in_scope(|| {
        let turn = spans::session_turn().trigger("user").start();
        turn.in_scope(|| {
            let model = spans::model_call("anthropic", "sonnet")
                .max_tokens(4096)
                .params(json!({"top_p": 0.9, "stop": ["END"], "odd": true}))
                .start();
            model.record_usage(&usage);
            model.set("finish_reason", "tool_use");
            model.set("response_id", "r1");
            model.set("ttft_ms", 850);
            model.finish(Outcome::Ok);

            let tool = spans::tool_call("bash", "c1")
                .tool_type("function")
                .args(json!({"command": "ls"}))
                .start();
            tool.in_scope(|| {
                let permission = spans::permission_evaluate("bash")
                    .tool_call_id("c1")
                    .pattern("ls *")
                    .start();
                permission.set("action", "allow");
                permission.set("source", "project");
                permission.set("rule", json!({"pattern": "ls *", "action": "allow"}));
            });
            tool.record_result("Cargo.toml");
            tool.set("truncated", false);
            tool.finish(Outcome::Ok);

            let compaction = spans::compaction_run().auto(true).start();
            compaction.set("summarized_message_count", 42);
            compaction.set("input_tokens", 5000);
            compaction.set("output_tokens", 300);
            compaction.set("summary", "so far");
        });
        turn.record_usage(&usage);
        turn.set("stop_reason", "end_turn");
        turn.finish(Outcome::Ok);
    });
    run.finish(Outcome::Ok);
}

fn kind_of(span: &Span) -> SpanKind {
    SpanKind::try_from(span.kind).unwrap()
}

pub fn status_of(span: &Span) -> (StatusCode, &str) {
    let status = span.status.as_ref().unwrap();
    (status.code(), &status.message)
}

#[test]
fn session_is_a_tree_in_one_trace() {
    let spans = sent(None, session);
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "chat sonnet",
            "permission.evaluate",
            "execute_tool bash",
            "compaction.run",
            "session.turn",
            "invoke_agent planner"
        ]
    );
    let run = named(&spans, "invoke_agent planner");
    assert!(run.parent_span_id.is_empty());
    for (child, parent) in [
        ("session.turn", "invoke_agent planner"),
        ("chat sonnet", "session.turn"),
        ("execute_tool bash", "session.turn"),
        ("permission.evaluate", "execute_tool bash"),
        ("compaction.run", "session.turn"),
    ] {
        let (child, parent) = (named(&spans, child), named(&spans, parent));
        assert_eq!(child.parent_span_id, parent.span_id, "{}", child.name);
        assert!(child.start_time_unix_nano >= parent.start_time_unix_nano);
        assert!(child.end_time_unix_nano <= parent.end_time_unix_nano);
    }
    for span in &spans {
        assert_eq!(span.trace_id, run.trace_id);
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        assert_eq!(span.flags, 0x101);
        assert_eq!(span.trace_state, "");
        let kind = match span.name.as_str() {
            "chat sonnet" => SpanKind::Client,
            _ => SpanKind::Internal,
        };
        assert_eq!(kind_of(span), kind, "{}", span.name);
    }
}

#[test]
fn ids_and_times_are_of_the_close_line() {
    let recording = Recording::new();
    recording.run(session);
    let trace = recording.trace();
    let spans = mapped(&lines(recording.dir.path()), None);
    let line = trace.one("tool_result");
    let span = named(&spans, "execute_tool bash");
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
    assert_eq!(Some(hex(&span.span_id)), line.span_id);
    assert_eq!(Some(hex(&span.trace_id)), line.trace_id);
    let duration = span.end_time_unix_nano - span.start_time_unix_nano;
    assert_eq!(line.payload["duration_ns"], duration);
    let address = format!("ses_1/{}", line.address());
    let sent_attributes = attributes(&span.attributes);
    assert_eq!(sent_attributes["agent.trace.address"], address);
}

#[test]
fn run_has_agent_model_and_session() {
    let spans = sent(None, session);
    let run = named(&spans, "invoke_agent planner");
    assert_attributes(
        run,
        json!({
            "agent.span": "session.run",
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "planner",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "sonnet",
            "gen_ai.request.temperature": 0.5,
            "gen_ai.conversation.id": "ses_1",
            "agent.outcome": "ok",
            "agent.tags.team": "core",
            "agent.title": "Fix the build",
            "gen_ai.usage.input_tokens": 900,
            "gen_ai.usage.output_tokens": 40,
            "gen_ai.usage.cache_read.input_tokens": 800,
            "gen_ai.usage.cache_creation.input_tokens": 7,
            "gen_ai.usage.reasoning.output_tokens": 12,
            "agent.tokens.input_uncached": 93,
            "agent.cost_usd": 0.1 + 0.2,
        }),
    );
    let sent_attributes = attributes(&run.attributes);
    assert_eq!(sent_attributes["agent.totals.tool_calls"], 1);
    for noise in [
        "agent.process.pid",
        "agent.process.argv.bytes",
        "agent.totals.marks.masked",
        "agent.totals.usage.input_tokens",
    ] {
        assert_eq!(sent_attributes.get(noise), None, "{noise}");
    }
    assert_eq!(status_of(run), (StatusCode::Ok, ""));
}

#[test]
fn turn_has_tokens_under_our_names() {
    let spans = sent(None, session);
    let turn = named(&spans, "session.turn");
    assert_attributes(
        turn,
        json!({
            "agent.span": "session.turn",
            "gen_ai.conversation.id": "ses_1",
            "agent.turn_index": 1,
            "agent.outcome": "ok",
            "agent.trigger": "user",
            "agent.stop_reason": "end_turn",
            "agent.tokens.input": 900,
            "agent.tokens.input_uncached": 93,
            "agent.tokens.output": 40,
            "agent.tokens.reasoning": 12,
            "agent.tokens.cache_read": 800,
            "agent.tokens.cache_write": 7,
            "agent.cost_usd": 0.1 + 0.2,
        }),
    );
}

#[test]
fn model_call_has_conventional_usage() {
    let spans = sent(None, session);
    assert_attributes(
        named(&spans, "chat sonnet"),
        json!({
            "agent.span": "model.call",
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": "ses_1",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "sonnet",
            "gen_ai.request.max_tokens": 4096,
            "gen_ai.request.top_p": 0.9,
            "gen_ai.request.stop_sequences": ["END"],
            "agent.params.odd.bytes": 4,
            "agent.params.odd.hmac": hmac("true"),
            "gen_ai.agent.name": "planner",
            "gen_ai.response.id": "r1",
            "gen_ai.response.time_to_first_chunk": 0.85,
            "gen_ai.response.finish_reasons": ["tool_use"],
            "gen_ai.usage.input_tokens": 900,
            "gen_ai.usage.output_tokens": 40,
            "gen_ai.usage.cache_read.input_tokens": 800,
            "gen_ai.usage.cache_creation.input_tokens": 7,
            "gen_ai.usage.reasoning.output_tokens": 12,
            "agent.tokens.input_uncached": 93,
            "agent.cost_usd": 0.1 + 0.2,
            "agent.turn_index": 1,
            "agent.outcome": "ok",
        }),
    );
}

#[test]
fn tool_call_has_tool_and_sizes() {
    let spans = sent(None, session);
    let tool = named(&spans, "execute_tool bash");
    let args = r#"{"command":"ls"}"#;
    assert_attributes(
        tool,
        json!({
            "agent.span": "tool.call",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.conversation.id": "ses_1",
            "gen_ai.agent.name": "planner",
            "gen_ai.tool.name": "bash",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.type": "function",
            "agent.truncated": false,
            "agent.args.bytes": args.len(),
            "agent.args.hmac": hmac(args),
            "agent.result.bytes": 10,
            "agent.result.hmac": hmac("Cargo.toml"),
            "agent.turn_index": 1,
            "agent.outcome": "ok",
        }),
    );
}

#[test]
fn permission_has_the_deciding_rule() {
    let spans = sent(None, session);
    let permission = named(&spans, "permission.evaluate");
    assert_attributes(
        permission,
        json!({
            "agent.span": "permission.evaluate",
            "gen_ai.conversation.id": "ses_1",
            "agent.tool_id": "bash",
            "agent.tool_call_id": "c1",
            "agent.pattern.bytes": 4,
            "agent.pattern.hmac": hmac("ls *"),
            "agent.action": "allow",
            "agent.source": "project",
            "agent.rule.pattern.bytes": 4,
            "agent.rule.pattern.hmac": hmac("ls *"),
            "agent.rule.action": "allow",
            "agent.turn_index": 1,
            "agent.outcome": "ok",
        }),
    );
}

#[test]
fn compaction_has_counts_under_our_names() {
    let spans = sent(None, session);
    assert_attributes(
        named(&spans, "compaction.run"),
        json!({
            "agent.span": "compaction.run",
            "gen_ai.conversation.id": "ses_1",
            "agent.auto": true,
            "agent.summarized_message_count": 42,
            "agent.input_tokens": 5000,
            "agent.output_tokens": 300,
            "agent.summary.bytes": 6,
            "agent.summary.hmac": hmac("so far"),
            "agent.turn_index": 1,
            "agent.outcome": "unset",
        }),
    );
}

#[test]
fn events_and_links_are_of_the_line() {
    let spans = sent(None, || {
        let before = spans::tool_call("first", "c1").start();
        let tool = spans::tool_call("bash", "c2").start();
        tool.follows_from(&before);
        tool.in_scope(|| {
            tracing::warn!("disk is nearly full");
            spanledger::events::message_user("hello")
                .message_id("m1")
                .emit();
        });
    });
    let tool = named(&spans, "execute_tool bash");
    let names: Vec<_> = tool
        .events
        .iter()
        .map(|event| event.name.as_str())
        .collect();
    assert_eq!(names, ["log", "message_user"]);
    let log = attributes(&tool.events[0].attributes);
    let target = module_path!();
    let expected = json!({"agent.level": "WARN", "agent.target": target});
    assert_eq!(log, expected);
    let message = attributes(&tool.events[1].attributes);
    let expected = json!({"agent.role": "user", "agent.bytes": 5, "agent.message_id": "m1"});
    assert_eq!(message, expected);
    let during = tool.start_time_unix_nano / 1000 * 1000..=tool.end_time_unix_nano;
    for event in &tool.events {
        assert!(during.contains(&event.time_unix_nano));
    }
    assert_eq!(tool.links.len(), 1);
    let before = named(&spans, "execute_tool first");
    assert_eq!(tool.links[0].span_id, before.span_id);
    assert_eq!(tool.links[0].trace_id, before.trace_id);
}

#[test]
fn omitted_events_are_counted() {
    let payload = json!({"events_dropped": 7});
    let span = one(json!({}), "tool_result", payload).unwrap();
    assert_eq!(span.dropped_events_count, 7);
}

#[test]
fn other_span_keeps_name_and_fields() {
    let payload = json!({"start": "2026-11-16T00:31:05.000000001Z", "duration_ns": 5,
        "outcome": "unset", "name": "http.request", "target": "web", "level": "INFO",
        "fields": {"http.method": "GET", "retries": 2, "hosts": ["a", "b"], "otel.kind": "client",
                   "gen_ai.input.messages": "[…]", "body": {"a": 1}, "agent.span": "mine"}});
    let span = one(json!({"custom_fields": true}), "span_end", payload).unwrap();
    assert_eq!(span.name, "http.request");
    assert_eq!(kind_of(&span), SpanKind::Client);
    assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 5);
    assert_attributes(
        &span,
        json!({
            "agent.span": "http.request",
            "gen_ai.conversation.id": "s",
            "agent.outcome": "unset",
            "agent.target": "web",
            "agent.level": "INFO",
            "http.method": "GET",
            "retries": 2,
            "hosts": ["a", "b"],
            "agent.gen_ai.input.messages.bytes": 5,
            "agent.gen_ai.input.messages.hmac": hmac("[…]"),
            "body": r#"{"a":1}"#,
            "agent.custom.span": "mine",
        }),
    );
}

#[test]
fn interrupted_span_of_unknown_kind_is_a_span() {
    let payload = json!({"closes": "dream_end", "outcome": "interrupted", "depth": 3});
    let span = one(json!({"content": true}), "interrupted", payload).unwrap();
    assert_eq!(span.name, "span");
    assert_eq!(attributes(&span.attributes)["agent.depth"], 3);
}

#[test]
fn non_closing_and_unsampled_lines_are_not_sent() {
    for kind in [
        "tool_call",
        "span_update",
        "message_user",
        "checkpoint",
        "dream_end",
    ] {
        assert_eq!(one(json!({}), kind, json!({})), None, "{kind}");
    }
    assert_eq!(one(json!({}), "interrupted", json!({})), None);
    assert_eq!(
        one(json!({}), "tool_result", json!({"sampled": false})),
        None
    );
    assert!(one(json!({}), "tool_result", json!({"sampled": true})).is_some());
}

#[test]
fn user_field_does_not_decide_sampling() {
    let policy = json!({"content": true});
    let spans = sent(Some(policy), || {
        let tool = spans::tool_call("bash", "c1").start();
        tool.set("sampled", false);
        tool.set("parent_remote", true);
    });
    let tool = named(&spans, "execute_tool bash");
    assert_eq!(tool.flags, 0x101);
    let sent_attributes = attributes(&tool.attributes);
    assert_eq!(sent_attributes["agent.custom.sampled"], false);
}

#[test]
fn remote_parent_and_tracestate_are_kept() {
    let payload = json!({"tracestate": "vendor=x", "parent_remote": true});
    let span = one(json!({}), "session_end", payload).unwrap();
    assert_eq!(span.flags, 0x301);
    assert_eq!(span.trace_state, "vendor=x");
    assert_eq!(span.name, "invoke_agent");
}

#[test]
fn close_line_without_start_ends_when_written() {
    let span = one(
        json!({}),
        "tool_result",
        json!({"duration_ns": 500_000_000}),
    )
    .unwrap();
    let written = 1_794_789_066_500_000_000;
    assert_eq!(span.end_time_unix_nano, written);
    assert_eq!(span.start_time_unix_nano, written - 500_000_000);
    let span = one(json!({}), "tool_result", json!({})).unwrap();
    assert_eq!(span.start_time_unix_nano, span.end_time_unix_nano);
}

#[test]
fn numbers_are_unchanged() {
    let payload = json!({"a": i64::MIN, "b": i64::MAX, "c": u64::MAX, "d": 0.1, "e": 1e300,
        "f": -0.0, "g": 5e-324, "none": null});
    let span = one(json!({"content": true}), "tool_result", payload).unwrap();
    let sent_attributes = attributes(&span.attributes);
    assert_eq!(sent_attributes["agent.a"], i64::MIN);
    assert_eq!(sent_attributes["agent.b"], i64::MAX);
    assert_eq!(sent_attributes["agent.c"], u64::MAX.to_string());
    assert_eq!(sent_attributes["agent.d"], 0.1);
    assert_eq!(sent_attributes["agent.e"], 1e300);
    assert!(
        sent_attributes["agent.f"]
            .as_f64()
            .unwrap()
            .is_sign_negative()
    );
    assert_eq!(sent_attributes["agent.g"], 5e-324);
    assert_eq!(sent_attributes.get("agent.none"), None);
}

#[test]
fn name_with_escapes_is_unchanged() {
    let policy = json!({"content": true});
    let span = one(policy, "tool_result", json!({"a\"b\n": 1})).unwrap();
    assert_eq!(attributes(&span.attributes)["agent.a\"b\n"], 1);
}

#[test]
fn subagents_keep_their_conversation() {
    let spans = sent(None, || {
        let _outer = spans::session_run("outer", "planner").start().entered();
        drop(spans::session_run("inner", "helper").start());
    });
    let inner = named(&spans, "invoke_agent helper");
    let sent_attributes: Value = attributes(&inner.attributes);
    assert_eq!(sent_attributes["gen_ai.conversation.id"], "inner");
    assert_eq!(sent_attributes["agent.parent_session_id"], "outer");
    let outer = named(&spans, "invoke_agent planner");
    assert_eq!(inner.parent_span_id, outer.span_id);
    assert_eq!(inner.trace_id, outer.trace_id);
}

#[test]
fn link_with_invalid_ids_is_omitted() {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let links = json!([
        {"trace_id": trace, "span_id": "0000000000000000"},
        {"trace_id": "+af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"},
        {"trace_id": trace},
        {"trace_id": trace, "span_id": "b7ad6b7169203331", "remote": true, "sampled": true,
         "tracestate": "v=1", "reason": "resume"},
    ]);
    let policy = json!({"content": true});
    let span = one(policy, "session_end", json!({"links": links})).unwrap();
    assert_eq!(span.links.len(), 1);
    assert_eq!(span.links[0].flags, 0x301);
    assert_eq!(span.links[0].trace_state, "v=1");
    let sent_attributes = attributes(&span.links[0].attributes);
    assert_eq!(sent_attributes, json!({"agent.reason": "resume"}));
}
