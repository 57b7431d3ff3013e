use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A root with a session, and a directory outside of it.
fn places() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (session, outside) = (
        dir.path().join("root/sessions/s"),
        dir.path().join("outside"),
    );
    fs::create_dir_all(&session).unwrap();
    fs::create_dir(&outside).unwrap();
    (dir, session, outside)
}

/// Puts a link to `outside` in the place of a directory. Where the directory is now.
fn swap(dir: &Path, outside: &Path) -> PathBuf {
    let moved = dir.with_extension("moved");
    fs::rename(dir, &moved).unwrap();
    symlink(outside, dir).unwrap();
    moved
}

#[test]
fn directory_that_is_swapped_for_a_link_keeps_what_is_done_in_it() {
    let (_dir, session, outside) = places();
    for name in ["precious", "also"] {
        fs::write(outside.join(name), "x").unwrap();
        fs::write(session.join(name), "ours").unwrap();
    }
    let dir = Dir::open(&session, 2).unwrap();
    let moved = swap(&session, &outside);

    dir.file("new", NEW_FILE).unwrap();
    dir.make_dir("blobs").unwrap().file("b", NEW_FILE).unwrap();
    dir.remove("precious").unwrap();
    dir.rename("also", &dir, "renamed").unwrap();
    let mut names = dir.names().unwrap();
    names.sort_unstable();
    assert_eq!(names, ["blobs", "new", "renamed"]);
    assert!(moved.join("blobs/b").exists() && moved.join("new").exists());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
}

#[test]
fn link_below_the_root_is_refused_and_the_root_may_be_one() {
    let (dir, session, outside) = places();
    let root = dir.path().join("root");
    let link = dir.path().join("link");
    symlink(&root, &link).unwrap();
    assert!(Dir::open(&link.join("sessions/s"), 2).is_ok());
    for place in [session.as_path(), &root.join("sessions")] {
        let moved = swap(place, &outside);
        for opened in [Dir::open(&session, 2), Dir::make(&session, 2)] {
            let error = opened.unwrap_err().to_string();
            assert!(error.contains("is not a directory"), "{error}");
        }
        fs::remove_file(place).unwrap();
        fs::rename(moved, place).unwrap();
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn all_of_a_directory_is_removed_but_what_links_in_it_lead_to() {
    let (_dir, session, outside) = places();
    fs::write(outside.join("precious"), "x").unwrap();
    fs::create_dir_all(session.join("blobs/deep")).unwrap();
    fs::write(session.join("blobs/deep/b"), "x").unwrap();
    symlink(&outside, session.join("link")).unwrap();
    symlink(outside.join("precious"), session.join("blobs/link")).unwrap();
    let sessions = Dir::open(session.parent().unwrap(), 1).unwrap();
    sessions.remove_all("s".as_ref()).unwrap();
    assert_eq!(sessions.names().unwrap().len(), 0);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    let gone = sessions.remove_all("s".as_ref()).unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
}
