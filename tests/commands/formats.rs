//! `spanledger export`, on a session that has everything.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde_json::{Value, json};
use spanledger::request::Request;
use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::Recording;
use crate::support::cli::{Done, run};
use crate::support::request_schema;
use crate::support::rich_session::{self, SESSION};

#[track_caller]
fn export(root: &Path, args: &[&str]) -> Done {
    let done = run(root, &[&["export"], args].concat());
    assert_eq!(done.code, 0, "{done:?}");
    done
}

#[test]
fn acp_asks_only_what_a_person_was_asked() {
    let dir = rich_session::record();
    let messages = export(dir.path(), &["acp", SESSION]).objects();
    let of = |method: &str| {
        messages
            .iter()
            .filter(|one| one["method"] == method)
            .collect::<Vec<_>>()
    };
    let asked = of("session/request_permission");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["params"]["toolCall"]["toolCallId"], "call_5");
    let answers: HashMap<_, _> = messages
        .iter()
        .filter(|one| one.get("method").is_none())
        .map(|one| (one["id"].to_string(), &one["result"]))
        .collect();
    let answer = answers[&asked[0]["id"].to_string()];
    assert_eq!(
        answer["outcome"],
        json!({"outcome": "selected", "optionId": "allow_once"})
    );
    let prompts = of("session/prompt");
    let stops: Vec<_> = prompts
        .iter()
        .map(|prompt| {
            answers[&prompt["id"].to_string()]["stopReason"]
                .as_str()
                .unwrap()
        })
        .collect();
    assert_eq!(stops, ["end_turn", "end_turn", "cancelled"]);
    // The recorded message is as it was.
    assert_eq!(
        of("session/cancel")[0]["params"],
        json!({"sessionId": SESSION})
    );
    // A client knows calls by their ids.
    let calls = messages
        .iter()
        .filter(|one| one["params"]["update"]["sessionUpdate"] == "tool_call");
    let ids: Vec<_> = calls
        .map(|one| one["params"]["update"]["toolCallId"].to_string())
        .collect();
    assert_eq!(ids.len(), 7);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 7);
}

#[test]
fn acp_that_the_agent_recorded_is_not_made_again() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_acp", "agent").start().entered();
        let prompt = json!({"sessionId": "ses_acp", "prompt": [{"type": "text", "text": "Go"}]});
        events::rpc("in", "session/prompt")
            .id(7)
            .params(prompt)
            .emit();
        events::message_user("Go").emit();
        drop(spans::tool_call("bash", "c1").start());
        let result = json!({"stopReason": "end_turn"});
        events::rpc("out", "session/prompt")
            .id(7)
            .result(result)
            .emit();
    });
    let done = export(recording.dir.path(), &["acp", "ses_acp"]);
    let mut messages = done.objects();
    for message in &mut messages {
        message.as_object_mut().unwrap().remove("_meta");
    }
    assert_eq!(
        messages,
        [
            json!({"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {"sessionId": "ses_acp", "prompt": [{"type": "text", "text": "Go"}]}}),
            json!({"jsonrpc": "2.0", "id": 7, "result": {"stopReason": "end_turn"}}),
        ]
    );
}

#[test]
fn messages_are_the_conversation_as_it_is_now() {
    let dir = rich_session::record();
    let anthropic = export(dir.path(), &["anthropic-messages", SESSION]).json();
    request_schema::anthropic(&anthropic).unwrap();
    let openai = export(dir.path(), &["openai-messages", SESSION]).json();
    let messages = openai["messages"].as_array().unwrap();
    assert_eq!(
        messages[0],
        json!({"role": "system", "content": "You are a careful engineer."})
    );
    request_schema::openai(&openai).unwrap();
    // The reader understands what the writers write.
    let parts = |body: &Value| -> Vec<Value> {
        let request = Request::read(body);
        let messages = request.after_prompt().iter();
        messages
            .flat_map(|message| message.parts.clone())
            .map(|mut part| {
                // Only Anthropic's API has it.
                part.as_object_mut().unwrap().remove("is_error");
                part
            })
            .collect()
    };
    assert_eq!(parts(&openai), parts(&anthropic));
    assert!(
        parts(&openai)
            .iter()
            .any(|part| part["type"] == "tool_call_response")
    );
    assert_eq!(
        Request::read(&openai).system,
        Request::read(&anthropic).system
    );
    // What was rewound is not sent again.
    for body in [&anthropic, &openai] {
        let text = body.to_string();
        assert!(
            text.contains("Edit it.") && text.contains("Done: see flow.png."),
            "{text}"
        );
        assert!(
            !text.contains("What is here?") && !text.contains("I list the files."),
            "{text}"
        );
    }
}

#[test]
fn compaction_replaces_what_it_summarizes() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_c", "agent").start().entered();
        events::message_user("One").message_id("m1").emit();
        events::message_assistant("Two").message_id("m2").emit();
        events::message_user("Three").message_id("m3").emit();
        let compaction = spans::compaction_run().set("tail_start_id", "m3").start();
        compaction.record_summary("One and two.");
        compaction.finish(Outcome::Ok);
        events::message_assistant("Four").emit();
    });
    let body = export(recording.dir.path(), &["openai-messages", "ses_c"]).json();
    let said = |(role, content)| json!({"role": role, "content": content});
    let expected = [
        ("user", "One and two."),
        ("user", "Three"),
        ("assistant", "Four"),
    ];
    assert_eq!(body["messages"], json!(expected.map(said)));
}

#[test]
fn atif_has_the_subagent_of_a_call_inside() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_p", "agent").start().entered();
        let call = spans::tool_call("task", "c1").start().entered();
        let child = spans::session_run("ses_p/../child", "helper")
            .start()
            .entered();
        events::message_user("Help").emit();
        drop((child, call));
    });
    let document = export(recording.dir.path(), &["atif", "ses_p"]).json();
    let result = &document["steps"][0]["observation"]["results"][0];
    assert_eq!(result["source_call_id"], "c1");
    assert_eq!(
        result["subagent_trajectory_ref"][0]["trajectory_id"],
        "ses_p/../child"
    );
    let inside = &document["subagent_trajectories"][0];
    assert_eq!(inside["trajectory_id"], "ses_p/../child");
    assert_eq!(inside["steps"][0]["message"], "Help");
}

#[test]
fn chrome_trace_nests_spans_on_each_track() {
    let dir = rich_session::record();
    let events = export(dir.path(), &["chrome-trace", SESSION]).json();
    let events = events.as_array().unwrap();
    let mut tracks: HashMap<u64, Vec<(f64, f64)>> = HashMap::new();
    let mut tools = 0;
    for event in events {
        let phase = event["ph"].as_str().unwrap();
        assert!(["M", "X", "i"].contains(&phase), "{event}");
        assert!(
            event["name"].is_string() && event["pid"].is_u64(),
            "{event}"
        );
        if phase == "X" {
            let (start, length) = (
                event["ts"].as_f64().unwrap(),
                event["dur"].as_f64().unwrap(),
            );
            let track = tracks.entry(event["tid"].as_u64().unwrap()).or_default();
            track.push((start, start + length));
            tools += u64::from(event["cat"] == "tool");
        }
    }
    assert_eq!(tools, 7);
    for spans in tracks
        .values()
        .flat_map(|spans| spans.iter().map(move |one| (one, spans)))
    {
        let ((start, end), others) = spans;
        // Times in microseconds are rounded.
        let crosses =
            |other: &&(f64, f64)| other.0 < *start && other.1 > start + 1.0 && other.1 + 1.0 < *end;
        // The last lines were written by hand: a run that ended before its tool.
        let other = others.iter().find(crosses).filter(|_| *start < 2e15);
        assert_eq!(other, None, "{start} to {end}");
    }
}

#[test]
fn format_that_is_not_live_is_not_followed() {
    let dir = rich_session::record();
    let done = run(
        dir.path(),
        &["export", "atif", SESSION, "--follow", "-o", "x"],
    );
    assert_eq!(done.code, 2);
    assert!(done.err.contains("not kept current"), "{done:?}");
}
