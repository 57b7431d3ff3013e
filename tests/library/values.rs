//! Values that are hard to write: huge, deeply nested, not UTF-8, not a JSON number. Each gives a
//! valid line.

use std::cell::Cell;
use std::fmt;
use std::path::Path;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use spanledger::trace::Line;
use spanledger::{SpanExt, events, read, spans};
use tracing::info_span;

use crate::support::{LineExt, Recording};

fn sha256(bytes: &[u8]) -> String {
    let hex = Sha256::digest(bytes);
    hex.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The close line of a tool call to which `agent` does something, in a trace without damage or loss.
fn tool_result(recording: &Recording, agent: impl FnOnce(&tracing::Span)) -> Line {
    let close = any_tool_result(recording, agent);
    assert_eq!(recording.guard.health().failed, 0);
    close
}

fn any_tool_result(recording: &Recording, agent: impl FnOnce(&tracing::Span)) -> Line {
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        agent(&spans::tool_call("bash", "c1").start());
    });
    let trace = recording.trace();
    assert!(trace.damage.is_empty(), "{:?}", trace.damage);
    trace.all("tool_result").pop().unwrap().clone()
}

fn blob(recording: &Recording, digest: &str) -> Vec<u8> {
    let session = read::session_dir(recording.dir.path(), "s");
    std::fs::read(session.join("blobs").join(digest)).unwrap()
}

fn blob_files(recording: &Recording) -> usize {
    let session = read::session_dir(recording.dir.path(), "s");
    std::fs::read_dir(session.join("blobs")).unwrap().count()
}

#[test]
fn field_of_100_mb_is_truncated_with_a_marker() {
    const SIZE: usize = 100 * 1000 * 1000;
    let recording = Recording::new();
    let huge = "lorem ipsum dolor sit amet, \n".repeat(SIZE / 29 + 1);
    let huge = &huge[..SIZE];
    let close = tool_result(&recording, |tool| tool.record_result(huge));
    let result = close.get("result");
    let kept = result["bytes"].as_u64().unwrap() as usize;
    assert_eq!(kept, 64 << 20);
    assert_eq!(result["$blob"], sha256(&huge.as_bytes()[..kept]));
    assert_eq!(result["$cut"]["bytes"], SIZE - kept);
    assert_eq!(result["$cut"]["sha256"], sha256(&huge.as_bytes()[kept..]));
    assert!(huge.starts_with(result["head"].as_str().unwrap()));
    let stored = blob(&recording, result["$blob"].as_str().unwrap());
    assert!(stored == huge.as_bytes()[..kept]);
    assert_eq!(recording.guard.health().cut, 1);
}

#[test]
fn large_value_is_a_blob_with_digest_and_preview() {
    let recording = Recording::new();
    let text: String = (0..5000).map(|n| format!("line {n}\n")).collect();
    let close = tool_result(&recording, |tool| tool.record_result(&text));
    let result = close.get("result");
    assert_eq!(result["$blob"], sha256(text.as_bytes()));
    assert_eq!(result["bytes"], text.len());
    assert_eq!(result["media_type"], "text/plain");
    let head = result["head"].as_str().unwrap();
    assert!(text.starts_with(head) && head.len() >= 256);
    assert!(result.get("$cut").is_none());
    assert_eq!(blob(&recording, &sha256(text.as_bytes())), text.as_bytes());
    assert_eq!(recording.guard.health().cut, 0);
}

#[test]
fn large_json_value_is_a_json_blob() {
    let recording = Recording::new();
    let value: Value = (0..5000).map(|n| json!({"n": n})).collect();
    let close = tool_result(&recording, |tool| tool.record_result(&value));
    let result = close.get("result");
    assert_eq!(result["media_type"], "application/json");
    let stored = blob(&recording, result["$blob"].as_str().unwrap());
    assert_eq!(serde_json::from_slice::<Value>(&stored).unwrap(), value);
}

#[test]
fn equal_large_values_are_stored_once() {
    let recording = Recording::new();
    let text = "again and again ".repeat(5000);
    let close = tool_result(&recording, |tool| {
        tool.record_result(&text);
        tool.set("stdout", &text);
        events::message_assistant(&text).emit();
    });
    assert_eq!(close.get("result.$blob"), close.get("stdout.$blob"));
    let trace = recording.trace();
    let message = trace.one("message_assistant");
    assert_eq!(message.get("content.$blob"), close.get("result.$blob"));
    assert_eq!(blob_files(&recording), 1);
}

#[test]
fn damaged_blob_is_stored_again() {
    let recording = Recording::with(|b| b.inline_limit(64));
    let text = "x".repeat(1000);
    recording.run(|| events::message_user(&text).emit());
    let trace = recording.trace();
    let message = trace.one("message_user");
    let session = read::session_dir(recording.dir.path(), &message.session_id);
    let blob = session.join("blobs").join(message.text("content.$blob"));
    // As a power cut leaves it.
    std::fs::File::options()
        .write(true)
        .open(&blob)
        .unwrap()
        .set_len(10)
        .unwrap();
    recording.run(|| events::message_user(&text).emit());
    assert_eq!(std::fs::read_to_string(blob).unwrap(), text);
}

#[test]
fn inline_limit_is_configurable() {
    let recording = Recording::with(|b| b.inline_limit(1 << 20));
    let text = "inside the line ".repeat(5000);
    let close = tool_result(&recording, |tool| tool.record_result(&text));
    assert_eq!(close.text("result"), text);
}

#[test]
fn unwritable_blob_is_truncated_inline() {
    let recording = Recording::new();
    let session = read::session_dir(recording.dir.path(), "s");
    std::fs::create_dir_all(&session).unwrap();
    std::fs::write(session.join("blobs"), "a file where a directory should be").unwrap();
    let text = "nowhere to go ".repeat(5000);
    let close = any_tool_result(&recording, |tool| tool.record_result(&text));
    let result = close.get("result");
    assert_eq!(
        result["$cut"],
        json!({"bytes": text.len(), "sha256": sha256(text.as_bytes()), "rule": "blob-failed"})
    );
    assert!(text.starts_with(result["head"].as_str().unwrap()));
    let health = recording.guard.health();
    assert_eq!((health.cut, health.failed), (1, 1));
    assert!(health.last_error.unwrap().contains("blob"));
}

#[test]
fn non_utf8_bytes_are_shown_lossily() {
    let recording = Recording::new();
    recording.run(|| {
        let bytes: &[u8] = b"caf\xe9 \xff\xfe\0 end";
        drop(info_span!("tool.call", tool_id = "bash", result = bytes));
    });
    let trace = recording.trace();
    let result = trace.one("tool_result").get("result");
    assert_eq!(result["$lossy"], json!({"bytes": 12, "replaced": 3}));
    let text = result["text"].as_str().unwrap();
    assert!(text.starts_with("caf\u{fffd} ") && text.ends_with("\0 end"));
}

#[test]
fn utf8_bytes_are_text() {
    let recording = Recording::new();
    recording.run(|| {
        let bytes: &[u8] = "café".as_bytes();
        drop(info_span!("tool.call", tool_id = "bash", result = bytes));
    });
    assert_eq!(recording.trace().one("tool_result").text("result"), "café");
}

#[test]
fn non_json_numbers_are_text() {
    let recording = Recording::new();
    recording.run(|| {
        let span = info_span!(
            "tool.call",
            tool_id = "bash",
            nan = f64::NAN,
            inf = f64::INFINITY,
            minus_inf = f64::NEG_INFINITY,
            large = u128::MAX,
            small = i128::MIN,
            fits = 7_u128,
            fits_too = -7_i128,
            most = u64::MAX,
            least = i64::MIN,
        );
        span.set("serialized", f64::NAN);
    });
    let trace = recording.trace();
    let close = trace.one("tool_result");
    for (field, value) in [
        ("nan", json!("NaN")),
        ("inf", json!("inf")),
        ("minus_inf", json!("-inf")),
        ("large", json!("340282366920938463463374607431768211455")),
        ("small", json!("-170141183460469231731687303715884105728")),
        ("fits", json!(7)),
        ("fits_too", json!(-7)),
        ("most", json!(u64::MAX)),
        ("least", json!(i64::MIN)),
        ("serialized", Value::Null),
    ] {
        assert_eq!(close.get(field), &value, "{field}");
    }
}

#[test]
fn cost_that_is_no_number_stays_text() {
    let recording = Recording::new();
    recording.run(|| {
        drop(info_span!(
            "model.call",
            model_id = "m",
            cost_usd = f64::NAN
        ));
        drop(info_span!("model.call", model_id = "n", input_tokens = -5));
    });
    let trace = recording.trace();
    assert_eq!(
        trace.find("model_result", "model_id", "m").text("cost_usd"),
        "NaN"
    );
    assert_eq!(
        trace
            .find("model_result", "model_id", "n")
            .get("input_tokens"),
        -5
    );
}

#[test]
fn json_a_million_levels_deep_is_a_valid_line() {
    let recording = Recording::new();
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let close = tool_result(&recording, |tool| tool.record_result(&deep));
    let result = close.get("result");
    let stored = blob(&recording, result["$blob"].as_str().unwrap());
    assert!(stored == deep.as_bytes());
}

#[test]
fn deep_json_error_is_a_valid_line() {
    let recording = Recording::new();
    let deep = format!("{}1{}", "{\"a\":".repeat(1_000_000), "}".repeat(1_000_000));
    let close = tool_result(&recording, |tool| tool.set("error", &deep));
    assert_eq!(close.text("outcome"), "error");
    assert!(close.get("error").is_object());
}

#[test]
fn short_json_too_deep_to_read_is_text() {
    let recording = Recording::new();
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let close = tool_result(&recording, |tool| tool.record_result(&deep));
    let mut text = close.get("result");
    while let Value::Array(inner) = text {
        text = &inner[0];
    }
    assert!(text.as_str().unwrap().contains("[[[["));
}

#[test]
fn control_characters_stay_inside_their_line() {
    let recording = Recording::new();
    let mut odd: String = (0..0x20).filter_map(char::from_u32).collect();
    odd.push_str("\r\n\u{7f}\u{85}\u{2028}\u{2029}\"\\\u{feff}\u{1f600}\n\n");
    let odd = odd.repeat(50);
    let close = tool_result(&recording, |tool| {
        tool.record_result(&odd);
        tool.set("a\n\"key\"\u{0}", &odd);
        events::message_user(&odd).emit();
    });
    assert_eq!(close.text("result"), odd);
    assert_eq!(close.payload["a\n\"key\"\u{0}"], odd);
    let trace = recording.trace();
    assert_eq!(trace.one("message_user").text("content"), odd);
}

#[test]
fn duplicate_field_keeps_its_last_value() {
    let recording = Recording::new();
    let close = tool_result(&recording, |tool| {
        tool.record_result("first");
        tool.record_result("second");
        tool.set("tool_id", "renamed");
    });
    assert_eq!(close.text("result"), "second");
    assert_eq!(close.text("tool_id"), "renamed");
    let session = read::session_dir(recording.dir.path(), "s");
    let bytes = std::fs::read_to_string(session.join("trace.0001.jsonl")).unwrap();
    let line = bytes
        .lines()
        .find(|l| l.contains("\"tool_result\""))
        .unwrap();
    assert_eq!(line.matches("\"result\":").count(), 1);
    assert_eq!(line.matches("\"tool_id\":").count(), 1);
}

#[test]
fn fields_named_like_line_members_are_harmless() {
    let recording = Recording::new();
    let close = tool_result(&recording, |tool| {
        for own in [
            "start",
            "duration_ns",
            "outcome",
            "events",
            "links",
            "late",
            "totals",
        ] {
            tool.set(own, "mine");
        }
        events::artifact("plot.png").on(tool).emit();
    });
    assert!(close.get("duration_ns").is_u64());
    assert_eq!(close.text("outcome"), "unset");
    assert!(close.get("events").is_array());
    assert!(close.text("start").ends_with('Z'));
    assert_eq!(close.payload["custom.outcome"], "mine");
    assert_eq!(close.text("totals"), "mine");
    let session = read::session_dir(recording.dir.path(), "s");
    let bytes = std::fs::read_to_string(session.join("trace.0001.jsonl")).unwrap();
    let line = bytes
        .lines()
        .find(|l| l.contains("\"tool_result\""))
        .unwrap();
    assert_eq!(line.matches("\"outcome\":").count(), 1, "{line}");
}

#[test]
fn checkpoint_about_every_mebibyte() {
    let recording = Recording::new();
    let text = "x ".repeat(5000);
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::system_prompt("Be brief.").emit();
        let _turn = spans::session_turn().start().entered();
        for _ in 0..400 {
            events::message_assistant(&text).emit();
        }
    });
    let trace = recording.trace();
    let checkpoints = trace.all("checkpoint");
    assert_eq!(checkpoints.len(), 3);
    let first = checkpoints[0];
    assert_eq!(first.get("next_turn"), 2);
    assert_eq!(first.get("totals.turns"), 1);
    assert_eq!(first.get("open").as_array().unwrap().len(), 2);
    let digest = trace.one("system_prompt").get("digest");
    assert_eq!(first.get("digests.system_prompt_digest"), digest);
    let session = read::session_dir(recording.dir.path(), "s");
    let offsets = checkpoint_offsets(&session.join("trace.0001.jsonl"));
    let mut before = 0;
    for offset in offsets {
        let gap = offset - before;
        assert!((1 << 20..(1 << 20) + 20_000).contains(&gap), "{gap}");
        before = offset;
    }
}

fn checkpoint_offsets(segment: &Path) -> Vec<usize> {
    let text = std::fs::read_to_string(segment).unwrap();
    let found = text.match_indices("\"kind\":\"checkpoint\"");
    found.map(|(offset, _)| offset).collect()
}

#[test]
fn long_session_resumes_from_its_last_checkpoint() {
    let recording = Recording::new();
    let text = "x ".repeat(5000);
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::system_prompt("Be brief.").emit();
        for _ in 0..7 {
            let _turn = spans::session_turn().start().entered();
            for _ in 0..100 {
                events::message_assistant(&text).emit();
            }
        }
    });
    let recording = Recording::again(recording.end());
    recording.run(|| {
        let _run = spans::session_run("s", "planner").start().entered();
        events::system_prompt("Be brief.").emit();
        let _turn = spans::session_turn().start().entered();
        drop(spans::model_call("anthropic", "sonnet").start());
    });
    let trace = recording.trace();
    assert_eq!(trace.one("session_resume").seg, 2);
    assert_eq!(trace.all("turn_start").pop().unwrap().turn, Some(8));
    let prompts = trace.all("system_prompt");
    assert_eq!(prompts[1].get("body"), &Value::Null);
    let call = trace.one("model_call");
    assert_eq!(call.get("system_prompt_digest"), prompts[0].get("digest"));
    assert!(trace.all("interrupted").is_empty());
}

/// Writes a part and fails.
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("half of it")?;
        Err(fmt::Error)
    }
}

impl fmt::Debug for Unspeakable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Unspeakable {}

impl Serialize for Unspeakable {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[test]
fn failing_debug_and_serialize_do_not_panic() {
    let recording = Recording::new();
    let result = tool_result(&recording, |tool| tool.record_result(&Unspeakable));
    let text = result.text("result");
    assert!(text.starts_with("[not serializable"), "{text}");
    let failed = tool_result(&recording, |tool| tool.record_error(&Unspeakable));
    assert_eq!(failed.get("error.message"), "half of it");
    let error: &(dyn std::error::Error + 'static) = &Unspeakable;
    recording.run(|| drop(info_span!("tool.call", tool_id = "by macro", error)));
    let trace = recording.trace();
    let failed = trace.find("tool_result", "tool_id", "by macro");
    assert_eq!(failed.get("error.message"), "half of it");
    recording.run(|| {
        let _theirs = info_span!("theirs", session_id = ?Unspeakable).entered();
        drop(info_span!("tool.call", tool_id = "routed"));
    });
    let trace = recording.trace();
    let routed = trace.find("tool_result", "tool_id", "routed");
    assert_eq!(routed.session_id, "half of it");
}

/// Gives itself away.
struct Once(Cell<Option<Vec<u8>>>);

impl Serialize for Once {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.take().unwrap())
    }
}

#[test]
fn value_is_serialized_once() {
    let recording = Recording::new();
    let once = || Once(Cell::new(Some(vec![1, 2])));
    let result = tool_result(&recording, |tool| tool.record_result(&once()));
    assert_eq!(*result.get("result"), json!([1, 2]));
    let set = tool_result(&recording, |tool| tool.set("stdout", once()));
    assert_eq!(*set.get("stdout"), json!([1, 2]));
}
