//! The first line of a segment describes its writer.

use std::path::Path;

use serde_json::{Value, json};
use spanledger::spans;

use crate::support::child;
use crate::support::{LineExt, Recording, Trace};

const ROOT: &str = "FIRST_LINE_TEST_ROOT";

/// Records a session if it runs as a child of the tests below.
#[test]
fn child_records_where_it_runs() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    let guard = spanledger::builder().root(root).try_init().unwrap();
    drop(spans::session_run("s", "agent").start());
    guard.shutdown().unwrap();
}

/// The `process` member that a process in this directory records.
fn process_in(cwd: &Path) -> Value {
    let root = tempfile::tempdir().unwrap();
    let mut child = child::neighboring_test("child_records_where_it_runs");
    child.env(ROOT, root.path()).current_dir(cwd);
    let output = child.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let trace = Trace::read(root.path());
    let process = trace.one("segment").get("process").clone();
    assert_eq!(trace.one("session_start").get("process"), &process);
    process
}

/// A repository with these files of git's own.
fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

const COMMIT: &str = "9fceb02d0ae598e95dc970b74767f19372d61af8";

#[test]
fn has_writer_format_version_and_scope() {
    let recording = Recording::new();
    recording.run(|| drop(spans::session_run("s", "agent").start()));
    let trace = recording.trace();
    let head = trace.one("segment");
    assert_eq!(head.seq, 1);
    let writer = recording
        .dir
        .path()
        .join("writers")
        .join(head.text("writer"));
    assert!(writer.exists());
    assert_eq!(head.get("format"), spanledger::trace::VERSION);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(head.text("spanledger"), version);
    let scope = json!({"name": "spanledger", "version": version});
    assert_eq!(head.get("scope"), &scope);
}

#[test]
fn has_the_resource_from_code() {
    let recording = Recording::with(|b| {
        b.resource("service.name", "planner")
            .resource("deployment.replicas", 3)
    });
    recording.run(|| drop(spans::session_run("s", "agent").start()));
    let trace = recording.trace();
    let resource = trace.one("segment").get("resource");
    assert_eq!(resource["service.name"], "planner");
    assert_eq!(resource["deployment.replicas"], 3);
}

#[test]
fn has_program_and_directory() {
    let recording = Recording::new();
    recording.run(|| drop(spans::session_run("s", "agent").start()));
    let trace = recording.trace();
    let process = trace.one("segment").get("process");
    assert_eq!(process["pid"], std::process::id());
    assert!(!process["host"].as_str().unwrap().is_empty());
    let path = |path: std::io::Result<std::path::PathBuf>| path.unwrap().display().to_string();
    assert_eq!(process["exe"], path(std::env::current_exe()));
    assert_eq!(process["cwd"], path(std::env::current_dir()));
    assert_eq!(process["argv"][0], std::env::args().next().unwrap());
    assert_eq!(process["platform"], std::env::consts::OS);
    assert_eq!(process["runtime"]["arch"], std::env::consts::ARCH);
}

#[test]
fn has_commit_and_branch() {
    let commit = format!("{COMMIT}\n");
    let repository = repository(&[
        (".git/HEAD", "ref: refs/heads/topic/a\n"),
        (".git/refs/heads/topic/a", &commit),
        ("src/deep/file", ""),
    ]);
    let git = &process_in(&repository.path().join("src/deep"))["git"];
    assert_eq!(git, &json!({"commit": COMMIT, "branch": "topic/a"}));
}

#[test]
fn finds_a_commit_among_packed_refs() {
    let packed = format!("# pack-refs\n{COMMIT} refs/heads/main\n");
    let repository = repository(&[
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/packed-refs", &packed),
    ]);
    let git = &process_in(repository.path())["git"];
    assert_eq!(git, &json!({"commit": COMMIT, "branch": "main"}));
}

#[test]
fn detached_commit_has_no_branch() {
    let repository = repository(&[(".git/HEAD", COMMIT)]);
    let git = &process_in(repository.path())["git"];
    assert_eq!(git, &json!({"commit": COMMIT}));
}

#[test]
fn unreadable_repository_is_omitted() {
    let repository = repository(&[(".git/config", "")]);
    assert_eq!(process_in(repository.path()).get("git"), None);
}
