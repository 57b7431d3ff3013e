//! What the compiler says of an error that can't be recorded.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The library that this test was built with, or one of other features: the newest.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = fs::read_dir(test.parent().unwrap()).unwrap();
    let built = built.map(|entry| entry.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libspanledger-") && name.ends_with(".rlib")
    };
    let modified = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    built.filter(is_library).max_by_key(modified).unwrap()
}

#[test]
fn unrecordable_error_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("agent.rs");
    let agent = "pub struct Mine;\n\
                 pub fn fail(span: &impl spanledger::SpanExt) { span.record_error(&Mine); }\n";
    fs::write(&source, agent).unwrap();
    let library = library();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata"])
        .arg("--out-dir")
        .arg(dir.path())
        .arg("-L")
        .arg(library.parent().unwrap())
        .arg("--extern")
        .arg(format!("spanledger={}", library.display()))
        .arg(&source)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    for text in [
        "`Mine` can't be recorded as an error",
        "this error type can't be recorded",
        "implement `std::error::Error`, or use `anyhow::Error`, `Box<dyn Error>`, `String` or `&str`",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
}
