//! Streams: text is written as it arrives, is complete up to where it stopped, and split secrets
//! are masked.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spanledger::trace::Line;
use spanledger::{Redaction, SpanExt, Stream, spans};
use tracing::Span;

use crate::support::secrets;
use crate::support::{LineExt, Recording, Trace};

/// A model call in a session.
fn call(recording: &Recording) -> Span {
    recording.run(|| {
        let run = spans::session_run("s", "agent").start();
        spans::model_call("p", "m").child_of(&run).start()
    })
}

fn named(family: &str) -> String {
    let all = secrets::secrets();
    let found = all.into_iter().find(|(name, _)| *name == family);
    found.unwrap_or_else(|| panic!("no secret {family}")).1
}

/// What was streamed of each message or tool's input, put together again.
fn deltas(trace: &Trace) -> BTreeMap<&str, String> {
    let mut streamed: BTreeMap<&str, String> = BTreeMap::new();
    for line in trace.lines().filter(|line| line.kind.ends_with("_delta")) {
        let id = ["message_id", "tool_call_id"].map(|key| line.get(key).as_str());
        let id = id[0].or(id[1]).unwrap();
        streamed.entry(id).or_default().push_str(line.text("text"));
    }
    streamed
}

/// The whole messages, by their ids.
fn messages(trace: &Trace) -> BTreeMap<&str, &Line> {
    let whole = |line: &&Line| line.kind == "message_assistant" || line.kind == "message_reasoning";
    let lines = trace.lines().filter(whole);
    lines.map(|line| (line.text("message_id"), line)).collect()
}

/// A text that holds a secret, and the part of it that must not be seen.
fn texts() -> Vec<(String, String)> {
    let table = [
        "openai",
        "anthropic",
        "github-classic",
        "aws-id",
        "slack-webhook",
        "web-token",
        "bearer-header",
        "basic-header",
        "cookie-header",
        "url-password",
        "query-parameter",
        "env-assignment",
        "yaml",
        "quoted-json",
        "single-quotes",
        "flag",
        "mysql",
        "curl-user",
    ];
    let mut texts: Vec<(String, String)> = table
        .into_iter()
        .map(|family| {
            let secret = named(family);
            let text = format!("I tried this first: {secret}\nand then it worked as it should");
            (text, secrets::core(&secret).to_owned())
        })
        .collect();
    let pem = named("private-key");
    texts.push((
        format!("Here it is:\n{pem}\nKeep it safe, please."),
        secrets::core(&pem).to_owned(),
    ));
    let putty = named("putty-key-3");
    texts.push((
        format!("Here it is:\n{putty}\nKeep it safe, please."),
        secrets::core(&putty).to_owned(),
    ));
    let own = |text: &str, secret: &str| (text.to_owned(), secret.to_owned());
    let correct = "hunter2-Correct";
    texts.extend([
        own("run it with --password hunter2-Correct and wait", correct),
        own(
            "password = \"correct horse battery staple\" goes into the file",
            "battery",
        ),
        own(
            "password = \"correct horse battery staple\" goes into the file",
            "correct",
        ),
        own(
            "curl -s -X POST --retry 3 --compressed -u admin:hunter2-Correct https://example.com",
            correct,
        ),
        own(
            "mysql -h db.example.com -P 3306 -u root --batch -phunter2-Correct app",
            correct,
        ),
        own(
            "def connect(password: Optional[str] = \"hunter2-Correct\"): ...",
            correct,
        ),
        own(
            "Cookie: theme=dark; lang=en; tz=utc; sid=hunter2-Correct; path=x\nnext",
            correct,
        ),
    ]);
    texts
}

/// The ways a text can be split: at each place into two, and into pieces of each small size.
fn splits(text: &str) -> Vec<Vec<&str>> {
    let two = (0..=text.len()).map(|at| vec![&text[..at], &text[at..]]);
    let pieces = |size: usize| -> Vec<&str> {
        let starts = (0..text.len()).step_by(size);
        starts
            .map(|at| &text[at..text.len().min(at + size)])
            .collect()
    };
    two.chain([1, 2, 3, 7, 16].map(pieces)).collect()
}

fn stream_all(stream: Stream, pieces: &[&str]) {
    let mut stream = stream;
    for piece in pieces {
        stream.push(piece);
    }
    stream.end();
}

#[test]
fn secret_split_anywhere_is_masked() {
    for (text, secret) in texts() {
        let recording = Recording::new();
        let splits = splits(&text);
        let call = call(&recording);
        for (index, pieces) in splits.iter().enumerate() {
            stream_all(call.stream(index.to_string()), pieces);
        }
        let trace = recording.trace();
        let (streamed, messages) = (deltas(&trace), messages(&trace));
        for (index, pieces) in splits.iter().enumerate() {
            let id = index.to_string();
            let (streamed, whole) = (&streamed[&*id], messages[&*id].text("content"));
            for shown in [streamed, whole] {
                assert!(!shown.contains(&secret), "{pieces:?} became {shown:?}");
                assert!(
                    shown.contains("[masked rule="),
                    "{pieces:?} became {shown:?}"
                );
            }
            // The text before and after the secret is unchanged.
            assert_eq!(streamed[..8], text[..8], "{pieces:?}");
            assert_eq!(
                streamed[streamed.len() - 4..],
                text[text.len() - 4..],
                "{pieces:?}"
            );
        }
        let bytes = trace.bytes();
        assert_eq!(
            memchr::memmem::find(&bytes, secret.as_bytes()),
            None,
            "{text}"
        );
        assert!(recording.guard.health().masked >= 2 * splits.len() as u64);
    }
}

#[test]
fn secret_split_in_tool_input_is_masked() {
    let inputs = [
        r#"{"user":"ann","password":"hunter2-Correct","retries":3,"note":"one two three"}"#,
        r#"{"user": "ann", "password": "one two hunter2-Correct four five", "retries": 3}"#,
        r#"{"cmd":"curl -s -X POST --retry 3 -u admin:hunter2-Correct https://example.com"}"#,
        r#"{"body":"{\"api_key\":\"one two hunter2-Correct four five\"}","retries": 3}"#,
    ];
    for input in inputs {
        let recording = Recording::new();
        let (call, splits) = (call(&recording), splits(input));
        for (index, pieces) in splits.iter().enumerate() {
            stream_all(call.stream_tool_input(index.to_string()), pieces);
        }
        let trace = recording.trace();
        assert!(trace.all("tool_input_delta").len() > splits.len());
        let streamed = deltas(&trace);
        for (index, pieces) in splits.iter().enumerate() {
            let streamed = &streamed[&*index.to_string()];
            assert!(!streamed.contains("hunter2"), "{pieces:?}: {streamed}");
            assert!(streamed.contains("[masked rule="), "{streamed}");
            assert!(
                streamed.starts_with(r#"{""#) && streamed.ends_with('}'),
                "{streamed}"
            );
        }
    }
}

#[test]
fn user_rule_matches_across_deltas() {
    let redaction = Redaction::new().rule("card", r"card \d{4} \d{4} \d{4} \d{4}");
    let recording = Recording::with(|builder| builder.redact(redaction));
    let text = "pay with card 4111 1111 2222 3333 and be done with it by noon, would you";
    let (call, splits) = (call(&recording), splits(text));
    for (index, pieces) in splits.iter().enumerate() {
        stream_all(call.stream(index.to_string()), pieces);
    }
    let trace = recording.trace();
    for (index, streamed) in deltas(&trace) {
        // A mask has digits, too, but no group of them.
        assert!(!streamed.contains(" 1111"), "{index}: {streamed}");
    }
    assert_eq!(deltas(&trace).len(), splits.len());
}

#[test]
fn look_alikes_are_streamed_unchanged() {
    let recording = Recording::new();
    let all = secrets::look_alikes();
    let call = call(&recording);
    for (index, text) in all.iter().enumerate() {
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        stream_all(call.stream(index.to_string()), &pieces);
    }
    let trace = recording.trace();
    let (streamed, messages) = (deltas(&trace), messages(&trace));
    for (index, text) in all.iter().enumerate() {
        let id = index.to_string();
        assert_eq!(streamed.get(&*id).map_or("", |s| s), text);
        assert_eq!(messages[&*id].text("content"), text);
    }
    assert_eq!(recording.guard.health().masked, 0);
}

#[test]
fn ended_message_is_complete_dropped_is_not() {
    let recording = Recording::new();
    let call = call(&recording);
    let push = |id: &str| {
        let mut stream = call.stream(id).part(2);
        stream.push("one two three ");
        stream.push("four five");
        stream
    };
    push("ended").end();
    drop(push("dropped"));
    push("aborted").abort("the user pressed escape");
    drop(call.stream("empty"));
    stream_all(call.stream_reasoning("reasoning"), &["think"]);
    let trace = recording.trace();
    let (streamed, messages) = (deltas(&trace), messages(&trace));
    for id in ["ended", "dropped", "aborted"] {
        assert_eq!(messages[id].text("content"), "one two three four five");
        assert_eq!(messages[id].get("part_index"), 2);
        assert_eq!(messages[id].get("complete"), id == "ended");
        assert_eq!(streamed[id], "one two three four five");
    }
    let reason = messages["aborted"].text("abort_reason");
    assert_eq!(reason, "the user pressed escape");
    assert!(messages["dropped"].get("abort_reason").is_null());
    assert_eq!(messages["empty"].text("content"), "");
    assert_eq!(messages["empty"].get("complete"), false);
    assert_eq!(messages["reasoning"].kind, "message_reasoning");
}

#[test]
fn kill_loses_at_most_the_held_back_tail() {
    let recording = Recording::new();
    let words: Vec<String> = (0..200).map(|n| format!("word{n} ")).collect();
    let mut stream = call(&recording).stream("m");
    for (index, word) in words.iter().enumerate() {
        stream.push(word);
        if index % 40 == 39 {
            let streamed = deltas(&recording.trace()).remove("m").unwrap();
            assert!(words.concat().starts_with(&streamed));
            assert!(
                streamed.split_whitespace().count() + 4 >= index,
                "{index}: {streamed}"
            );
        }
    }
    // It is never ended, as after a kill.
    std::mem::forget(stream);
    let streamed = deltas(&recording.trace()).remove("m").unwrap();
    assert!(streamed.ends_with("word196 "), "{streamed}");
}

#[test]
fn text_without_spaces_is_not_delayed_to_the_end() {
    let recording = Recording::new();
    let text = "東京は日本の首都で、人口が多い都市です。".repeat(10);
    let mut stream = call(&recording).stream("m");
    for character in text.chars() {
        stream.push(character.encode_utf8(&mut [0; 4]));
    }
    std::mem::forget(stream);
    let streamed = deltas(&recording.trace()).remove("m").unwrap();
    assert!(text.starts_with(&streamed));
    assert!(
        streamed.chars().count() + 8 >= text.chars().count(),
        "{streamed}"
    );
}

/// A private key that has begun, with `length` bytes of it, and some bytes that its lines share.
fn unfinished_key(length: usize) -> (String, String) {
    let pem = named("private-key");
    let lines: Vec<&str> = pem.lines().collect();
    let body = format!("{}\n", lines[1]).repeat(length / 65 + 1);
    (format!("{}\n{body}", lines[0]), lines[1][20..32].to_owned())
}

/// `text` in pieces of so many bytes.
fn push_by(stream: &mut Stream, text: &str, size: usize) {
    for piece in text.as_bytes().chunks(size) {
        stream.push(std::str::from_utf8(piece).unwrap());
    }
}

#[test]
fn endless_key_never_reaches_the_disk() {
    for length in [1000, 40_000, 150_000] {
        let recording = Recording::new();
        let call = call(&recording);
        let (key, part) = unfinished_key(length);
        let streams: Vec<Stream> = ["ended", "dropped", "left"]
            .into_iter()
            .map(|id| {
                let mut stream = call.stream(id);
                push_by(&mut stream, &format!("Here it is:\n{key}"), 16);
                stream
            })
            .collect();
        let mut input = call.stream_tool_input("c");
        push_by(
            &mut input,
            &format!("{{\"file\":\"{}", key.replace('\n', "\\n")),
            16,
        );
        for (stream, id) in streams.into_iter().zip(0..) {
            match id {
                0 => stream.end(),
                1 => drop(stream),
                _ => std::mem::forget(stream),
            }
        }
        drop(input);
        let trace = recording.trace();
        assert_eq!(memchr::memmem::find(&trace.bytes(), part.as_bytes()), None);
        let streamed = deltas(&trace);
        for id in ["ended", "dropped"] {
            let masked_text = &streamed[id];
            assert!(masked_text.starts_with("Here it is:\n[masked rule=private-key bytes="));
        }
        assert_eq!(streamed["left"].contains("[masked"), length > 32 * 1024);
        assert!(streamed["c"].starts_with("{\"file\":\"[masked rule=private-key bytes="));
        assert!(recording.guard.health().masked >= 3);
    }
}

#[test]
fn text_after_a_key_is_written_before_the_end() {
    for length in [1000, 150_000] {
        let recording = Recording::new();
        let (key, part) = unfinished_key(length);
        let end = key.lines().next().unwrap().replace("BEGIN", "END");
        let mut stream = call(&recording).stream("m");
        push_by(
            &mut stream,
            &format!("{key}{end}\nKeep it safe, please."),
            16,
        );
        std::mem::forget(stream);
        let trace = recording.trace();
        assert_eq!(memchr::memmem::find(&trace.bytes(), part.as_bytes()), None);
        let streamed = &deltas(&trace)["m"];
        assert!(streamed.starts_with("[masked rule=private-key bytes="));
        assert!(streamed.ends_with("]\nKeep "), "{streamed}");
    }
}

#[test]
fn long_text_without_spaces_loses_only_the_secret() {
    let recording = Recording::with(|builder| builder.inline_limit(4 << 20));
    let (before, after) = ("0123456789abcdef.".repeat(31_000), "fedcba.".repeat(75_000));
    let secret = named("github-classic");
    let mut stream = call(&recording).stream("m");
    push_by(&mut stream, &format!("{before}{secret}.{after}"), 100);
    stream.end();
    let trace = recording.trace();
    assert_eq!(
        memchr::memmem::find(&trace.bytes(), secret.as_bytes()),
        None
    );
    let (streamed, messages) = (deltas(&trace), messages(&trace));
    for masked_text in [&*streamed["m"], messages["m"].text("content")] {
        let (head, rest) = masked_text.split_once("[masked rule=").unwrap();
        let (_, tail) = rest.split_once(']').unwrap();
        assert!(head == before && tail[1..] == after);
    }
    // It came as it was pushed, not all at the end.
    assert!(trace.all("message_delta").len() > 16);
}

#[test]
fn offsets_locate_each_delta() {
    let recording = Recording::new();
    let text = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich ".repeat(3);
    let pieces: Vec<String> = text.chars().map(String::from).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    stream_all(call(&recording).stream("m"), &pieces);
    let trace = recording.trace();
    let mut at = 0;
    for delta in trace.all("message_delta") {
        assert_eq!(delta.get("offset"), at);
        let piece = delta.text("text");
        assert_eq!(&text[at..at + piece.len()], piece);
        at += piece.len();
    }
    assert_eq!(at, text.len());
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(64),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    // Of vowels, since no name of a secret is: `cvv:b` would be one.
    #[test]
    fn any_split_of_clean_text_is_unchanged(
        pieces in prop::collection::vec("[aeiouyäöü€😀東京 \n.,!?()\"'`{}\\[\\]\\\\:-]{0,12}", 0..40),
    ) {
        let recording = Recording::new();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        stream_all(call(&recording).stream("m"), &pieces);
        let trace = recording.trace();
        prop_assert_eq!(deltas(&trace).remove("m").unwrap_or_default(), pieces.concat());
        prop_assert_eq!(trace.one("message_assistant").text("content"), pieces.concat());
        prop_assert_eq!(trace.one("message_assistant").get("complete"), true);
    }

    #[test]
    fn any_split_of_a_secret_is_masked(
        which in 0..texts().len(),
        before in "[a-zé東 \n.,]{0,60}",
        after in "[a-zé東 \n.,]{0,60}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let (text, secret) = texts().swap_remove(which);
        let text = format!("{before}\n{text}\n{after}");
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| places[cut.index(places.len())]).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
        let recording = Recording::new();
        stream_all(call(&recording).stream("m"), &pieces);
        let trace = recording.trace();
        prop_assert!(!deltas(&trace).remove("m").unwrap_or_default().contains(&secret));
        prop_assert_eq!(memchr::memmem::find(&trace.bytes(), secret.as_bytes()), None);
    }
}
