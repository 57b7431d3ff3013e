//! Rewinds hide, branches are listed under their parents, attempts are a tree.

use std::path::Path;

use serde_json::json;
use spanledger::{Outcome, SpanExt, events, spans};
use tracing_subscriber::layer::SubscriberExt;

use crate::support::cli::run;
use crate::support::{Recording, investigation};

#[test]
fn show_hides_what_was_rewound() {
    let root = investigation::record();
    let done = run(root.path(), &["show", investigation::SESSION]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("The second fit is better."), "{done:?}");
    assert!(!done.out.contains("rm -rf data"), "{done:?}");
    assert!(!done.out.contains("I was not allowed to."), "{done:?}");
    assert!(
        done.out.contains("2 messages, 1 call; --hidden shows it"),
        "{done:?}"
    );
    assert!(done.out.contains("back to msg_2"), "{done:?}");
    let full = run(root.path(), &["show", investigation::SESSION, "--hidden"]);
    let row = full
        .lines()
        .into_iter()
        .find(|row| row.contains("rm -rf data"));
    assert!(row.unwrap().contains("hidden by 1:"), "{full:?}");
    assert!(!full.out.contains("--hidden shows it"), "{full:?}");
    // One turn alone, without and with.
    let args = ["show", investigation::SESSION, "--turn", "1"];
    assert!(
        !run(root.path(), &args)
            .out
            .contains("I was not allowed to.")
    );
    let done = run(root.path(), &[&args[..], &["--hidden"]].concat());
    assert!(done.out.contains("I was not allowed to."), "{done:?}");
}

#[test]
fn hidden_nodes_as_json() {
    let root = investigation::record();
    let show = |args: &[&str]| {
        let all = [&["show", investigation::SESSION, "--json"], args].concat();
        run(root.path(), &all).objects()
    };
    let is_denied = |node: &&serde_json::Value| node["outcome"] == "denied";
    assert_eq!(show(&[]).iter().filter(is_denied).count(), 0);
    let all = show(&["--hidden"]);
    let denied = all.iter().find(|node| is_denied(node)).unwrap();
    let rewind = all.iter().find(|node| node["kind"] == "rewind").unwrap();
    assert_eq!(denied["hidden_by"], rewind["address"]);
    // What went wrong is not hidden where it is asked for.
    let errors = show(&["--errors"]);
    assert!(
        errors
            .iter()
            .any(|node| node["payload"]["tool_call_id"] == "call_fail")
    );
}

fn branched() -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_a", "planner").start();
        run.in_scope(|| {
            let turn = spans::session_turn().start();
            turn.in_scope(|| {
                events::message_user("Plan A").message_id("msg_1").emit();
                events::message_assistant("Done").message_id("msg_2").emit();
            });
            turn.finish(Outcome::Ok);
        });
        run.finish(Outcome::Ok);
        let branch = spans::session_run("ses_b", "planner")
            .branched_from("ses_a", "msg_1")
            .start();
        branch.in_scope(|| events::message_user("Plan B").emit());
        branch.finish(Outcome::Ok);
    });
    recording
}

#[test]
fn branch_is_listed_under_its_parent() {
    let recording = branched();
    let root = recording.dir.path();
    let list = run(root, &["list", "--tree"]);
    let lines = list.lines();
    let at = |id: &str| {
        lines
            .iter()
            .position(|line| line.trim_start().starts_with(id))
    };
    assert!(at("ses_a").unwrap() < at("ses_b").unwrap(), "{list:?}");
    assert!(lines[at("ses_b").unwrap()].starts_with("  "), "{list:?}");
    let show = run(root, &["show", "ses_a"]);
    let row = show.lines().into_iter().find(|row| row.contains("Plan A"));
    assert!(row.unwrap().contains("branched to ses_b"), "{show:?}");
    assert!(show.out.contains("branches ses_b at msg_1"), "{show:?}");
    let child = run(root, &["show", "ses_b"]);
    assert!(child.out.contains("of ses_a at msg_1"), "{child:?}");
    let nodes = run(root, &["show", "ses_a", "--json"]).objects();
    assert_eq!(nodes[0]["branches"], json!(["ses_b"]));
    let message = nodes
        .iter()
        .find(|node| node["content"] == "Plan A")
        .unwrap();
    assert_eq!(message["branches"], json!(["ses_b"]));
    let child = run(root, &["list", "--json"]).objects();
    let child = child
        .iter()
        .find(|one| one["session_id"] == "ses_b")
        .unwrap();
    assert_eq!(child["branched_from"], "ses_a");
    assert_eq!(child["branched_from_message"], "msg_1");
}

#[test]
fn attempts_are_a_tree() {
    let root = investigation::record();
    let done = run(root.path(), &["attempts", investigation::SESSION]);
    assert_eq!(done.code, 0, "{done:?}");
    let lines = done.lines();
    let at = |text: &str| {
        let found = lines.iter().position(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("{text}: {done:?}"))
    };
    assert!(lines[at("att_1  step 1")].starts_with("att_1"), "{done:?}");
    assert!(lines[at("att_2")].starts_with("├─ att_2"), "{done:?}");
    assert!(lines[at("att_3")].starts_with("└─ att_3"), "{done:?}");
    assert!(
        lines[at("att_2") + 1].contains("rmse 0.2   r2 0.8"),
        "{done:?}"
    );
    assert!(at("figure fit_2.svg") < at("att_3"), "{done:?}");
    assert!(
        lines[at("figure fit_1.svg") + 1].contains("using Plots"),
        "{done:?}"
    );
    assert!(!done.out.contains(['\x1b', '\u{202e}']), "{done:?}");
    let json = run(root.path(), &["attempts", investigation::SESSION, "--json"]).json();
    let second = &json["attempts"][1];
    assert_eq!(
        (&second["id"], &second["depth"]),
        (&json!("att_2"), &json!(1))
    );
    assert_eq!(second["metrics"]["rmse"], 0.2);
    let code = second["artifact"]["source_code"].as_str().unwrap();
    assert!(code.starts_with("using Plots"), "{code}");
}

#[test]
fn session_without_attempts() {
    let done = run(branched().dir.path(), &["attempts", "ses_a"]);
    assert_eq!(
        (done.code, done.out.trim()),
        (0, "No attempts were recorded in this session.")
    );
}

/// Records a process of its own in `ses_1`: a turn in which an event lies between the messages.
fn record(root: &Path, messages: impl FnOnce()) {
    let (layer, guard) = spanledger::builder().root(root).build().unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        let _turn = spans::session_turn().start().entered();
        events::custom("noise", json!({})).emit();
        messages();
    });
    guard.shutdown().unwrap();
}

/// The rewind of the second process hides what the first one wrote, that of the third what the second did. A line of
/// each is damaged.
#[test]
fn rewinds_and_pages_over_damaged_segments() {
    let root = tempfile::tempdir().unwrap();
    let user = |id: &str, text: &str| events::message_user(text).message_id(id).emit();
    record(root.path(), || {
        user("msg_1", "Plan A");
        user("msg_2", "Go on with A");
    });
    record(root.path(), || {
        events::rewind("msg_1").emit();
        user("msg_3", "Plan B");
        user("msg_4", "Go on with B");
    });
    record(root.path(), || {
        events::rewind("msg_3").emit();
        user("msg_5", "Plan C");
    });
    for segment in 1..=3 {
        let path = root
            .path()
            .join(format!("sessions/ses_1/trace.000{segment}.jsonl"));
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| match line.contains("\"noise\"") {
            true => "x".repeat(line.len()),
            false => line.to_owned(),
        });
        let damaged = lines.collect::<Vec<_>>().join("\n") + "\n";
        assert_ne!(damaged, text);
        std::fs::write(&path, damaged).unwrap();
    }
    for command in ["show", "transcript"] {
        let done = run(root.path(), &[command, "ses_1"]);
        assert_eq!(done.code, 3, "{done:?}");
        for (text, is_there) in [
            ("Plan A", true),
            ("Go on with A", false),
            ("Plan B", true),
            ("Go on with B", false),
            ("Plan C", true),
            ("hidden by 2:", true),
            ("hidden by 3:", true),
        ] {
            assert_eq!(
                done.out.contains(text),
                is_there,
                "{command}: {text}: {done:?}"
            );
        }
        for segment in ["trace.0001", "trace.0002", "trace.0003"] {
            assert!(done.err.contains(segment), "{command}: {done:?}");
        }
        let all = run(root.path(), &[command, "ses_1", "--hidden"]);
        assert!(all.out.contains("Go on with A") && all.out.contains("Go on with B"));
    }
}

/// The messages of a conversation with rewinds: `<id` goes back to a message.
fn rewound(events: &[&str]) -> Recording {
    let recording = Recording::new();
    recording.run(|| {
        let _run = spans::session_run("ses_1", "planner").start().entered();
        for event in events {
            match event.strip_prefix('<') {
                Some(to) => events::rewind(to).emit(),
                None => events::message_user(*event).message_id(*event).emit(),
            };
        }
    });
    recording
}

/// Exports hide what `show` hides, also after a second rewind.
#[test]
fn exports_agree_with_show_about_what_is_hidden() {
    for (events, visible) in [
        (&["aa", "bb", "cc", "<aa", "dd"][..], &["aa", "dd"][..]),
        (
            &["aa", "bb", "<aa", "cc", "dd", "ee", "<dd", "ff"],
            &["aa", "cc", "dd", "ff"],
        ),
        (
            &["aa", "bb", "cc", "<aa", "dd", "<bb", "ee"],
            &["aa", "bb", "ee"],
        ),
    ] {
        let recording = rewound(events);
        let root = recording.dir.path();
        let export = |format: &str| run(root, &["export", format, "ses_1"]).out;
        let parse = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
        let shown = run(root, &["show", "ses_1"]).out;
        for event in events.iter().filter(|event| !event.starts_with('<')) {
            let is_visible = visible.contains(event);
            let row = format!("user       {event}  ");
            assert_eq!(shown.contains(&row), is_visible, "{event}: {shown}");
        }
        let body = parse(&export("openai-messages"));
        let said: Vec<_> = body["messages"].as_array().unwrap().iter().collect();
        let said: Vec<_> = said
            .iter()
            .map(|one| one["content"].as_str().unwrap())
            .collect();
        assert_eq!(said, visible);
        let atif = parse(&export("atif"));
        let steps = atif["steps"].as_array().unwrap().iter();
        let steps = steps.filter(|step| step["extra"]["hidden"] != true);
        let steps: Vec<_> = steps
            .map(|step| step["message"].as_str().unwrap())
            .collect();
        assert_eq!(steps, visible);
        let chat = parse(&export("chat-json"));
        let messages = chat["messages"].as_array().unwrap().iter();
        let messages = messages.filter(|one| one["message"]["hidden_at"].is_null());
        let ids: Vec<_> = messages
            .map(|one| {
                one["message"]["id"]
                    .as_str()
                    .unwrap()
                    .trim_start_matches("ses_1/")
            })
            .collect();
        assert_eq!(ids, visible);
        // The file of a live export says the same in the end.
        let file = recording.dir.path().join("live.jsonl");
        let mut live = spanledger::export::Live::file("chat-jsonl".parse().unwrap(), &file);
        live.sync(&spanledger::read::session_dir(root, "ses_1"))
            .unwrap();
        let mut hidden = std::collections::BTreeMap::new();
        for row in std::fs::read_to_string(&file).unwrap().lines().map(parse) {
            if row["type"] == "message" || row["type"] == "update" {
                let id = row["data"]["id"]
                    .as_str()
                    .unwrap()
                    .trim_start_matches("ses_1/");
                hidden.insert(id.to_owned(), !row["data"]["hidden_at"].is_null());
            }
        }
        let shown: Vec<_> = hidden.iter().filter(|(_, hidden)| !**hidden).collect();
        let shown: Vec<_> = shown.into_iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(shown, visible);
    }
}
