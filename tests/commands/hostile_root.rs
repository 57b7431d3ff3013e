//! A root in which files were replaced by links, pipes and directories: nothing outside it is touched, and
//! no agent or command hangs.

use std::collections::BTreeMap;
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

/// Records a session. Returns the last error.
fn record(root: &Path) -> Option<String> {
    let builder = spanledger::builder().root(root).inline_limit(64);
    let (layer, guard) = builder.build().unwrap();
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    tracing::dispatcher::with_default(&dispatch, || {
        let run = spans::session_run("s", "planner").start();
        let tool = spans::tool_call("bash", "c1").child_of(&run).start();
        tool.record_result(&"a long result ".repeat(100));
        tool.finish(Outcome::Ok);
        run.finish(Outcome::Ok);
    });
    guard.health().last_error
}

/// Records into the root, and runs every command on it. Each may fail, but must end. Returns their errors.
fn use_root(root: &Path) -> String {
    let mut errors = record(root).unwrap_or_default();
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
        &["prune", "--keep", "0", "--force"],
    ] {
        errors += &run(root, args).err;
    }
    errors
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

/// Every file below a directory, with what is in it.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    found
}

/// Sessions that could be sent, recovered and pruned, and the remains of a removal, but in another place.
#[test]
fn sessions_behind_a_link_stay_as_they_are() {
    let dir = TempDir::new().unwrap();
    let [root, outside, gone] =
        ["root", "outside", "outside/sessions/.gone-s-1"].map(|name| dir.path().join(name));
    record(&outside);
    std::fs::create_dir(&gone).unwrap();
    std::fs::write(gone.join("precious"), "precious").unwrap();
    std::fs::create_dir(&root).unwrap();
    symlink(outside.join("sessions"), root.join("sessions")).unwrap();
    let before = files(&outside);
    use_root(&root);
    assert_eq!(files(&outside), before);
}

#[test]
fn import_behind_a_link_is_refused() {
    let dir = TempDir::new().unwrap();
    let [root, outside] = ["root", "outside"].map(|name| dir.path().join(name));
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, root.join("importing")).unwrap();
    let source = dir.path().join("session.jsonl");
    std::fs::write(&source, "{}\n").unwrap();
    let done = run(&root, &["import", "claude-code", source.to_str().unwrap()]);
    assert!(done.code != 0 && done.err.contains("importing"), "{done:?}");
    assert_eq!(files(&outside), BTreeMap::new());
}

/// A device, a pipe or a directory given as an output stays what it is, and so does the target of a link in
/// the place of an unfinished page.
#[test]
fn outputs_that_are_no_files_are_refused() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("root");
    record(&root);
    let [link, pipe, socket] = ["link", "pipe", "socket"].map(|name| dir.path().join(name));
    symlink("/dev/null", &link).unwrap();
    mkfifo(&pipe);
    drop(UnixListener::bind(&socket).unwrap());
    for path in [&link, &pipe, &socket] {
        let before = std::fs::symlink_metadata(path).unwrap().file_type();
        let name = path.to_str().unwrap();
        for args in [
            &["transcript", "s", "-o", name][..],
            &["export", "trajectory", "s", "-o", name],
            &["export", "chrome-trace", "s", "-o", name],
            &["export", "chat-sqlite", "s", "-o", name],
        ] {
            let done = run(&root, args);
            let is_named = done.err.contains(name) && done.err.contains("not a regular file");
            assert!(done.code == 2 && is_named, "{args:?}: {done:?}");
            let after = std::fs::symlink_metadata(path).unwrap().file_type();
            assert_eq!(before, after, "{args:?}");
        }
    }
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "mine").unwrap();
    symlink(&victim, dir.path().join(".page.html.part")).unwrap();
    let page = dir.path().join("page.html");
    let done = run(&root, &["transcript", "s", "-o", page.to_str().unwrap()]);
    assert_eq!(done.code, 2, "{done:?}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
}

/// A directory that another program uses, chosen as the root.
#[test]
fn files_of_others_in_our_directories_stay() {
    let dir = TempDir::new().unwrap();
    let foreign = [
        "writers/alice.md",
        "outbox/alice.md",
        "sessions/.gone-fishing/x",
    ];
    for file in foreign {
        let path = dir.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    use_root(dir.path());
    for file in foreign {
        assert!(dir.path().join(file).exists(), "{file}");
    }
}

/// Puts something in the place of each of our files, in a root for each, and uses them all at once: most of the
/// time is spent waiting.
fn each_replaced(replace: impl Fn(&Path) + Sync) {
    // One with the name of a writer is left alone, markers are for endpoints, the rest of a removal is not
    // missed, and a blob is written anew.
    let is_silent = |file: &str| {
        let dirs = ["writers/", "outbox/", "sessions/.", "sessions/s/blobs/"];
        dirs.iter().any(|dir| file.starts_with(dir))
    };
    std::thread::scope(|scope| {
        for file in OURS {
            let replace = &replace;
            scope.spawn(move || {
                let (_dir, root) = replaced(file, replace);
                let path = root.join(file);
                let is_in_place = file == "sessions/s/blobs" && path.is_dir();
                let errors = use_root(&root);
                let is_named = errors.contains(path.to_str().unwrap());
                assert!(
                    is_named || is_in_place || is_silent(file),
                    "{file}: {errors}"
                );
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
