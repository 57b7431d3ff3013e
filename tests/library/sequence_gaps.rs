//! Missing numbers in a segment's lines are reported once, where they are missing.

use std::path::{Path, PathBuf};

use spanledger::read::SessionReader;
use spanledger::session::Store;
use spanledger::trace::LineError;
use spanledger::trace::{ReadItem, SegmentReader};
use tempfile::TempDir;

fn line(seg: u32, seq: u64) -> String {
    format!(
        r#"{{"v":1,"seg":{seg},"seq":{seq},"ts":"2026-11-16T00:00:{seq:02}.000000Z","kind":"note","session_id":"s","payload":{{}}}}"#
    ) + "\n"
}

fn segment(dir: &Path, seg: u32, lines: &[String]) -> PathBuf {
    let path = dir.join(format!("trace.{seg:04}.jsonl"));
    std::fs::write(&path, lines.concat()).unwrap();
    path
}

fn describe(found: ReadItem<'_>) -> String {
    match found {
        ReadItem::Line(line) => line.address().to_string(),
        ReadItem::Damaged(damage) => match damage.why {
            LineError::Missing { from, to } => format!("missing {from}-{to} at {}", damage.offset),
            _ => format!("damaged {} at {}", damage.bytes, damage.offset),
        },
        _ => unreachable!(),
    }
}

fn read(path: &Path) -> Vec<String> {
    let mut reader = SegmentReader::open(path).unwrap();
    let mut all = Vec::new();
    while let Some(found) = reader.next().unwrap() {
        all.push(describe(found));
    }
    all
}

#[test]
fn missing_lines_are_reported_before_the_next_line() {
    let dir = TempDir::new().unwrap();
    let one = line(1, 1).len();
    let path = segment(dir.path(), 1, &[line(1, 1), line(1, 4), line(1, 5)]);
    let hole = format!("missing 2-3 at {one}");
    assert_eq!(read(&path), ["1:1", &hole, "1:4", "1:5"]);
}

#[test]
fn missing_first_line_is_reported() {
    let dir = TempDir::new().unwrap();
    let path = segment(dir.path(), 1, &[line(1, 2), line(1, 3)]);
    assert_eq!(read(&path), ["missing 1-1 at 0", "1:2", "1:3"]);
}

#[test]
fn damaged_line_accounts_for_its_number() {
    let dir = TempDir::new().unwrap();
    let one = line(1, 1).len();
    let flipped = line(1, 2).replacen('{', "[", 1);
    let path = segment(dir.path(), 1, &[line(1, 1), flipped.clone(), line(1, 3)]);
    let damage = format!("damaged {} at {one}", flipped.len());
    assert_eq!(read(&path), ["1:1", &damage, "1:3"]);
}

#[test]
fn remainder_of_a_failed_write_uses_no_number() {
    let dir = TempDir::new().unwrap();
    let one = line(1, 1).len();
    let path = segment(
        dir.path(),
        1,
        &[line(1, 1), "{\"v\":1\n".into(), line(1, 2)],
    );
    assert_eq!(read(&path), ["1:1", &format!("damaged 7 at {one}"), "1:2"]);
}

#[test]
fn merge_reports_the_gap_in_its_segment() {
    let dir = TempDir::new().unwrap();
    segment(dir.path(), 1, &[line(1, 1), line(1, 3)]);
    segment(dir.path(), 2, &[line(2, 1), line(2, 2)]);
    let mut reader = SessionReader::open(dir.path()).unwrap();
    let mut all = Vec::new();
    while let Some(found) = reader.next().unwrap() {
        all.push(describe(found));
    }
    let hole = format!("missing 2-2 at {}", line(1, 1).len());
    assert_eq!(all, ["1:1", "2:1", "2:2", &hole, "1:3"]);
}

#[test]
fn reader_starting_in_the_middle_reports_no_gap() {
    let dir = TempDir::new().unwrap();
    let path = segment(dir.path(), 1, &[line(1, 1), line(1, 4), line(1, 5)]);
    let mut reader = SegmentReader::open(path).unwrap();
    reader.seek(line(1, 1).len() as u64).unwrap();
    assert_eq!(describe(reader.next().unwrap().unwrap()), "1:4");
}

#[test]
fn adjacent_damage_of_one_kind_is_reported_once() {
    let root = TempDir::new().unwrap();
    let dir = root.path().join("sessions/s");
    std::fs::create_dir_all(&dir).unwrap();
    let newer = |seq| line(1, seq).replacen("\"v\":1", "\"v\":2", 1);
    segment(&dir, 1, &[newer(1), newer(2), newer(3)]);
    let damages = Store::new(root.path()).read(&dir).unwrap().damages;
    assert_eq!(damages.len(), 1);
    assert_eq!(damages[0].bytes, 3 * newer(1).len() as u64);
    assert_eq!(damages[0].why, LineError::Newer { found: 2 });
}
