use serde_json::json;

use super::*;

#[test]
fn api_is_found_by_its_own_members() {
    let user = json!({"role": "user", "content": "hi"});
    let block = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]});
    let part = json!({"role": "user", "parts": []});
    let cases = [
        (json!({"messages": [user]}), Api::OpenAiChat),
        (json!({"messages": [user], "system": "s"}), Api::Anthropic),
        (json!({"messages": [user, block]}), Api::Anthropic),
        (
            json!({"messages": [user], "tools": [{"input_schema": {}}]}),
            Api::Anthropic,
        ),
        (json!({"messages": [part]}), Api::GenAi),
        (json!({"input": "hi"}), Api::OpenAiResponses),
        (json!({"input": []}), Api::OpenAiResponses),
        (json!({"input": {"text": "hi"}}), Api::Unknown),
        (json!({"prompt": "hi"}), Api::Unknown),
        (json!([1]), Api::Unknown),
        (json!(null), Api::Unknown),
    ];
    for (body, api) in cases {
        assert_eq!(Api::of(&body), api, "{body}");
    }
}

#[test]
fn split_bodies_are_joined_again() {
    let bodies = [
        json!({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}),
        json!({"messages": [1, null, "x", {"role": 7, "content": {"a": 1}}], "tools": "odd"}),
        json!({"messages": [], "system": [{"type": "text", "text": "s"}], "tools": null}),
        json!({"input": "text", "instructions": "s", "tools": []}),
        json!({"messages": [{"$part": "00", "role": "user"}], "system": {"$part": "11"}}),
        json!({"anything": [{"messages": [1]}]}),
        json!("text"),
    ];
    for body in bodies {
        let (rest, parts) = split(&body, &Request::read(&body));
        let find = |digest: &str| {
            let part = parts.iter().find(|(known, _)| known == digest);
            part.map(|(_, part)| part.clone())
        };
        assert_eq!(join(&rest, find).as_ref(), Ok(&body));
        let missing = join(&rest, |_| None);
        assert_eq!(missing.is_err(), !parts.is_empty(), "{body}");
    }
}

#[test]
fn meaning_leaves_out_ids_and_the_order_of_results() {
    let result =
        |id: &str, text: &str| json!({"type": "tool_call_response", "id": id, "response": text});
    let message = |parts| Message::new("tool", parts).meaning();
    let one = message(vec![result("a", "1"), result("b", "2")]);
    assert_eq!(one, message(vec![result("x", "2"), result("y", "1")]));
    assert_ne!(one, message(vec![result("a", "1"), result("b", "3")]));
    let call = |id: &str| json!({"type": "tool_call", "id": id, "name": "ls", "arguments": {}});
    let asks = |id| Message::new("assistant", vec![call(id)]).meaning();
    assert_eq!(asks("a"), asks("b"));
    // An id in a text or in arguments is content.
    assert_ne!(
        Message::text("user", "a").meaning(),
        Message::text("user", "b").meaning()
    );
}

#[test]
fn parts_of_other_types_are_kept_or_converted() {
    let data = "data:image/png;base64,iVBO";
    let body = json!({"model": "m", "messages": [{"role": "user", "content": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": data}},
    ]}]});
    let request = Request::read(&body);
    assert_eq!(openai(&request), body);
    let converted = anthropic(&request);
    assert_eq!(
        converted["messages"][0]["content"][1],
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}})
    );
    assert_eq!(
        openai(&Request::read(&converted))["messages"],
        body["messages"]
    );
}

#[test]
fn usage_counts_what_a_cache_served() {
    let usage = |usage: Value| Response::read(&json!({"content": [], "usage": usage})).usage;
    let anthropic = usage(json!({"input_tokens": 10, "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 1, "output_tokens": 4}));
    assert_eq!(
        (anthropic.input_tokens, anthropic.input_uncached_tokens),
        (Some(16), Some(10))
    );
    let openai = usage(json!({"prompt_tokens": 16, "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 3}}));
    assert_eq!(
        (openai.input_tokens, openai.cache_read_tokens),
        (Some(16), Some(5))
    );
    assert_eq!(openai.reasoning_tokens, Some(3));
    assert_eq!(Response::read(&json!(null)), Response::default());
}
