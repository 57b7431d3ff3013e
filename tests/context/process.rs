//! A test that runs once more in a process of its own.

use std::process::Command;

const CHILD: &str = "TEST_RUNS_IN_CHILD";

/// Runs `body` in a child process that has these variables; what it asserts there decides.
pub fn with_env(variables: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let this = std::thread::current();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", this.name().unwrap(), "--nocapture"]);
    child.envs(variables.iter().copied());
    let output = child.env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let cried = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{cried}");
    assert!(said.contains("1 passed"), "{said}");
}
