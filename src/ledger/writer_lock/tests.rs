use std::os::unix::fs::symlink;

use super::*;

#[test]
fn sweep_removes_only_files_of_dead_writers() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path().join("root"));
    let live = WriterLock::take(&root, None).unwrap();
    let writers = root.writers();
    let outside = dir.path().join("outside");
    std::fs::write(&outside, "x").unwrap();
    let dead = writers.join(new_id());
    let link = writers.join(new_id());
    let subdir = writers.join(new_id());
    let foreign = ["alice.md", "0190aa-1-ff", &format!("{}.bak", new_id())];
    std::fs::write(&dead, "1").unwrap();
    symlink(&outside, &link).unwrap();
    std::fs::create_dir(&subdir).unwrap();
    for name in foreign {
        std::fs::write(writers.join(name), "x").unwrap();
    }
    sweep(&root);
    assert!(!dead.exists() && live.is_named() && outside.exists());
    assert!(link.is_symlink() && subdir.is_dir());
    assert!(foreign.iter().all(|name| writers.join(name).exists()));
}

#[test]
fn sweep_does_not_follow_a_symlinked_directory() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().join("elsewhere");
    let root = Root::new(dir.path().join("root"));
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::create_dir_all(root.path()).unwrap();
    symlink(&elsewhere, root.writers()).unwrap();
    let file = elsewhere.join(new_id());
    std::fs::write(&file, "1").unwrap();
    sweep(&root);
    assert!(file.exists());
}

#[test]
fn a_fifo_with_a_writer_name_does_not_hang() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path().to_owned());
    std::fs::create_dir_all(root.writers()).unwrap();
    let id = new_id();
    let fifo = root.writers().join(&id);
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    sweep(&root);
    assert!(fifo.exists());
    is_alive(&root, &id);
}
