//! `spanledger export` for aec-bench: trajectories and TrialRecords.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spanledger::{Failure, Outcome, SpanExt, events, spans};

use super::imports::files;
use crate::support::Recording;
use crate::support::aec_bench::{self, Completeness, python_lines};
use crate::support::cli::{Done, run};
use crate::support::rich_session::{self, SESSION, SUBAGENT};

#[track_caller]
fn export(root: &Path, args: &[&str]) -> Done {
    let done = run(root, &[&["export"], args].concat());
    assert_eq!(done.code, 0, "{done:?}");
    done
}

/// Exports a trial. Returns the text of its record.
#[track_caller]
fn export_trial(root: &Path, session: &str, options: &[&str]) -> String {
    let out = tempfile::tempdir().unwrap();
    let to = out.path().to_str().unwrap();
    export(root, &[&["trial", session, "-o", to], options].concat());
    let is_record = |file: &PathBuf| !file.to_string_lossy().contains("/_runs/");
    let record = files(out.path()).into_iter().find(is_record).unwrap();
    fs::read_to_string(record).unwrap()
}

#[test]
fn trajectory_has_entries_of_the_closed_model() {
    let dir = rich_session::record();
    let done = export(dir.path(), &["trajectory", SESSION]);
    let header = r#"{"version":1,"format":"aec-bench-trajectory"}"#;
    assert_eq!(done.lines()[0], header);
    let entries = aec_bench::trajectory(&done.out);
    for entry in &entries {
        let is_first = matches!(entry.role.as_str(), "user" | "system");
        assert_eq!(entry.step == 0, is_first, "{entry:?}");
        assert!(entry.metadata.as_ref().unwrap().contains_key("seg"));
        assert!(entry.timestamp.is_some());
    }
    let of = |role: &str| {
        let entries = entries.iter().filter(|entry| entry.role == role);
        entries.collect::<Vec<_>>()
    };
    assert_eq!(of("tool_call").len(), 7);
    assert_eq!(of("tool_result").len(), 7);
    let failed = of("tool_result");
    let mut failed = failed
        .iter()
        .filter(|entry| entry.exit_code.is_some_and(|code| code != 0));
    // The error stands beside what the tool printed.
    let build = failed.next().unwrap();
    assert_eq!(build.stderr.as_deref(), Some("error[E0308]"));
    let error = &build.metadata.as_ref().unwrap()["error"];
    assert_eq!(error["message"], "exit status: 101");
    assert!(failed.next().is_none());
    assert_eq!(of("assistant").len(), 4, "{:#?}", of("assistant"));
    assert_eq!(
        of("user")[2].content.as_deref(),
        Some("Half \u{fffd} of a pair")
    );
    // A blob is fetched, a masked value stays masked.
    let fetched = of("tool_result")[4].stdout.clone().unwrap();
    assert_eq!(fetched.len(), 8000);
    let arguments = of("tool_call")[4].arguments.clone().unwrap();
    assert!(arguments["api_key"].as_str().unwrap().contains("masked"));
}

#[test]
fn trajectory_header_can_be_left_out() {
    let dir = rich_session::record();
    let with = export(dir.path(), &["trajectory", SESSION]);
    let without = export(dir.path(), &["trajectory", SESSION, "--no-header"]);
    assert_eq!(with.lines()[1..], without.lines());
}

/// Python cuts lines at more characters than newlines.
#[test]
fn rows_of_lines_are_lines_to_python() {
    const CUTS: &str = "a\u{85}b\u{2028}c\u{2029}d\u{b}e\u{c}f\u{1c}g\u{1d}h\u{1e}i\r\nj";
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_cut", CUTS).start();
        run.in_scope(|| {
            let _turn = spans::session_turn().start().entered();
            events::message_user(CUTS).emit();
            let tool = spans::tool_call("bash", "c1").start();
            tool.record_failure(&Failure::message(CUTS));
            tool.finish(Outcome::Error);
        });
        run.finish(Outcome::Ok);
    });
    let root = recording.end();
    let has_it = |value: &Value| {
        let (escaped, text) = (json!(CUTS).to_string(), value.to_string());
        text.contains(escaped.trim_matches('"'))
    };
    for format in [
        "trajectory",
        "acp",
        "session-log",
        "agentdbg",
        "maida",
        "chat-jsonl",
        "otlp-json",
    ] {
        let out = root.path().join(format!("{format}/out.jsonl"));
        export(
            root.path(),
            &[format, "ses_cut", "-o", out.to_str().unwrap()],
        );
        let mut rows = Vec::new();
        for file in files(&root.path().join(format)) {
            let text = fs::read_to_string(&file).unwrap();
            if file.extension().is_some_and(|it| it == "jsonl") {
                let lines = python_lines(&text).into_iter();
                rows.extend(lines.map(|line| serde_json::from_str::<Value>(line).unwrap()));
            }
        }
        assert!(rows.iter().any(has_it), "{format}: {rows:?}");
    }
}

#[test]
fn trial_is_written_once() {
    let dir = rich_session::record();
    let out = dir.path().join("ledger");
    let to = out.to_str().unwrap();
    export(dir.path(), &["trial", SESSION, "-o", to]);
    let file = out.join("exp_1/trial_1.json");
    let before = fs::read_to_string(&file).unwrap();
    aec_bench::record(&before);
    let done = run(dir.path(), &["export", "trial", SESSION, "-o", to]);
    assert_eq!(done.code, 2);
    assert!(done.err.contains("written once"), "{done:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    assert_eq!(fs::read_dir(out.join("exp_1")).unwrap().count(), 1);
}

#[test]
fn trial_has_what_was_recorded_of_it() {
    let dir = rich_session::record();
    let record = aec_bench::record(&export_trial(dir.path(), SESSION, &["--complete"]));
    assert_eq!(record.completeness, Completeness::Complete);
    assert_eq!(record.evaluation.reward.0, 0.5);
    let reviews = record.evaluation.annotations.unwrap();
    assert_eq!(reviews[0].reviewer_id.0, "ada");
    assert_eq!(reviews[0].notes.as_deref(), Some("good"));
    let cost = record.cost.unwrap();
    assert_eq!((cost.tokens_in, cost.advisor_calls), (Some(1664), Some(1)));
    assert_eq!(cost.advisor_input_tokens, Some(40));
    let adaptation = record.adaptation.unwrap();
    assert_eq!(adaptation.variation["voltage"].0, "400");
    assert_eq!(adaptation.derivation_lineage.unwrap().len(), 1);
    assert_eq!(record.timing.setup_seconds.unwrap().0, 1.5);
    let file = &record.inputs.input_files.unwrap()[0];
    assert_eq!(
        file.source.as_deref(),
        Some("https://example.com/input.csv")
    );
}

#[test]
fn trial_that_lacks_its_provenance_is_partial() {
    let dir = rich_session::record();
    let out = dir.path().join("ledger");
    let to = out.to_str().unwrap();
    let done = run(
        dir.path(),
        &["export", "trial", SUBAGENT, "-o", to, "--complete"],
    );
    assert_eq!(done.code, 2);
    for missing in [
        "agent.adapter_revision",
        "environment.tool_versions",
        "inputs.input_files",
    ] {
        assert!(done.err.contains(missing), "{done:?}");
    }
    assert!(!out.exists());
    let record = aec_bench::record(&export_trial(dir.path(), SUBAGENT, &[]));
    assert_eq!(record.experiment_id.0, "default");
    assert_eq!(record.trial_id.0, SUBAGENT);
    assert_eq!(record.completeness, Completeness::Partial);
    assert_eq!(record.evaluation.validity.errors, ["not evaluated"]);
}

#[test]
fn trial_of_schema_2_has_a_manifest() {
    let dir = rich_session::record();
    let out = dir.path().join("ledger");
    let to = out.to_str().unwrap();
    export(dir.path(), &["trial", SESSION, "-o", to, "--schema", "2"]);
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let record = aec_bench::record_2(&read(&out.join("exp_1/trial_1.json")));
    let run = files(&out.join("exp_1/_runs")).remove(0);
    let manifest = aec_bench::manifest(&read(&run));
    assert_eq!(manifest.run_id, record.run_id);
}

#[test]
fn trial_never_leaves_its_directory() {
    for (trial, experiment) in [
        ("../../t", "e"),
        ("t", ".."),
        ("t", "a/b"),
        ("t\0", "e"),
        ("_t", "e"),
    ] {
        let recording = Recording::new();
        recording.run(|| {
            let _run = spans::session_run("ses_t", "agent").start().entered();
            events::trial(trial).experiment_id(experiment).emit();
        });
        let out = recording.dir.path().join("ledger");
        let args = ["export", "trial", "ses_t", "-o", out.to_str().unwrap()];
        let done = run(recording.dir.path(), &args);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.err.contains("can't name a file"), "{done:?}");
        assert!(!out.exists());
    }
}

/// Records a session of one run.
fn trial_session(work: impl FnOnce()) -> tempfile::TempDir {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_t", "agent").start();
        run.in_scope(work);
        run.finish(Outcome::Ok);
    });
    recording.end()
}

#[test]
fn reward_is_forced_to_zero_where_readers_want_it() {
    for (parseable, valid, schema_1, schema_2) in [
        (true, true, 0.5, 0.5),
        (true, false, 0.5, 0.0),
        (false, true, 0.0, 0.0),
    ] {
        let root = trial_session(|| {
            let validity = json!({"output_parseable": parseable, "schema_valid": valid});
            let scores = json!({"reward": 0.5, "validity": validity});
            events::evaluation().scores(scores).emit();
        });
        let record = aec_bench::record(&export_trial(root.path(), "ses_t", &[]));
        let text = export_trial(root.path(), "ses_t", &["--schema", "2"]);
        let record_2 = aec_bench::record_2(&text);
        let rewards = (
            record.evaluation.reward.0,
            record_2.evaluation.unwrap().reward.0,
        );
        assert_eq!(rewards, (schema_1, schema_2), "{parseable} {valid}");
    }
}

#[test]
fn trial_that_goes_on_is_not_finished() {
    let recording = Recording::new();
    recording.run(|| {
        let run = spans::session_run("ses_t", "agent").start();
        run.set("stop_reason", "end_turn");
        run.finish(Outcome::Ok);
    });
    let root = recording.dir.path();
    let first = aec_bench::record_2(&export_trial(root, "ses_t", &["--schema", "2"]));
    assert_eq!(first.execution_status, "completed");
    assert_eq!(
        first.output.agent_result.unwrap()["stop_reason"],
        "end_turn"
    );
    recording.run(|| {
        let _again = spans::session_run("ses_t", "agent").start().entered();
        let text = export_trial(root, "ses_t", &["--schema", "2"]);
        let running = aec_bench::record_2(&text);
        assert_eq!(running.execution_status, "running");
        let out = root.join("ledger");
        let args = ["export", "trial", "ses_t", "--complete", "-o"];
        let done = run(root, &[&args[..], &[out.to_str().unwrap()]].concat());
        assert!(done.err.contains("the end of the run"), "{done:?}");
    });
}

#[test]
fn trial_without_input_files_is_complete() {
    let root = trial_session(|| {
        let files: [&str; 0] = [];
        events::trial("t1")
            .experiment_id("e1")
            .task_id("task")
            .task_revision("r1")
            .harness("tool_loop")
            .adapter_revision("r1")
            .set("input_files", files)
            .emit();
        events::environment()
            .image("python:3.12")
            .backend("local")
            .tool_versions(json!({}))
            .emit();
        drop(spans::model_call("p", "m").start());
        events::message_user("Go.").emit();
        events::evaluation().scores(json!(1.0)).emit();
    });
    let record = aec_bench::record(&export_trial(root.path(), "ses_t", &["--complete"]));
    assert!(record.inputs.input_files.unwrap().is_empty());
}

/// A record's models are closed: a member that doesn't fit makes a reader refuse all of it.
#[test]
fn trial_leaves_out_what_does_not_fit() {
    let root = trial_session(|| {
        // No system prompt.
        events::tool_catalog(json!([{"name": "bash", "schema": {}}])).emit();
        events::trial("t1")
            .set("adapter_revision", 7)
            .set("dataset_id", ["d"])
            .set("config", "fast")
            .adaptation(json!({
                "family_id": "f", "seed_task_id": "s", "variation_key": "k", "more": 1,
                "variation": {"voltage": "400", "load": "2"},
                "derivation_lineage": [
                    {"axis": "voltage", "value": "400", "parent_value": "230", "more": 1},
                    {"axis": "voltage", "value": "400", "parent_value": "110"},
                    {"axis": "load", "value": "3", "parent_value": "2"},
                    {"axis": "load", "value": "2", "parent_value": "2"},
                    {"axis": "other", "value": "2", "parent_value": "1"},
                ],
            }))
            .emit();
        events::input_file("a.csv").set("source", 7).emit();
        let tags = json!([
            {"category": "units", "source": "judge", "more": 1}, {"category": " ", "source": "judge"},
            {"category": "units", "source": "me"}, "units",
        ]);
        let validity = json!({"output_parseable": true, "errors": ["late", 7], "more": 1});
        let confidence = json!({
            "annotator_count": -1, "inter_rater_agreement": 0.5, "confidence_interval": [1, 0],
            "confidence_method": "", "more": 1,
        });
        let scores = json!({"reward": 1, "validity": validity, "error_taxonomy": tags, "confidence": confidence});
        events::evaluation().scores(scores).emit();
        let value = json!({
            "judgment": "pass", "notes": null, "reviewer_discipline": " ", "categories": ["units", 7], "more": 1,
        });
        events::annotation("trial", value).author(" ").emit();
        events::annotation("trial", json!({"stars": 3})).emit();
    });
    for options in [&[][..], &["--schema", "2"]] {
        let text = export_trial(root.path(), "ses_t", options);
        let record: Value = serde_json::from_str(&text).unwrap();
        let mut evaluation = record["evaluation"].clone();
        for review in evaluation["annotations"].as_array_mut().unwrap() {
            review.as_object_mut().unwrap().remove("timestamp");
        }
        let expected = json!({
            "reward": 1.0,
            "validity": {"output_parseable": true, "schema_valid": true, "verifier_completed": true, "errors": ["late"]},
            "error_taxonomy": [{"category": "units", "source": "judge"}],
            "confidence": {"inter_rater_agreement": 0.5},
            "annotations": [
                {"reviewer_id": "unknown", "judgment": "pass", "categories": ["units"]},
                {"reviewer_id": "unknown", "judgment": "defer", "notes": "{\"stars\":3}"},
            ],
        });
        assert_eq!(evaluation, expected);
        if !options.is_empty() {
            aec_bench::record_2(&text);
            continue;
        }
        let read = aec_bench::record(&text);
        assert_eq!(read.inputs.system_prompt, None);
        assert_eq!(read.agent.adapter_revision, None);
        let lineage = read.adaptation.unwrap().derivation_lineage.unwrap();
        assert_eq!(lineage.len(), 1);
        assert_eq!(lineage[0].parent_value.0, "230");
    }
    // Without a text that it must have, there is no adaptation.
    let partly = json!({"family_id": "f", "seed_task_id": "s", "variation": {"a": "b"}});
    let root = trial_session(|| events::trial("t1").adaptation(partly).emit());
    let record = aec_bench::record(&export_trial(root.path(), "ses_t", &[]));
    assert!(record.adaptation.is_none());
}
