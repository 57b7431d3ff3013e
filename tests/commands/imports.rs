//! What tests of imports share.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::cli::run;

/// A secret of a source that is imported.
pub const SECRET: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

/// An import fails with the path and the reason, and nothing is imported by halves.
#[track_caller]
pub fn refused(root: &Path, format: &str, path: &Path, why: &str) {
    let done = run(root, &["import", format, path.to_str().unwrap()]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains(path.to_str().unwrap()), "{done:?}");
    assert!(done.err.contains(why), "{why}: {}", done.err);
    assert_eq!(run(root, &["list", "--json"]).objects().len(), 0);
    assert!(!root.join("importing").exists());
}

/// All files below a directory.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all
}
