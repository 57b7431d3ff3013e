//! `openai-messages` and `anthropic-messages`, read as requests are when an agent records them.

use std::path::Path;

use serde_json::{Value, json};
use spanledger::export::{Format, Target, export};
use spanledger::read::session_dir;
use spanledger::request::{self, Message, Request};
use spanledger::{Outcome, SpanExt, events, spans};

use crate::requests::{APIS, conversation, record_with_tools};
use crate::support::Recording;

/// The body that a session is exported as.
fn exported(format: Format, root: &Path) -> Value {
    let out = root.join("body.json");
    let mut target = Target::file(&out);
    export(format, session_dir(root, "s"), &mut target).unwrap();
    target.finish().unwrap();
    serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap()
}

/// What the messages of a body say, roles and parts.
fn said(body: &Value) -> Vec<Message> {
    let request = Request::read(body);
    let mut said: Vec<Message> = Vec::new();
    for message in request.after_prompt() {
        for part in &message.parts {
            // Each API has results in messages of another role.
            let role = match part["type"] == "tool_call_response" {
                true => "tool",
                false => &message.role,
            };
            said.push(Message::new(role, vec![part.clone()]));
        }
    }
    said
}

#[test]
fn export_is_the_request_and_its_answer() {
    let spans_of_tools = [None, Some("id"), Some("no id")];
    let cases = APIS
        .into_iter()
        .flat_map(|api| spans_of_tools.map(|span| (api, span)));
    for (api, span) in cases {
        let recording = Recording::new();
        let calls = conversation(api, "none");
        // The call and its result are in messages, and maybe in a span too.
        record_with_tools(&recording, "s", &calls, || {
            let is_call = |part: &&Value| part["type"] == "tool_call";
            let request = Request::read(&calls[1].0);
            let parts = request.messages.iter().flat_map(|message| &message.parts);
            for call in parts.filter(is_call).filter(|_| span.is_some()) {
                let id = call["id"].as_str().filter(|_| span == Some("id"));
                let tool = spans::tool_call("ls", id.unwrap_or_default());
                let tool = tool.args(call["arguments"].clone()).start();
                tool.record_result("Cargo.toml");
                tool.finish(Outcome::Ok);
            }
        });
        let sent = &calls[1].0;
        for format in [Format::OpenAiMessages, Format::AnthropicMessages] {
            let body = exported(format, recording.dir.path());
            let (again, request) = (Request::read(&body), Request::read(sent));
            assert_eq!(again.system, request.system, "{api} {format}");
            assert_eq!(again.tools[0]["name"], request.tools[0]["name"]);
            assert_eq!(
                (again.max_tokens, again.temperature),
                (request.max_tokens, request.temperature)
            );
            let mut expected = said(sent);
            expected.push(Message::text("assistant", "One file."));
            assert_eq!(said(&body), expected, "{api} {format} {span:?}: {body}");
        }
    }
}

/// With tools that were denied, cancelled or never ended, and with hidden messages, a session is exported as a body that both APIs take.
#[test]
fn export_is_the_conversation_as_it_is_now() {
    let image = "https://example.com/a.png";
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::message_user("Forget this.").message_id("m1").emit();
        events::message_user("Look at it.")
            .message_id("m2")
            .attachments(json!([{"media_type": "image/png", "url": image}, {"media_type": "application/pdf", "url": "file:///a.pdf"}]))
            .emit();
        let model = spans::model_call("provider", "model").start();
        model.in_scope(|| events::message_assistant("I look.").message_id("m3").emit());
        model.finish(Outcome::Ok);
        for (id, outcome) in [("c1", Some(Outcome::Denied)), ("c2", Some(Outcome::Cancelled)), ("c3", None)] {
            let tool = spans::tool_call("rm", id).args(json!({"path": id})).start();
            match outcome {
                Some(outcome) => tool.finish(outcome),
                // The process dies.
                None => std::mem::forget(tool),
            }
        }
        events::message_user("Not this.").message_id("m4").emit();
        events::rewind("m3").hidden_ids(json!(["m4"])).emit();
        let compaction = spans::compaction_run().set("tail_start_id", "m2").start();
        compaction.record_summary("It was forgotten.");
        compaction.finish(Outcome::Ok);
        events::message_user("And now?").message_id("m5").emit();
    });
    for format in [Format::OpenAiMessages, Format::AnthropicMessages] {
        let body = exported(format, recording.dir.path());
        let call = |id: &str| json!({"type": "tool_call", "id": id, "name": "rm", "arguments": {"path": id}});
        let result = |id: &str, text: &str| {
            Message::new(
                "tool",
                vec![json!({"type": "tool_call_response", "id": id, "response": text})],
            )
        };
        let part = |role: &str, part: Value| Message::new(role, vec![part]);
        let image = match format {
            Format::OpenAiMessages => json!({"type": "image_url", "image_url": {"url": image}}),
            _ => json!({"type": "image", "source": {"type": "url", "url": image}}),
        };
        let expected = [
            Message::text("user", "It was forgotten."),
            Message::text("user", "Look at it."),
            part("user", image),
            Message::text("assistant", "I look."),
            part("assistant", call("c1")),
            part("assistant", call("c2")),
            part("assistant", call("c3")),
            result("c1", "denied"),
            result("c2", "cancelled"),
            result("c3", "The call has no result."),
            Message::text("user", "And now?"),
        ];
        let mut said = said(&body);
        for part in said.iter_mut().flat_map(|message| &mut message.parts) {
            // Only Anthropic's API has it.
            part.as_object_mut().unwrap().remove("is_error");
        }
        assert_eq!(said, expected, "{format}: {body}");
        // Reading and writing again changes nothing.
        let request = Request::read(&body);
        let again = match format {
            Format::OpenAiMessages => request::openai(&request),
            _ => request::anthropic(&request),
        };
        assert_eq!(again, body, "{format}");
    }
}
