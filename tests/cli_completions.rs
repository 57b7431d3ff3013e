//! `spanledger completions` and `spanledger man`.
#![cfg(feature = "cli")]

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
fn completions_know_every_command_in_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, _) = run(&["completions", shell]);
        assert_eq!(code, 0);
        for command in ["show", "tail", "find", "grep", "status", "recover", "prune"] {
            assert!(out.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn an_unknown_shell_ends_with_2_and_names_those_there_are() {
    let (code, _, err) = run(&["completions", "cmd"]);
    assert_eq!(code, 2);
    assert!(err.contains("bash") && err.contains("fish"), "{err}");
}

#[test]
fn the_manual_is_one_page_for_the_tool_and_one_for_each_command() {
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
fn a_page_of_no_command_ends_with_2_and_names_the_commands() {
    let (code, _, err) = run(&["man", "nonsense"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("\"nonsense\"") && err.contains("tail"),
        "{err}"
    );
}
