//! Requests and answers as sent: `SpanExt::request` and `SpanExt::response`.

use serde_json::{Value, json};
use spanledger::request::{self, Api, Request};
use spanledger::{Outcome, SpanExt, events, spans};

use crate::support::{Recording, Trace};

/// A conversation of two calls in each API, the second with the first's answer and the result of a tool.
pub fn conversation(api: Api, secret: &str) -> [(Value, Value); 2] {
    let question = format!("List the files, my key is {secret}");
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    match api {
        Api::Anthropic => {
            let user = json!({"role": "user", "content": question});
            let call = json!({"role": "assistant", "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"path": "."}},
            ]});
            let result = json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Cargo.toml"},
            ]});
            let body = |messages: Value| {
                json!({"model": "claude-sonnet-4-5", "max_tokens": 1024, "temperature": 0.5,
                    "system": "You are careful.", "messages": messages,
                    "tools": [{"name": "ls", "description": "List.", "input_schema": schema}]})
            };
            let answer = |content: Value, reason: &str| {
                json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-x",
                    "content": content, "stop_reason": reason, "usage": {"input_tokens": 10,
                    "cache_read_input_tokens": 5, "cache_creation_input_tokens": 1, "output_tokens": 4}})
            };
            let end = json!([{"type": "text", "text": "One file."}]);
            [
                (
                    body(json!([user])),
                    answer(call["content"].clone(), "tool_use"),
                ),
                (body(json!([user, call, result])), answer(end, "end_turn")),
            ]
        }
        Api::OpenAiResponses => {
            let user =
                json!({"role": "user", "content": [{"type": "input_text", "text": question}]});
            let call = json!({"type": "function_call", "call_id": "call_1", "name": "ls",
                "arguments": "{\"path\":\".\"}"});
            let result = json!({"type": "function_call_output", "call_id": "call_1", "output": "Cargo.toml"});
            let body = |input: Value| {
                json!({"model": "gpt-5", "instructions": "You are careful.", "input": input,
                    "max_output_tokens": 1024, "reasoning": {"effort": "low"},
                    "tools": [{"type": "function", "name": "ls", "description": "List.",
                        "parameters": schema}]})
            };
            let answer = |output: Value| {
                json!({"id": "resp_1", "object": "response", "model": "gpt-5-x", "status": "completed",
                    "output": output, "usage": {"input_tokens": 16, "output_tokens": 4,
                    "input_tokens_details": {"cached_tokens": 5}, "total_tokens": 20}})
            };
            let said = json!([{"type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": "One file."}]}]);
            [
                (body(json!([user])), answer(json!([call]))),
                (body(json!([user, call, result])), answer(said)),
            ]
        }
        _ => {
            let system = json!({"role": "system", "content": "You are careful."});
            let user = json!({"role": "user", "content": question});
            let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_1",
                "type": "function", "function": {"name": "ls", "arguments": "{\"path\":\".\"}"}}]});
            let result = json!({"role": "tool", "tool_call_id": "call_1", "content": "Cargo.toml"});
            let body = |messages: Value| {
                json!({"model": "gpt-5", "messages": messages, "max_completion_tokens": 1024,
                    "temperature": 0.5, "top_p": 0.9, "stream": false,
                    "tools": [{"type": "function", "function": {"name": "ls", "description": "List.",
                        "parameters": schema}}]})
            };
            let answer = |message: Value, reason: &str| {
                json!({"id": "chatcmpl-1", "model": "gpt-5-x",
                    "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                    "usage": {"prompt_tokens": 16, "completion_tokens": 4, "total_tokens": 20,
                    "prompt_tokens_details": {"cached_tokens": 5}}})
            };
            let end = json!({"role": "assistant", "content": "One file."});
            [
                (
                    body(json!([system, user])),
                    answer(call.clone(), "tool_calls"),
                ),
                (
                    body(json!([system, user, call, result])),
                    answer(end, "stop"),
                ),
            ]
        }
    }
}

pub const APIS: [Api; 3] = [Api::OpenAiChat, Api::OpenAiResponses, Api::Anthropic];
const SECRET: &str = "sk-ant-api03-Zx8Kp2Lm9Qw4Er7Ty1Ui6Op3As5Df0Gh";

fn record(recording: &Recording, session: &str, calls: &[(Value, Value)]) {
    record_with_tools(recording, session, calls, || ());
}

/// Records calls, and what happens before each but the first.
pub fn record_with_tools(
    recording: &Recording,
    session: &str,
    calls: &[(Value, Value)],
    tools: impl Fn(),
) {
    recording.run(|| {
        let _run = spans::session_run(session, "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        for (at, (body, answer)) in calls.iter().enumerate() {
            if at > 0 {
                tools();
            }
            let call = spans::model_call("provider", "model").start();
            call.request(body);
            call.response(answer);
            call.finish(Outcome::Ok);
        }
    });
}

fn results(trace: &Trace, session: &str) -> Vec<Value> {
    let lines = trace.session(session).iter();
    let results = lines.filter(|line| line.kind == "model_result");
    results
        .map(|line| Value::Object(line.payload.clone()))
        .collect()
}

#[test]
fn each_api_gives_the_same_facts() {
    for api in APIS {
        let recording = Recording::new();
        record(&recording, "s", &conversation(api, "none"));
        let trace = recording.trace();
        let lines = trace.session("s");
        let count = |kind: &str| lines.iter().filter(|line| line.kind == kind).count();
        let said: Vec<_> = lines
            .iter()
            .filter(|line| line.kind.starts_with("message_"))
            .collect();
        let kinds: Vec<_> = said.iter().map(|line| line.kind.as_str()).collect();
        let expected = [
            "message_user",
            "message_assistant",
            "message_tool",
            "message_assistant",
        ];
        assert_eq!(kinds, expected, "{api}");
        assert_eq!(said[3].payload["content"], "One file.", "{api}");
        assert_eq!(
            said[1].payload["parts"].as_array().unwrap().last().unwrap()["name"],
            "ls"
        );
        assert_eq!(
            (count("system_prompt"), count("tool_catalog")),
            (1, 1),
            "{api}"
        );
        let catalog = &trace.one("tool_catalog").payload["tools"][0];
        assert_eq!(catalog["name"], "ls", "{api}");
        assert_eq!(catalog["schema"]["type"], "object", "{api}");
        assert_eq!(
            trace.one("system_prompt").payload["body"],
            "You are careful.",
            "{api}"
        );
        for result in results(&trace, "s") {
            assert_eq!(result["usage"]["input_tokens"], 16, "{api}");
            assert_eq!(result["usage"]["output_tokens"], 4, "{api}");
            assert_eq!(result["usage"]["cache_read_tokens"], 5, "{api}");
            assert_eq!(result["max_tokens"], 1024, "{api}");
            assert!(result["response_id"].is_string() && result["finish_reason"].is_string());
            assert!(
                result["response_model"].as_str().unwrap().ends_with("-x"),
                "{api}"
            );
            assert_eq!(
                result["request_digest"].as_str().unwrap().len(),
                64,
                "{api}"
            );
            assert_eq!(
                result["system_prompt_digest"],
                trace.one("system_prompt").payload["digest"]
            );
            assert_eq!(
                result["tool_catalog_digest"],
                trace.one("tool_catalog").payload["digest"]
            );
        }
    }
}

#[test]
fn digest_is_that_of_the_canonical_body() {
    for api in APIS {
        let recording = Recording::new();
        let calls = conversation(api, "none");
        record(&recording, "s", &calls);
        let results = results(&recording.trace(), "s");
        for ((body, _), result) in calls.iter().zip(&results) {
            assert_eq!(result["request_digest"], request::digest(body), "{api}");
        }
    }
}

#[test]
fn masked_secrets_are_equal_under_one_root() {
    for api in APIS {
        let recording = Recording::new();
        record(&recording, "a", &conversation(api, SECRET));
        record(&recording, "b", &conversation(api, SECRET));
        record(
            &recording,
            "c",
            &conversation(api, &SECRET.replace("Zx8K", "Qw5T")),
        );
        let trace = recording.trace();
        let digests = |session: &str| -> Vec<Value> {
            let results = results(&trace, session).into_iter();
            results
                .map(|result| result["request_digest"].clone())
                .collect()
        };
        assert_eq!(digests("a"), digests("b"), "{api}");
        assert_ne!(digests("a")[0], digests("c")[0], "{api}");
        let text = format!("{:?}", trace.sessions);
        assert!(text.contains("[masked rule="), "{api}");
        assert!(!text.contains("Zx8Kp2Lm9Qw4"), "{api}");
    }
}

#[test]
fn messages_are_stored_once() {
    let recording = Recording::new();
    let long = "x".repeat(2000);
    let calls: Vec<_> = (1..20)
        .map(|count| {
            let mut messages = Vec::new();
            for index in 0..count {
                let call = json!([{"id": format!("c{index}"), "type": "function",
                    "function": {"name": "read", "arguments": "{}"}}]);
                messages.push(json!({"role": "user", "content": format!("{index} {long}")}));
                messages.push(json!({"role": "assistant", "content": null, "tool_calls": call}));
                messages.push(
                    json!({"role": "tool", "tool_call_id": format!("c{index}"), "content": long}),
                );
            }
            (json!({"model": "m", "messages": messages}), json!({}))
        })
        .collect();
    record(&recording, "s", &calls);
    let trace = recording.trace();
    let count = |kind: &str| trace.lines().filter(|line| line.kind == kind).count();
    assert_eq!(count("message_user"), 19);
    // A line for each message that is more than a text.
    assert_eq!(count("request_part"), 2 * 19);
}

#[test]
fn events_of_the_agent_are_not_recorded_again() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        events::message_user("yes").emit();
        let mut messages = vec![json!({"role": "user", "content": "yes"})];
        let call = spans::model_call("openai", "m").start();
        call.request(&json!({"model": "m", "messages": messages}));
        events::message_assistant("Done.").emit();
        events::message_user("yes").emit();
        messages.push(json!({"role": "assistant", "content": "Done."}));
        messages.push(json!({"role": "user", "content": "yes"}));
        messages.push(json!({"role": "user", "content": "yes"}));
        let call = spans::model_call("openai", "m").start();
        call.request(&json!({"model": "m", "messages": messages}));
    });
    let trace = recording.trace();
    let count = |kind: &str| trace.lines().filter(|line| line.kind == kind).count();
    assert_eq!((count("message_user"), count("message_assistant")), (3, 1));
    assert_eq!(count("request_part"), 0);
}

#[test]
fn any_json_is_recorded() {
    let recording = Recording::new();
    let bodies = [
        json!({"prompt": "a", "n": 1.5}),
        json!([1, 2]),
        json!("text"),
        json!(null),
    ];
    let calls: Vec<_> = bodies.iter().map(|body| (body.clone(), json!(3))).collect();
    record(&recording, "s", &calls);
    for (body, result) in bodies.iter().zip(results(&recording.trace(), "s")) {
        assert_eq!(result.get("request"), Some(body));
        assert_eq!(result["request_digest"], request::digest(body));
    }
}

#[test]
fn bodies_given_as_text_are_read() {
    let recording = Recording::new();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    record(&recording, "s", &[(body.to_string().into(), json!({}))]);
    let results = results(&recording.trace(), "s");
    assert_eq!(results[0]["request_digest"], request::digest(&body));
    assert_eq!(results[0]["model_id"], "m");
}

#[test]
fn errors_of_the_provider_are_recorded() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let call = spans::model_call("anthropic", "m").start();
        call.response(&json!({"type": "error",
            "error": {"type": "overloaded_error", "message": "Overloaded"}}));
    });
    let result = &results(&recording.trace(), "s")[0];
    assert_eq!(result["outcome"], "error");
    assert_eq!(result["error"]["error_type"], "overloaded_error");
}

#[test]
fn only_model_calls_have_requests() {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        let tool = spans::tool_call("bash", "c1").start();
        tool.request(&json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}));
        tool.response(&json!({"choices": []}));
    });
    let trace = recording.trace();
    assert!(trace.lines().all(|line| !line.kind.starts_with("message_")));
}

#[test]
fn writers_are_read_back() {
    for api in APIS {
        for (body, _) in conversation(api, "none") {
            let mut given = Request::read(&body);
            for write in [request::openai, request::anthropic] {
                let mut read = Request::read(&write(&given));
                assert_eq!(
                    (&read.model, &read.system),
                    (&given.model, &given.system),
                    "{api}"
                );
                assert_eq!(read.max_tokens, given.max_tokens, "{api}");
                for tools in [&mut read.tools, &mut given.tools] {
                    tools
                        .iter_mut()
                        .for_each(|tool| drop(tool.as_object_mut().unwrap().remove("type")));
                }
                assert_eq!(read.tools, given.tools, "{api}");
                let meaning = |request: &Request| -> Vec<String> {
                    let messages = request.after_prompt().iter();
                    messages
                        .map(|message| format!("{} {:?}", message.author(), message.parts))
                        .collect()
                };
                assert_eq!(meaning(&read), meaning(&given), "{api}");
            }
        }
    }
}

#[test]
fn recognized_spans_have_their_request() {
    let recording = Recording::new();
    let text = |role: &str, text: &str| json!({"role": role, "parts": [{"type": "text", "content": text}]});
    let result = json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "2"}]});
    let messages = [text("user", "1 + 1?"), text("assistant", "I add."), result];
    for session in ["a", "b"] {
        recording.run(|| {
            let agent = tracing::info_span!(
                "invoke_agent",
                gen_ai.operation.name = "invoke_agent",
                gen_ai.conversation.id = session
            );
            let _in_agent = agent.enter();
            for count in [1, 3] {
                let chat = tracing::info_span!(
                    "chat",
                    gen_ai.operation.name = "chat",
                    gen_ai.request.model = "gpt-5",
                    gen_ai.system_instructions = tracing::field::Empty,
                    gen_ai.input.messages = tracing::field::Empty
                );
                let sent = json!(messages[..count]).to_string();
                chat.record("gen_ai.input.messages", sent);
                chat.record("gen_ai.system_instructions", "Be brief.");
            }
        });
    }
    let trace = recording.trace();
    let (a, b) = (results(&trace, "a"), results(&trace, "b"));
    assert_eq!(a.len(), 2);
    for (a, b) in a.iter().zip(&b) {
        assert_eq!(a["request_digest"].as_str().unwrap().len(), 64);
        assert_eq!(a["request_digest"], b["request_digest"]);
        assert_eq!(a["request"]["model"], "gpt-5");
        assert!(a["request"]["system_instructions"].is_object());
    }
    assert_ne!(a[0]["request_digest"], a[1]["request_digest"]);
    let dir = spanledger::read::session_dir(recording.dir.path(), "a");
    let found = spanledger::inspect::replay::inputs(dir, Default::default())
        .unwrap()
        .unwrap();
    assert_eq!(
        found.digest.as_ref().map(|(_, is_same)| *is_same),
        Some(true)
    );
    let body = json!({"model": "gpt-5", "system_instructions": "Be brief.", "messages": messages});
    assert_eq!(found.body, body);
    assert_eq!(found.anthropic()["system"], "Be brief.");
}

#[test]
fn a_resumed_session_stores_no_part_again() {
    let recording = Recording::new();
    let calls = conversation(Api::OpenAiChat, "none");
    record(&recording, "s", &calls);
    let count = |dir: &std::path::Path| {
        let trace = Trace::read(dir);
        trace
            .lines()
            .filter(|line| line.kind == "request_part")
            .count()
    };
    let dir = recording.end();
    let before = count(dir.path());
    assert_eq!(before, 3);
    let (layer, guard) = spanledger::builder().root(dir.path()).build().unwrap();
    use tracing_subscriber::layer::SubscriberExt;
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let _run = spans::session_run("s", "planner").start().entered();
        let call = spans::model_call("openai", "gpt-5").start();
        call.request(&calls[1].0);
    });
    guard.shutdown().unwrap();
    assert_eq!(count(dir.path()), before);
}
