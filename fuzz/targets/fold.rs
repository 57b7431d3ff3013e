//! Any lines: whatever a trace says, it folds into a summary and turns, and both can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanledger::trace::RawLine;
use spanledger::session::{Turns, Summary};
use spanledger::view::{Style, Timeline};

fuzz_target!(|bytes: &[u8]| {
    let style = Style::plain();
    let timeline = Timeline::new(&style);
    let mut summary = Summary::default();
    let mut turns = Turns::default();
    let mut shown = 0;
    for line in bytes.split(|b| *b == b'\n') {
        let Ok(line) = RawLine::parse(line) else { continue };
        summary.take(&line);
        turns.take(&line);
        while let Some(turn) = turns.ready() {
            shown += timeline.turn(&turn).len();
        }
    }
    for turn in turns.finish() {
        shown += timeline.turn(&turn).len();
    }
    let status = summary.status(|writer| writer.len() % 2 == 0);
    let json = summary.to_json(status);
    assert!(json.is_object() && shown < 10_000_000);
});
