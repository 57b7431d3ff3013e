//! gitleaks and detect-secrets look for secrets in everything under a root, after a corpus of secrets was
//! recorded there at once and in streams.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spanledger::{SpanExt, events, spans};
use tempfile::TempDir;

use crate::support::Recording;
use crate::support::secrets::{positions, secrets};
use crate::support::skipped::skipped;

/// Every secret in every position.
fn corpus() -> Vec<String> {
    let texts = |(_, secret): (&str, String)| {
        let places = positions(&secret).into_iter().map(|(_, text)| text);
        places.chain([secret.clone()]).collect::<Vec<_>>()
    };
    secrets().into_iter().flat_map(texts).collect()
}

/// Records the corpus as arguments, results, messages and logs, and in streams.
fn record(corpus: &[String]) -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("s", "agent").start().entered();
        for (n, text) in corpus.iter().enumerate() {
            let id = format!("c{n}");
            let tool = spans::tool_call("bash", &id).args(text).start();
            tool.record_result(text);
            events::message_user(text).emit();
            tracing::warn!("{text}");
            for size in [1, 7, 40] {
                let mut message = tool.stream(format!("{id}-{size}"));
                let mut input = tool.stream_tool_input(format!("{id}-{size}"));
                let chars: Vec<char> = text.chars().collect();
                for piece in chars.chunks(size) {
                    let piece: String = piece.iter().collect();
                    message.push(&piece);
                    input.push(&piece);
                }
            }
        }
    });
    recording
}

/// The program that a variable names, or that is on the PATH.
pub(crate) fn program(variable: &str, name: &str) -> Option<OsString> {
    let program = std::env::var_os(variable).unwrap_or_else(|| name.into());
    let runs = Command::new(&program).arg("--help").output().is_ok();
    if !runs {
        skipped(&format!("{name} is not installed"));
    }
    runs.then_some(program)
}

fn write_raw(corpus: &[String]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (n, text) in corpus.iter().enumerate() {
        std::fs::write(dir.path().join(format!("{n}.txt")), text).unwrap();
    }
    dir
}

/// What gitleaks reports about a directory: the rule, the file and the secret of each finding.
pub(crate) fn gitleaks_report(program: &OsString, dir: &Path) -> Vec<[String; 3]> {
    let report = TempDir::new().unwrap();
    let report = report.path().join("report.json");
    let output = Command::new(program)
        .args(["dir", "--no-banner", "--exit-code", "0"])
        .args(["--report-format", "json", "--report-path"])
        .arg(&report)
        .arg(dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Vec<Value> = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let finding = |finding| ["RuleID", "File", "Secret"].map(|key| text(finding, key));
    report.iter().map(finding).collect()
}

/// What gitleaks finds under a directory: each secret with its rule.
fn gitleaks(program: &OsString, dir: &Path) -> BTreeSet<(String, String)> {
    let report = gitleaks_report(program, dir).into_iter();
    report.map(|[rule, _, secret]| (secret, rule)).collect()
}

#[test]
fn gitleaks_finds_nothing_in_a_trace() {
    let Some(program) = program("SPANLEDGER_GITLEAKS", "gitleaks") else {
        return;
    };
    let corpus = corpus();
    let raw = gitleaks(&program, write_raw(&corpus).path());
    assert!(raw.len() > 50, "{} findings in the raw corpus", raw.len());
    let recording = record(&corpus);
    let found = gitleaks(&program, recording.dir.path());
    assert!(found.is_empty(), "{found:#?}");
}

/// The digests of the secrets that detect-secrets finds under a directory.
fn detect_secrets(program: &OsString, dir: &Path) -> BTreeSet<String> {
    let output = Command::new(program)
        .args(["scan", "--all-files", "--no-verify", "."])
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let files = report["results"].as_object().unwrap().values();
    let digest = |finding: &Value| finding["hashed_secret"].as_str().unwrap().to_owned();
    files
        .flat_map(|file| file.as_array().unwrap())
        .map(digest)
        .collect()
}

/// The digest of `PuTTY-User-Key-File-2`, by which detect-secrets knows such a file. The line is not secret.
const PUTTY_HEADER: &str = "11200d1bf5e1eb358b5d823c443347d97e982a85";

/// It also reports digests, which every line has: only what is a secret of the corpus counts.
#[test]
fn detect_secrets_finds_no_secret_of_the_corpus_in_a_trace() {
    let Some(program) = program("SPANLEDGER_DETECT_SECRETS", "detect-secrets") else {
        return;
    };
    let corpus = corpus();
    let raw = detect_secrets(&program, write_raw(&corpus).path());
    assert!(raw.len() > 50, "{} findings in the raw corpus", raw.len());
    let recording = record(&corpus);
    let found = detect_secrets(&program, recording.dir.path());
    let both = raw
        .intersection(&found)
        .filter(|found| *found != PUTTY_HEADER);
    let both: Vec<_> = both.collect();
    assert!(both.is_empty(), "{both:#?}");
}
