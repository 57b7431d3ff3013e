//! The queries in `docs/reading.md` for jq, DuckDB and grep, run with the real programs on the demo's trace.
//! Their output is compared with what the library reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use spanledger::trace::Line;
use tempfile::TempDir;

use crate::support::skipped::skipped;
use crate::support::{LineExt, Trace};

/// The code blocks of the page's section, in order: jq, DuckDB, grep.
fn blocks() -> Vec<Vec<String>> {
    let page = include_str!("../../docs/reading.md");
    let section = page.split("\n## jq, DuckDB and grep\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let code = section.split("```").skip(1).step_by(2);
    code.map(|block| block.lines().skip(1).map(str::to_owned).collect())
        .collect()
}

/// The trace that `spanledger demo` leaves.
fn demo() -> (TempDir, Trace) {
    let dir = TempDir::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_spanledger"))
        .args(["demo", "--session", "ses_demo", "--root"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let trace = Trace::read(dir.path());
    assert_eq!(trace.sessions.len(), 2);
    (dir, trace)
}

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        skipped(&format!("{program} is not installed"));
    }
    there
}

/// What a line of the page prints, line by line, sorted.
fn shell(root: &Path, recipe: &str) -> Vec<String> {
    let output = Command::new("sh")
        .args(["-c", recipe])
        .current_dir(root)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && errors.is_empty(),
        "{recipe}\n{errors}"
    );
    sorted(String::from_utf8(output.stdout).unwrap().lines())
}

fn sorted<T: ToString>(lines: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut lines: Vec<_> = lines.into_iter().map(|line| line.to_string()).collect();
    lines.sort();
    assert!(
        !lines.is_empty(),
        "a recipe that finds nothing proves nothing"
    );
    lines
}

fn text<'a>(line: &'a Line, path: &str) -> &'a str {
    line.get(path).as_str().unwrap_or_default()
}

/// How many, and the sums of two counts, by some key.
fn add_up<'a, K: Ord>(
    lines: impl IntoIterator<Item = &'a Line>,
    key: impl Fn(&Line) -> K,
    counts: [&str; 2],
) -> BTreeMap<K, (u64, [u64; 2])> {
    let mut sums: BTreeMap<K, (u64, [u64; 2])> = BTreeMap::new();
    for line in lines {
        let (n, sum) = sums.entry(key(line)).or_default();
        *n += 1;
        for (sum, name) in sum.iter_mut().zip(counts) {
            *sum += line.get(name).as_u64().unwrap_or(0);
        }
    }
    sums
}

const TOKENS: [&str; 2] = ["usage.input_tokens", "usage.output_tokens"];

#[test]
fn docs_have_three_lines_for_each_program() {
    let counts: Vec<_> = blocks().iter().map(Vec::len).collect();
    // DuckDB's three ask a view that is made first.
    assert_eq!(counts, [3, 1 + 3, 3]);
}

#[test]
fn jq_agrees_with_the_library() {
    if !is_there("jq") {
        return;
    }
    let (dir, trace) = demo();
    let recipes = &blocks()[0];

    let failed = trace
        .all("tool_result")
        .into_iter()
        .filter(|line| line.text("outcome") != "ok")
        .map(|line| {
            let expected_fields =
                ["tool_id", "outcome", "error.message"].map(|name| text(line, name));
            format!("{}\t{}", line.session_id, expected_fields.join("\t"))
        });
    assert_eq!(shell(dir.path(), &recipes[0]), sorted(failed));

    let model = |line: &Line| line.text("model_id").to_owned();
    let models = add_up(trace.all("model_result"), model, TOKENS)
        .into_iter()
        .map(|(model, (calls, [_, output]))| format!("{model}\t{calls}\t{output}"));
    assert_eq!(shell(dir.path(), &recipes[1]), sorted(models));

    let expected_fields = trace
        .lines()
        .filter(|line| matches!(line.kind.as_str(), "message_user" | "message_assistant"))
        .map(|line| format!("{} {}", line.address(), line.text("content")));
    assert_eq!(shell(dir.path(), &recipes[2]), sorted(expected_fields));
}

#[test]
fn grep_agrees_with_the_library() {
    if !is_there("grep") {
        return;
    }
    let (dir, trace) = demo();
    let recipes = &blocks()[2];

    let address = |line: &str| Line::parse(line.as_bytes()).unwrap().address();
    let errors = shell(dir.path(), &recipes[0]);
    let read = trace
        .lines()
        .filter(|line| text(line, "outcome") == "error");
    let read = read.map(Line::address);
    assert_eq!(
        sorted(errors.iter().map(|line| address(line))),
        sorted(read)
    );

    let asked = trace.all("hitl_request");
    let asked = asked
        .iter()
        .map(|line| format!("sessions/{}/trace.{:04}.jsonl", line.session_id, line.seg));
    assert_eq!(shell(dir.path(), &recipes[1]), sorted(asked));

    // The demo's one secret is told by the close line of the tool that read it.
    let masked = shell(dir.path(), &recipes[2]);
    assert_eq!(masked.len(), 1, "{masked:?}");
    let masked_lines = trace
        .lines()
        .filter(|line| text(line, "result").contains("[masked rule="));
    let expected = format!("{} [masked rule=key:REGISTRY_TOKEN", masked_lines.count());
    assert_eq!(masked[0].trim(), expected);
}

/// Runs statements and gives the rows of each that has some.
struct DuckDb(Vec<String>);

impl DuckDb {
    /// The command `duckdb`, by name or where `SPANLEDGER_DUCKDB` says, or the Python package, in
    /// the Python that `SPANLEDGER_DUCKDB_PYTHON` names.
    fn find() -> Option<Self> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(python) = set("SPANLEDGER_DUCKDB_PYTHON") {
            let script = "import duckdb, json, sys\n\
                db = duckdb.connect()\n\
                for sql in sys.argv[1:]:\n\
                \x20   rows = db.execute(sql)\n\
                \x20   names = [column[0] for column in rows.description]\n\
                \x20   print(json.dumps([dict(zip(names, row)) for row in rows.fetchall()], default=str))";
            return Some(Self(vec![python, "-c".into(), script.into()]));
        }
        let program = set("SPANLEDGER_DUCKDB").unwrap_or_else(|| "duckdb".into());
        is_there(&program).then(|| Self(vec![program, "-json".into()]))
    }

    fn rows(&self, root: &Path, setup: &str, query: &str) -> Vec<Value> {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]).current_dir(root);
        if self.0.iter().any(|arg| arg == "-json") {
            command.args(["-c", setup, "-c", query]);
        } else {
            command.args([setup, query]);
        }
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{query}\n{errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        let mut documents = serde_json::Deserializer::from_str(&text).into_iter::<Vec<Value>>();
        documents.by_ref().last().unwrap().unwrap()
    }
}

#[test]
fn duckdb_agrees_with_the_library() {
    let Some(duckdb) = DuckDb::find() else {
        return;
    };
    let (dir, trace) = demo();
    let recipes = &blocks()[1];
    let ask = |index: usize| sorted(duckdb.rows(dir.path(), &recipes[0], &recipes[index]));

    let key = |line: &Line| {
        (
            line.text("tool_id").to_owned(),
            line.text("outcome").to_owned(),
        )
    };
    let tools = add_up(trace.all("tool_result"), key, ["duration_ns", ""])
        .into_iter()
        .map(|((tool, outcome), (calls, [ns, _]))| {
            json!({"tool": tool, "outcome": outcome, "calls": calls, "ms": ns / 1_000_000})
        });
    assert_eq!(ask(1), sorted(tools));

    let key = |line: &Line| (line.session_id.clone(), line.turn);
    let turns = add_up(trace.all("model_result"), key, TOKENS)
        .into_iter()
        .map(|((id, turn), (_, [input, output]))| {
            json!({"session_id": id, "turn": turn, "input": input, "output": output})
        });
    assert_eq!(ask(2), sorted(turns));

    let commands = trace
        .all("tool_call")
        .into_iter()
        .filter(|line| text(line, "args.command").starts_with("cargo "))
        .map(|line| {
            let command = text(line, "args.command");
            json!({"session_id": line.session_id, "address": line.address(), "command": command})
        });
    assert_eq!(ask(3), sorted(commands));
}

#[test]
fn duckdb_reads_lines_before_a_torn_one() {
    let Some(duckdb) = DuckDb::find() else {
        return;
    };
    let (dir, trace) = demo();
    let path = dir.path().join("sessions/ses_demo/trace.0001.jsonl");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() - 40]).unwrap();
    let view = &blocks()[1][0];
    let count = "SELECT count(*) AS n FROM trace WHERE kind IS NOT NULL;";
    let rows = duckdb.rows(dir.path(), view, count);
    assert_eq!(rows, [json!({"n": trace.lines().count() - 1})]);
}
