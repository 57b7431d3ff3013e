//! Files of format version 1, recorded once by `make_fixture.rs` and kept: every later version must
//! read the same from them.
//! readable and say the same. How they were made: `make_fixture.rs`.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use spanledger::Outcome;
use spanledger::read::{self, SessionReader};
use spanledger::session::{self, Node, NodeState, Status, Store, Summary, Turn, Turns};
use spanledger::trace::typed::ToolCall;
use spanledger::trace::{Kind, ReadItem};

use crate::support::{LineExt, Trace};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1")
}

fn dir(id: &str) -> PathBuf {
    read::session_dir(root(), id)
}

struct Folded {
    summary: Summary,
    turns: Vec<Turn>,
}

fn fold(id: &str) -> Folded {
    let mut reader = SessionReader::open(dir(id)).unwrap();
    let mut summary = Summary::default();
    let mut turns = Turns::default();
    let mut done = Vec::new();
    while let Some(found) = reader.next().unwrap() {
        let ReadItem::Line(line) = found else {
            panic!("{found:?}")
        };
        summary.take(&line);
        turns.take(&line);
        done.extend(std::iter::from_fn(|| turns.ready()));
    }
    done.extend(turns.finish());
    Folded {
        summary,
        turns: done,
    }
}

impl Folded {
    fn turn(&self, index: u32) -> &Turn {
        let mut of_turn = self.turns.iter().filter(|c| c.index == Some(index));
        let turn = of_turn.next().unwrap_or_else(|| panic!("no turn {index}"));
        assert!(of_turn.next().is_none(), "turn {index} came in two parts");
        turn
    }

    fn status(&self) -> Status {
        self.summary.status(|_| false)
    }
}

fn tool<'a>(turn: &'a Turn, call: &str) -> &'a Node {
    let is_it = |node: &&Node| {
        let its = node.view::<ToolCall>().tool_call_id();
        node.kind == Kind::ToolCall && its.as_deref() == Some(call)
    };
    turn.nodes.iter().find(is_it).unwrap()
}

#[test]
fn fixture_files_are_unchanged() {
    fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, files),
                false => files.push(path),
            }
        }
    }
    let mut files = Vec::new();
    walk(&root(), &mut files);
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        digest.update(file.strip_prefix(root()).unwrap().to_str().unwrap());
        digest.update(std::fs::read(file).unwrap());
    }
    let hex: String = digest
        .finalize()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert_eq!(
        hex, "de87214a8de76b700d4afcb58bed91068caa73c35bb037462a08400dddf072e4",
        "the fixture never changes: what is new gets a directory of its own"
    );
}

#[test]
fn every_line_is_read() {
    let trace = Trace::read(&root());
    assert!(trace.damage.is_empty(), "{:?}", trace.damage);
    let counts: Vec<_> = trace
        .sessions
        .iter()
        .map(|(id, lines)| (id.as_str(), lines.len()))
        .collect();
    assert_eq!(
        counts,
        [
            ("ses_blob", 8),
            ("ses_future", 9),
            ("ses_gap", 7),
            ("ses_interrupted", 7),
            ("ses_masked", 8),
            ("ses_resumed", 18),
            ("ses_whole", 44),
            ("ses_whole-review", 6),
        ]
    );
}

#[test]
fn list_has_every_session_newest_first() {
    let entries = Store::new(root()).list().unwrap();
    let listed: Vec<_> = entries
        .iter()
        .map(|entry| (entry.summary.session_id.as_str(), entry.status))
        .collect();
    assert_eq!(
        listed,
        [
            ("ses_future", Status::Ended),
            ("ses_masked", Status::Ended),
            ("ses_gap", Status::Ended),
            ("ses_blob", Status::Ended),
            ("ses_resumed", Status::Ended),
            ("ses_interrupted", Status::Interrupted),
            ("ses_whole", Status::Ended),
            ("ses_whole-review", Status::Ended),
        ]
    );
}

#[test]
fn summary_of_a_whole_session() {
    let folded = fold("ses_whole");
    let summary = &folded.summary;
    assert_eq!(folded.status(), Status::Ended);
    assert_eq!(summary.agent.as_deref(), Some("builder"));
    assert_eq!(summary.provider_id.as_deref(), Some("anthropic"));
    assert_eq!(summary.model_id.as_deref(), Some("claude-sonnet-4-5"));
    assert_eq!(summary.variant.as_deref(), Some("high"));
    assert_eq!(summary.temperature, Some(0.2));
    assert_eq!(summary.title.as_deref(), Some("Fix the failing build"));
    assert_eq!(summary.workspace_root.as_deref(), Some("/home/ada/pump"));
    let ended = Some(("ok".to_owned(), Some("end_turn".to_owned())));
    assert_eq!(summary.ended, ended);
    let totals = summary.totals();
    assert_eq!((totals.turns, totals.model_calls), (2, 2));
    assert_eq!((totals.tool_calls, totals.errors), (4, 1));
    assert_eq!(totals.usage.input_tokens, Some(4_150));
    assert_eq!(totals.usage.cache_read_tokens, Some(1_792));
    assert_eq!(totals.usage.output_tokens, Some(217));
    assert_eq!(totals.usage.reasoning_tokens, None);
    let error = summary.first_error.as_ref().unwrap();
    assert_eq!(error.address.to_string(), "1:15");
    assert_eq!(error.message, "exit status: 101");
    assert_eq!(summary.writers[&1].process_json()["host"], "pump-house");
}

#[test]
fn turns_of_a_whole_session() {
    let folded = fold("ses_whole");
    let (first, second) = (folded.turn(1), folded.turn(2));
    let outcome = |turn: &Turn, call: &str| tool(turn, call).outcome();
    assert_eq!(outcome(first, "call_1"), Some(Outcome::Error));
    assert_eq!(outcome(first, "call_2"), Some(Outcome::Ok));
    assert_eq!(outcome(first, "call_3"), Some(Outcome::Denied));
    assert_eq!(tool(first, "call_1").duration, Some(842_000_000));
    let kinds: Vec<_> = second.nodes.iter().map(Node::kind_name).collect();
    assert_eq!(
        kinds,
        [
            "message_user",
            "compaction_start",
            "model_call",
            "tool_call",
            "permission_request",
            "hitl_request",
            "hitl_response",
            "artifact",
            "subagent",
            "message_assistant",
        ]
    );
}

#[test]
fn streamed_message_is_one_message() {
    let folded = fold("ses_whole");
    let contents: Vec<_> = folded
        .turn(1)
        .nodes
        .iter()
        .filter_map(Node::content)
        .collect();
    assert_eq!(
        contents.last().unwrap(),
        "The valve's flow is an `f32`, but the pump wants an `f64`."
    );
    assert_eq!(contents.len(), 3);
}

#[test]
fn context_assets_are_found_by_digest() {
    let digests = fold("ses_whole").turn(2).digests.clone();
    let body = |digest: &Option<String>| {
        let digest = digest.as_deref().unwrap();
        session::body(dir("ses_whole"), digest).unwrap().unwrap().1
    };
    assert_eq!(body(&digests.system_prompt), "You are a careful engineer.");
    assert!(body(&digests.tool_catalog).contains("Run a command"));
    assert!(body(&digests.permission_rules).contains("rm *"));
}

#[test]
fn subagent_names_parent_and_shares_trace() {
    let trace = Trace::read(&root());
    let start = &trace.session("ses_whole-review")[1];
    assert_eq!(start.text("parent_session_id"), "ses_whole");
    let subagent = trace.one("subagent");
    assert_eq!(subagent.session_id, "ses_whole");
    assert_eq!(subagent.text("child_session_id"), "ses_whole-review");
    assert_eq!(subagent.trace_id, start.trace_id);
}

#[test]
fn interrupted_session_stops_where_it_was() {
    let folded = fold("ses_interrupted");
    assert_eq!(folded.status(), Status::Interrupted);
    let open = folded.summary.deepest().unwrap();
    assert_eq!(
        (open.kind.as_str(), open.name.as_str()),
        ("tool_call", "bash")
    );
    assert!(
        open.input
            .as_ref()
            .unwrap()
            .contains("cargo test --release")
    );
    assert_eq!(tool(folded.turn(1), "call_1").state, NodeState::Open);
    assert_eq!(folded.turn(1).span.as_ref().unwrap().state, NodeState::Open);
}

#[test]
fn segments_merge_in_time_order() {
    let folded = fold("ses_resumed");
    assert_eq!(folded.status(), Status::Ended);
    assert_eq!(folded.summary.runs, 2);
    assert_eq!(folded.summary.writers.len(), 2);
    assert_ne!(folded.summary.writers[&1].id, folded.summary.writers[&2].id);
    let totals = folded.summary.totals();
    assert_eq!((totals.turns, totals.tool_calls), (2, 2));
    assert_eq!(totals.usage.input_tokens, Some(900));
    assert!(folded.summary.open.is_empty());
    // Closed by the second writer, in its own segment.
    let tool = tool(folded.turn(1), "call_1");
    assert_eq!(tool.outcome(), Some(Outcome::Interrupted));
    assert_eq!(tool.address.seg, 2);
    assert_eq!(folded.turn(2).nodes.len(), 2);
}

#[test]
fn blob_value_is_read_whole() {
    let folded = fold("ses_blob");
    let result = tool(folded.turn(1), "call_1").get("result").unwrap();
    let text = session::whole(dir("ses_blob"), result).unwrap();
    assert_eq!(text.len(), 1_440);
    assert!(text.ends_with("case_090 ... ok\n"));
}

#[test]
fn gap_has_count_and_cause() {
    let summary = fold("ses_gap").summary;
    assert_eq!(summary.missing, 3);
    assert_eq!(summary.gaps[0].0.to_string(), "1:2");
    assert!(summary.gaps[0].1.ends_with("was removed"));
}

#[test]
fn masks_replace_secrets() {
    let folded = fold("ses_masked");
    let tool = tool(folded.turn(1), "call_1");
    let args = tool.get("args").unwrap().value().unwrap();
    let mask = "[masked rule=key:api_key bytes=18 hmac=0011223344556677 key=00112233]";
    assert_eq!(args["api_key"], mask);
    assert!(
        tool.get("result")
            .unwrap()
            .text()
            .unwrap()
            .ends_with("]\nREGION=eu-1")
    );
}

#[test]
fn unknown_kinds_and_fields_are_kept() {
    let folded = fold("ses_future");
    let nodes = &folded.turn(1).nodes;
    let unknown = nodes.iter().find(|n| n.kind_name() == "weather_report");
    let fields = unknown.unwrap().payload_json();
    assert_eq!(fields["wind"]["knots"], 4);
    assert_eq!(fields["mood"]["calm"], 0.9);
    let lines = read::lines(dir("ses_future")).unwrap();
    assert!(lines.iter().all(|line| line.unknown["shard"] == "b"));
    assert_eq!(lines[5].payload["mood"]["calm"], 0.9);
}
