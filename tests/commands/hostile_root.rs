//! A root in which files were replaced by links, pipes and directories: nothing outside it is touched, and
//! no agent or command hangs.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use spanledger::{Outcome, SpanExt, spans};
use tempfile::TempDir;
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;

use crate::support::cli::run;
use crate::support::otlp_server::{OtlpServer, Reply};

/// The files that an agent and the commands create, write or remove in a root with the session `s`.
const OURS: [&str; 12] = [
    "redaction.key",
    "mirror.lock",
    "writers/0193c2f0a1b2-17-0123456789",
    "outbox/s.0001",
    "sessions/s/lock",
    "sessions/s/trace.0001.cursor",
    "sessions/s/dead.0001.jsonl",
    "sessions/s/trace.0001.jsonl",
    "sessions/s/trace.0002.jsonl",
    "sessions/s/blobs",
    BLOB,
    "sessions/.gone-s-1",
];

/// The result of the tool.
const BLOB: &str =
    "sessions/s/blobs/43f4f5fdac2079d9b8d72ef10cc424eb129a7c8a355b77931cfb001c6f513fda";

fn mkfifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

fn record(root: &Path) {
    let builder = spanledger::builder().root(root).inline_limit(64);
    let (layer, _guard) = builder.build().unwrap();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&dispatch, || {
        let run = spans::session_run("s", "planner").start();
        let tool = spans::tool_call("bash", "c1").child_of(&run).start();
        tool.record_result(&"a long result ".repeat(100));
        tool.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
}

/// Records into the root, and runs every command on it. Each may fail, but must end.
fn use_root(root: &Path) {
    record(root);
    // Refused spans become dead letters.
    let server = OtlpServer::scripted([Reply::http(400)]);
    let url = server.url();
    for args in [
        &[
            "mirror",
            "--once",
            "--any-endpoint",
            "--patience",
            "1s",
            "--endpoint",
            &url,
        ][..],
        &["mirror", "--status"],
        &["recover"],
        &["list"],
        &["status"],
        &["show", "s", "--full"],
        &["show", "last"],
        &["grep", "result"],
        &["find", "c1"],
        &["doctor"],
        &["prune", "--keep", "0", "--dry-run"],
        &["prune", "--older-than", "1s", "--force"],
    ] {
        run(root, args);
    }
}

/// A root with the session `s`, in which `replace` puts something in the place of one of our files.
fn replaced(file: &str, replace: impl FnOnce(&Path)) -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("root");
    record(&root);
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    if path.is_dir() {
        std::fs::remove_dir_all(&path).unwrap();
    } else if path.exists() {
        std::fs::remove_file(&path).unwrap();
    }
    replace(&path);
    (dir, root)
}

#[test]
fn linked_files_outside_stay_as_they_are() {
    let elsewhere = TempDir::new().unwrap();
    for file in OURS {
        let outside = elsewhere.path().join("precious");
        std::fs::write(&outside, "precious\n".repeat(100)).unwrap();
        let (_dir, root) = replaced(file, |path| symlink(&outside, path).unwrap());
        use_root(&root);
        let left = std::fs::read_to_string(&outside).unwrap();
        assert_eq!(left, "precious\n".repeat(100), "{file}");
    }
}

#[test]
fn linked_directories_outside_stay_as_they_are() {
    for (dir, name) in [
        ("writers", "0193c2f0a1b2-17-0123456789"),
        ("outbox", "s.0001"),
        ("sessions", "precious"),
        ("sessions/s", "trace.0001.jsonl"),
        ("sessions/s/blobs", "precious"),
        ("sessions/.gone-s-1", "precious"),
    ] {
        let outside = TempDir::new().unwrap();
        std::fs::write(outside.path().join(name), "precious").unwrap();
        let (_dir, root) = replaced(dir, |path| symlink(outside.path(), path).unwrap());
        use_root(&root);
        let left: Vec<_> = std::fs::read_dir(outside.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{dir}: {left:?}");
        assert_eq!(left[0].as_ref().unwrap().file_name(), name);
    }
}

/// Puts something in the place of each of our files, in a root for each, and uses them all at once: most of the
/// time is spent waiting.
fn each_replaced(replace: impl Fn(&Path) + Sync) {
    std::thread::scope(|scope| {
        for file in OURS {
            let replace = &replace;
            scope.spawn(move || {
                let (_dir, root) = replaced(file, replace);
                use_root(&root);
            });
        }
    });
}

#[test]
fn pipes_in_place_of_files_do_not_hang() {
    each_replaced(mkfifo);
}

#[test]
fn directories_in_place_of_files_do_not_hang() {
    each_replaced(|path| std::fs::create_dir(path).unwrap());
}

#[test]
fn sockets_in_place_of_files_do_not_hang() {
    each_replaced(|path| drop(UnixListener::bind(path).unwrap()));
}

#[test]
fn devices_in_place_of_files_do_not_hang() {
    each_replaced(|path| symlink("/dev/zero", path).unwrap());
}

#[test]
fn key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    record(dir.path());
    let key = dir.path().join("redaction.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let built = spanledger::builder()
        .root(dir.path())
        .build::<tracing_subscriber::Registry>();
    let health = built.unwrap().1.health();
    let error = health.last_error.unwrap();
    assert!(error.contains("redaction.key is not private"), "{error}");
}
