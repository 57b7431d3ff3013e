//! Runs a test once more in a child process, for what concerns a whole process.

use std::process::Command;

const CHILD: &str = "TEST_RUNS_IN_CHILD";

/// Whether this process was started by [`calling_test`].
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Starts the calling test again, in a process of its own. Call it on the test's own thread.
pub fn calling_test() -> Command {
    let this = std::thread::current();
    let mut child = test(this.name().unwrap());
    child.env(CHILD, "1");
    child
}

/// Starts another test of the calling test's module, in a process of its own.
pub fn neighboring_test(name: &str) -> Command {
    let this = std::thread::current();
    let (module, _) = this.name().unwrap().rsplit_once("::").unwrap();
    test(&format!("{module}::{name}"))
}

fn test(name: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact", "--nocapture"]);
    child
}

/// Runs `body` in a child process, so that the test shares its process with no other test.
pub fn alone(body: impl FnOnce()) {
    with(|_| (), body);
}

/// Runs `body` in a child process that has these variables.
pub fn with_env(variables: &[(&str, &str)], body: impl FnOnce()) {
    with(|child| _ = child.envs(variables.iter().copied()), body);
}

/// Runs `body` in a child process that `configure` prepares. The test passes if `body` does.
pub fn with(configure: impl FnOnce(&mut Command), body: impl FnOnce()) {
    if is_child() {
        return body();
    }
    let mut child = calling_test();
    configure(&mut child);
    let output = child.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("1 passed"), "{stdout}{stderr}");
}
