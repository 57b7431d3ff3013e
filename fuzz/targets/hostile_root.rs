//! Any files, links, pipes, sockets and directories below a root: recording, reading, sending and pruning end
//! without a panic, and change nothing outside the root. libFuzzer's timeout ends one that hangs.
#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use spanledger::mirror::{CatchUp, Otlp, backlog_in};
use spanledger::session::{Checks, Retention, Store, each_turn, texts};
use spanledger::{Outcome, SpanExt, spans};
use tracing_subscriber::layer::SubscriberExt;

/// The places that an agent and the commands create, write, read or remove.
const PLACES: [&str; 19] = [
    "redaction.key",
    "mirror.lock",
    "writers",
    "writers/0193c2f0a1b2-17-0123456789",
    "outbox",
    "outbox/s.0001",
    "sessions",
    "sessions/s",
    "sessions/s/lock",
    "sessions/s/trace.0001.jsonl",
    "sessions/s/trace.0002.jsonl",
    "sessions/s/trace.0001.cursor",
    "sessions/s/dead.0001.jsonl",
    "sessions/s/blobs",
    "sessions/s/blobs/2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
    "sessions/.gone-s-1",
    "exports",
    "sessions/other",
    "sessions/other/trace.0001.jsonl",
];

const LINE: &str = r#"{"v":1,"seg":1,"seq":1,"ts":"2026-11-16T00:31:05.123456Z","kind":"segment","session_id":"s","payload":{"writer":"0193c2f0a1b2-17-0123456789","mirror":{"endpoint":"http://127.0.0.1:1"}}}
{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_call","session_id":"s","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7","payload":{"tool_id":"bash","args":{"$blob":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","bytes":5}}}
"#;

/// Puts something into a place. What is in the way stays.
fn put(path: &Path, what: u8, outside: &Path, content: &[u8]) {
    let Some(parent) = path.parent() else { return };
    // Not through a link that was put there before.
    let real = path.ancestors().skip(1).find_map(|dir| dir.canonicalize().ok());
    if real.is_none_or(|real| real.starts_with(outside)) || fs::create_dir_all(parent).is_err() {
        return;
    }
    if path.symlink_metadata().is_ok() {
        return;
    }
    let _ = match what % 9 {
        0 => fs::write(path, content),
        1 => fs::write(path, LINE),
        2 => fs::create_dir(path),
        3 => symlink(outside.join("precious"), path),
        4 => symlink(outside.join("sessions"), path),
        5 => symlink("/dev/zero", path),
        6 => symlink(path, path),
        7 => UnixListener::bind(path).map(drop),
        _ => Command::new("mkfifo").arg(path).status().map(drop),
    };
}

fn record(root: &Path) {
    let builder = spanledger::builder().root(root).inline_limit(64).mirror(false);
    let (layer, guard) = builder.build().expect("no setting is wrong");
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        let run = spans::session_run("s", "planner").start();
        let tool = spans::tool_call("bash", "c1").child_of(&run).start();
        tool.record_result(&"a long result ".repeat(10));
        tool.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    let _ = guard.shutdown();
}

fn read(store: &Store) {
    let Ok(survey) = store.survey() else { return };
    let mut checks = Checks::default();
    for entry in &survey.entries {
        checks.add(store, entry, true);
        let _ = each_turn(&entry.dir, |mut turn| {
            turn.fetch_blobs(&entry.dir);
            Ok::<(), std::io::Error>(())
        });
        let _ = texts(&entry.dir, &[], |_| Ok::<(), std::io::Error>(()));
    }
    let _ = (backlog_in(store), store.resolve("last"), store.bytes());
}

fn send(root: &Path) {
    let to = Otlp::new().endpoint("http://127.0.0.1:1");
    let to = Otlp::resolve(Some(to), |_| None);
    if let Ok(Some(to)) = to {
        let catch_up = CatchUp::new(root, to).patience(Duration::from_millis(1));
        let _ = catch_up.any_endpoint(true).run(&mut |_, _| {});
    }
}

fn prune(store: &Store) {
    let Ok(survey) = store.survey() else { return };
    let _ = store.remove_leftovers();
    let retention = Retention {
        keep: Some(0),
        ..Retention::default()
    };
    let now = u64::MAX / 2;
    let _ = retention.apply(store, &survey, now, (false, true), |_| Ok::<(), std::io::Error>(()));
}

/// Every file and directory below a directory, with what is in it.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("it is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(contents(&path));
        }
        found.insert(path.clone(), fs::read(&path).unwrap_or_default());
    }
    found
}

/// A session that could be sent, recovered and pruned, and the remains of a removal, but not in the root.
fn make_outside(outside: &Path) {
    for dir in ["sessions/s", "sessions/.gone-s-1"] {
        fs::create_dir_all(outside.join(dir)).expect("a directory outside");
    }
    for file in ["precious", "sessions/s/trace.0001.jsonl", "sessions/.gone-s-1/x"] {
        fs::write(outside.join(file), LINE).expect("a file outside");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let dir = tempfile::tempdir().expect("a directory");
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    fs::create_dir(&root).expect("the root");
    make_outside(&outside);
    let before = contents(&outside);
    let (choices, content) = bytes.split_at(bytes.len().min(16));
    for choice in choices.chunks_exact(2) {
        let place = PLACES[usize::from(choice[0]) % PLACES.len()];
        put(&root.join(place), choice[1], &outside, content);
    }
    record(&root);
    let store = Store::new(&root);
    read(&store);
    send(&root);
    prune(&store);
    assert_eq!(contents(&outside), before);
});
