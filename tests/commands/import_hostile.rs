//! `import` of sources that are long, torn, wrong or full of secrets, in every text format.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spanledger::read::session_dir;

use super::import_samples::{FORMATS, Shape, document, lines, write};
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
            assert!(!text.contains(phrase), "{of}: {}", file.display());
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

/// What is imported is masked and is the same the second time.
#[test]
fn second_import_changes_nothing() {
    for (format, shape) in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let path = write(format, shape, dir.path(), &[secrets(1), secrets(2)]);
        let import = |known: bool| {
            let done = run(&root, &["import", format, path.to_str().unwrap(), "--json"]);
            assert_eq!(done.code, 0, "{format}: {done:?}");
            let [session] = &done.objects()[..] else {
                panic!("{format}: {done:?}");
            };
            assert_eq!(session["known"], known, "{format}");
            assert_eq!(session["torn_lines"], json!([]), "{format}");
            let read = |file: &PathBuf| (file.clone(), fs::read(file).unwrap());
            files(&root).iter().map(read).collect::<Vec<_>>()
        };
        assert_eq!(import(false), import(true), "{format}");
        assert_masked(&root, format);
    }
}

/// The file of a source that has its lines, or its document.
fn text_file(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join("events.jsonl"),
        false => path.to_owned(),
    }
}

/// The error names the file and one line, repeats little of the source, and nothing is imported.
#[track_caller]
fn refused_at(root: &Path, format: &str, path: &Path, line: Option<usize>) -> String {
    let done = run(root, &["import", format, path.to_str().unwrap()]);
    assert_eq!(done.code, 2, "{format}: {done:?}");
    let file = path.file_name().unwrap().to_str().unwrap();
    let at = line.map_or(String::new(), |line| format!("line {line}: "));
    let names_place = done.err.contains(file) && done.err.contains(&at);
    assert!(
        names_place && !done.err.contains(" column "),
        "{format} {at}: {done:?}"
    );
    assert!(done.err.len() < 600, "{format}: {} bytes", done.err.len());
    assert!(!root.join("sessions").exists() && !root.join("importing").exists());
    done.err
}

#[test]
fn broken_sources_are_refused_with_their_line() {
    let deep = "[".repeat(1_000_000);
    let long = "x".repeat(1_000_000);
    for (format, shape) in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let path = write(format, shape, dir.path(), &vec![json!({"a": 1}); 4]);
        let file = text_file(&path);
        let good = match shape {
            Shape::Document => format!("{:#}\n", document(format, &vec![json!({"a": 1}); 4])),
            _ => fs::read_to_string(&file).unwrap(),
        };
        for bad in [
            "{\"type\":".to_owned(),
            "no JSON".to_owned(),
            format!("{{\"a\":{deep}"),
            format!("{{\"a\":\"{long}"),
        ] {
            let mut lines: Vec<_> = good.lines().collect();
            lines.insert(2, &bad);
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            fs::write(&file, text).unwrap();
            refused_at(&root, format, &path, Some(3));
        }
        // One that is nested as deeply and is JSON: refused or passed over.
        let closed = format!("{{\"a\":{deep}{}}}\n", "]".repeat(deep.len()));
        fs::write(&file, format!("{closed}{good}")).unwrap();
        let done = run(
            &root,
            &["import", format, path.to_str().unwrap(), "--dry-run"],
        );
        assert!([0, 2].contains(&done.code), "{format}: {done:?}");
        // It has no blocks on the disk.
        fs::File::create(&file).unwrap().set_len(1 << 30).unwrap();
        let is_whole = format == "trial";
        let line = (!is_whole).then_some(1);
        let error = refused_at(&root, format, &path, line);
        let is_too_long = error.contains("longer than 256 MB");
        assert_eq!(is_too_long, shape != Shape::Document || is_whole, "{error}");
    }
}

#[test]
fn other_versions_are_refused() {
    for (format, name, version) in [
        ("agentdbg", "spec_version", json!("0.9")),
        ("atif", "schema_version", json!("ATIF-v2.0")),
        ("agentdbg", "spec_version", json!("9".repeat(10_000))),
        ("trial", "schema_version", json!(9)),
        ("trial", "schema_version", json!("2")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let (_, shape) = FORMATS.into_iter().find(|one| one.0 == format).unwrap();
        let path = write(format, shape, dir.path(), &[json!({})]);
        let mut source = document(format, &[json!({})]);
        source[name] = version;
        let file = match path.is_dir() {
            true => path.join("run.json"),
            false => path.clone(),
        };
        fs::write(file, source.to_string()).unwrap();
        let error = refused_at(&root, format, &path, None);
        assert!(error.contains(name), "{error}");
    }
}

/// The writer was killed in the middle of its last line.
#[test]
fn torn_last_line_is_left_out_and_reported() {
    for (format, shape) in FORMATS {
        if shape == Shape::Document {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let [root, whole] = ["root", "whole"].map(|name| dir.path().join(name));
        let path = write(format, shape, dir.path(), &[json!({}), json!({})]);
        let import = |root: &Path| {
            let done = run(root, &["import", format, path.to_str().unwrap(), "--json"]);
            assert_eq!(done.code, 0, "{format}: {done:?}");
            (done.objects().remove(0), done.err)
        };
        let (before, _) = import(&whole);
        let file = text_file(&path);
        let good = fs::read_to_string(&file).unwrap();
        let torn = format!("{{\"api_token\":\"{}", PHRASES[0]);
        fs::write(&file, format!("{good}{torn}")).unwrap();
        let (session, warning) = import(&root);
        let line = good.lines().count() + 1;
        assert_eq!(session["events"], before["events"], "{format}");
        assert_eq!(session["torn_lines"], json!([{"path": file, "line": line}]));
        let place = format!("{}, line {line}: cut off", file.display());
        assert!(warning.contains(&place), "{format}: {warning}");
        for file in files(&root) {
            let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
            assert!(!text.contains(PHRASES[0]), "{}", file.display());
        }
    }
}

#[test]
fn two_sessions_of_one_id_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let ledger = dir.path().join("ledger");
    fs::create_dir(&ledger).unwrap();
    for name in ["a.json", "b.json"] {
        fs::write(ledger.join(name), document("trial", &[]).to_string()).unwrap();
    }
    let error = refused_at(&root, "trial", &ledger, None);
    assert!(error.contains("\"trial-exp/t\""), "{error}");
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

/// Sessions of one file of lines keep their own lines, also where those of another one are between.
#[test]
fn source_of_a_session_is_its_own_lines() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let rows = |session: &str| -> Vec<String> {
        let rows = lines("chat-jsonl", &[json!({"of": session})]);
        rows.iter()
            .map(|row| {
                row.to_string()
                    .replace("\"chat\"", &format!("\"{session}\""))
                    + "\n"
            })
            .collect()
    };
    let (one, two) = (rows("one"), rows("two"));
    let file = dir.path().join("chats.jsonl");
    let text = [one.concat(), two.concat(), one[0].clone() + "\n"].concat();
    fs::write(&file, text).unwrap();
    let done = run(&root, &["import", "auto", file.to_str().unwrap(), "--json"]);
    assert_eq!(done.objects().len(), 2, "{done:?}");
    for (session, expected) in [("one", one.concat() + &one[0]), ("two", two.concat())] {
        let blobs = files(&session_dir(&root, session).join("blobs"));
        let texts: Vec<_> = blobs
            .iter()
            .map(|blob| fs::read_to_string(blob).unwrap())
            .collect();
        assert_eq!(texts, [expected]);
    }
}
