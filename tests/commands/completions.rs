//! `spanledger completions` and `spanledger man`.

use std::process::Command;

fn run(args: &[&str]) -> (i32, String, String) {
    // No root anywhere: these need none.
    let output = Command::new(env!("CARGO_BIN_EXE_spanledger"))
        .env_clear()
        .args(args)
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, _) = run(&["completions", shell]);
        assert_eq!(code, 0);
        for command in ["show", "tail", "find", "grep", "status", "recover", "prune"] {
            assert!(out.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn unknown_shell_exits_2_and_lists_shells() {
    let (code, _, err) = run(&["completions", "cmd"]);
    assert_eq!(code, 2);
    assert!(err.contains("bash") && err.contains("fish"), "{err}");
}

#[test]
fn manual_has_a_page_per_command() {
    let (code, out, _) = run(&["man"]);
    assert_eq!(code, 0);
    assert!(out.contains(".TH spanledger 1") && out.contains("Exit codes"));
    let (code, out, _) = run(&["man", "tail"]);
    assert_eq!(code, 0);
    assert!(
        out.contains(".TH spanledger-tail 1") && out.contains("no\\-follow"),
        "{out}"
    );
}

#[test]
fn unknown_page_exits_2_and_lists_commands() {
    let (code, _, err) = run(&["man", "nonsense"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("\"nonsense\"") && err.contains("tail"),
        "{err}"
    );
}
