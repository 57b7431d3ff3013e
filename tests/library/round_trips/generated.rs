//! Sessions made from a list of steps.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use spanledger::{Failure, Outcome, SpanExt, Usage, events, spans};
use tempfile::TempDir;

use crate::support::Recording;

pub const SESSION: &str = "ses_made";

#[derive(Clone, Debug)]
pub enum Op {
    Turn,
    User {
        text: String,
        id: Option<u8>,
        files: u8,
    },
    Model {
        text: Option<String>,
        reasoning: Option<String>,
        id: Option<u8>,
        usage: Option<(u64, u64, u64)>,
        /// The tokens that an event inside of the call reports.
        reported: Option<u64>,
        aborted: bool,
    },
    Tool {
        name: u8,
        id: u8,
        args: Value,
        end: End,
        asked: Asked,
    },
    Say {
        text: String,
        id: Option<u8>,
    },
    /// A message of the model with the part of a tool call that has no span.
    Part {
        id: Option<u8>,
        part: Value,
    },
    Compaction {
        summary: Option<String>,
        tail: Option<u8>,
    },
    Rewind {
        to: u8,
    },
    Event(u8, Value),
    Prompt(String),
    Rules(u8),
    Usage(u64),
    /// A call and its result as messages, with or without a span.
    Relay {
        text: Option<String>,
        id: u8,
        args: Value,
        result: Value,
        has_span: bool,
    },
    /// What a tool sent without a call.
    Observe(String),
}

#[derive(Clone, Debug)]
pub enum End {
    Result(Value),
    Streams(Option<String>, Option<String>, Option<i32>),
    Failed(String),
    Denied,
    Cancelled,
    Nothing,
}

#[derive(Clone, Copy, Debug)]
pub enum Asked {
    Never,
    Rule,
    Person(Option<&'static str>),
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9 .,äß\u{1f980}]{1,30}",
        1 => Just(String::new()),
        1 => Just("line\nline \u{0} \u{7} \u{2028} \"quoted\" =1+1".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(json!({})),
        Just(json!([1, null, {"a": []}])),
        text().prop_map(|text| json!({"path": text})),
        text().prop_map(|text| json!({"command": text, "deep": {"er": [true, null]}})),
        Just(json!({"long": "word ".repeat(500)})),
    ]
}

fn end() -> impl Strategy<Value = End> {
    let code = prop::option::of(0..3i32);
    prop_oneof![
        4 => value().prop_map(End::Result),
        2 => (prop::option::of(text()), prop::option::of(text()), code).prop_map(|(out, err, code)| End::Streams(out, err, code)),
        2 => text().prop_map(End::Failed),
        1 => Just(End::Denied),
        1 => Just(End::Cancelled),
        1 => Just(End::Nothing),
    ]
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        6 => Just(Asked::Never),
        1 => Just(Asked::Rule),
        2 => prop::option::of(prop::sample::select(&["approve", "reject", "Use another."][..])).prop_map(Asked::Person),
    ]
}

/// The part of a tool call, as the AI SDK has it.
fn tool_part() -> impl Strategy<Value = Value> {
    let ended = prop::sample::select(vec![
        json!({"state": "input-available"}),
        json!({"state": "output-available", "output": {"files": ["a"]}}),
        json!({"state": "output-error", "errorText": "not found"}),
        json!({"state": "approval-requested", "approval": {"id": "q"}}),
        json!({"state": "output-denied", "approval": {"id": "q", "approved": false}}),
    ]);
    (0..3u8, value(), ended).prop_map(|(id, input, mut part)| {
        part["type"] = "tool-bash".into();
        part["toolCallId"] = format!("part_{id}").into();
        part["input"] = input;
        part
    })
}

pub fn op() -> impl Strategy<Value = Op> {
    let id = || prop::option::of(0..6u8);
    let usage = prop::option::of((0..900u64, 0..90u64, 0..9u64));
    let said = (prop::option::of(text()), prop::option::of(text()));
    prop_oneof![
        2 => Just(Op::Turn),
        3 => (text(), id(), 0..3u8).prop_map(|(text, id, files)| Op::User { text, id, files }),
        4 => (said, id(), usage, prop::option::of(1..500u64), any::<bool>()).prop_map(|((text, reasoning), id, usage, reported, aborted)| Op::Model { text, reasoning, id, usage, reported, aborted }),
        5 => (0..3u8, 0..3u8, value(), end(), asked()).prop_map(|(name, id, args, end, asked)| Op::Tool { name, id, args, end, asked }),
        2 => (text(), id()).prop_map(|(text, id)| Op::Say { text, id }),
        1 => (id(), tool_part()).prop_map(|(id, part)| Op::Part { id, part }),
        1 => (prop::option::of(text()), id()).prop_map(|(summary, tail)| Op::Compaction { summary, tail }),
        1 => (0..6u8).prop_map(|to| Op::Rewind { to }),
        2 => (0..8u8, value()).prop_map(|(kind, value)| Op::Event(kind, value)),
        1 => text().prop_map(Op::Prompt),
        1 => (0..3u8).prop_map(Op::Rules),
        1 => (1..500u64).prop_map(Op::Usage),
    ]
}

/// Also with messages that have calls and results.
pub fn op_with_relays() -> impl Strategy<Value = Op> {
    let said = (prop::option::of(text()), 0..3u8, any::<bool>());
    prop_oneof![
        8 => op(),
        1 => (said, value(), value()).prop_map(|((text, id, has_span), args, result)| Op::Relay { text, id, args, result, has_span }),
        1 => text().prop_map(Op::Observe),
    ]
}

/// Records a session, in many traces and segments if it `rolls_over`.
pub fn record(ops: &[Op], rolls_over: bool) -> TempDir {
    let recording = Recording::with(|builder| {
        let builder = builder.inline_limit(2048);
        match rolls_over {
            true => builder.trace_limits(1, Duration::MAX).segment_size(4096),
            false => builder,
        }
    });
    recording.run(|| {
        let run = spans::session_run(SESSION, "planner")
            .model("anthropic", "claude-sonnet-4-5")
            .title("Fix the build")
            .start();
        run.in_scope(|| {
            events::message_user("Begin.").emit();
            for turn in ops.split(|op| matches!(op, Op::Turn)) {
                let span = spans::session_turn().start();
                span.in_scope(|| turn.iter().for_each(perform));
                span.finish(Outcome::Ok);
            }
        });
        run.finish(Outcome::Ok);
    });
    recording.end()
}

fn message(id: u8) -> String {
    format!("m{id}")
}

fn perform(op: &Op) {
    match op {
        Op::Turn => {}
        Op::User { text, id, files } => {
            let mut user = events::message_user(text);
            if let Some(id) = id {
                user = user.message_id(message(*id));
            }
            let files: Vec<_> = (0..*files).map(|n| json!({"name": format!("{n}.pdf"), "media_type": "application/pdf", "url": format!("file:///{n}.pdf")})).collect();
            if !files.is_empty() {
                user = user.attachments(json!(files));
            }
            user.emit();
        }
        Op::Model {
            text,
            reasoning,
            id,
            usage,
            reported,
            aborted,
        } => model(
            (text.as_deref(), reasoning.as_deref()),
            *id,
            (*usage, *reported),
            *aborted,
        ),
        Op::Tool {
            name,
            id,
            args,
            end,
            asked,
        } => tool(*name, *id, args, end, *asked),
        Op::Say { text, id } => {
            let mut said = events::message_assistant(text);
            if let Some(id) = id {
                said = said.message_id(message(*id));
            }
            said.emit();
        }
        Op::Part { id, part } => {
            let mut said = events::message_assistant("").parts(json!([part]));
            if let Some(id) = id {
                said = said.message_id(message(*id));
            }
            said.emit();
        }
        Op::Compaction { summary, tail } => {
            let compaction = spans::compaction_run().auto(true).start();
            if let Some(tail) = tail {
                compaction.set("tail_start_id", message(*tail));
            }
            if let Some(summary) = summary {
                compaction.record_summary(summary);
            }
            compaction.set("messages_before", 9);
            compaction.finish(Outcome::Ok);
        }
        Op::Rewind { to } => events::rewind(message(*to)).emit(),
        Op::Event(kind, value) => event(*kind, value),
        Op::Prompt(text) => events::system_prompt(text).emit(),
        Op::Relay {
            text,
            id,
            args,
            result,
            has_span,
        } => relay(text.as_deref(), *id, args, result, *has_span),
        Op::Observe(text) => events::custom("message_tool", json!({"content": text})).emit(),
        Op::Rules(number) => {
            let pattern = format!("rm {number} *");
            let rule = json!({"permission": "bash", "pattern": pattern, "action": "ask"});
            events::permission_rules(json!([rule])).emit();
        }
        Op::Usage(tokens) => {
            tracing::Span::current()
                .session()
                .unwrap()
                .record(events::model_usage(&Usage {
                    input_tokens: Some(*tokens),
                    output_tokens: Some(2),
                    ..Usage::default()
                }))
        }
    }
}

fn event(kind: u8, value: &Value) {
    match kind {
        0 => events::artifact("flow.png")
            .mime("image/png")
            .caption("The flow")
            .emit(),
        1 => events::attempt("a1")
            .rationale("Try it")
            .metrics(json!({"loss": 0.5}))
            .emit(),
        2 => events::state_update().state(value.clone()).emit(),
        3 => events::custom("weather_report", json!({"sky": value, "nothing": null})).emit(),
        4 => events::verdict(1, "accepted").emit(),
        5 => events::error("no answer").emit(),
        6 => events::loop_warning("bash", 3)
            .window_size(6)
            .evidence(json!(["1:9"]))
            .emit(),
        _ => tracing::warn!("The disk is nearly full."),
    }
}

fn model(
    (text, reasoning): (Option<&str>, Option<&str>),
    id: Option<u8>,
    (usage, reported): (Option<(u64, u64, u64)>, Option<u64>),
    aborted: bool,
) {
    let call = spans::model_call("anthropic", "claude-sonnet-4-5")
        .temperature(0.25)
        .start();
    call.in_scope(|| {
        if let Some(reasoning) = reasoning {
            events::message_reasoning(reasoning).emit();
        }
        match (text, id) {
            (Some(text), Some(id)) => {
                let mut stream = call.stream(message(id));
                stream.push(text);
                if aborted {
                    stream.abort("user")
                } else {
                    stream.end()
                }
            }
            (Some(text), None) => events::message_assistant(text).emit(),
            _ => {}
        }
        if let Some(input) = reported {
            events::model_usage(&Usage {
                input_tokens: Some(input),
                ..Usage::default()
            })
            .emit();
        }
    });
    if let Some((input, output, cached)) = usage {
        call.record_usage(&Usage {
            input_tokens: Some(input + cached),
            cache_read_tokens: Some(cached),
            cache_write_tokens: Some(input / 3).filter(|count| *count > 0),
            output_tokens: Some(output),
            reasoning_tokens: Some(output / 3).filter(|count| *count > 0),
            cost_usd: Some(0.25),
            ..Usage::default()
        });
    }
    call.record_finish_reason("end_turn");
    call.finish(Outcome::Ok);
}

fn relay(text: Option<&str>, id: u8, args: &Value, result: &Value, has_span: bool) {
    let call = format!("call_{id}");
    let part = json!({"type": "tool_call", "id": call, "name": "bash", "arguments": args});
    let mut asks = json!({"parts": [part]});
    if let Some(text) = text {
        asks["content"] = text.into();
    }
    events::custom("message_assistant", asks).emit();
    if has_span {
        tool(0, id, args, &End::Result(result.clone()), Asked::Never);
    }
    let part = json!({"type": "tool_call_response", "id": call, "response": result});
    events::custom("message_tool", json!({"parts": [part]})).emit();
}

fn tool(name: u8, id: u8, args: &Value, end: &End, asked: Asked) {
    let tool = spans::tool_call(
        ["bash", "read", "edit"][usize::from(name)],
        format!("call_{id}"),
    )
    .args(args.clone())
    .start();
    match asked {
        Asked::Never => {}
        Asked::Rule => {
            let rule = spans::permission_evaluate("bash")
                .pattern("rm *")
                .child_of(&tool)
                .start();
            rule.record_action("deny", "manifest");
            rule.finish(Outcome::Denied);
        }
        Asked::Person(answer) => {
            let interrupt = format!("int_{id}");
            events::hitl_request(&interrupt)
                .tool_call_id(format!("call_{id}"))
                .on(&tool)
                .emit();
            if let Some(decision) = answer {
                tool.session()
                    .unwrap()
                    .record(events::hitl_response(&interrupt).decision(decision));
            }
        }
    }
    match end {
        End::Result(value) => tool.record_result(value),
        End::Streams(out, err, code) => {
            out.iter().for_each(|out| tool.set("stdout", out));
            err.iter().for_each(|err| tool.set("stderr", err));
            code.iter().for_each(|code| tool.record_exit_code(*code));
        }
        End::Failed(why) => tool.record_failure(&Failure::message(why.clone())),
        _ => {}
    }
    tool.finish(match end {
        End::Failed(_) => Outcome::Error,
        End::Denied => Outcome::Denied,
        End::Cancelled => Outcome::Cancelled,
        _ => Outcome::Ok,
    });
}
