//! Files that other programs write: spans that repeat, and spans without times.

use std::path::Path;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use spanledger::import::{Import, Source};
use spanledger::read::{lines, session_dir};
use spanledger::trace::{Line, parse_time, time_text};

const TRACE: &str = "000000000000000000000000000000aa";

/// A span of the conversations with this id and these times.
fn span(id: u64, name: &str, times: Value) -> Value {
    let mut span = json!({
        "traceId": TRACE, "spanId": format!("{id:016x}"), "name": name,
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": name}},
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
        ],
    });
    for (name, time) in times.as_object().into_iter().flatten() {
        span[name] = time.to_string().into();
    }
    span
}

/// When a file was last changed, in nanoseconds since 1970.
fn file_time(path: &Path) -> u64 {
    let modified = path.metadata().unwrap().modified().unwrap();
    modified.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// The lines that a file of one session becomes, and the time of the file.
fn imported(requests: &[Vec<Value>]) -> (Vec<Line>, u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spans.jsonl");
    let request = |spans: &Vec<Value>| {
        let request = json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]});
        format!("{request}\n")
    };
    std::fs::write(&path, requests.iter().map(request).collect::<String>()).unwrap();
    let root = dir.path().join("root");
    let sessions = Import::new(&root).unwrap().read(Source::OtlpJson, &path);
    assert_eq!(sessions.unwrap().len(), 1);
    let lines = lines(session_dir(&root, TRACE)).unwrap();
    (lines, file_time(&path))
}

fn of_kind<'a>(lines: &'a [Line], kind: &str) -> Vec<&'a Line> {
    lines.iter().filter(|line| line.kind == kind).collect()
}

/// Collectors send a request again if its answer is lost, and some programs send a span before it ends.
#[test]
fn repeated_span_counts_once() {
    let run = || {
        span(
            1,
            "invoke_agent",
            json!({"startTimeUnixNano": 1000, "endTimeUnixNano": 9000}),
        )
    };
    let call = |end: u64| {
        span(
            2,
            "chat",
            json!({"startTimeUnixNano": 2000, "endTimeUnixNano": end}),
        )
    };
    for (first, second) in [
        (vec![run(), call(3000)], vec![run(), call(3000)]),
        (vec![run(), call(2000)], vec![call(3000)]),
        (vec![run(), call(3000)], vec![call(2000)]),
        (vec![run(), call(3000), call(3000)], vec![]),
    ] {
        let (lines, _) = imported(&[first, second]);
        let results = of_kind(&lines, "model_result");
        assert_eq!(results.len(), 1, "{lines:#?}");
        assert_eq!(results[0].payload["duration_ns"], 1000);
        assert_eq!(
            of_kind(&lines, "session_end")[0].payload["totals"]["usage"]["input_tokens"],
            7
        );
        assert!(of_kind(&lines, "session_resume").is_empty());
    }
}

#[test]
fn span_without_a_start_begins_with_its_end_or_the_file() {
    let start = |times: Value| {
        let (lines, file) = imported(&[vec![span(1, "chat", times)]]);
        let start = of_kind(&lines, "model_call")[0].payload["start"].clone();
        (parse_time(start.as_str().unwrap()).unwrap(), file)
    };
    assert_eq!(start(json!({"endTimeUnixNano": 5000})).0, 5000);
    assert_eq!(
        start(json!({"startTimeUnixNano": 0, "endTimeUnixNano": 5000})).0,
        5000
    );
    let (start, file) = start(json!({}));
    assert_eq!(time_text(start, 9), time_text(file, 9));
}
