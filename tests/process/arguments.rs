//! The arguments and the directory of a process, which the first line of each segment has.

use spanledger::spans;

use crate::support::secrets::{core, secrets};
use crate::support::{Trace, child};

/// Records a session if it runs as the child of the test below.
#[test]
fn child_records_its_arguments() {
    let Some(root) = std::env::var_os("REDACTION_TEST_ROOT") else {
        return;
    };
    let guard = spanledger::builder().root(root).try_init().unwrap();
    drop(spans::session_run("s", "agent").start());
    println!("masked {}", guard.health().masked);
    guard.shutdown().unwrap();
}

#[test]
fn secret_in_arguments_or_directory_is_masked() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let all = secrets();
    let named = |family: &str| all.iter().find(|(name, _)| *name == family).unwrap();
    let cwd = elsewhere.path().join(&named("github-classic").1);
    std::fs::create_dir(&cwd).unwrap();
    let mut masked = 1;
    for chunk in all.chunks(24) {
        let mut child = child::neighboring_test("child_records_its_arguments");
        child.arg("--");
        for (_, secret) in chunk {
            child.arg(secret).args(["--password", core(secret)]);
            child.arg(format!("--api-key={}", core(secret)));
        }
        masked = 3 * chunk.len() as u64 + 1;
        let output = child
            .env("REDACTION_TEST_ROOT", root.path())
            .current_dir(&cwd)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let count = stdout
            .lines()
            .find_map(|line| line.split_once("masked ")?.1.parse().ok());
        assert!(count >= Some(masked), "{stdout}");
    }
    assert!(masked > 1);
    let trace = Trace::read(root.path());
    let argv = trace.all("segment")[0].payload["process"]["argv"]
        .as_array()
        .unwrap();
    assert!(argv.iter().any(|arg| arg == "--password"), "{argv:?}");
    let leaks = trace.leaked_secrets();
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}
