//! Any lines: whatever a trace says, it folds into a summary and chapters, and both can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanledger::reader::RawLine;
use spanledger::session::{Chapters, Summary};
use spanledger::view::{Style, Timeline};

fuzz_target!(|bytes: &[u8]| {
    let style = Style::plain();
    let timeline = Timeline::new(&style);
    let mut summary = Summary::default();
    let mut chapters = Chapters::default();
    let mut shown = 0;
    for line in bytes.split(|b| *b == b'\n') {
        let Ok(line) = RawLine::parse(line) else { continue };
        summary.take(&line);
        chapters.take(&line);
        while let Some(chapter) = chapters.ready() {
            shown += timeline.chapter(&chapter).len();
        }
    }
    for chapter in chapters.finish() {
        shown += timeline.chapter(&chapter).len();
    }
    let status = summary.status(|writer| writer.len() % 2 == 0);
    let json = summary.to_json(status);
    assert!(json.is_object() && shown < 10_000_000);
});
