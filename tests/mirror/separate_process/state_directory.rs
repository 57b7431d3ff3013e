//! Directories that are refused as state directory.

use std::path::Path;

use crate::separate_process::setup::{everything, mirror, recorded, send};
use crate::support::is_root;
use crate::support::mount::{ReadOnly, Tmpfs};
use crate::support::otlp_server::OtlpServer;
use crate::support::skipped::skipped;

/// The errors about a state directory of all commands that use one.
#[track_caller]
fn assert_refused(root: &Path, state: &Path, why: &str) {
    let before = everything(root);
    let dir = state.to_str().unwrap();
    for how in [&["--once"][..], &[], &["--resend"]] {
        let to = ["--endpoint", "http://127.0.0.1:1", "--state", dir];
        let done = mirror(root, &[how, &to].concat());
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains(dir) && done.err.contains(why), "{done:?}");
    }
    assert_eq!(everything(root), before);
}

#[test]
fn inside_the_root_is_refused_by_any_name() {
    let root = recorded(&["ses_1"]);
    let outside = tempfile::tempdir().unwrap();
    let link = outside.path().join("link");
    std::os::unix::fs::symlink(root.path(), &link).unwrap();
    let why = "it is inside the root";
    for state in [
        root.path().to_owned(),
        root.path().join("sessions/ses_1"),
        root.path().join("new/state"),
        root.path().join("new/../state"),
        link.join("state"),
    ] {
        assert_refused(root.path(), &state, why);
    }
    let done = mirror(
        root.path(),
        &["--status", "--state", link.to_str().unwrap()],
    );
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains(why), "{done:?}");
}

#[test]
fn inside_a_root_mounted_elsewhere_is_refused() {
    let root = recorded(&["ses_1"]);
    let Some(view) = ReadOnly::of(root.path()) else {
        return skipped("nothing can be mounted here");
    };
    assert_refused(
        view.path(),
        &root.path().join("state"),
        "it is inside the root",
    );
}

#[test]
fn with_files_in_the_root_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("sessions/traces");
    std::fs::create_dir(place.path().join("sessions")).unwrap();
    std::fs::rename(recorded(&["ses_1"]).keep(), &root).unwrap();
    assert_refused(&root, place.path(), "it is inside the root");
}

#[test]
fn another_root_is_refused() {
    let (root, other) = (recorded(&["ses_1"]), recorded(&["ses_1"]));
    let before = everything(other.path());
    assert_refused(root.path(), other.path(), "it is a root");
    assert_eq!(everything(other.path()), before);
}

#[test]
fn file_is_refused() {
    let root = recorded(&["ses_1"]);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    assert_refused(root.path(), &file, "it is not a directory");
    assert_refused(root.path(), &file.join("below"), "Not a directory");
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

#[test]
fn unwritable_directory_is_named() {
    let root = recorded(&["ses_1"]);
    let place = tempfile::tempdir().unwrap();
    let Some(view) = ReadOnly::of(place.path()) else {
        if !is_root() {
            return assert_refused(root.path(), Path::new("/state"), "Permission denied");
        }
        return skipped("root without mounts can't make a directory read-only");
    };
    assert_refused(root.path(), view.path(), "Read-only file system");
    assert_refused(
        root.path(),
        &view.path().join("new"),
        "Read-only file system",
    );
}

#[test]
fn full_directory_is_named_not_the_root() {
    let root = recorded(&["ses_1"]);
    let state = tempfile::tempdir().unwrap();
    let Some(disk) = Tmpfs::mount(state.path(), 16 << 10) else {
        return skipped("nothing can be mounted here");
    };
    let ballast = disk.fill();
    let server = OtlpServer::start();
    let (url, dir) = (server.url(), state.path().to_str().unwrap());
    let done = mirror(root.path(), &["--once", "--endpoint", &url, "--state", dir]);
    assert_eq!(done.code, 2, "{done:?}");
    let cursor = state.path().join("sessions/ses_1/trace.0001.cursor");
    assert!(done.err.contains(cursor.to_str().unwrap()), "{done:?}");
    assert!(done.err.contains("No space left"), "{done:?}");
    // Spans not known to be sent are sent again.
    std::fs::remove_file(ballast).unwrap();
    assert_eq!(send(root.path(), state.path(), &server)["spans"], 2);
    assert_eq!(send(root.path(), state.path(), &server)["requests"], 0);
}
