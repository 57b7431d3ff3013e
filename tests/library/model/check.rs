//! Compares what is read back with the model.

use std::collections::{BTreeMap, HashMap};

use spanledger::Totals;
use spanledger::trace::Line;

use super::SESSIONS;
use crate::model::expect::{Expected, Part};
use crate::model::world::{Done, Life};
use crate::support::{LineExt, Trace};

const CLOSES: [&str; 6] = [
    "session_end",
    "turn_end",
    "model_result",
    "tool_result",
    "permission_evaluate",
    "context_compaction",
];
const OPENS: [&str; 6] = [
    "session_start",
    "turn_start",
    "model_call",
    "tool_call",
    "permission_request",
    "compaction_start",
];

pub fn all(done: &Done) {
    let trace = Trace::read(done.dir.path());
    assert_eq!(trace.damage, []);
    for (index, id) in SESSIONS.iter().enumerate() {
        let lines = trace.sessions.get(*id).map_or(&[][..], Vec::as_slice);
        let session = Session::new(done, index, lines);
        for life in 0..done.lives.len() {
            session.life(life);
        }
        session.closes();
        session.turns();
    }
}

struct Session<'a> {
    done: &'a Done,
    index: usize,
    /// The lines of each process.
    lives: BTreeMap<usize, Vec<&'a Line>>,
    lines: &'a [Line],
}

/// A line that makes up for one that was lost.
fn makes_up(line: &Line) -> bool {
    line.get("late") == true && (OPENS.contains(&kind(line)) || CLOSES.contains(&kind(line)))
}

/// A resumed session is as good as a started one.
fn kind(line: &Line) -> &str {
    match line.kind.as_str() {
        "session_resume" => "session_start",
        kind => kind,
    }
}

/// The number that a line was given by the model.
fn number(line: &Line) -> u64 {
    let number = |name| line.get(name).as_u64();
    match line.kind.as_str() {
        "span_update" => number("note").unwrap(),
        "message_assistant" => number("part_index").unwrap(),
        "message_delta" => {
            2 * number("part_index").unwrap() + u64::from(number("offset") != Some(0))
        }
        _ => number("n").unwrap_or_else(|| panic!("{line:#?}")),
    }
}

impl<'a> Session<'a> {
    fn new(done: &'a Done, index: usize, lines: &'a [Line]) -> Self {
        let mut owner = HashMap::new();
        for line in lines.iter().filter(|line| line.kind == "segment") {
            let life = line.get("resource.life").as_u64().unwrap();
            assert_eq!(line.seq, 1, "the first line of a segment");
            owner.insert(line.seg, life as usize);
        }
        let mut lives: BTreeMap<usize, Vec<&Line>> = BTreeMap::new();
        for line in lines {
            let life = owner.get(&line.seg).expect("a segment says who writes it");
            lives.entry(*life).or_default().push(line);
        }
        Self {
            done,
            index,
            lives,
            lines,
        }
    }

    fn part(&self, life: usize) -> &'a Part {
        &self.done.lives[life].parts[self.index]
    }

    /// Every event once and in order, or counted as missing.
    fn life(&self, life: usize) {
        let part = self.part(life);
        let Life {
            crashed, cut_off, ..
        } = self.done.lives[life];
        let lines = self.lives.get(&life).map_or(&[][..], Vec::as_slice);
        let removed = self.done.removed[self.index];
        let uncertain = part.faulty || removed;
        let mut missing = 0;
        let mut missing_closes_of_others = 0;
        let mut there = Vec::new();
        for line in lines {
            match line.kind.as_str() {
                "segment" | "interrupted" => {}
                "gap" => {
                    missing += line.get("count").as_u64().unwrap();
                    let of_others = line.get("by_kind.interrupted").as_u64();
                    missing_closes_of_others += of_others.unwrap_or(0);
                }
                _ if uncertain && makes_up(line) => {}
                _ => there.push(*line),
            }
        }
        let mut expected = part.lines.iter();
        for line in &there {
            let found = expected.find(|e| e.kind == kind(line) && e.number == number(line));
            let Some(Expected { totals, .. }) = found else {
                panic!("out of order, twice or never recorded by {life}: {line:#?}\n{part:#?}");
            };
            if let Some(totals) = totals {
                let recorded_totals = Totals::from_json(line.get("totals"));
                assert_eq!(recorded_totals.as_ref(), Some(totals), "{line:#?}");
            }
        }
        let (recorded, there) = (part.lines.len() as u64, there.len() as u64);
        if !uncertain {
            assert_eq!(
                (there, missing),
                (recorded, 0),
                "of {life} in {}",
                SESSIONS[self.index]
            );
        } else if !crashed && !cut_off && !removed {
            let accounted = there + missing - missing_closes_of_others;
            assert_eq!(accounted, recorded, "of {life}: {lines:#?}");
        } else if life + 1 == self.done.lives.len() {
            // The removed lines included closes of dead writers' spans.
            assert!(
                there + missing >= recorded,
                "{life}: {there} + {missing} of {recorded}"
            );
        } else {
            assert!(there <= recorded);
        }
    }

    /// Each span is closed once, and as interrupted only where its process crashed.
    fn closes(&self) {
        let mut closes: HashMap<&str, Vec<&Line>> = HashMap::new();
        let mut opens: HashMap<u64, &str> = HashMap::new();
        for line in self.lines {
            let Some(span) = line.span_id.as_deref() else {
                continue;
            };
            if OPENS.contains(&kind(line)) {
                opens.insert(number(line), span);
            } else if CLOSES.contains(&kind(line)) || line.kind == "interrupted" {
                closes.entry(span).or_default().push(line);
            }
        }
        for (span, lines) in &closes {
            assert_eq!(lines.len(), 1, "{span} is closed by {lines:#?}");
        }
        let removed = self.done.removed[self.index];
        for (life, span) in self
            .done
            .spans
            .iter()
            .filter(|(_, s)| s.session == self.index)
        {
            let crashed = self.done.lives[*life].crashed;
            let close = opens
                .get(&span.number)
                .and_then(|id| closes.get(id))
                .map(|lines| lines[0]);
            let whole = !self.part(*life).faulty && !removed;
            if let Some(line) = close.filter(|line| line.kind == "interrupted") {
                assert!(crashed, "{line:#?}");
                assert_eq!(line.text("closes"), span.kind.closes());
                assert_eq!(line.text("outcome"), "interrupted");
                assert!(!(span.closed && whole), "it had ended: {line:#?}");
            } else if whole && !span.closed {
                // The next process closed it, if there was one.
                assert!(crashed);
                assert!(close.is_none());
                assert!(!self.done.recovered[self.index], "{span:#?} was left open");
            } else if whole {
                assert!(close.is_some(), "{span:#?} has no close");
            }
        }
    }

    /// Turns are counted over the whole session.
    fn turns(&self) {
        let lines = self.lines.iter();
        let turns: Vec<&Line> = lines.filter(|line| line.kind == "turn_start").collect();
        let index = |line: &Line| line.get("turn_index").as_u64().unwrap();
        let faulty = (0..self.done.lives.len()).any(|life| self.part(life).faulty);
        if self.done.removed[self.index] {
            return;
        }
        let mut highest = 0;
        for (at, turn) in turns.iter().enumerate() {
            if !faulty {
                assert_eq!(index(turn), at as u64 + 1, "{turns:#?}");
            } else if !makes_up(turn) {
                // A turn opened while nothing could be read may repeat an earlier number.
                assert!(index(turn) > highest, "{turns:#?}");
            }
            highest = highest.max(index(turn));
        }
    }
}
