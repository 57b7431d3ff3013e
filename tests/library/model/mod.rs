//! Random sequences of spans, events, streams, crashes and faults, compared with a model in memory:
//! everything is read back, or counted as missing.
//! is read back is what was recorded, or is counted as missing.

mod check;
mod expect;
mod world;

use proptest::prelude::*;
use proptest::sample::Index;
use world::World;

/// The sessions that are written to.
pub const SESSIONS: [&str; 3] = ["ses_a", "ses_b", "Ses C"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Run,
    Turn,
    Model,
    Tool,
    Permission,
    Compaction,
}

impl Kind {
    pub fn opens(self) -> &'static str {
        match self {
            Self::Run => "session_start",
            Self::Turn => "turn_start",
            Self::Model => "model_call",
            Self::Tool => "tool_call",
            Self::Permission => "permission_request",
            Self::Compaction => "compaction_start",
        }
    }

    pub fn closes(self) -> &'static str {
        match self {
            Self::Run => "session_end",
            Self::Turn => "turn_end",
            Self::Model => "model_result",
            Self::Tool => "tool_result",
            Self::Permission => "permission_evaluate",
            Self::Compaction => "context_compaction",
        }
    }
}

/// One thing that happens. Spans are picked among those that are there.
#[derive(Clone, Debug)]
pub enum Op {
    Open {
        session: usize,
        kind: Kind,
        under: Option<Index>,
    },
    Record {
        span: Index,
    },
    Event {
        span: Index,
    },
    EventInSession {
        session: usize,
    },
    Stream {
        span: Index,
    },
    Finish {
        span: Index,
        failed: bool,
    },
    Drop {
        span: Index,
    },
    Recover {
        session: usize,
    },
    Flush,
    /// The process ends normally, and the next one starts.
    Restart,
    /// The process crashes, and the next one starts.
    Crash,
    /// A session's directory is removed.
    Remove {
        session: usize,
    },
    /// `sessions` becomes inaccessible.
    Block,
    /// `sessions` becomes accessible again.
    Unblock,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        2 => Just(Kind::Run),
        2 => Just(Kind::Turn),
        2 => Just(Kind::Model),
        2 => Just(Kind::Tool),
        1 => Just(Kind::Permission),
        1 => Just(Kind::Compaction),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let session = 0..SESSIONS.len();
    let span = any::<Index>;
    prop_oneof![
        12 => (session.clone(), kind(), any::<Option<Index>>())
            .prop_map(|(session, kind, under)| Op::Open { session, kind, under }),
        6 => span().prop_map(|span| Op::Record { span }),
        6 => span().prop_map(|span| Op::Event { span }),
        4 => session.clone().prop_map(|session| Op::EventInSession { session }),
        3 => span().prop_map(|span| Op::Stream { span }),
        6 => (span(), any::<bool>()).prop_map(|(span, failed)| Op::Finish { span, failed }),
        6 => span().prop_map(|span| Op::Drop { span }),
        1 => session.prop_map(|session| Op::Recover { session }),
        1 => Just(Op::Flush),
        1 => Just(Op::Restart),
        2 => Just(Op::Crash),
    ]
}

fn op_or_fault() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => op(),
        1 => (0..SESSIONS.len()).prop_map(|session| Op::Remove { session }),
        1 => Just(Op::Block),
        2 => Just(Op::Unblock),
    ]
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(128),
        failure_persistence: None,
        max_shrink_iters: 4096,
        ..ProptestConfig::default()
    }
}

fn run(ops: &[Op], faults: bool) {
    let mut world = World::new(faults);
    for op in ops {
        world.perform(op);
    }
    check::all(&world.end());
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn without_faults_everything_is_read_back_once(
        ops in prop::collection::vec(op(), 0..80),
    ) {
        run(&ops, false);
    }

    #[test]
    fn with_faults_everything_is_read_back_or_counted(
        ops in prop::collection::vec(op_or_fault(), 0..80),
    ) {
        run(&ops, true);
    }
}

/// A process that starts while nothing can be read resumes as soon as it can.
#[test]
fn resume_during_a_fault_continues_after_it() {
    let open = |kind| Op::Open {
        session: 0,
        kind,
        under: None,
    };
    run(
        &[
            open(Kind::Run),
            open(Kind::Turn),
            open(Kind::Turn),
            Op::Crash,
            Op::Block,
            open(Kind::Run),
            Op::EventInSession { session: 0 },
            Op::Unblock,
            Op::Flush,
            open(Kind::Turn),
            Op::EventInSession { session: 0 },
        ],
        true,
    );
}
