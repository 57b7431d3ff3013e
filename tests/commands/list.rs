//! `spanledger list`.

use spanledger::{Outcome, SpanExt, Usage, events, spans};

use crate::support::Recording;
use crate::support::cli::{self, run};

/// Three sessions that ended, one of them a subagent, and one that is live.
fn recorded() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let parent = spans::session_run("ses_parent", "planner")
            .workspace_root("/home/ada/pump")
            .start();
        parent.in_scope(|| {
            events::message_user("Why does the valve leak?").emit();
            events::message_assistant("The gasket is worn.").emit();
            let child = spans::session_run("ses_child", "reviewer").start();
            child.finish(Outcome::Ok);
        });
        parent.finish(Outcome::Ok);
        let failed = spans::session_run("ses_failed", "planner").start();
        failed.in_scope(|| {
            let model = spans::model_call("anthropic", "m-1").start();
            model.record_usage(&Usage {
                input_tokens: Some(1200),
                cost_usd: Some(0.5),
                ..Usage::default()
            });
            model.finish(Outcome::Ok);
        });
        failed.finish(Outcome::Error);
        let live = spans::session_run("ses_live", "watcher").start();
        std::mem::forget(live);
    });
    recording
}

fn ids(recording: &Recording, args: &[&str]) -> Vec<String> {
    let mut all = vec!["list", "--json"];
    all.extend(args);
    let done = run(recording.dir.path(), &all);
    assert_eq!(done.code, 0, "{done:?}");
    let objects = done.objects();
    objects
        .iter()
        .map(|o| o["session_id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn most_recently_active_comes_first() {
    let recording = recorded();
    assert_eq!(
        ids(&recording, &[]),
        ["ses_live", "ses_failed", "ses_parent", "ses_child"]
    );
    assert_eq!(ids(&recording, &["-n", "1"]), ["ses_live"]);
}

#[test]
fn filters_by_agent_status_and_workspace() {
    let recording = recorded();
    assert_eq!(ids(&recording, &["--agent", "reviewer"]), ["ses_child"]);
    assert_eq!(ids(&recording, &["--status", "error"]), ["ses_failed"]);
    assert_eq!(ids(&recording, &["--status", "idle"]), ["ses_live"]);
    assert_eq!(
        ids(&recording, &["--workspace", "/home/ada"]),
        ["ses_parent"]
    );
    assert!(ids(&recording, &["--workspace", "/home/ad"]).is_empty());
    assert_eq!(ids(&recording, &["--since", "1h"]).len(), 4);
}

#[test]
fn text_is_searched_in_titles_and_messages() {
    let recording = recorded();
    assert_eq!(ids(&recording, &["VALVE"]), ["ses_parent"]);
    assert_eq!(ids(&recording, &["gasket is"]), ["ses_parent"]);
    assert!(ids(&recording, &["m-1"]).is_empty());
    recording
        .handle()
        .session("ses_child")
        .title("Gasket review");
    assert_eq!(ids(&recording, &["gasket"]), ["ses_child", "ses_parent"]);
}

#[test]
fn tree_shows_subagents_under_parents() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["list", "--tree"]);
    let at = |text: &str| done.lines().iter().position(|line| line.starts_with(text));
    assert_eq!(
        at("  ses_child"),
        at("ses_parent").map(|at| at + 1),
        "{done:?}"
    );
}

#[test]
fn unknown_cost_is_a_dash() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["list"]);
    let line = |id: &str| {
        let lines = done.lines();
        (*lines.iter().find(|line| line.contains(id)).unwrap()).to_owned()
    };
    assert!(line("ses_failed").contains("$0.5000"), "{done:?}");
    assert!(line("ses_parent").contains('–'), "{done:?}");
    assert!(!line("ses_parent").contains("$0"), "{done:?}");
}

#[test]
fn unknown_status_is_a_usage_error() {
    let recording = recorded();
    let done = run(recording.dir.path(), &["list", "--status", "sleepy"]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("busy, idle, waiting"), "{done:?}");
}

#[test]
fn unreadable_sessions_are_named_with_reason() {
    let recording = recorded();
    let root = recording.dir.path();
    let make = |id: &str, text: &str| {
        let dir = root.join("sessions").join(id);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("trace.0001.jsonl"), text).unwrap();
    };
    let failed = spanledger::read::session_dir(root, "ses_failed").join("trace.0001.jsonl");
    let newer = std::fs::read_to_string(failed).unwrap();
    make("newer", &newer.replace("{\"v\":1,", "{\"v\":7,"));
    make("broken", "this is no line\n");
    // A writer has just made this one.
    std::fs::create_dir_all(root.join("sessions/begun")).unwrap();

    let done = run(root, &["list"]);
    assert_eq!(done.code, 3, "{done:?}");
    assert_eq!(done.out.matches("ses_").count(), 4, "{done:?}");
    let stderr_lines: Vec<_> = done.err.lines().collect();
    assert_eq!(stderr_lines.len(), 2, "{done:?}");
    assert!(stderr_lines[0].contains("sessions/broken can't be read: "));
    assert!(stderr_lines[1].contains("sessions/newer can't be read: "));
    assert!(stderr_lines[1].contains("version 7") && stderr_lines[1].contains("version 1"));

    let done = run(root, &["list", "--json", "--agent", "reviewer"]);
    assert_eq!(done.code, 3, "{done:?}");
    let objects = done.objects();
    assert_eq!(objects.len(), 3, "{done:?}");
    assert_eq!(objects[0]["session_id"], "ses_child");
    assert!(objects[1]["dir"].as_str().unwrap().ends_with("broken"));
    assert!(objects[2]["error"].as_str().unwrap().contains("version 7"));

    let grep = run(root, &["grep", "gasket"]);
    assert_eq!(grep.code, 3, "{grep:?}");
    assert!(grep.out.contains("ses_parent") && grep.err.contains("sessions/newer"));
    let prune = run(root, &["prune", "--keep", "0", "--dry-run"]);
    assert_eq!(prune.code, 3, "{prune:?}");
    assert!(prune.err.contains("sessions/broken"), "{prune:?}");
}

#[test]
fn narrow_terminal_omits_columns() {
    let recording = recorded();
    for width in ["40", "60", "79"] {
        let done = cli::spanledger(recording.dir.path())
            .arg("list")
            .env("COLUMNS", width)
            .output();
        let done = cli::Done::from(done.unwrap());
        let width: usize = width.parse().unwrap();
        let lines = done.lines();
        let columns = spanledger::view::text::columns;
        assert!(lines.iter().all(|line| columns(line) <= width), "{done:?}");
        assert!(lines[0].ends_with("AGE"), "{done:?}");
        assert_eq!(lines[0].contains("TOOLS"), width > 60, "{done:?}");
    }
}

#[test]
fn long_id_is_cut_in_the_middle() {
    let recording = Recording::new();
    recording.run(|| {
        let id = "ses_of_somebody_with_a_long_name";
        let run = spans::session_run(id, "planner").start();
        run.in_scope(|| drop(spans::session_run(format!("{id}-review"), "reviewer").start()));
    });
    let done = cli::spanledger(recording.dir.path())
        .args(["list", "--tree"])
        .env("COLUMNS", "80")
        .output();
    let done = cli::Done::from(done.unwrap());
    let lines = done.lines();
    assert!(lines[1].starts_with("ses_of_someb"), "{done:?}");
    assert!(lines[1].contains("long_name "), "{done:?}");
    assert!(lines[3].contains("name-review "), "{done:?}");
}

#[test]
fn trace_and_directory_are_shown() {
    let recording = recorded();
    let root = recording.dir.path();
    let json = run(root, &["list", "--json"]).objects();
    let long = run(root, &["list", "--long"]);
    for session in &json {
        let dir = session["dir"].as_str().unwrap();
        assert!(std::path::Path::new(dir).is_dir());
        assert!(long.out.contains(&format!("files {dir}\n")), "{long:?}");
        let id = session["session_id"].as_str().unwrap();
        let shown = run(root, &["show", id]);
        assert!(shown.out.contains(&format!("files {dir}\n")), "{shown:?}");
        if let Some(trace) = session["trace_id"].as_str() {
            assert!(long.out.contains(&format!("trace {trace}\n")), "{long:?}");
            assert!(
                shown.out.contains(&format!("  trace    {trace}")),
                "{shown:?}"
            );
        }
    }
    assert!(json.iter().any(|session| session["trace_id"].is_string()));
}

#[test]
fn foot_leads_to_trace_and_directory() {
    let recording = recorded();
    let root = recording.dir.path();
    let list = |args: &[&str]| {
        let mut command = cli::spanledger(root);
        command.env("COLUMNS", "100");
        cli::Done::from(command.args(args).output().unwrap())
    };
    let named = format!("Root {}", root.display());
    let foot = format!("{named}; --long adds trace ids and directories");
    for args in [&["list"][..], &["list", "--tree"], &["list", "-n", "1"]] {
        let done = list(args);
        let last = done.lines().pop().map(str::to_owned);
        assert_eq!(last.as_deref(), Some(&*foot), "{done:?}");
    }
    let long = list(&["list", "--long"]);
    assert_eq!(long.lines().pop(), Some(&*named), "{long:?}");
    let help = list(&["list", "--help"]).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("--long has a row for each"), "{help}");
}

#[test]
fn filter_without_a_match_is_named() {
    let recording = recorded();
    let args = ["list", "--agent", "absent", "--since", "2h", "some text"];
    let done = run(recording.dir.path(), &args);
    let filters = "matches --agent absent --since 7200s 'some text'; there are ";
    assert!(done.out.contains(filters), "{done:?}");
}
