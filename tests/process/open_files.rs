//! How many files a ledger keeps open.

use tracing::info_span;

use crate::support::{Recording, child, open_files};

/// A ledger that may keep at most 32 session files open.
fn with_few_files() -> Recording {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let set = |limit: &libc::rlimit| {
        // SAFETY: `limit` is a valid place to read from.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) }, 0);
    };
    // SAFETY: `limit` is a valid place for the answer.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    assert_eq!(known, 0);
    set(&libc::rlimit {
        rlim_cur: 64,
        ..limit
    });
    let recording = Recording::new();
    set(&limit);
    recording
}

#[test]
fn flush_opens_no_additional_files() {
    child::alone(|| {
        let recording = with_few_files();
        let session = |n| info_span!("session.run", session_id = format!("s{n}"));
        let runs: Vec<_> = recording.run(|| (0..100).map(session).collect());
        let before = open_files(recording.dir.path());
        assert!((1..40).contains(&before), "{before}");
        assert_eq!(recording.handle().flush(), 0);
        assert_eq!(open_files(recording.dir.path()), before);
        drop(runs);
        assert_eq!(recording.trace().all("session_end").len(), 100);
    });
}
