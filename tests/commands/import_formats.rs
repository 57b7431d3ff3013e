//! `import` of trials, hosted evaluations, conversations and OTLP-JSON.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spanledger::read::session_dir;

use super::imports::{SECRET, files, refused};
use crate::support::cli::{Done, run};
use crate::support::rich_session::{self, SESSION};

#[track_caller]
fn import(root: &Path, format: &str, path: &Path) -> Vec<Value> {
    let done = run(root, &["import", format, path.to_str().unwrap(), "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    done.objects()
}

/// Imports by the name of the format and by `auto`, and again.
#[track_caller]
fn import_and_again(root: &Path, format: &str, path: &Path) -> Vec<String> {
    let other = root.with_file_name("by-name");
    let by_name = import(&other, format, path);
    let sessions = import(root, "auto", path);
    assert_eq!(sessions.len(), by_name.len());
    assert!(
        sessions.iter().all(|one| one["imported"] == true),
        "{sessions:?}"
    );
    let before = lines(root);
    let again = import(root, "auto", path);
    assert!(again.iter().all(|one| one["known"] == true), "{again:?}");
    assert_eq!(lines(root), before);
    let id = |one: &Value| one["session_id"].as_str().unwrap().to_owned();
    sessions.iter().map(id).collect()
}

/// The text of all files below a directory.
fn lines(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: PathBuf| (path.clone(), fs::read(&path).unwrap());
    files(dir).into_iter().map(read).collect()
}

/// Nothing below the root has the secret, and the source is kept.
#[track_caller]
fn assert_masked(root: &Path, session: &str) {
    for (path, bytes) in lines(root) {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(SECRET), "{}", path.display());
    }
    let blobs = lines(&session_dir(root, session).join("blobs"));
    let is_masked = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).contains("[masked rule=");
    assert!(blobs.values().any(is_masked), "{blobs:?}");
    let events = events(root, session);
    assert!(events.iter().any(|line| line["kind"] == "import"));
}

/// The lines of a session.
fn events(root: &Path, session: &str) -> Vec<Value> {
    let file = session_dir(root, session).join("trace.0001.jsonl");
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let mut found = Vec::new();
    for line in events.iter().filter(|line| line["kind"] == kind) {
        found.push(&line["payload"]);
    }
    found
}

fn export(root: &Path, args: &[&str]) -> Done {
    let done = run(root, &[&["export"], args].concat());
    assert_eq!(done.code, 0, "{done:?}");
    done
}

fn record() -> Value {
    json!({
        "trial_id": "t1", "experiment_id": "exp", "dataset_id": "d@1",
        "timestamp": "2026-11-10T08:00:00",
        "task": {"task_id": "task", "task_revision": "sha256:1"},
        "agent": {"adapter": "tool_loop", "model": "m-1", "adapter_revision": "r1", "configuration": {"max_turns": 3}},
        "environment": {"runtime_image": "python:3.12", "compute_backend": "local", "tool_versions": {"bash": "5.2"}},
        "inputs": {"instruction": format!("Use {SECRET}."), "system_prompt": "Be careful.",
            "input_files": [{"path": "a.csv", "hash": "00ff"}]},
        "outputs": {"agent_output": {"status": "completed", "output_path": "o.md", "output_format": "md"},
            "agent_result": {"turns_used": 4}},
        "evaluation": {"reward": 0.75, "validity": {"output_parseable": true, "schema_valid": true,
            "verifier_completed": true, "errors": []}, "breakdown": {"numeric": 0.5},
            "annotations": [{"reviewer_id": "ada", "timestamp": "2026-11-11T08:00:00+01:00", "judgment": "pass",
                "notes": "good", "categories": ["units"]}]},
        "timing": {"total_seconds": 10.5, "setup_seconds": 1, "agent_seconds": 8.5, "verification_seconds": 1},
        "cost": {"tokens_in": 100, "tokens_out": 20, "cache_read_tokens": 5, "estimated_cost_usd": 0.25,
            "advisor_calls": 2, "advisor_input_tokens": 30, "advisor_output_tokens": 4},
        "completeness": "complete",
    })
}

#[test]
fn trial_survives_import_and_export() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let file = dir.path().join("t1.json");
    // As people print it: on many lines.
    fs::write(&file, format!("{:#}", record())).unwrap();
    let ids = import_and_again(&root, "trial", &file);
    assert_eq!(ids, ["trial-exp/t1"]);
    assert_masked(&root, &ids[0]);

    let out = dir.path().join("ledger");
    export(
        &root,
        &["trial", &ids[0], "-o", out.to_str().unwrap(), "--complete"],
    );
    let text = fs::read_to_string(out.join("exp/t1.json")).unwrap();
    let mut again: Value = serde_json::from_str(&text).unwrap();
    let mut first = record();
    // What a session has in other words.
    assert_eq!(again["timestamp"], "2026-11-10T08:00:00.000000Z");
    assert_eq!(
        again["evaluation"]["annotations"][0]["timestamp"],
        "2026-11-11T07:00:00.000000Z"
    );
    assert!(
        again["inputs"]["instruction"]
            .as_str()
            .unwrap()
            .contains("masked")
    );
    for record in [&mut first, &mut again] {
        record["timestamp"] = Value::Null;
        record["evaluation"]["annotations"][0]["timestamp"] = Value::Null;
        record["inputs"]["instruction"] = Value::Null;
        record["outputs"] = Value::Null;
        for seconds in record["timing"].as_object_mut().unwrap().values_mut() {
            *seconds = json!(seconds.as_f64());
        }
    }
    assert_eq!(first, again);
    let shown = run(&root, &["show", &ids[0]]).out;
    assert!(
        shown.contains("advisor") || shown.contains("m-1"),
        "{shown}"
    );
    let events = events(&root, &ids[0]);
    assert_eq!(
        of_kind(&events, "output")[0]["agent_output"]["output_path"],
        "o.md"
    );
    assert_eq!(of_kind(&events, "phase").len(), 3);
}

#[test]
fn trials_of_our_own_are_the_same_session() {
    let rich = rich_session::record();
    let dir = tempfile::tempdir().unwrap();
    for schema in ["1", "2"] {
        let out = dir.path().join(format!("ledger-{schema}"));
        let path = out.to_str().unwrap();
        export(
            rich.path(),
            &["trial", SESSION, "-o", path, "--schema", schema],
        );
        let root = dir.path().join(format!("root-{schema}"));
        // A ledger, with its manifests and all.
        let sessions = import(&root, "trial", &out);
        assert_eq!(sessions[0]["session_id"], SESSION);
        let events = events(&root, SESSION);
        let trial = of_kind(&events, "trial")[0];
        assert_eq!(trial["trial_id"], "trial_1");
        assert_eq!(trial["experiment_id"], "exp_1");
        assert_eq!(trial["harness"], "tool_loop");
        assert_eq!(of_kind(&events, "environment")[0]["image"], "python:3.12");
        assert_eq!(of_kind(&events, "output")[0]["final"], "V = 5.2");
        assert_eq!(of_kind(&events, "evaluation")[0]["scores"]["reward"], 0.5);
        let listed = run(&root, &["list", "--json"]).objects()[0].to_string();
        assert!(listed.contains("\"input_tokens\":1664"), "{listed}");
        // The record of the import is the record again.
        let second = dir.path().join(format!("again-{schema}"));
        let path = second.to_str().unwrap();
        export(&root, &["trial", SESSION, "-o", path, "--schema", schema]);
        let read = |dir: &Path| -> Value {
            let text = fs::read_to_string(dir.join("exp_1/trial_1.json")).unwrap();
            let mut record: Value = serde_json::from_str(&text).unwrap();
            for of in ["outputs", "output"] {
                // The record has no turns, so its session has one.
                if let Some(result) = record.pointer_mut(&format!("/{of}/agent_result")) {
                    result["turns_used"] = Value::Null;
                }
            }
            record
        };
        let (mut first, mut again) = (read(&out), read(&second));
        if schema == "1" {
            // Of two runs the sum; the session that was imported has one.
            for record in [&mut first, &mut again] {
                record["timing"] = Value::Null;
            }
        }
        assert_eq!(first, again, "schema {schema}");
    }
}

/// Records of two experiments are two sessions, and no input files are none.
#[test]
fn trials_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (root, ledger) = (dir.path().join("root"), dir.path().join("ledger"));
    fs::create_dir(&ledger).unwrap();
    for (n, (experiment, trial)) in [("a-b", "c"), ("a", "b-c")].into_iter().enumerate() {
        let mut record = record();
        record["experiment_id"] = experiment.into();
        record["trial_id"] = trial.into();
        record["inputs"]["input_files"] = json!([]);
        fs::write(ledger.join(format!("{n}.json")), record.to_string()).unwrap();
    }
    let sessions = import(&root, "trial", &ledger);
    let ids: Vec<_> = sessions.iter().map(|one| &one["session_id"]).collect();
    assert_eq!(ids, ["trial-a-b/c", "trial-a/b-c"]);
    let out = dir.path().join("out");
    let to = out.to_str().unwrap();
    export(&root, &["trial", "trial-a/b-c", "-o", to, "--complete"]);
    let text = fs::read_to_string(out.join("a/b-c.json")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["inputs"]["input_files"], json!([]));
}

#[test]
fn trial_with_an_error_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let file = dir.path().join("t.json");
    let mut newer = record();
    newer["schema_version"] = 3.into();
    let mut unnamed = record();
    unnamed["trial_id"] = " ".into();
    let mut timeless = record();
    timeless["timestamp"] = "soon".into();
    let deep = format!("{{\"trial_id\":\n{}", "[".repeat(1_000_000));
    let cases = [
        (newer.to_string(), "schema_version 3"),
        (unnamed.to_string(), "`trial_id`"),
        (timeless.to_string(), "`timestamp`"),
        ("{\"trial_id\":\n\"t\"\n".to_owned(), "line "),
        (deep, "line 2"),
        ("[1]".to_owned(), "not a JSON object"),
    ];
    for (text, why) in cases {
        fs::write(&file, text).unwrap();
        refused(&root, "trial", &file, why);
    }
    // One bad record in a ledger, and none is imported.
    let ledger = dir.path().join("ledger");
    fs::create_dir(&ledger).unwrap();
    fs::write(ledger.join("a.json"), record().to_string()).unwrap();
    fs::write(ledger.join("b.json"), "{").unwrap();
    refused(&root, "trial", &ledger, "b.json");
}

/// A sample in the old shape, with most of it in `info`, and one in the newest.
fn samples() -> Value {
    let prompt = json!([{"role": "system", "content": "Be careful."}, {"role": "user", "content": "How much?"}]);
    let call = json!({"id": "c1", "type": "function", "function": {"name": "submit_answer",
        "arguments": "{\"path\":\"output.md\",\"content\":\"42\"}"}});
    let completion = |call: Value| {
        json!([
            {"role": "assistant", "content": format!("With {SECRET}."), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "written [exit code: 0]"},
            {"role": "assistant", "content": "Done."},
        ])
    };
    let task =
        json!({"task_id": "task", "task_revision": "r1", "dataset": {"name": "d", "version": "1"}});
    let mut old = json!({
        "sample_id": "s/1", "example_id": 1, "rollout_number": 0, "prompt": prompt, "completion": completion(call.to_string().into()),
        "reward": 0.5, "total_time": 3.5, "created_at": "2026-11-10T08:00:00Z", "answer": "42", "info": task,
    });
    let rest = json!({
        "metrics": {"numeric": 0.5}, "token_usage": {"input_tokens": 90, "output_tokens": 12},
        "timing": {"total_ms": 3500, "generation_ms": 3000, "scoring_ms": 500},
        "stop_condition": "done", "is_completed": true, "error": null,
    });
    old["info"]
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    let new = json!({
        "sample_id": "s2", "prompt": "How much?", "completion": completion(call), "score": 1.0,
        "created_at": "2026-11-10T08:00:00Z", "info": task, "metrics": {"numeric": 1.0},
        "token_usage": {"prompt_tokens": 90, "completion_tokens": 12},
        "timing": {"total": 3.5, "generation": {"duration": 3.0}, "scoring": {"duration": 0.5}},
        "stop_condition": "done", "is_completed": true,
    });
    json!({"samples": [old, new, old]})
}

#[test]
fn prime_samples_are_sessions_with_partial_records() {
    let dir = tempfile::tempdir().unwrap();
    let eval = dir.path().join("eval");
    fs::create_dir(&eval).unwrap();
    let evaluation = json!({"evaluation_id": "ev1", "model_name": "m-1", "name": "medium", "eval_config": {"rollouts": 1}});
    fs::write(eval.join("evaluation.json"), evaluation.to_string()).unwrap();
    fs::write(eval.join("samples.json"), format!("{:#}", samples())).unwrap();
    // The directory, the samples and the evaluation name the same.
    for (n, path) in ["", "samples.json", "evaluation.json"]
        .into_iter()
        .enumerate()
    {
        let root = dir.path().join(format!("{n}/root"));
        let ids = import_and_again(&root, "prime", &eval.join(path));
        assert_eq!(ids, ["prime-ev1-s-1", "prime-ev1-s2"], "{path}");
        assert_masked(&root, &ids[0]);
    }
    let root = dir.path().join("0/root");
    for (id, reward) in [("prime-ev1-s-1", 0.5), ("prime-ev1-s2", 1.0)] {
        let events = events(&root, id);
        assert_eq!(of_kind(&events, "output")[0]["final"], "42");
        assert_eq!(of_kind(&events, "tool_result")[0]["outcome"], "ok");
        assert_eq!(of_kind(&events, "message_user")[0]["content"], "How much?");
        let out = dir.path().join("ledger");
        export(&root, &["trial", id, "-o", out.to_str().unwrap()]);
        let file = out.join(format!("prime-ev1/{id}.json"));
        let record: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(record["completeness"], "partial");
        assert_eq!(record["evaluation"]["reward"], reward);
        assert_eq!(record["evaluation"]["breakdown"]["numeric"], reward);
        assert_eq!(
            record["task"],
            json!({"task_id": "task", "task_revision": "r1"})
        );
        assert_eq!(record["dataset_id"], "d@1");
        assert_eq!(record["agent"]["model"], "m-1");
        assert_eq!(
            record["timing"],
            json!({"agent_seconds": 3.0, "verification_seconds": 0.5, "total_seconds": 3.5})
        );
        assert_eq!(record["cost"], json!({"tokens_in": 90, "tokens_out": 12}));
        assert_eq!(record["inputs"]["instruction"], "How much?");
    }
}

/// The record that is exported of a sample.
fn record_of_sample(sample: Value) -> (Value, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let (root, file) = (dir.path().join("root"), dir.path().join("samples.json"));
    let document = json!({"evaluation_id": "ev1", "samples": [sample]});
    fs::write(&file, document.to_string()).unwrap();
    let sessions = import(&root, "prime", &file);
    let id = sessions[0]["session_id"].as_str().unwrap();
    let out = dir.path().join("ledger");
    export(&root, &["trial", id, "-o", out.to_str().unwrap()]);
    let text = fs::read_to_string(out.join(format!("prime-ev1/{id}.json"))).unwrap();
    (serde_json::from_str(&text).unwrap(), events(&root, id))
}

#[test]
fn prime_sample_has_what_its_shapes_say() {
    let with = |more: Value| {
        let mut sample = json!({"sample_id": "s1", "prompt": "Long prompt."});
        sample
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        record_of_sample(sample)
    };
    let (record, _) = with(json!({"aec_bench_reward": 0.25, "score": 0.5}));
    assert_eq!(record["evaluation"]["reward"], 0.25);
    let (record, _) = with(json!({"metrics": {"calls": 3}, "stop_condition": "max_turns"}));
    assert_eq!(record["evaluation"]["reward"], 0.0);
    assert_eq!(record["evaluation"]["breakdown"], json!({"calls": 3}));
    assert_eq!(
        record["outputs"]["agent_result"]["stop_reason"],
        "max_turns"
    );
    let (record, lines) = with(json!({"info": {"instruction": "Do it."}}));
    assert_eq!(record["inputs"]["instruction"], "Do it.");
    assert_eq!(
        of_kind(&lines, "message_user")[0]["content"],
        "Long prompt."
    );
    // Without a time of its own, it has the file's.
    assert_ne!(&lines[0]["ts"].as_str().unwrap()[..4], "1970");
    let error = json!({"error": "ModelError", "error_chain_repr": "…", "error_chain_str": "ModelError -> timeout"});
    let none = (json!(null), json!(null), "unset");
    let model_error = (json!("ModelError"), json!("ModelError -> timeout"), "error");
    let old = (json!("Timeout"), json!("late"), "error");
    for (error, (kind, message, outcome)) in [
        (json!({}), none.clone()),
        (json!(null), none),
        (error, model_error),
        (json!({"error_type": "Timeout", "message": "late"}), old),
    ] {
        let (_, lines) = with(json!({"error": error}));
        let end = of_kind(&lines, "session_end")[0];
        assert_eq!(end["error"]["error_type"], kind, "{end}");
        assert_eq!(end["error"]["message"], message, "{end}");
        assert_eq!(end["outcome"], outcome, "{end}");
    }
}

#[test]
fn prime_samples_with_an_error_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let file = dir.path().join("samples.json");
    let mut rich = samples();
    rich["samples"][1]["score"] = 1.5.into();
    let mut unnamed = samples();
    unnamed["samples"][1] = json!({"prompt": []});
    for (document, why) in [
        (rich.to_string(), "sample 2: reward 1.5"),
        (unnamed.to_string(), "sample 2: no `sample_id`"),
        (json!({"samples": []}).to_string(), "no sample"),
        (json!({"rows": []}).to_string(), "`samples`"),
        ("{\n\"samples\": [\n{]".to_owned(), "line 3"),
    ] {
        fs::write(&file, document).unwrap();
        refused(&root, "prime", &file, why);
    }
}
