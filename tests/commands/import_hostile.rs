//! `import` of sources that are long, torn, wrong or full of secrets, in every text format.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::import_sources::{FORMATS, Shape, document, write};
use super::imports::files;
use crate::support::cli::{Victim, run, victim_root, wait_to_be_killed};

/// Secrets that only their names give away.
const PHRASES: [&str; 2] = ["quiet river stone", "old copper lamp"];

fn secrets(filler: usize) -> Value {
    json!({
        "credentials": {"user": "ann", "phrase": PHRASES[0]},
        "api_token": PHRASES[1],
        "filler": "word ".repeat(filler),
    })
}

#[track_caller]
fn assert_masked(root: &Path, of: &str) {
    let files = files(root);
    assert!(files.len() >= 3, "{of}: {files:?}");
    let mut masks = 0;
    for file in files {
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        for phrase in PHRASES {
            let at = text.find(phrase);
            let near = at.map(|at| &text[text.floor_char_boundary(at.saturating_sub(200))..at]);
            assert!(at.is_none(), "{of}: {}: {near:?}", file.display());
        }
        masks += text.matches("[masked rule=").count();
    }
    assert!(masks > 0, "{of}");
}

/// The source that is kept is as long as the file, and cut nowhere.
#[test]
fn secrets_of_long_sources_are_masked() {
    let inputs = vec![secrets(400); 550];
    for (format, shape) in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let path = write(format, shape, dir.path(), &inputs);
        let mut texts = vec![None];
        if shape == Shape::Document {
            texts.push(Some(format!("{:#}", document(format, &inputs))));
        }
        for (n, text) in texts.into_iter().enumerate() {
            if let Some(text) = text {
                fs::write(&path, text).unwrap();
            }
            let root = dir.path().join(format!("root-{n}"));
            let done = run(&root, &["import", format, path.to_str().unwrap(), "--json"]);
            assert_eq!(done.code, 0, "{format}: {done:?}");
            assert_masked(&root, &format!("{format} {n}"));
            let longest = files(&root)
                .iter()
                .map(|file| file.metadata().unwrap().len())
                .max();
            assert!(longest > Some(1 << 20), "{format}: {longest:?}");
        }
    }
}

/// What a killed import leaves in the root is removed by the next one, and what a living one has there is not.
#[test]
fn killed_import_leaves_nothing_for_long() {
    if let Some(root) = victim_root() {
        let _import = spanledger::import::Import::new(&root).unwrap();
        let mut own = fs::read_dir(root.join("importing")).unwrap();
        let session = own.next().unwrap().unwrap().path().with_extension("1");
        fs::create_dir_all(session.join("blobs")).unwrap();
        fs::write(session.join("blobs/.source"), "half").unwrap();
        wait_to_be_killed();
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let importing = || fs::read_dir(root.join("importing")).map_or(0, Iterator::count);
    let path = write("codex", Shape::Lines, dir.path(), &[json!({})]);
    let import = || run(&root, &["import", "codex", path.to_str().unwrap()]);
    let victim = Victim::start(&root);
    assert_eq!(importing(), 2);
    let beside = import();
    assert_eq!((beside.code, importing()), (0, 2), "{beside:?}");
    victim.kill();
    // Names that earlier versions gave.
    fs::create_dir(root.join("importing/0123456789abcdef")).unwrap();
    let after = import();
    assert_eq!((after.code, importing()), (0, 0), "{after:?}");
    assert!(!root.join("importing").exists());
}
