//! `kill -9` at random moments: nothing that had returned is lost, and open spans are closed as
//! interrupted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use spanledger::trace::Line;
use spanledger::trace::{ReadItem, SegmentReader};

use crate::support::agent;
use crate::support::{LineExt, Trace};

const OPENS: [&str; 4] = ["session_start", "session_resume", "turn_start", "tool_call"];
const CLOSES: [&str; 4] = ["session_end", "turn_end", "tool_result", "interrupted"];
/// How often one session is killed before it may end normally.
const LIVES: usize = 5;

/// The calls that a process reported before it was killed.
#[derive(Default)]
struct Reported {
    begun: BTreeSet<(String, String)>,
    returned: BTreeSet<(String, String)>,
}

/// All files below a directory, and how large they are.
fn files(dir: &Path) -> BTreeMap<PathBuf, u64> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        all.insert(path.clone(), entry.metadata().map_or(0, |meta| meta.len()));
        all.extend(files(&path));
    }
    all
}

/// Runs the agent, and kills it after it has reported `kill_after` returned calls.
fn live(root: &Path, session: &str, life: usize, kill_after: Option<usize>) -> Reported {
    let rounds = if kill_after.is_some() { "1000000" } else { "3" };
    let mut child = Command::new(agent::executable())
        .args(["churn".as_ref(), root.as_os_str(), session.as_ref()])
        .args([&format!("life{life}"), rounds])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reported = Reported::default();
    if kill_after == Some(0) {
        // Anywhere between exec and the first calls: before it has made a file, or after a few.
        // Its output is not read meanwhile, so it may block there; then it is killed while blocked.
        let late = Instant::now() + Duration::from_secs(5);
        for _ in 0..fastrand::usize(..6) {
            let before = files(root);
            while files(root) == before && Instant::now() < late {
                std::thread::yield_now();
            }
        }
        child.kill().unwrap();
    }
    let mut reports = BufReader::new(child.stdout.take().unwrap());
    loop {
        let mut report = String::new();
        reports.read_line(&mut report).unwrap();
        let words: Vec<_> = report.split_whitespace().collect();
        let [mark, kind, key] = words[..] else { break };
        let call = (kind.to_owned(), key.to_owned());
        if mark == "<" {
            reported.begun.insert(call);
        } else {
            reported.returned.insert(call);
            if kill_after == Some(reported.returned.len()) {
                child.kill().unwrap();
            }
        }
    }
    let status = child.wait().unwrap();
    assert_eq!(status.success(), kill_after.is_none(), "{status}");
    reported
}

/// The call that a line is about, as the agent names it.
fn call_of(line: &Line) -> Option<(String, String)> {
    let (kind, key) = match line.kind.as_str() {
        "segment" | "interrupted" => return None,
        "session_start" | "session_resume" => ("run", line.text("key")),
        "span_update" => ("span_update", line.text("step")),
        kind => (kind, line.text("key")),
    };
    Some((kind.to_owned(), key.to_owned()))
}

fn span(line: &Line) -> String {
    line.span_id.clone().unwrap()
}

/// The spans that these lines leave open.
fn left_open<'a>(lines: impl Iterator<Item = &'a Line> + Clone) -> BTreeSet<String> {
    let of = |kinds: [&str; 4]| -> BTreeSet<String> {
        let these = lines
            .clone()
            .filter(|line| kinds.contains(&line.kind.as_str()));
        these.map(span).collect()
    };
    of(OPENS).difference(&of(CLOSES)).cloned().collect()
}

/// The lines of the segments that were not there before. A dead writer's stay as they were.
fn read_new(session: &Path, sizes: &mut BTreeMap<PathBuf, u64>) -> Vec<Line> {
    let mut files: Vec<_> = std::fs::read_dir(session)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    files.retain(|path: &PathBuf| path.extension().is_some_and(|e| e == "jsonl"));
    files.sort();
    let mut lines = Vec::new();
    for path in files {
        let size = path.metadata().unwrap().len();
        if let Some(before) = sizes.insert(path.clone(), size) {
            assert_eq!(size, before, "{} was touched", path.display());
            continue;
        }
        let mut seq = 0;
        // What follows the last newline was being written when the writer died.
        let mut reader = SegmentReader::open(&path).unwrap();
        while let Some(item) = reader.next().unwrap() {
            match item {
                ReadItem::Line(line) => {
                    seq += 1;
                    assert_eq!(line.seq, seq, "a hole in {}", path.display());
                    lines.push(line.to_line().unwrap());
                }
                other => panic!("{other:?}"),
            }
        }
    }
    lines
}

/// Compares what one process left in the trace with what it had reported.
fn check_life(before: &[Line], now: &[Line], reported: &Reported) {
    let segments: BTreeSet<_> = now.iter().map(|line| line.seg).collect();
    assert!(segments.len() <= 1, "one writer, one segment: {segments:?}");

    let mut recorded = BTreeSet::new();
    for call in now.iter().filter_map(call_of) {
        assert!(reported.begun.contains(&call), "invented: {call:?}");
        assert!(recorded.insert(call.clone()), "twice: {call:?}");
    }
    let lost: Vec<_> = reported.returned.difference(&recorded).collect();
    assert!(lost.is_empty(), "had returned and is gone: {lost:?}");

    let open = left_open(before.iter());
    let interrupted: Vec<_> = now
        .iter()
        .filter(|line| line.kind == "interrupted")
        .collect();
    let closed: BTreeSet<_> = interrupted.iter().map(|line| span(line)).collect();
    assert_eq!(closed.len(), interrupted.len(), "a span closed twice");
    assert!(closed.is_subset(&open), "closed though not open");
    for line in &interrupted {
        assert_eq!(line.text("outcome"), "interrupted");
        let opened = before
            .iter()
            .find(|open| open.span_id == line.span_id && OPENS.contains(&open.kind.as_str()))
            .unwrap();
        assert_eq!(*line.get("opened_seg"), Value::from(opened.seg));
        assert_eq!(line.trace_id, opened.trace_id);
        let key = if opened.kind == "tool_call" {
            "tool_id"
        } else {
            "key"
        };
        assert_eq!(
            line.get(key),
            opened.get(key),
            "the close line stands alone"
        );
    }
    let started = |line: &&Line| matches!(line.kind.as_str(), "session_start" | "session_resume");
    if let Some(run) = now.iter().find(started) {
        assert_eq!(
            closed, open,
            "a new run closes all that dead ones left open"
        );
        let resumes = before.iter().any(|line| started(&line));
        assert_eq!(run.kind == "session_resume", resumes, "{}", run.kind);
    }
}

fn check_ended(lines: &[Line]) {
    let mut closes: HashMap<String, usize> = HashMap::new();
    for line in lines
        .iter()
        .filter(|line| CLOSES.contains(&line.kind.as_str()))
    {
        *closes.entry(span(line)).or_default() += 1;
    }
    for line in lines
        .iter()
        .filter(|line| OPENS.contains(&line.kind.as_str()))
    {
        assert_eq!(
            closes.get(&span(line)),
            Some(&1),
            "closes of {}",
            line.address()
        );
    }
    let turns: Vec<u64> = lines
        .iter()
        .filter(|line| line.kind == "turn_start")
        .map(|line| line.get("turn_index").as_u64().unwrap())
        .collect();
    let counted: Vec<u64> = (1..=turns.len() as u64).collect();
    assert_eq!(turns, counted, "the turn count goes on where it was");
}

#[test]
fn kill_loses_nothing_that_had_returned() {
    let kills = std::env::var("SPANLEDGER_KILLS").map_or(100, |n| n.parse().unwrap());
    let seed =
        std::env::var("SPANLEDGER_SEED").map_or_else(|_| fastrand::u64(..), |s| s.parse().unwrap());
    eprintln!("{kills} kills, SPANLEDGER_SEED={seed}");
    fastrand::seed(seed);
    let mut open_at_death = 0;
    let mut left = kills;
    let mut number = 0;
    while left > 0 {
        number += 1;
        let dir = tempfile::tempdir().unwrap();
        let session = format!("killed_{number}");
        let lives = LIVES.min(left);
        left -= lives;
        let (mut lines, mut sizes) = (Vec::new(), BTreeMap::new());
        for life in 0..=lives {
            let kill_after = match life {
                life if life == lives => None,
                _ if fastrand::u8(..6) == 0 => Some(0),
                _ => Some(fastrand::usize(1..800)),
            };
            let reported = live(dir.path(), &session, life, kill_after);
            let now = read_new(&dir.path().join("sessions").join(&session), &mut sizes);
            check_life(&lines, &now, &reported);
            lines.extend(now);
            open_at_death += usize::from(!left_open(lines.iter()).is_empty());
        }
        check_ended(&lines);
    }
    assert!(
        kills < 20 || open_at_death > kills / 2,
        "most kills hit an open span: {open_at_death}"
    );
}

#[test]
fn unkilled_sessions_have_no_interrupted_line() {
    let dir = tempfile::tempdir().unwrap();
    for life in 0..2 {
        live(dir.path(), "calm", life, None);
    }
    let trace = Trace::read(dir.path());
    check_ended(trace.session("calm"));
    assert!(trace.damage.is_empty() && trace.all("interrupted").is_empty());
    let runs: BTreeMap<u32, &str> = trace
        .session("calm")
        .iter()
        .filter(|line| line.kind.starts_with("session_"))
        .filter(|line| line.kind != "session_end")
        .map(|line| (line.seg, line.kind.as_str()))
        .collect();
    assert_eq!(
        runs,
        BTreeMap::from([(1, "session_start"), (2, "session_resume")])
    );
}
