//! A follower while writers are killed and resume.

use std::collections::BTreeMap;
use std::time::Duration;

use spanledger::read::{self, Follower, Start};
use spanledger::trace::ReadItem;
use spanledger::{events, spans};
use tracing_subscriber::layer::SubscriberExt;

use crate::support::cli::{self, Victim};

/// More than the test waits for, so that it is killed at work, and not so much that those who
/// read it all have to hurry.
const EVENTS: usize = 1_000;

/// Writes until it is killed.
fn write(root: std::path::PathBuf) -> ! {
    let (layer, _guard) = spanledger::builder().root(root).build().unwrap();
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let _run = spans::session_run("ses_1", "planner").start().entered();
    cli::report_ready();
    for n in 0..EVENTS {
        let tool = spans::tool_call("bash", format!("call_{n}")).start();
        let _tool = tool.entered();
        events::message_user(format!("event {n}")).emit();
    }
    let _open = spans::tool_call("bash", "call_open").start().entered();
    loop {
        std::thread::park();
    }
}

#[test]
fn killed_and_resumed_writers_arrive_once_in_order() {
    if let Some(root) = cli::victim_root() {
        write(root);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut follower = Follower::root(dir.path(), Start::Beginning).unwrap();
    // The last `seq` that came of each segment.
    let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
    let mut take = |follower: &mut Follower, timeout| -> Option<u32> {
        match follower.next(timeout).unwrap()?.found {
            ReadItem::Line(line) => {
                let last = seen.entry(line.seg).or_default();
                assert_eq!(line.seq, *last + 1, "in segment {}", line.seg);
                *last = line.seq;
                Some(line.seg)
            }
            // What a writer was half-way through when it was killed has no newline.
            other => panic!("{other:?}"),
        }
    };
    for round in 0..2 {
        let writers = [Victim::start(dir.path()), Victim::start(dir.path())];
        // Until some came of both.
        let (mut one, mut two) = (0, 0);
        while one < 200 || two < 200 {
            let segment = take(&mut follower, Duration::from_secs(60)).expect("a line");
            one += u32::from(segment == 2 * round + 1);
            two += u32::from(segment == 2 * round + 2);
        }
        writers.into_iter().for_each(Victim::kill);
    }
    while take(&mut follower, Duration::ZERO).is_some() {}
    let lines = read::lines(read::session_dir(dir.path(), "ses_1")).unwrap();
    let mut written: BTreeMap<u32, u64> = BTreeMap::new();
    for line in lines {
        *written.entry(line.seg).or_default() += 1;
    }
    assert_eq!(seen, written);
    assert_eq!(seen.len(), 4);
}
