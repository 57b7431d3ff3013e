//! A recorded session and the spans that it maps to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use spanledger::mirror::otlp::Span;
use spanledger::mirror::otlp::any_value::Value as Any;
use spanledger::mirror::otlp::{AnyValue, KeyValue};
use spanledger::mirror::{self, Batch, Origin, Pushed};
use spanledger::trace::RawLine;

use crate::support::Recording;

/// The key of digests, in place of the recorded one.
const SALT: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

/// HMAC-SHA256 with that key.
pub fn hmac(text: &str) -> String {
    use hmac::{Hmac, KeyInit, Mac};
    let mut hmac = Hmac::<sha2::Sha256>::new_from_slice(&[0x5a; 32]).unwrap();
    hmac.update(text.as_bytes());
    let bytes = hmac.finalize().into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every line under a root, segment after segment, as bytes.
pub fn lines(root: &Path) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for session in std::fs::read_dir(root.join("sessions")).unwrap() {
        for file in std::fs::read_dir(session.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|e| e == "jsonl") {
                files.push(path);
            }
        }
    }
    files.sort();
    let bytes = files.iter().map(|file| std::fs::read(file).unwrap());
    let bytes: Vec<u8> = bytes.flatten().collect();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(<[u8]>::to_vec).collect()
}

/// The spans of all lines, by the origin that their segment's first line gives. `policy` is what
/// the recorder would have logged as its mirror policy.
pub fn mapped(lines: &[Vec<u8>], policy: Option<&Value>) -> Vec<Span> {
    let mut origins: BTreeMap<(String, u32), Origin> = BTreeMap::new();
    let mut spans = Vec::new();
    for bytes in lines {
        let line = RawLine::parse(bytes).unwrap();
        let session = line.session_id.to_string();
        if line.kind == "segment" {
            let mut first: Value = serde_json::from_slice(bytes).unwrap();
            first["payload"]["digest_salt"] = SALT.into();
            if let Some(policy) = policy {
                first["payload"]["mirror"] = policy.clone();
            }
            let first = first.to_string();
            let first = RawLine::parse(first.as_bytes()).unwrap();
            origins.insert((session, line.seg), Origin::parse(&first).unwrap());
            continue;
        }
        let opened = line.payload().get("opened_seg").and_then(|v| v.u64());
        let opened = opened.map_or(line.seg, |seg| seg as u32);
        spans.extend(span(&origins[&(session, opened)], &line));
    }
    spans
}

/// What an agent leaves behind, as it would be sent.
pub fn sent(policy: Option<Value>, agent: impl FnOnce()) -> Vec<Span> {
    let recording = Recording::new();
    recording.run(agent);
    mapped(&lines(recording.dir.path()), policy.as_ref())
}

/// The span of a close line. Written straight from the line, its bytes are those of the message.
fn span(origin: &Origin, line: &RawLine<'_>) -> Option<Span> {
    let span = mirror::span(origin, line);
    let origin = Arc::new(origin.clone());
    let mut straight = Batch::new(usize::MAX, 1);
    let pushed = straight.push_line(&origin, line, ());
    assert_eq!(pushed == Pushed::Taken, span.is_some());
    if let Some(span) = &span {
        let mut message = Batch::new(usize::MAX, 1);
        message.push(&origin, span, ()).unwrap();
        assert!(
            straight.encode() == message.encode(),
            "other bytes for {span:?}"
        );
        assert_eq!(straight.encoded_len(), message.encoded_len());
    }
    span
}

/// A span of one close line, recorded under the policy.
pub fn one(policy: Value, kind: &str, payload: Value) -> Option<Span> {
    let head = json!({"v": 1, "seg": 1, "seq": 1, "ts": "2026-11-16T00:31:05.123456Z",
        "kind": "segment", "session_id": "s", "payload": {"digest_salt": SALT, "mirror": policy}});
    let head = head.to_string();
    let origin = Origin::parse(&RawLine::parse(head.as_bytes()).unwrap()).unwrap();
    let line = json!({"v": 1, "seg": 1, "seq": 17, "ts": "2026-11-16T00:31:06.5Z",
        "kind": kind, "session_id": "s", "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "span_id": "b7ad6b7169203331", "payload": payload});
    let line = line.to_string();
    span(&origin, &RawLine::parse(line.as_bytes()).unwrap())
}

pub fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    let names: Vec<_> = spans.iter().map(|span| &span.name).collect();
    assert_eq!(found.len(), 1, "spans called {name:?} among {names:?}");
    found[0]
}

fn plain(value: &Option<AnyValue>) -> Value {
    match value.as_ref().and_then(|any| any.value.clone()) {
        Some(Any::StringValue(text)) => text.into(),
        Some(Any::BoolValue(yes)) => yes.into(),
        Some(Any::IntValue(n)) => n.into(),
        Some(Any::DoubleValue(n)) => n.into(),
        Some(Any::ArrayValue(list)) => {
            let items = list.values.into_iter().map(|item| plain(&Some(item)));
            Value::Array(items.collect())
        }
        other => panic!("no attribute of ours: {other:?}"),
    }
}

/// The attributes as an object; each name stands once.
pub fn attributes(list: &[KeyValue]) -> Value {
    let mut map = serde_json::Map::new();
    for attribute in list {
        let before = map.insert(attribute.key.clone(), plain(&attribute.value));
        assert_eq!(before, None, "{} stands twice", attribute.key);
    }
    Value::Object(map)
}

/// Asserts all attributes but those of the process, of the totals and the line's address.
#[track_caller]
pub fn assert_attributes(span: &Span, expected: Value) {
    let Value::Object(mut found) = attributes(&span.attributes) else {
        unreachable!()
    };
    let passed_by = ["agent.process.", "agent.totals."];
    found.retain(|key, _| !passed_by.iter().any(|prefix| key.starts_with(prefix)));
    let address = found.shift_remove("agent.trace.address");
    assert!(address.unwrap().as_str().unwrap().contains("/1:"));
    let Value::Object(expected) = expected else {
        unreachable!()
    };
    let sorted = |map: serde_json::Map<String, Value>| -> BTreeMap<String, Value> {
        map.into_iter().collect()
    };
    assert_eq!(sorted(found), sorted(expected), "{}", span.name);
}

/// SHA-256 in hexadecimal.
pub fn digest(text: &str) -> String {
    use sha2::Digest;
    let bytes = sha2::Sha256::digest(text.as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
