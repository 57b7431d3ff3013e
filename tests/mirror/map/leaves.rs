//! What leaves the machine: the table in `docs/sending.md` against the attributes of a rich session, setting by
//! setting.

use std::collections::BTreeSet;

use opentelemetry::trace::TraceContextExt;
use opentelemetry::{Context, KeyValue};
use prost::Message;
use serde_json::{Value, json};
use spanledger::mirror::Otlp;
use spanledger::mirror::otlp::Span;
use spanledger::{Failure, Outcome, SpanExt, Usage, events, spans};

use crate::map::setup::{attributes, lines, mapped, named, one};
use crate::support::Recording;
use crate::support::every_event::every_event;

const SETTINGS: [&str; 5] = [
    "content",
    "error text",
    "log messages",
    "paths",
    "custom fields",
];

/// A text in the session for each of the settings.
const TEXTS: [&str; 5] = [
    "CONTENT-TEXT",
    "ERROR-TEXT",
    "LOG-TEXT",
    "PATH-TEXT",
    "CUSTOM-TEXT",
];

struct Row {
    patterns: Vec<String>,
    on: Vec<String>,
    leaves: String,
}

impl Row {
    /// The name in this row that is the attribute's.
    fn name_of(&self, on: &str, is_span: bool, key: &str) -> Option<&String> {
        let covers_on = |it: &String| it == on || (is_span && it == "any span");
        let matches = |pattern: &&String| match pattern.split_once('*') {
            Some((start, end)) => {
                let is_long = key.len() > start.len() + end.len();
                is_long && key.starts_with(start) && key.ends_with(end)
            }
            None => *pattern == key,
        };
        let mut patterns = self.patterns.iter();
        let name = patterns.find(matches);
        name.filter(|_| self.on.iter().any(covers_on))
    }

    fn is_sent(&self, on: [bool; 5]) -> bool {
        let setting = |name: &str| on[SETTINGS.iter().position(|it| *it == name).unwrap()];
        match self.leaves.strip_prefix("without ") {
            _ if self.leaves == "always" => true,
            Some(setting_off) => !setting(setting_off),
            None => setting(&self.leaves),
        }
    }
}

/// `a.{b,c}.d` as `a.b.d` and `a.c.d`.
fn expanded(name: &str) -> Vec<String> {
    let Some((start, rest)) = name.split_once('{') else {
        return vec![name.to_owned()];
    };
    let (words, end) = rest.split_once('}').unwrap();
    let words = words.split(',').map(|word| format!("{start}{word}{end}"));
    words.flat_map(|name| expanded(&name)).collect()
}

fn table() -> Vec<Row> {
    let page = include_str!("../../../docs/sending.md");
    let (_, table) = page
        .split_once("| attribute | on | leaves |\n|---|---|---|\n")
        .unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let rows = rows.map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let names = cells[1].split('`').skip(1).step_by(2);
        let names = names.filter(|name| name.contains('.') || *name == "*");
        Row {
            patterns: names.flat_map(expanded).collect(),
            on: cells[2].split(", ").map(str::to_owned).collect(),
            leaves: cells[3].to_owned(),
        }
    });
    rows.collect()
}

fn run_span() -> tracing::Span {
    spans::session_run("ses_1", "planner")
        .model("anthropic", "sonnet")
        .variant("high")
        .title("Find me")
        .run_name("nightly")
        .tags(json!(["nightly"]))
        .external_ids(json!({"crm": "42"}))
        .workspace_root("/home/PATH-TEXT")
        .output_dir("/tmp/PATH-TEXT")
        .metadata(json!({"note": "CONTENT-TEXT"}))
        .start()
}

fn model_call(own: bool) {
    let call = spans::model_call("anthropic", "sonnet")
        .variant("high")
        .temperature(0.5)
        .params(json!({"top_p": 0.9, "user": "CUSTOM-TEXT"}))
        .purpose("main")
        .attempt(1)
        .retry_of("b7ad6b7169203331")
        .input_message_ids(json!(["m1"]))
        .request_digest("ab12")
        .request(json!({"input": "CONTENT-TEXT"}))
        .stream(true)
        .context_window(200_000)
        .start();
    call.record_usage(&Usage {
        input_tokens: Some(900),
        input_uncached_tokens: Some(93),
        cost_usd: Some(0.25),
        usage_details: Some(json!({"service_tier": "standard"})),
        ..Usage::default()
    });
    if own {
        for name in ["input_messages", "output_messages"] {
            call.set(name, json!([{"role": "user", "parts": "CONTENT-TEXT"}]));
        }
        call.set("system_instructions", "CONTENT-TEXT");
        call.set("tool_definitions", json!(["CONTENT-TEXT"]));
    }
    events::message_assistant("CONTENT-TEXT").on(&call).emit();
    call.record_finish_reason("stop");
    call.record_response("r1", "sonnet-1");
    for (name, value) in [("ttft_ms", 850), ("http_status", 200), ("retry_after", 3)] {
        call.set(name, value);
    }
    call.set("message_id", "m2");
    call.finish(Outcome::Ok);
}

fn tool_call() {
    let tool = spans::tool_call("bash", "c1")
        .tool_type("function")
        .tool_kind("execute")
        .title("Run CONTENT-TEXT")
        .locations(json!(["/PATH-TEXT"]))
        .args(json!({"command": "CONTENT-TEXT"}))
        .command("CONTENT-TEXT")
        .part_index(1)
        .start();
    tool.set("owner", "CUSTOM-TEXT");
    tool.record_result("CONTENT-TEXT");
    tool.record_exit_code(1);
    for name in ["stdout", "stderr"] {
        tool.set(name, "CONTENT-TEXT");
    }
    tool.set("media", json!([{"text": "CONTENT-TEXT"}]));
    tool.in_scope(|| {
        let permission = spans::permission_evaluate("bash")
            .tool_call_id("c1")
            .permission("execute")
            .pattern("CONTENT-TEXT *")
            .start();
        permission.record_action("ask", "project");
        permission.record_decision("allow_once", "ada");
        let rule = json!({"permission": "execute", "pattern": "CONTENT-TEXT", "action": "ask",
            "source": "project", "added_at": "today", "odd": "CUSTOM-TEXT"});
        permission.set("rule", rule);
        permission.set("options", json!(["CONTENT-TEXT"]));
        permission.set("interrupt_id", "i1");
        drop(permission);
        let context = Context::current();
        let api = context.span();
        api.set_attribute(KeyValue::new("api.color", "red"));
        api.add_event("api_event", vec![KeyValue::new("api.size", 3)]);
        tracing::warn!(user = "LOG-TEXT", "LOG-TEXT");
    });
    let failure = Failure::new("Timeout", "ERROR-TEXT")
        .guardrail("max_seconds", 5, 6)
        .stack("at ERROR-TEXT")
        .details(json!({"why": "ERROR-TEXT"}));
    tool.record_failure(&failure);
}

fn compaction() {
    let compaction = spans::compaction_run().auto(true).trigger("full").start();
    compaction.set("summarized_message_count", 42);
    compaction.record_summary("CONTENT-TEXT");
    compaction.set("kept", json!(["CONTENT-TEXT"]));
    compaction.set("offloaded", json!(["CONTENT-TEXT"]));
}

fn session() {
    let run = run_span();
    run.in_scope(|| {
        events::system_prompt("CONTENT-TEXT").emit();
        events::tool_catalog(json!([{"name": "bash", "description": "CONTENT-TEXT"}])).emit();
        events::permission_rules(json!([{"pattern": "CONTENT-TEXT"}])).emit();
        let turn = spans::session_turn()
            .trigger("user")
            .message_id("m1")
            .start();
        turn.in_scope(|| {
            events::message_user("CONTENT-TEXT").message_id("m1").emit();
            model_call(false);
            tool_call();
            compaction();
            model_call(true);
            for (_, event, _) in every_event() {
                event.emit();
            }
            events::custom("deployed", json!({"to": "CUSTOM-TEXT"})).emit();
            events::artifact("/PATH-TEXT.png")
                .caption("CONTENT-TEXT")
                .emit();
            events::error(&std::io::Error::other("ERROR-TEXT")).emit();
            drop(spans::session_run("ses_2", "helper").start());
            events::session_status("waiting")
                .waiting_for("approval")
                .emit();
        });
        turn.record_stop_reason("end_turn");
    });
    let denied = Failure::new("Denied", "ERROR-TEXT");
    run.record_failure(&denied);
    run.finish(Outcome::Cancelled);
}

/// What is sent with these settings.
fn sent(on: [bool; 5]) -> Vec<Span> {
    let [content, error_text, log_messages, paths, custom_fields] = on;
    let otlp = Otlp::new()
        .endpoint("http://127.0.0.1:9")
        .content(content)
        .error_text(error_text)
        .log_messages(log_messages)
        .paths(paths)
        .custom_fields(custom_fields);
    let recording = Recording::with(|builder| builder.otlp(otlp));
    recording.run(session);
    let mut spans = mapped(&lines(recording.dir.path()), None);
    let policy = json!({"content": content, "error_text": error_text,
        "log_messages": log_messages, "paths": paths, "custom_fields": custom_fields});
    let interrupted = json!({"closes": "tool_result", "outcome": "interrupted", "late": true,
        "reason": "writer_gone", "last_seen": "2026-11-16T00:31:05Z", "detected_at": "later"});
    spans.extend(one(policy.clone(), "interrupted", interrupted));
    let other = json!({"name": "http", "target": "web", "level": "INFO",
        "fields": {"http.path": "CUSTOM-TEXT", "gen_ai.prompt": "CONTENT-TEXT"}});
    spans.extend(one(policy.clone(), "span_end", other));
    for (closes, fields) in schema_spans() {
        spans.extend(one(policy.clone(), &closes, fields));
    }
    let process = json!({"version": "1.2.3", "platform": "linux"});
    let child = json!({"parent_span_id": "b7ad6b7169203331", "process": process});
    spans.extend(one(policy.clone(), "session_end", child));
    let completion = json!({"name": "http", "target": "web", "level": "INFO", "fields": {
        "gen_ai.completion": "CONTENT-TEXT", "gen_ai.prompt.0": "CONTENT-TEXT", "gen_ai.completion.0": "CONTENT-TEXT"}});
    spans.extend(one(policy, "span_end", completion));
    spans
}

fn span_name(attributes: &Value) -> &'static str {
    match attributes["agent.span"].as_str().unwrap() {
        "session.run" => "run",
        "session.turn" => "turn",
        "model.call" => "chat",
        "tool.call" => "tool",
        "permission.evaluate" => "permission",
        "compaction.run" => "compaction",
        _ => "other",
    }
}

/// Each attribute and what it stands on, and whether that is a span.
fn keys(spans: &[Span]) -> BTreeSet<(String, bool, String)> {
    let mut keys = BTreeSet::new();
    let mut add = |on: &str, is_span, attributes: Value| {
        let names = attributes.as_object().unwrap().keys();
        keys.extend(names.map(|name| (on.to_owned(), is_span, name.clone())));
    };
    for span in spans {
        let of_span = attributes(&span.attributes);
        add(span_name(&of_span), true, of_span);
        for event in &span.events {
            let on = match event.name.as_str() {
                name @ ("log" | "exception" | "error") => name,
                _ => "event",
            };
            add(on, false, attributes(&event.attributes));
        }
    }
    keys
}

/// The fields that the schema doesn't have, as they are sent.
const CUSTOM: [&str; 7] = [
    "agent.http.path",
    "agent.owner",
    "agent.params.user",
    "agent.rule.a",
    "agent.rule.odd",
    "agent.to",
    "http.path",
];

#[test]
fn documented_attributes_leave_as_their_settings_say() {
    let table = table();
    let only = |index: usize| std::array::from_fn(|at| at == index);
    let settings = (0..=SETTINGS.len()).map(only).chain([[true; 5]]);
    let mut wrong = Vec::new();
    for on in settings {
        let spans = sent(on);
        let mut covered = BTreeSet::new();
        for (what, is_span, key) in keys(&spans) {
            if key.starts_with("api.") {
                continue;
            }
            let mut rows = table.iter().enumerate();
            let row = rows.find_map(|(row, it)| Some((row, it.name_of(&what, is_span, &key)?)));
            let Some((row, name)) = row else {
                wrong.push(format!("{key} on {what} is not in the table"));
                continue;
            };
            let leaves = &table[row].leaves;
            if !table[row].is_sent(on) {
                wrong.push(format!("{key} on {what}: {leaves}, but sent with {on:?}"));
            }
            let field = key.trim_end_matches(".bytes").trim_end_matches(".hmac");
            if leaves.contains("custom fields") && !CUSTOM.contains(&field) {
                wrong.push(format!("{key} on {what}: `map/names.rs` does not know it"));
            }
            covered.insert((row, name));
        }
        for (index, row) in table.iter().enumerate() {
            let is_checked = row.on != ["resource"] && row.is_sent(on);
            for name in row.patterns.iter().filter(|_| is_checked) {
                if !covered.contains(&(index, name)) {
                    wrong.push(format!("{name} on {:?}: not sent with {on:?}", row.on));
                }
            }
        }
        let bytes: Vec<u8> = spans.iter().flat_map(Message::encode_to_vec).collect();
        let bytes = String::from_utf8_lossy(&bytes);
        for (text, is_sent) in TEXTS.into_iter().zip(on) {
            if bytes.contains(text) != is_sent {
                wrong.push(format!("{text} with {on:?}"));
            }
        }
        assert!(bytes.contains("api.color") && bytes.contains("api.size"));
        assert!(bytes.contains("Find me") && bytes.contains("nightly"));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn chat_spans_have_their_part_of_the_conversation() {
    let spans = sent([true; 5]);
    let chats = spans.iter().filter(|span| span.name == "chat sonnet");
    let chats: Vec<_> = chats.map(|span| attributes(&span.attributes)).collect();
    let json =
        |key: &str| -> Value { serde_json::from_str(chats[0][key].as_str().unwrap()).unwrap() };
    let part = json!({"type": "text", "content": "CONTENT-TEXT"});
    let message = |role: &str| json!([{"role": role, "parts": [part]}]);
    assert_eq!(json("gen_ai.input.messages"), message("user"));
    assert_eq!(json("gen_ai.output.messages"), message("assistant"));
    assert_eq!(json("gen_ai.system_instructions"), json!([part]));
    let tool = json!([{"name": "bash", "description": "CONTENT-TEXT", "type": "function"}]);
    assert_eq!(json("gen_ai.tool.definitions"), tool);
    // What the call was given by its own fields comes first.
    assert_eq!(chats[1]["gen_ai.system_instructions"], "CONTENT-TEXT");
    let turn = spans
        .iter()
        .find(|span| span.name == "session.turn")
        .unwrap();
    let user = turn
        .events
        .iter()
        .find(|event| event.name == "message_user")
        .unwrap();
    let user = attributes(&user.attributes);
    let sent: Value =
        serde_json::from_str(user["gen_ai.input.messages"].as_str().unwrap()).unwrap();
    assert_eq!(sent, message("user"));
}

/// Fields that are objects with members of their own, which the session has, and the mark of turns that are not sent.
const LEFT_OUT: [&str; 8] = [
    "params",
    "process",
    "totals",
    "error",
    "usage",
    "used",
    "conversation",
    "synthetic",
];

/// The spans of the schema: the kind that closes each, and a value for each of its fields.
fn schema_spans() -> Vec<(String, Value)> {
    let page = include_str!("../../../docs/events.md");
    let (_, spans) = page.split_once("## Spans").unwrap();
    let (spans, _) = spans.split_once("\n## ").unwrap();
    let spans = spans.split("\n### ").skip(1);
    let read = spans.filter(|text| text.starts_with("`")).map(|text| {
        let mut closes = text.lines().filter_map(|line| line.strip_prefix("- `"));
        let closes = closes.next_back().unwrap().split('`').next().unwrap();
        let rows = text
            .lines()
            .filter(|line| line.contains('`') && line.starts_with('|'));
        let fields = rows.map(|row| {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let value = match cells[2] {
                "u64" => json!(1),
                "f64" => json!(0.5),
                "bool" => json!(true),
                "object" | "usage" | "error" => json!({"a": "x"}),
                "list" => json!(["x"]),
                _ => json!("x"),
            };
            (cells[1].trim_matches(['*', '`']).to_owned(), value)
        });
        let fields = fields.filter(|(name, _)| !LEFT_OUT.contains(&&**name));
        (closes.to_owned(), Value::Object(fields.collect()))
    });
    read.collect()
}

/// Two runs of one session and a subagent of the first, whose ids are secrets: what is sent names
/// them by their masks, and spans of one session have one id.
#[test]
fn session_ids_that_are_secrets_leave_masked_and_group() {
    let token = |part: &str| format!("{}{}", concat!("gh", "p_"), part.repeat(4));
    let (outer, inner) = (token("A1b2C3d4E5"), token("Z9y8X7w6V5"));
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run(&outer, "planner").start().entered();
        drop(spans::session_run(&inner, "helper").start());
    });
    recording.run(|| {
        let _run = spans::session_run(&outer, "reviewer").start().entered();
        drop(spans::tool_call("bash", "c1").start());
    });
    let spans = mapped(&lines(recording.dir.path()), None);
    let id_of = |name: &str, key: &str| {
        let text = attributes(&named(&spans, name).attributes)[key].clone();
        text.as_str()
            .unwrap_or_else(|| panic!("{name} has no {key}"))
            .to_owned()
    };
    let id = |name: &str| id_of(name, "gen_ai.conversation.id");
    let planner = id("invoke_agent planner");
    assert!(
        planner.starts_with("[masked rule=github-pat bytes=44 "),
        "{planner}"
    );
    for name in ["invoke_agent reviewer", "execute_tool bash"] {
        assert_eq!(id(name), planner);
    }
    assert_ne!(id("invoke_agent helper"), planner);
    let parent = id_of("invoke_agent helper", "agent.parent_session_id");
    assert_eq!(parent, planner);
    for span in &spans {
        let bytes = span.encode_to_vec();
        for secret in [&outer, &inner] {
            let found = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!found, "{} has a secret", span.name);
        }
    }
}
