//! An export that is imported under another root and exported again is the same, apart from what
//! `docs/formats.md` names.

mod generated;
mod rows;

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use spanledger::export::{Format, Target, export};
use spanledger::import::{Import, Source};
use spanledger::read::{self, session_dir};
use spanledger::trace::{Line, parse_time};
use tempfile::TempDir;

#[cfg(any(feature = "mirror", feature = "sqlite"))]
use crate::support::Trace;
use crate::support::rich_session;

/// A format that has both directions.
struct Pair {
    name: &'static str,
    /// Removes what the documentation names from a row.
    leave_out: fn(&mut Value),
}

const PAIRS: &[Pair] = &[
    Pair {
        name: "trajectory",
        leave_out: rows::trajectory,
    },
    Pair {
        name: "agentdbg",
        leave_out: rows::agentdbg,
    },
    Pair {
        name: "atif",
        leave_out: rows::atif,
    },
    Pair {
        name: "chat-json",
        leave_out: rows::chat,
    },
    #[cfg(feature = "mirror")]
    Pair {
        name: "otlp-json",
        leave_out: rows::otlp_span,
    },
    Pair {
        name: "trial",
        leave_out: rows::trial,
    },
    Pair {
        name: "chat-jsonl",
        leave_out: rows::chat,
    },
    #[cfg(feature = "sqlite")]
    Pair {
        name: "chat-sqlite",
        leave_out: rows::chat,
    },
    #[cfg(feature = "sqlite")]
    Pair {
        name: "trace-sqlite",
        leave_out: rows::trace_sqlite,
    },
];

fn pair(name: &str) -> &'static Pair {
    PAIRS.iter().find(|pair| pair.name == name).unwrap()
}

/// Exports sessions to one place. Returns what `import` takes.
fn write(pair: &Pair, root: &Path, sessions: &[&str], out: PathBuf) -> PathBuf {
    let format: Format = pair.name.parse().unwrap();
    let mut target = match format {
        Format::AgentDbg | Format::Trial => Target::directory(&out),
        _ => Target::file(&out),
    };
    for session in sessions {
        export(format, session_dir(root, session), &mut target).unwrap();
    }
    target.finish().unwrap();
    if format == Format::Trial {
        return out.join(format!("default/{}.json", sessions[0]));
    }
    match fs::read_dir(out.join("runs")) {
        // A resumed session has several.
        Ok(runs) => runs
            .map(|run| run.unwrap().path())
            .max_by_key(|run| fs::metadata(run.join("events.jsonl")).unwrap().len())
            .unwrap(),
        Err(_) => out,
    }
}

struct Trip {
    dir: TempDir,
    first: Vec<Value>,
    second: Vec<Value>,
    ids: Vec<String>,
}

impl Trip {
    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }
}

/// Exports sessions, imports them, and exports them again.
fn trip(pair: &Pair, root: &Path, sessions: &[&str]) -> Trip {
    let dir = tempfile::tempdir().unwrap();
    let source: Source = pair.name.parse().unwrap();
    let first = write(pair, root, sessions, dir.path().join("first"));
    assert_eq!(Source::detect(&first).unwrap(), source);
    let other = dir.path().join("root");
    let imported = Import::new(&other).unwrap().read(source, &first);
    let imported = imported.unwrap_or_else(|error| panic!("{}: {error}", pair.name));
    let ids: Vec<String> = imported.into_iter().map(|session| session.id).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    let names = if pair.name == "atif" {
        &names[..1]
    } else {
        &names[..]
    };
    let second = write(pair, &other, names, dir.path().join("second"));
    let rows = |path: &Path| {
        let mut rows = rows::read(pair.name, path);
        rows.iter_mut().for_each(pair.leave_out);
        rows.retain(|row| !row.is_null());
        rows
    };
    let (first, second) = (rows(&first), rows(&second));
    Trip {
        dir,
        first,
        second,
        ids,
    }
}

/// The first difference of two lists of rows.
fn difference(trip: &Trip) -> Option<String> {
    let (first, second) = (&trip.first, &trip.second);
    for (at, (one, other)) in first.iter().zip(second).enumerate() {
        if one != other {
            return Some(format!("row {at}\n{one}\n{other}"));
        }
    }
    if first.len() == second.len() {
        return None;
    }
    let longer = if first.len() > second.len() {
        first
    } else {
        second
    };
    let next = &longer[first.len().min(second.len())];
    Some(format!(
        "{} rows, then {}: {next}",
        first.len(),
        second.len()
    ))
}

#[track_caller]
fn same(trip: &Trip) {
    if let Some(difference) = difference(trip) {
        panic!("{difference}");
    }
    assert!(!trip.first.is_empty());
}

#[track_caller]
fn rich(name: &str, sessions: &[&str]) -> Trip {
    let dir = rich_session::record();
    let trip = trip(pair(name), dir.path(), sessions);
    same(&trip);
    trip
}

const SESSION: &[&str] = &[rich_session::SESSION];

#[test]
fn trajectory_of_a_rich_session() {
    rich("trajectory", SESSION);
}

#[test]
fn agentdbg_run_of_a_rich_session() {
    rich("agentdbg", SESSION);
}

/// What ATIF carries of a line, times in microseconds.
fn carried_by_atif(line: &Line) -> Option<Value> {
    let field = |name: &str| line.payload.get(name).cloned().unwrap_or_default();
    let kind = field("closes");
    let kind = kind.as_str().unwrap_or(&line.kind);
    let start = field("start").as_str().and_then(parse_time).unwrap_or(0);
    let end = start + field("duration_ns").as_u64().unwrap_or(0);
    let times = [start / 1000, end / 1000];
    match kind {
        "tool_result" => Some(json!([
            times,
            field("tool_id"),
            field("outcome"),
            field("exit_code")
        ])),
        // Of every step of the agent a model call is made.
        "model_result" if !field("finish_reason").is_null() => Some(json!([
            times,
            field("model_id"),
            field("finish_reason"),
            field("usage")
        ])),
        "message_user" => Some(json!([field("content"), field("attachments")])),
        _ => None,
    }
}

#[test]
fn atif_of_a_rich_session() {
    let original = rich_session::record();
    let trip = trip(pair("atif"), original.path(), SESSION);
    same(&trip);
    assert_eq!(trip.ids, [rich_session::SESSION, rich_session::SUBAGENT]);
    let [before, after] = [original.path(), &trip.root()].map(|root| {
        let lines = read::lines(session_dir(root, rich_session::SESSION)).unwrap();
        // The lines of 2036 have halves of surrogate pairs, which this parser refuses.
        let lines = lines.iter().filter(|line| line.ts.as_str() < "2036");
        let mut carried: Vec<Value> = lines.filter_map(carried_by_atif).collect();
        carried.sort_by_cached_key(Value::to_string);
        carried
    });
    assert_eq!(before, after);
}

#[test]
fn chat_json_of_a_rich_session() {
    rich("chat-json", SESSION);
}

#[test]
fn chat_jsonl_of_a_rich_session() {
    rich("chat-jsonl", SESSION);
}

#[cfg(feature = "sqlite")]
#[test]
fn chat_sqlite_of_a_rich_session_and_its_subagent() {
    let sessions = [rich_session::SESSION, rich_session::SUBAGENT];
    let trip = rich("chat-sqlite", &sessions);
    let trace = Trace::read(&trip.root());
    let lines = trace.session(rich_session::SESSION);
    let of = |kind: &str| lines.iter().filter(|line| line.kind == kind).count();
    // Unknown kinds, rewinds and compactions are what they were.
    for kind in [
        "weather_report",
        "from_the_future",
        "rewind",
        "context_compaction",
        "artifact",
        "subagent",
    ] {
        assert!(of(kind) > 0, "no {kind}");
    }
    let calls: Vec<_> = lines
        .iter()
        .filter(|line| line.kind == "tool_result")
        .map(|line| {
            (
                line.payload["tool_call_id"].as_str().unwrap(),
                line.payload["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        calls.iter().filter(|(id, _)| *id == "call_1").count(),
        3,
        "{calls:?}"
    );
    for outcome in ["denied", "error", "interrupted"] {
        assert!(calls.iter().any(|(_, one)| *one == outcome), "{calls:?}");
    }
    let subagent = trace.session(rich_session::SUBAGENT);
    assert_eq!(
        subagent[1].payload["parent_session_id"],
        rich_session::SESSION
    );
    let user = lines
        .iter()
        .find(|line| line.kind == "message_user")
        .unwrap();
    assert_eq!(user.payload["attachments"][0]["name"], "plan.pdf");
}

/// A span in another trace than the one around it has its link from the beginning on.
#[cfg(feature = "mirror")]
#[test]
fn otlp_json_keeps_links_on_open_lines() {
    use generated::{Asked, End, Op};
    let tool = Op::Tool {
        name: 0,
        id: 0,
        args: Value::Null,
        end: End::Nothing,
        asked: Asked::Never,
    };
    let dir = generated::record(&[tool.clone(), Op::Turn, tool], true);
    let trip = trip(pair("otlp-json"), dir.path(), &[generated::SESSION]);
    same(&trip);
    let links = |root: &Path| {
        let trace = Trace::read(root);
        let lines = trace.session(generated::SESSION).iter();
        let opens = lines.filter(|line| ["turn_start", "tool_call"].contains(&&*line.kind));
        let links = opens.map(|line| line.payload.get("links").cloned());
        links.collect::<Vec<_>>()
    };
    let recorded = links(dir.path());
    assert!(recorded.iter().flatten().count() > 2, "{recorded:?}");
    assert_eq!(links(&trip.root()), recorded);
}

#[cfg(feature = "sqlite")]
#[test]
fn trace_sqlite_of_a_rich_session() {
    rich("trace-sqlite", SESSION);
}

/// Compares the lines of a session with those of its import.
#[cfg(feature = "sqlite")]
fn same_lines(root: &Path, other: &Path, session: &str) {
    let (first, second) = (Trace::read(root), Trace::read(other));
    let (first, second) = (
        rows::lines(first.session(session)),
        rows::lines(second.session(session)),
    );
    for (one, other) in first.iter().zip(&second) {
        assert_eq!(one, other);
    }
    assert_eq!(first.len(), second.len());
}

/// A session made from a list of steps comes back.
fn comes_back(name: &str, ops: &[generated::Op], rolls_over: bool) -> Result<(), TestCaseError> {
    let dir = generated::record(ops, rolls_over);
    let trip = trip(pair(name), dir.path(), &[generated::SESSION]);
    let difference = difference(&trip);
    prop_assert!(difference.is_none(), "{}", difference.unwrap_or_default());
    #[cfg(feature = "sqlite")]
    if name == "trace-sqlite" {
        same_lines(dir.path(), &trip.root(), generated::SESSION);
    }
    Ok(())
}

/// Few unless PROPTEST_CASES has a number: a case takes tens of milliseconds.
fn cases() -> ProptestConfig {
    let many = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: many.and_then(|many| many.parse().ok()).unwrap_or(12),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    }
}

macro_rules! generated_sessions {
    ($( $(#[$feature:meta])? $test:ident $name:literal $op:ident, )+) => {
        proptest! {
            #![proptest_config(cases())]
            $(
                $(#[$feature])?
                #[test]
                fn $test(ops in prop::collection::vec(generated::$op(), 0..24), rolls_over: bool) {
                    comes_back($name, &ops, rolls_over)?;
                }
            )+
        }
    };
}

/// A document of another program, apart from what our export adds.
#[test]
fn foreign_atif_comes_back() {
    let call = |id: &str| json!({"tool_call_id": id, "function_name": "bash", "arguments": {"keystrokes": "ls"}});
    let of = |id: &str, content: &str| json!({"source_call_id": id, "content": content});
    let steps = json!([
        {"step_id": 1, "source": "system", "message": "Be brief."},
        {"step_id": 2, "source": "user", "message": "Look.", "is_copied_context": true},
        {"step_id": 3, "source": "agent", "message": "", "reasoning_content": "Hm.", "is_copied_context": true,
            "tool_calls": [call("a"), call("b")], "observation": {"results": [of("b", "x")]}},
        {"step_id": 4, "source": "agent", "message": "Two files.", "is_copied_context": true},
        {"step_id": 5, "source": "user", "message": "Go on.", "is_copied_context": true},
        {"step_id": 6, "source": "agent", "message": "<raw>", "model_name": "m", "reasoning_effort": "high", "llm_call_count": 3,
            "observation": {"results": [{"content": "$ ls"}]},
            "metrics": {"prompt_tokens": 9, "completion_tokens": 2, "extra": {"cache_write_tokens": 4, "usage_details": {"tier": "standard"}}}},
        {"step_id": 7, "source": "agent", "message": "Done.", "model_name": "m", "tool_calls": [call("c")],
            "observation": {"results": [of("c", "y")]}},
        {"step_id": 8, "source": "system", "message": "Summarized."},
        {"step_id": 9, "source": "system", "message": "", "observation": {"results": [{"content": "Three files."}]}},
        {"step_id": 10, "source": "user", "message": "Go on."},
    ]);
    let document = json!({"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "terminus-2", "version": "2"}, "steps": steps});
    let dir = tempfile::tempdir().unwrap();
    let (path, root) = (dir.path().join("source"), dir.path().join("root"));
    fs::write(&path, document.to_string()).unwrap();
    let imported = Import::new(&root).unwrap().read(Source::Atif, &path);
    assert_eq!(imported.unwrap().len(), 1);
    let out = write(pair("atif"), &root, &["s"], dir.path().join("out"));
    let mut out: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    for step in out["steps"].as_array_mut().unwrap() {
        let bare = |object: &mut Value| {
            let members = object.as_object_mut().unwrap();
            members.retain(|name, _| !["extra", "timestamp"].contains(&name.as_str()));
        };
        bare(step);
        for list in ["/tool_calls", "/observation/results"] {
            let list = step.pointer_mut(list).and_then(Value::as_array_mut);
            list.into_iter().flatten().for_each(bare);
        }
    }
    let steps = steps.as_array().unwrap();
    for (step, known) in out["steps"].as_array().unwrap().iter().zip(steps) {
        assert_eq!(step, known);
    }
    assert_eq!(out["steps"].as_array().unwrap().len(), steps.len());
}

/// The compaction kept the message that the rewind before it went back to.
#[test]
fn atif_keeps_a_compaction_that_follows_a_rewind() {
    use generated::Op;
    let user = |id| Op::User {
        text: "Go on.".into(),
        id,
        files: 0,
    };
    let compaction = Op::Compaction {
        summary: Some("It went on.".into()),
        tail: Some(3),
    };
    let ops = [user(Some(3)), user(None), Op::Rewind { to: 3 }, compaction];
    comes_back("atif", &ops, false).unwrap();
}

generated_sessions! {
    generated_sessions_come_back_from_trajectory "trajectory" op,
    generated_sessions_come_back_from_agentdbg "agentdbg" op,
    generated_sessions_come_back_from_atif "atif" op_with_relays,
    generated_sessions_come_back_from_chat_json "chat-json" op,
    #[cfg(feature = "mirror")]
    generated_sessions_come_back_from_otlp_json "otlp-json" op,
    generated_sessions_come_back_from_trial "trial" op,
    generated_sessions_come_back_from_chat_jsonl "chat-jsonl" op,
    #[cfg(feature = "sqlite")]
    generated_sessions_come_back_from_chat_sqlite "chat-sqlite" op,
    #[cfg(feature = "sqlite")]
    generated_sessions_come_back_from_trace_sqlite "trace-sqlite" op,
}
