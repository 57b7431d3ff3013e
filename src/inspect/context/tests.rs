use super::fold::ContextFold;
use super::*;
use crate::trace::RawLine;

/// Feeds lines: kind, span id and payload.
fn feed(fold: &mut ContextFold, lines: &[(&str, &str, String)]) -> Vec<ContextItem> {
    for (seq, (kind, span, payload)) in lines.iter().enumerate() {
        let text = format!(
            r#"{{"v":1,"seg":1,"seq":{},"ts":"2026-11-16T00:31:05.123456Z","kind":"{kind}","session_id":"s","trace_id":"{:032x}","span_id":"{span}","payload":{payload}}}"#,
            seq + 1,
            1
        );
        fold.add_line(&RawLine::parse(text.as_bytes()).unwrap());
    }
    std::mem::take(&mut fold.history.found)
}

fn call(span: &'static str, input: u64) -> [(&'static str, &'static str, String); 2] {
    let model = r#""provider_id":"anthropic","model_id":"claude-sonnet-4-5""#;
    [
        ("model_call", span, format!("{{{model}}}")),
        (
            "model_result",
            span,
            format!(r#"{{"outcome":"ok",{model},"usage":{{"input_tokens":{input}}}}}"#),
        ),
    ]
}

fn message(kind: &'static str, id: &str, bytes: usize) -> (&'static str, &'static str, String) {
    let content = "x".repeat(bytes);
    let payload = format!(r#"{{"message_id":"{id}","content":"{content}"}}"#);
    (kind, "00000000000000aa", payload)
}

fn result(bytes: usize) -> (&'static str, &'static str, String) {
    let result = "x".repeat(bytes);
    let payload = format!(r#"{{"outcome":"ok","tool_id":"bash","result":"{result}"}}"#);
    ("tool_result", "00000000000000bb", payload)
}

fn calls(items: &[ContextItem]) -> Vec<&ContextCall> {
    let calls = items.iter().filter_map(|item| match item {
        ContextItem::Call(call) => Some(&**call),
        _ => None,
    });
    calls.collect()
}

#[test]
fn parts_add_up_to_the_reported_input() {
    let mut fold = ContextFold::default();
    let mut lines = vec![message("message_user", "m1", 400), result(1_200)];
    lines.extend(call("01", 400));
    let items = feed(&mut fold, &lines);
    let parts = calls(&items)[0].parts.unwrap();
    assert_eq!((parts.user, parts.tool_results, parts.other), (100, 300, 0));
}

#[test]
fn what_texts_do_not_explain_is_other() {
    let mut fold = ContextFold::default();
    let mut lines = vec![message("message_user", "m1", 300)];
    lines.extend(call("01", 1_000));
    let parts = calls(&feed(&mut fold, &lines))[0].parts.unwrap();
    assert_eq!((parts.user, parts.other, parts.sum()), (100, 900, 1_000));
}

#[test]
fn a_result_is_carried_by_the_calls_after_it() {
    let mut fold = ContextFold::default();
    let mut lines = vec![message("message_user", "m1", 400)];
    lines.extend(call("01", 100));
    lines.push(result(400));
    lines.extend(call("02", 200));
    lines.extend(call("03", 200));
    feed(&mut fold, &lines);
    fold.finish();
    let [ContextItem::Carried(carried)] = &fold.history.found[..] else {
        panic!("{:?}", fold.history.found);
    };
    assert_eq!((carried.calls, carried.tokens), (2, 200));
    #[cfg(feature = "cost")]
    assert!(carried.usd.is_some_and(|usd| usd > 0.0) && !carried.partial);
}

/// The result came while a call was open, so that call did not have it.
#[test]
fn a_call_does_not_carry_what_came_after_it_began() {
    let mut fold = ContextFold::default();
    let [begin, end] = call("01", 100);
    let lines = [message("message_user", "m1", 400), begin, result(400), end];
    feed(&mut fold, &lines);
    fold.finish();
    let [ContextItem::Carried(carried)] = &fold.history.found[..] else {
        panic!("{:?}", fold.history.found);
    };
    assert_eq!((carried.calls, carried.tokens), (0, 0));
}

#[test]
fn a_compaction_keeps_the_tail_and_the_summary() {
    let mut fold = ContextFold::default();
    let mut lines = vec![
        message("message_user", "m1", 400),
        result(4_000),
        message("message_user", "m2", 80),
    ];
    let compaction = r#"{"outcome":"ok","tail_start_id":"m2","summary":"0123456789012345"}"#;
    lines.push(("context_compaction", "00000000000000cc", compaction.into()));
    lines.extend(call("01", 24));
    let items = feed(&mut fold, &lines);
    let left = |item: &ContextItem| matches!(item, ContextItem::Carried(one) if one.bytes == 4_000);
    assert!(items.iter().any(left), "{items:?}");
    let call = calls(&items)[0];
    let parts = call.parts.unwrap();
    assert_eq!((parts.user, parts.summary, parts.tool_results), (20, 4, 0));
    assert!(call.compacted);
}

/// Arguments are a part of the model's message, and not one of their own.
#[test]
fn a_compaction_counts_messages() {
    for (fields, left) in [
        (r#""summarized_message_count":2"#, (20, 0)),
        (r#""messages_after":2"#, (20, 100)),
        (r#""messages_before":3"#, (0, 0)),
    ] {
        let mut fold = ContextFold::default();
        let args = r#"{"outcome":"ok","tool_id":"bash","args":{"command":"ls"},"result":""#;
        let result = format!("{args}{}\"}}", "x".repeat(400));
        let mut lines = vec![message("message_user", "m1", 4_000)];
        lines.push(("tool_result", "00000000000000bb", result));
        lines.push(message("message_user", "m3", 80));
        let compaction = format!(r#"{{"outcome":"ok",{fields}}}"#);
        lines.push(("context_compaction", "00000000000000cc", compaction));
        let [begin, end] = call("01", 0);
        lines.extend([begin, ("model_result", end.1, r#"{"outcome":"ok"}"#.into())]);
        let items = feed(&mut fold, &lines);
        let parts = calls(&items)[0].parts.unwrap();
        assert_eq!((parts.user, parts.tool_results), left, "{fields}");
    }
}

#[test]
fn a_rewind_removes_what_came_after_its_target() {
    let mut fold = ContextFold::default();
    let mut lines = vec![
        message("message_user", "m1", 400),
        message("message_assistant", "m2", 400),
        result(400),
    ];
    lines.push((
        "rewind",
        "00000000000000cc",
        r#"{"to_message_id":"m1"}"#.into(),
    ));
    lines.extend(call("01", 100));
    let items = feed(&mut fold, &lines);
    let parts = calls(&items)[0].parts.unwrap();
    assert_eq!(
        (parts.user, parts.assistant, parts.tool_results),
        (100, 0, 0)
    );
}

#[test]
fn results_as_sent_replace_recorded_ones() {
    let mut fold = ContextFold::default();
    let mut lines = vec![message("message_user", "m1", 400), result(4_000)];
    lines.push(message("message_tool", "m2", 400));
    lines.extend(call("01", 200));
    let items = feed(&mut fold, &lines);
    let parts = calls(&items)[0].parts.unwrap();
    assert_eq!((parts.user, parts.tool_results), (100, 100));
}

#[test]
fn history_is_bounded() {
    let mut history = history::History::default();
    for _ in 0..100_000 {
        history.message(sizes::USER, 10, None);
    }
    assert!(history.len() <= 65_536);
    assert_eq!(history.sizes()[sizes::USER], 1_000_000);
}
