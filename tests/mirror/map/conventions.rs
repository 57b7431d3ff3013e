//! What backends read: settings for the names of attributes.

use serde_json::{Value, json};
use spanledger::{Outcome, SpanExt, Usage, spans};

use crate::map::setup::{attributes, named, one, sent};
use crate::map::spans::session;

const CACHE_CREATION: &str = "gen_ai.usage.cache_creation.input_tokens";
const CACHE_WRITE: &str = "gen_ai.usage.cache_write.input_tokens";

fn model_call(policy: Value) -> Value {
    let payload = json!({
        "model_id": "m",
        "ttft_ms": 1250,
        "usage": {"cache_write_tokens": 7, "cost_usd": 0.25},
    });
    let span = one(policy, "model_result", payload).unwrap();
    attributes(&span.attributes)
}

#[test]
fn cache_tokens_have_one_of_two_names() {
    let usual = model_call(json!({}));
    assert_eq!(usual[CACHE_CREATION], 7);
    assert_eq!(usual.get(CACHE_WRITE), None);
    let newest = model_call(json!({"cache_write_name": true}));
    assert_eq!(newest[CACHE_WRITE], 7);
    assert_eq!(newest.get(CACHE_CREATION), None);
}

/// Not the running totals of the session: a sum over its turns would count tokens again and again.
#[test]
fn each_turn_has_what_its_own_calls_used() {
    let spans = sent(None, || {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        for input_tokens in [100, 30] {
            let _turn = spans::session_turn().start().entered();
            for _ in 0..2 {
                let call = spans::model_call("acme", "m-1").start();
                call.record_usage(&Usage {
                    input_tokens: Some(input_tokens),
                    ..Usage::default()
                });
                call.finish(Outcome::Ok);
            }
        }
    });
    let turns = spans.iter().filter(|span| span.name == "session.turn");
    let turns = turns.map(|turn| attributes(&turn.attributes));
    let used: Vec<_> = turns
        .map(|turn| turn["agent.tokens.input"].clone())
        .collect();
    assert_eq!(used, [200, 60]);
}

#[test]
fn cost_is_sent_once_more_if_asked_for() {
    assert_eq!(model_call(json!({})).get("gen_ai.usage.cost"), None);
    let policy = json!({"usage_cost": true});
    let sent_attributes = model_call(policy.clone());
    assert_eq!(sent_attributes["gen_ai.usage.cost"], 0.25);
    assert_eq!(sent_attributes["agent.cost_usd"], 0.25);
    // The sum over all spans is the cost.
    let spans = sent(Some(policy), session);
    let with_cost = spans.iter().filter(|span| {
        let mut keys = span.attributes.iter().map(|attribute| &attribute.key);
        keys.any(|key| key == "gen_ai.usage.cost")
    });
    assert_eq!(with_cost.count(), 1);
}

#[test]
fn time_to_first_chunk_is_in_seconds() {
    let sent_attributes = model_call(json!({}));
    let key = "gen_ai.response.time_to_first_chunk";
    assert_eq!(sent_attributes[key], 1.25);
    assert_eq!(sent_attributes.get("agent.ttft_ms"), None);
    let odd = one(json!({}), "model_result", json!({"ttft_ms": "soon"}));
    let odd = attributes(&odd.unwrap().attributes);
    assert_eq!(odd["agent.ttft_ms"], "soon");
}

#[test]
fn only_tool_calls_are_tool_calls() {
    let spans = sent(None, session);
    let tools = spans.iter().filter(|span| {
        let mut keys = span.attributes.iter().map(|attribute| &attribute.key);
        keys.any(|key| key.starts_with("gen_ai.tool."))
    });
    let names: Vec<_> = tools.map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["execute_tool bash"]);
}

#[test]
fn first_call_after_a_compaction_says_so() {
    let spans = sent(None, || {
        let run = spans::session_run("ses_1", "planner").start();
        run.in_scope(|| {
            spans::model_call("p", "before").start().finish(Outcome::Ok);
            let compaction = spans::compaction_run().start();
            compaction.in_scope(|| {
                spans::model_call("p", "summarizer")
                    .start()
                    .finish(Outcome::Ok)
            });
            compaction.finish(Outcome::Ok);
            spans::model_call("p", "first").start().finish(Outcome::Ok);
            spans::model_call("p", "second").start().finish(Outcome::Ok);
            spans::compaction_run().start().finish(Outcome::Error);
            spans::model_call("p", "third").start().finish(Outcome::Ok);
        });
    });
    let compacted = |model: &str| {
        let span = named(&spans, &format!("chat {model}"));
        attributes(&span.attributes)
            .get("gen_ai.conversation.compacted")
            .cloned()
    };
    assert_eq!(compacted("first"), Some(true.into()));
    for model in ["before", "summarizer", "second", "third"] {
        assert_eq!(compacted(model), None, "{model}");
    }
}

#[test]
fn interrupted_tool_has_its_agent() {
    let payload = json!({"closes": "tool_result", "tool_id": "bash", "agent": "planner"});
    let span = one(json!({}), "interrupted", payload).unwrap();
    assert_eq!(attributes(&span.attributes)["gen_ai.agent.name"], "planner");
}
