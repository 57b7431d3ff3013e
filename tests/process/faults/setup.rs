//! One script for every fault: a span open before it, one opened and one closed during it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spanledger::trace::Line;

use crate::support::agent::Agent;
use crate::support::{LineExt, Trace};

/// What `work w 7` computes: the sum of the squares below 7.
const WORK: &str = "91";

pub struct Scene {
    pub agent: Agent,
    pub root: PathBuf,
    sent: BTreeSet<u64>,
    /// Span lines that are lost or late.
    lost_span_lines: u64,
    /// Events of the session `w` that happened during the fault.
    lost_work: u64,
    opened_before: bool,
}

impl Scene {
    pub fn new(agent: Agent, root: &Path) -> Self {
        Self {
            agent,
            root: root.to_owned(),
            sent: BTreeSet::new(),
            lost_span_lines: 0,
            lost_work: 0,
            opened_before: false,
        }
    }

    fn send(&mut self, n: u64) {
        self.sent.insert(n);
        self.agent.send(&[&format!("event run {n} 0")]);
    }

    /// A run, a turn and a tool are open when the fault comes.
    pub fn before(&mut self) {
        self.opened_before = true;
        let open = ["run run s", "turn turn run", "tool a turn 0"];
        self.agent.send(&open);
        (0..3).for_each(|n| self.send(n));
        assert_eq!(self.agent.health().failed, 0);
    }

    /// Records until a line fails. How many lines that takes depends on the file system.
    pub fn until_it_fails(&mut self) {
        for n in 100.. {
            assert!(n < 2000, "nothing ever failed");
            self.send(n);
            if self.agent.health().failed > 0 {
                return;
            }
        }
    }

    /// Everything that happens here is lost: `b` opens, `a` closes, `c` does both.
    pub fn during(&mut self) {
        let failed = self.agent.health().failed;
        if !self.opened_before {
            let open = ["run run s", "turn turn run", "tool a turn 0"];
            self.agent.send(&open);
            self.lost_span_lines += 3;
        }
        (10..15).for_each(|n| self.send(n));
        self.agent
            .send(&["tool b turn 0", "finish a", "tool c turn 0", "finish c"]);
        self.lost_span_lines += 4;
        assert_eq!(self.agent.ask("work w 7"), WORK, "the agent's own result");
        self.lost_work = 2 + 7 * 4;
        let health = self.agent.health();
        let lost = 5 + self.lost_work + if self.opened_before { 4 } else { 7 };
        assert_eq!(health.failed - failed, lost, "{health:?}");
        let error = health.last_error.unwrap();
        let says_why = error.contains("os error") || error.contains("is not a directory");
        assert!(says_why, "{error}");
        assert_ne!(self.agent.ask("flush"), "0", "nothing can be written yet");
    }

    /// After the fault: checks what the trace has about it, and that recording continues.
    pub fn after(mut self) -> Trace {
        assert_eq!(self.agent.ask("flush"), "0", "{:?}", self.agent.health());
        let failed = self.agent.health().failed;
        self.send(20);
        self.agent.send(&["finish b", "finish turn", "finish run"]);
        assert_eq!(self.agent.ask("work w 7"), WORK, "the agent's own result");
        assert_eq!(
            self.agent.health().failed,
            failed,
            "{:?}",
            self.agent.health()
        );
        let stderr = self.agent.stderr();
        assert_eq!(stderr.lines().count(), 1, "stderr: {stderr}");
        assert!(
            stderr.starts_with("spanledger: not recording: "),
            "{stderr}"
        );
        let advice = "The agent continues; health() counts lost events, `spanledger doctor` checks the root\n";
        assert!(stderr.ends_with(advice), "{stderr}");
        assert_eq!(self.agent.ask("shutdown"), format!("ok {failed}"));
        let trace = Trace::read(&self.root);
        self.check_gaps(&trace, failed);
        self.check_spans(&trace);
        self.agent.exit("exit");
        trace
    }

    fn check_gaps(&self, trace: &Trace, failed: u64) {
        let probes = trace.all("probe");
        let there: BTreeSet<_> = probes.iter().map(|line| number(line, "n")).collect();
        assert_eq!(there.len(), probes.len(), "a probe is there twice");
        assert!(there.is_subset(&self.sent));
        let absent = (self.sent.len() - there.len()) as u64 + self.lost_span_lines;
        let count = |session| -> u64 {
            let gaps = trace
                .session(session)
                .iter()
                .filter(|line| line.kind == "gap");
            gaps.map(|line| number(line, "count")).sum()
        };
        assert_eq!(count("s"), absent, "gaps of s: {:#?}", trace.all("gap"));
        assert_eq!(count("w"), self.lost_work);
        assert_eq!(count("s") + count("w"), failed);
        for gap in trace.all("gap") {
            let kinds = gap.get("by_kind").as_object().unwrap();
            let sum: u64 = kinds.values().filter_map(Value::as_u64).sum();
            assert_eq!(sum, number(gap, "count"));
            assert!(!gap.text("cause").is_empty());
            // It lies between the last line before it and itself.
            let before = trace.session(&gap.session_id).iter();
            let before = before.take_while(|line| line.address() != gap.address());
            let times = before.filter(|line| line.kind != "segment").last();
            let from = times.map_or("2000", |line| line.ts.as_str());
            let (first, last) = (gap.text("first_ts"), gap.text("last_ts"));
            assert!(
                from <= first && first <= last && last <= gap.ts.as_str(),
                "{gap:?}"
            );
        }
    }

    /// Late lines replace what was lost, once, directly after the gap.
    fn check_spans(&self, trace: &Trace) {
        let session = trace.session("s");
        let call = |kind: &str, id: &str| -> Vec<&Line> {
            let with = |line: &&Line| line.kind == kind && *line.get("tool_call_id") == *id;
            session.iter().filter(with).collect()
        };
        let b = call("tool_call", "b");
        assert_eq!(b.len(), 1, "{b:#?}");
        assert_eq!(*b[0].get("late"), true);
        let closed = call("tool_result", "b");
        assert_eq!((closed.len(), closed[0].get("late")), (1, &Value::Null));
        let a = call("tool_call", "a");
        assert_eq!(
            a.len(),
            usize::from(self.opened_before),
            "its open line is there or lost"
        );
        assert_eq!(call("tool_call", "c").len(), 0);

        let is_short_close = |line: &&Line| line.kind == "tool_result" && *line.get("late") == true;
        let short: Vec<_> = session.iter().filter(is_short_close).collect();
        assert_eq!(short.len(), 2, "the closes of a and c: {short:#?}");
        for line in &short {
            assert_eq!(line.text("outcome"), "ok");
            assert!(line.get("duration_ns").is_u64() && line.get("start").is_string());
        }
        if self.opened_before {
            assert_eq!(short[0].span_id, a[0].span_id);
        }
        let late_opens: Vec<_> = session
            .iter()
            .filter(|line| *line.get("late") == true && line.kind != "tool_result")
            .map(|line| line.kind.as_str())
            .collect();
        let expected: &[&str] = match self.opened_before {
            true => &["tool_call"],
            false => &["session_start", "turn_start", "tool_call"],
        };
        assert_eq!(late_opens, expected);
        let gap = session.iter().rposition(|line| line.kind == "gap").unwrap();
        let owed = &session[gap + 1..][..expected.len() + 2];
        assert!(
            owed.iter().all(|line| *line.get("late") == true),
            "{owed:#?}"
        );
        for kind in ["turn_end", "session_end"] {
            let ends = session.iter().filter(|line| line.kind == kind);
            assert_eq!(ends.count(), 1, "{kind}");
        }
        assert!(trace.all("interrupted").is_empty());
    }
}

pub fn number(line: &Line, name: &str) -> u64 {
    line.get(name).as_u64().unwrap()
}
