//! `spanledger replay`.

use serde_json::{Value, json};
use spanledger::{Outcome, SpanExt, events, spans};

use crate::diff::three;
use crate::support::Recording;
use crate::support::cli::run;
use crate::support::request_schema;
use crate::support::scripted::{How, Script};

#[test]
fn replay_names_what_is_missing() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let first = spans::session_turn().start();
        first.in_scope(|| spans::model_call("p", "m").start().finish(Outcome::Ok));
        first.finish(Outcome::Ok);
        events::system_prompt("Be brief.").emit();
        events::tool_catalog(json!([])).emit();
        let second = spans::session_turn().start();
        second.in_scope(|| {
            events::message_user("Look")
                .attachments(json!([{"name": "a.png", "bytes": 3}]))
                .emit();
            spans::model_call("p", "m").start().finish(Outcome::Ok);
            events::message_assistant("I see.").emit();
        });
    });
    let root = recording.dir.path();
    let done = run(root, &["replay", "s", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    let objects = done.objects();
    let missing = |at: usize| -> Vec<String> {
        let missing = objects[at]["missing"].as_array().unwrap().iter();
        missing
            .map(|one| one["what"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(missing(0), ["user_input", "system_prompt", "tool_catalog"]);
    assert_eq!(missing(1), ["user_input", "history"]);
    assert_eq!(
        (&objects[1]["system_prompt"], &objects[1]["history"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(objects[2]["eligible"], false);
    assert_eq!(run(root, &["replay", "s", "--check"]).code, 1);
    let text = run(root, &["replay", "s", "--turn", "2"]).out;
    assert!(text.contains("the bytes of the file a.png"), "{text}");
    assert!(!text.contains("Turn 1"), "{text}");
}

#[test]
fn whole_sessions_can_be_run_again() {
    for how in [How::OpenAi, How::Anthropic, How::Events, How::Macros] {
        let recording = three(how);
        let done = run(recording.dir.path(), &["replay", "a", "--check"]);
        assert_eq!(done.code, 0, "{how:?}: {}", done.out);
    }
}

#[test]
fn reconstructed_inputs_are_accepted_by_the_schemas_of_the_apis() {
    for how in [How::Events, How::Macros] {
        let recording = three(how);
        let root = recording.dir.path();
        for call in 1.. {
            let call = call.to_string();
            let inputs = |form: &str| {
                run(
                    root,
                    &["replay", "a", "--inputs", "--call", &call, "--as", form],
                )
            };
            let done = inputs("openai");
            if done.code == 2 {
                assert!(call.parse::<usize>().unwrap() > 4, "{done:?}");
                break;
            }
            assert!(done.err.contains("reconstructed"), "{}", done.err);
            request_schema::openai(&done.json()).unwrap();
            request_schema::anthropic(&inputs("anthropic").json()).unwrap();
            let curl = inputs("curl").out;
            let body = curl.lines().rev().nth(1).unwrap();
            request_schema::openai(&serde_json::from_str(body).unwrap()).unwrap();
        }
    }
}

#[test]
fn recorded_inputs_are_the_body_as_sent() {
    let recording = Recording::with(|builder| builder.inline_limit(600));
    let script = Script::new(9);
    script.record(&recording, "a", How::Anthropic, 1);
    let root = recording.dir.path();
    let calls = run(root, &["replay", "a", "--json"]).objects();
    let calls: usize = calls
        .iter()
        .filter_map(|turn| Some(turn["model_calls"].as_array()?.len()))
        .sum();
    for call in 1..=calls {
        let document = run(
            root,
            &[
                "replay",
                "a",
                "--inputs",
                "--json",
                "--call",
                &call.to_string(),
            ],
        )
        .json();
        assert_eq!(
            (&document["inputs"], &document["verified"]),
            (&json!("recorded"), &json!(true))
        );
        request_schema::anthropic(&document["body"]).unwrap();
    }
}

/// What is recorded without a request may be hard to send: a call that was denied, one without a result or an id, an
/// image, an empty answer, arguments that are no object, a temperature that only one API takes.
#[test]
fn inputs_of_an_unusual_session_are_accepted_by_the_schemas_of_the_apis() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::system_prompt("Be brief.").emit();
        events::tool_catalog(json!([{"name": "bash"}, {"name": "read", "schema": null}])).emit();
        let _turn = spans::session_turn().start().entered();
        events::message_user("Look").emit();
        events::message_assistant("").emit();
        let denied = spans::tool_call("bash", "c1").args(json!("ls")).start();
        denied.finish(Outcome::Denied);
        let open = spans::tool_call("read", "").start();
        events::message_system("The user is away.").emit();
        events::message_user("And now?").emit();
        let call = spans::model_call("p", "m").temperature(1.5).start();
        call.finish(Outcome::Ok);
        drop(open);
    });
    let inputs = |form: &str| {
        let args = ["replay", "s", "--inputs", "--as", form];
        run(recording.dir.path(), &args).json()
    };
    request_schema::openai(&inputs("openai")).unwrap();
    request_schema::anthropic(&inputs("anthropic")).unwrap();
}

/// Puts a value into a body, or removes a member, by its path.
fn changed(body: &Value, path: &str, value: Value) -> Value {
    let mut body = body.clone();
    let (parent, name) = path.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Object(members) if value.is_null() => drop(members.remove(name)),
        Value::Object(members) => drop(members.insert(name.to_owned(), value)),
        Value::Array(items) if value.is_null() => drop(items.remove(name.parse().unwrap())),
        Value::Array(items) => items.insert(name.parse().unwrap(), value),
        _ => panic!("{path}"),
    }
    body
}

#[test]
fn schemas_refuse_what_the_apis_refuse() {
    let schema = json!({"type": "object"});
    let openai = json!({"model": "m", "temperature": 1.5,
    "tools": [{"type": "function", "function": {"name": "ls", "parameters": schema}}],
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "u"}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
    ]});
    request_schema::openai(&openai).unwrap();
    let user = json!({"role": "user", "content": "u"});
    for (path, value) in [
        ("/model", Value::Null),
        ("/messages", json!([])),
        ("/max_output_tokens", json!(9)),
        ("/temperature", json!(2.5)),
        ("/tools/0/function/name", json!("a tool")),
        ("/tools/0/input_schema", schema.clone()),
        ("/tools/1", openai["tools"][0].clone()),
        ("/messages/1/role", json!("model")),
        ("/messages/1/content", json!(7)),
        ("/messages/1/content/0/type", json!("input_text")),
        ("/messages/2/tool_calls/0/function/arguments", json!({})),
        ("/messages/2/tool_calls/0/function/arguments", json!("ls")),
        ("/messages/2/tool_calls", Value::Null),
        ("/messages/3", user.clone()),
        ("/messages/3", Value::Null),
        ("/messages/3/tool_call_id", json!("c2")),
        ("/messages/3/content", Value::Null),
    ] {
        let body = changed(&openai, path, value);
        assert!(request_schema::openai(&body).is_err(), "{path}: {body}");
    }
    let anthropic = json!({"model": "m", "max_tokens": 9, "system": "s", "temperature": 0.5,
    "tools": [{"name": "ls", "input_schema": schema}],
    "messages": [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "ls", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "r"},
            {"type": "text", "text": "and?"}]},
    ]});
    request_schema::anthropic(&anthropic).unwrap();
    for (path, value) in [
        ("/max_tokens", Value::Null),
        ("/max_completion_tokens", json!(9)),
        ("/temperature", json!(1.5)),
        ("/tools/0/input_schema", json!({})),
        ("/tools/0/parameters", schema.clone()),
        ("/messages/0", Value::Null),
        ("/messages/0/role", json!("system")),
        ("/messages/0/content", json!("")),
        ("/messages/1/content/0/input", json!("ls")),
        ("/messages/1/content/0/id", json!("c.1")),
        ("/messages/2", user),
        ("/messages/2", Value::Null),
        ("/messages/2/content/0", Value::Null),
        ("/messages/2/content/0/tool_use_id", json!("c2")),
        (
            "/messages/2/content/0",
            json!({"type": "text", "text": "first"}),
        ),
        ("/messages/2/content/1/text", json!(" ")),
    ] {
        let body = changed(&anthropic, path, value);
        assert!(request_schema::anthropic(&body).is_err(), "{path}: {body}");
    }
}
