//! The content of a mask, and the key of its digest.

use std::path::Path;
use std::sync::Barrier;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use spanledger::{SpanExt, Usage, events, spans};
use tracing::{Dispatch, info_span, warn};
use tracing_subscriber::layer::SubscriberExt;

use crate::redaction::inputs::value;
use crate::support::secrets::look_alikes;
use crate::support::{LineExt, Recording, Trace};

const SECRET: &str = "hunter2-Correct";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The key in a root's file.
fn key(root: &Path) -> Vec<u8> {
    let text = std::fs::read_to_string(root.join("redaction.key")).unwrap();
    let digits = text.trim_end();
    assert_eq!(digits.len(), 64, "{text:?}");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..64).step_by(2).map(byte).collect()
}

/// The mask that stands for `secret` under a root's key.
fn mask(root: &Path, rule: &str, secret: &str) -> String {
    let key = key(root);
    let mut hmac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    hmac.update(secret.as_bytes());
    let (digest, id) = (hmac.finalize().into_bytes(), Sha256::digest(&key));
    let (digest, id, bytes) = (hex(&digest[..8]), hex(&id[..4]), secret.len());
    format!("[masked rule={rule} bytes={bytes} hmac={digest} key={id}]")
}

/// Records one session whose result is the secret.
fn record_secret(recording: &Recording, session: &str) {
    recording.run(|| {
        let _run = spans::session_run(session, "agent").start().entered();
        let tool = spans::tool_call("bash", "c1").start();
        tool.record_result(&json!({"password": SECRET}));
    });
}

#[test]
fn mask_has_rule_length_digest_and_key() {
    let recording = Recording::new();
    let token = format!("{}{}", concat!("gh", "p_"), "A1b2C3d4E5".repeat(4));
    recording.run(|| {
        let tool = spans::tool_call("bash", "c1").start();
        tool.record_result(&json!({"password": SECRET, "note": format!("use {token} now")}));
        tool.set("command", format!("login --password {SECRET}"));
    });
    let (trace, root) = (recording.trace(), recording.dir.path());
    let close = trace.one("tool_result");
    let by_key = mask(root, "key:password", SECRET);
    assert_eq!(close.text("result.password"), by_key);
    assert_eq!(close.text("command"), format!("login --password {by_key}"));
    let note = close.text("result.note");
    let rule = note.split(['=', ' ']).nth(3).unwrap();
    assert!(rule.starts_with("github"), "{note}");
    assert_eq!(note, format!("use {} now", mask(root, rule, &token)));
    assert_eq!(recording.guard.health().masked, 3);
}

/// Session ids that are secrets are masked, and still group what belongs together.
#[test]
fn session_id_that_is_a_secret_is_masked() {
    let recording = Recording::new();
    let token = |part: &str| format!("{}{}", concat!("gh", "p_"), part.repeat(4));
    let tokens = [token("A1b2C3d4E5"), token("Z9y8X7w6V5")];
    for id in [&tokens[0], &tokens[1], &tokens[0]] {
        recording.run(|| {
            let run = spans::session_run(id, "agent").start();
            run.in_scope(|| events::message_user("hi").emit());
            info_span!("other", session_id = id.as_str()).in_scope(|| warn!("there"));
        });
    }
    let (trace, root) = (recording.trace(), recording.dir.path());
    for (id, runs) in [(&tokens[0], 2), (&tokens[1], 1)] {
        let masked = mask(root, "github-pat", id);
        let lines = trace.session(&masked);
        let of_kind = |kind: &str| lines.iter().filter(|line| line.kind == kind).count();
        assert_eq!(of_kind("message_user"), runs, "{:?}", trace.kinds(&masked));
        let written = String::from_utf8_lossy(&trace.bytes()).into_owned();
        assert!(!written.contains(id.as_str()));
    }
    let names = std::fs::read_dir(root.join("sessions")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    let secret = |name: &std::ffi::OsString| name.to_string_lossy().contains("a1b2c3d4e5");
    assert!(names.len() == 2 && !names.iter().any(secret), "{names:?}");
}

#[test]
fn custom_kind_that_is_a_secret_is_masked() {
    let recording = Recording::new();
    let token = format!("{}{}", concat!("gh", "p_"), "a1b2c3d4e5".repeat(4));
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        events::custom(&token, json!({"a": 1})).emit();
    });
    let trace = recording.trace();
    let is_masked = |line: &&spanledger::trace::Line| line.kind.contains("masked_rule_github-pat");
    assert_eq!(trace.lines().filter(is_masked).count(), 1);
    assert!(!String::from_utf8_lossy(&trace.bytes()).contains(&token));
}

#[test]
fn equal_secrets_have_equal_digests() {
    let recording = Recording::new();
    recording.run(|| {
        let tool = spans::tool_call("bash", "c1").start();
        let secrets = json!([{"password": SECRET}, {"password": SECRET}, {"password": "hunter3"}]);
        tool.record_result(&secrets);
    });
    let trace = recording.trace();
    let masks: Vec<&Value> = trace
        .one("tool_result")
        .get("result")
        .as_array()
        .unwrap()
        .iter()
        .collect();
    assert_eq!(masks[0], masks[1]);
    assert_ne!(masks[0], masks[2]);
}

#[test]
fn each_root_has_its_own_key() {
    let recordings = [Recording::new(), Recording::new()];
    let masks = recordings.each_ref().map(|recording| {
        record_secret(recording, "s");
        let trace = recording.trace();
        trace.one("tool_result").text("result.password").to_owned()
    });
    assert_ne!(key(recordings[0].dir.path()), key(recordings[1].dir.path()));
    assert_ne!(masks[0], masks[1]);
}

#[test]
fn key_persists_and_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let first = Recording::new();
    record_secret(&first, "s1");
    let dir = first.end();
    let path = dir.path().join("redaction.key");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = key(dir.path());
    let second = Recording::with(|builder| builder.root(dir.path()));
    record_secret(&second, "s2");
    assert_eq!(key(dir.path()), before);
    let trace = Trace::read(dir.path());
    let masks = trace
        .all("tool_result")
        .into_iter()
        .map(|line| line.text("result.password"));
    let expected = mask(dir.path(), "key:password", SECRET);
    assert_eq!(masks.collect::<Vec<_>>(), [&expected, &expected]);
}

#[test]
fn concurrent_ledgers_agree_on_one_key() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("not/there/yet");
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (start, root) = (&start, &root);
                scope.spawn(move || {
                    start.wait();
                    let (layer, guard) = spanledger::builder().root(root).build().unwrap();
                    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
                    tracing::dispatcher::with_default(&dispatch, || {
                        let _run = spans::session_run(format!("s{thread}"), "agent")
                            .start()
                            .entered();
                        spans::tool_call("bash", "c1")
                            .start()
                            .set("password", SECRET);
                    });
                    guard.shutdown().unwrap();
                });
            }
        });
        let trace = Trace::read(&root);
        let expected = mask(&root, "key:password", SECRET);
        let closes = trace.all("tool_result");
        assert_eq!(closes.len(), 8);
        for close in closes {
            assert_eq!(close.text("password"), expected);
        }
        let left: Vec<_> = std::fs::read_dir(&root)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left.len(), 3, "{left:?}");
    }
}

#[test]
fn counters_hashes_and_ids_are_not_masked() {
    let recording = Recording::new();
    let usage = Usage {
        input_tokens: Some(1200),
        input_uncached_tokens: Some(200),
        output_tokens: Some(80),
        output_text_tokens: Some(60),
        reasoning_tokens: Some(20),
        cache_read_tokens: Some(900),
        cache_write_tokens: Some(100),
        total_tokens: Some(1280),
        cost_usd: Some(0.25),
        usage_details: Some(
            json!({"prompt_tokens": 1200, "prompt_tokens_details": {"cached_tokens": 900}}),
        ),
    };
    let ids = json!({
        "commit": "9fceb02d0ae598e95dc970b74767f19372d61af8",
        "uuid": "550e8400-e29b-41d4-a716-446655440000",
        "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "etag": "d41d8cd98f00b204e9800998ecf8427e",
        "key_id": "550e8400-e29b-41d4-a716-446655440000",
        "idempotency_key": "550e8400-e29b-41d4-a716-446655440000",
        "max_tokens": 4096, "token_count": 12, "tokens": [1, 2, 3],
    });
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        let call = spans::model_call("p", "m")
            .max_tokens(4096)
            .params(json!({"max_completion_tokens": 9}));
        call.start().record_usage(&usage);
        info_span!(
            "model.call",
            model_id = "n",
            input_tokens = 7,
            max_tokens = 8
        );
        events::model_usage(&usage).emit();
        events::custom("ids", ids.clone()).emit();
        events::message_user(ids.to_string()).emit();
    });
    let trace = recording.trace();
    let close = trace.find("model_result", "model_id", "m");
    assert_eq!(close.get("usage.input_tokens"), 1200);
    assert_eq!(close.get("usage.total_tokens"), 1280);
    assert_eq!(
        close.get("usage.usage_details"),
        &usage.usage_details.unwrap()
    );
    assert_eq!(close.get("max_tokens"), 4096);
    assert_eq!(close.get("params.max_completion_tokens"), 9);
    assert_eq!(
        trace
            .find("model_result", "model_id", "n")
            .get("usage.input_tokens"),
        7
    );
    assert_eq!(trace.one("model_usage").get("cache_read_tokens"), 900);
    assert_eq!(Value::Object(trace.one("ids").payload.clone()), ids);
    assert_eq!(trace.one("message_user").text("content"), ids.to_string());
    assert_eq!(recording.guard.health().masked, 0);
}

#[test]
fn look_alikes_are_not_masked() {
    let recording = Recording::new();
    let all = look_alikes();
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        for text in &all {
            let tool = spans::tool_call("bash", "c1")
                .args(json!({"note": text}))
                .start();
            tool.set("stdout", text);
            tool.set("body", value(text));
            events::message_user(text).emit();
            warn!("{text}");
            info_span!("tool.call", tool_id = "bash", note = text.as_str());
        }
    });
    let trace = recording.trace();
    let payloads = |kind: &str, of: &str| -> Vec<Value> {
        let lines = trace.all(kind).into_iter();
        lines
            .filter_map(|line| line.payload.get(of).cloned())
            .collect()
    };
    let texts: Vec<Value> = all.iter().map(|text| text.as_str().into()).collect();
    let values: Vec<Value> = all.iter().map(|text| value(text)).collect();
    let args: Vec<Value> = all.iter().map(|text| json!({"note": text})).collect();
    assert_eq!(payloads("tool_result", "stdout"), texts);
    assert_eq!(payloads("tool_result", "body"), values);
    assert_eq!(payloads("tool_result", "args"), args);
    assert_eq!(payloads("tool_result", "note"), texts);
    assert_eq!(payloads("message_user", "content"), texts);
    assert_eq!(payloads("log", "message"), texts);
    assert_eq!(recording.guard.health().masked, 0);
}
