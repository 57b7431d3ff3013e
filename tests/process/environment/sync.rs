//! `SPANLEDGER_SYNC`.

use tempfile::TempDir;

use super::{build, with_env};
use crate::sync_calls;

/// When a segment of two lines was synced: before the call returned, or by the shutdown.
fn synced() -> Vec<&'static str> {
    let dir: TempDir = tempfile::tempdir().unwrap();
    let guard = build(spanledger::builder().root(dir.path())).unwrap();
    guard.handle().session("s").title("hello");
    let segment = dir.path().join("sessions/s/trace.0001.jsonl");
    let before = sync_calls::below(&segment).len();
    guard.shutdown().unwrap();
    let all = sync_calls::below(&segment).into_iter().enumerate();
    all.map(|(at, _)| if at < before { "at once" } else { "at the end" })
        .collect()
}

#[test]
fn sync_always() {
    with_env(&[("SPANLEDGER_SYNC", "ALWAYS")], || {
        assert_eq!(synced(), ["at once", "at once"]);
    });
}

#[test]
fn sync_interval_in_milliseconds() {
    with_env(&[("SPANLEDGER_SYNC", "3600000")], || {
        assert_eq!(synced(), ["at the end"]);
    });
}

#[test]
fn sync_os() {
    with_env(&[("SPANLEDGER_SYNC", "os")], || {
        assert_eq!(synced(), [] as [&str; 0]);
    });
}
