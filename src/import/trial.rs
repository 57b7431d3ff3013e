//! `trial`: TrialRecords of aec-bench, in both schemas. A record has sums and no steps, so its session has one
//! turn, and one of its model calls has the tokens of all.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::document::read_document;
use super::history::{Fields, History, fields};
use super::time::{from_seconds, time_of};
use super::{Import, ImportError};
use crate::trace::{Kind, Outcome, SpanKind, hex_digest, time_text};

/// More model calls than that are not believed.
const MOST_CALLS: u64 = 100_000;

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let files = match path.is_dir() {
        true => records(path)?,
        false => vec![path.to_owned()],
    };
    if files.is_empty() {
        return Err(ImportError::new(path, "no record is in it"));
    }
    let histories = files.iter().map(|file| {
        let (text, record) = read_document(file)?;
        let trial = Trial::of(file, &record).map_err(|why| ImportError::new(file, why))?;
        let id = trial.session_id();
        let written = trial.write(History::new(import, "trial", &id), &text);
        written.map_err(|error| ImportError::new(file, error))
    });
    histories.collect()
}

/// The records of a ledger. What is below a name with `_` is none.
fn records(dir: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let entries = std::fs::read_dir(dir).and_then(Iterator::collect);
    let entries: Vec<_> = entries.map_err(|error| ImportError::new(dir, error))?;
    let mut files = Vec::new();
    for entry in entries {
        let (name, path) = (entry.file_name(), entry.path());
        let kind = entry.file_type().ok();
        if name.as_encoded_bytes().starts_with(b"_") {
            continue;
        }
        if kind.is_some_and(|kind| kind.is_dir()) {
            files.extend(records(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A record, in the form of schema 1.
struct Trial<'a> {
    trial_id: &'a str,
    experiment_id: String,
    record: &'a Value,
    /// What the trials of a run share in schema 2.
    manifest: Value,
    started: u64,
    ended: u64,
    outcome: Outcome,
}

impl<'a> Trial<'a> {
    fn of(path: &Path, record: &'a Value) -> Result<Self, String> {
        let text = |name: &str| {
            let text = record[name].as_str().filter(|text| !text.trim().is_empty());
            text.ok_or_else(|| format!("no text `{name}` is in the record"))
        };
        let version = &record["schema_version"];
        let is_v2 = *version == 2;
        if !(is_v2 || version.is_null() || *version == 1) {
            return Err(format!("schema_version {version}; 1 and 2 can be imported"));
        }
        let manifest = match is_v2 {
            true => manifest(path, text("run_id")?),
            false => Value::Null,
        };
        let experiment_id = match is_v2 {
            false => text("experiment_id")?.to_owned(),
            true => experiment(path, &manifest),
        };
        let (time, total) = match is_v2 {
            true => ("started_at", &record["timing"]["total_seconds"]),
            false => ("timestamp", &record["timing"]["total_seconds"]),
        };
        let started = time_of(&record[time]).ok_or_else(|| format!("`{time}` is no time"))?;
        let ended = time_of(&record["completed_at"]);
        let ended = ended.or_else(|| started.checked_add(from_seconds(total)?));
        let mut trial = Self {
            trial_id: text("trial_id")?,
            experiment_id,
            record,
            manifest,
            started,
            ended: ended.unwrap_or(started).max(started),
            outcome: Outcome::Unset,
        };
        trial.outcome = trial.ended_as();
        Ok(trial)
    }

    fn output(&self) -> &Value {
        match self.record.get("outputs") {
            Some(outputs) => outputs,
            None => &self.record["output"],
        }
    }

    fn input(&self) -> &Value {
        match self.record.get("inputs") {
            Some(inputs) => inputs,
            None => &self.record["input"],
        }
    }

    fn agent(&self) -> &Value {
        match self.record.get("agent") {
            Some(agent) => agent,
            None => &self.manifest["agent"],
        }
    }

    fn ended_as(&self) -> Outcome {
        let result = &self.output()["agent_result"];
        if let Some(outcome) = result["outcome"].as_str().and_then(Outcome::parse) {
            return outcome;
        }
        let status = &self.output()["agent_output"]["status"];
        let status = self.record["execution_status"].as_str().or(status.as_str());
        match status {
            Some("completed") => Outcome::Ok,
            Some("failed" | "invalid") => Outcome::Error,
            Some("cancelled") => Outcome::Cancelled,
            _ => Outcome::Unset,
        }
    }

    /// The session of a record that was exported from here, or a name made from the record.
    fn session_id(&self) -> String {
        let result = &self.output()["agent_result"];
        match result["session_id"].as_str() {
            Some(id) if result["recorder"] == "spanledger" => id.to_owned(),
            // As in a ledger, where a record is a file in the directory of its experiment.
            _ => format!("trial-{}/{}", self.experiment_id, self.trial_id),
        }
    }

    fn write<'h>(&self, mut history: History<'h>, text: &str) -> io::Result<History<'h>> {
        let agent = self.agent();
        let provider = known(&self.manifest["provider_route"]["provider"]);
        history.start_run(
            self.started,
            json!({
                "agent": known(&agent["adapter"]).unwrap_or("trial"),
                "provider_id": provider,
                "model_id": known(&agent["model"]),
            }),
        )?;
        self.write_trial(&mut history)?;
        self.write_input(&mut history)?;
        self.write_calls(&mut history, provider)?;
        self.write_output(&mut history)?;
        self.write_phases(&mut history)?;
        self.write_evaluation(&mut history)?;
        let manifest = match &self.manifest {
            Value::Null => String::new(),
            manifest => format!("\n{manifest}"),
        };
        history.keep_source(&format!("{text}{manifest}"))?;
        let message = &self.output()["agent_output"]["error_message"];
        let error = message.as_str().map(|message| json!({"message": message}));
        let stop_reason = self.output()["agent_result"]["stop_reason"].as_str();
        let end = json!({"error": error, "stop_reason": stop_reason});
        history.end_run(self.ended, self.outcome, end)?;
        Ok(history)
    }

    fn write_trial(&self, history: &mut History<'_>) -> io::Result<()> {
        let (record, agent) = (self.record, self.agent());
        let task = match record.get("task") {
            Some(task) => (known(&task["task_id"]), known(&task["task_revision"])),
            None => (
                known(&record["task_id"]),
                known(&self.input()["task_revision"]),
            ),
        };
        let trial = json!({
            "trial_id": self.trial_id,
            "experiment_id": self.experiment_id,
            "dataset_id": record["dataset_id"],
            "task_id": task.0,
            "task_revision": task.1,
            "harness": known(&agent["adapter"]),
            "adapter_revision": agent["adapter_revision"],
            "config": agent["configuration"],
            "adaptation": record["adaptation"],
            // Files have events of their own.
            "input_files": Some(&self.input()["input_files"]).filter(|files| **files == json!([])),
        });
        history.event(Kind::Trial, self.started, trial)?;
        let environment = match record.get("environment") {
            Some(environment) => environment,
            None => &self.manifest["execution_environment"],
        };
        let environment = fields(json!({
            "image": known(&environment["runtime_image"]),
            "backend": known(&environment["compute_backend"]),
            "tool_versions": environment["tool_versions"],
        }));
        if environment.is_empty() {
            return Ok(());
        }
        history.event(Kind::Environment, self.started, environment.into())
    }

    fn write_input(&self, history: &mut History<'_>) -> io::Result<()> {
        let input = self.input();
        for file in input["input_files"].as_array().into_iter().flatten() {
            let hash = known(&file["hash"]).or(known(&file["sha256"]));
            let file = json!({"path": file["path"], "sha256": hash, "source": file["source"]});
            history.event(Kind::InputFile, self.started, file)?;
        }
        if let Some(prompt) = input["system_prompt"].as_str() {
            history.system_prompt(self.started, prompt)?;
        }
        history.start_turn(self.started, Outcome::Unset)?;
        match known(&input["instruction"]) {
            Some(text) => history.event(Kind::MessageUser, self.started, json!({"content": text})),
            None => Ok(()),
        }
    }

    /// The model calls: their number where the record has it, and their tokens on the first one.
    fn write_calls(&self, history: &mut History<'_>, provider: Option<&str>) -> io::Result<()> {
        let cost = &self.record["cost"];
        let count = |name: &str| cost[name].as_u64();
        let advised = count("advisor_calls").unwrap_or(0);
        let (input, output) = (
            count("advisor_input_tokens"),
            count("advisor_output_tokens"),
        );
        let without = |all: Option<u64>, part: Option<u64>| {
            all.map(|all| all.checked_sub(part.unwrap_or(0)).unwrap_or(all))
        };
        let usage = fields(json!({
            "input_tokens": without(count("tokens_in"), input),
            "output_tokens": without(count("tokens_out"), output),
            "cache_read_tokens": count("cache_read_tokens"),
            "cache_write_tokens": count("cache_write_tokens"),
            "cost_usd": cost["estimated_cost_usd"],
        }));
        let advice = fields(json!({"input_tokens": input, "output_tokens": output}));
        let least = u64::from(!usage.is_empty());
        let calls = count("model_calls").map_or(least, |all| all.saturating_sub(advised));
        if calls > MOST_CALLS || advised > MOST_CALLS {
            let why = format!("more than {MOST_CALLS} model calls");
            return Err(io::Error::other(why));
        }
        let model = known(&self.agent()["model"]);
        for (purpose, calls, usage) in [("main", calls, usage), ("advisor", advised, advice)] {
            for n in 0..calls {
                let usage = Some(&usage).filter(|usage| n == 0 && !usage.is_empty());
                let call = json!({"provider_id": provider, "model_id": model, "purpose": purpose});
                let mut closed = call.clone();
                closed["usage"] = json!(usage);
                let key = format!("{purpose} {n}");
                let span = history.open(SpanKind::Model, &key, self.started, call)?;
                history.close(span, self.ended, Outcome::Unset, closed)?;
            }
        }
        Ok(())
    }

    fn write_output(&self, history: &mut History<'_>) -> io::Result<()> {
        let Some(Value::Object(result)) = self.output().get("agent_result") else {
            return self.write_files(history, Fields::new());
        };
        let output = fields(json!({"final": result.get("final"), "raw": result.get("raw")}));
        let mut rest = result.clone();
        if rest.remove("recorder").is_some() {
            // Written here; the session has it.
            rest.clear();
        }
        rest.retain(|name, _| !matches!(name.as_str(), "final" | "raw"));
        let mut output = output;
        if !rest.is_empty() {
            output.insert("agent_result".into(), rest.into());
        }
        self.write_files(history, output)
    }

    /// The output, with the files that the record names.
    fn write_files(&self, history: &mut History<'_>, mut output: Fields) -> io::Result<()> {
        for (name, value) in self.output().as_object().into_iter().flatten() {
            if name != "agent_result" && !value.is_null() {
                output.insert(name.clone(), value.clone());
            }
        }
        if output.is_empty() {
            return Ok(());
        }
        history.event(Kind::Output, self.ended, output.into())
    }

    /// Setup, work and verification, one after the other.
    fn write_phases(&self, history: &mut History<'_>) -> io::Result<()> {
        let mut start = self.started;
        for name in ["setup", "agent", "verification"] {
            let length = &self.record["timing"][format!("{name}_seconds")];
            let Some(end) = from_seconds(length).and_then(|ns| start.checked_add(ns)) else {
                continue;
            };
            let phase =
                json!({"name": name, "start": time_text(start, 9), "end": time_text(end, 9)});
            history.event(Kind::Phase, self.ended, phase)?;
            start = end;
        }
        Ok(())
    }

    fn write_evaluation(&self, history: &mut History<'_>) -> io::Result<()> {
        let Some(Value::Object(evaluation)) = self.record.get("evaluation") else {
            return Ok(());
        };
        let mut scores = evaluation.clone();
        let annotations = scores.remove("annotations").unwrap_or_default();
        let errors = &self.record["evaluation"]["validity"]["errors"];
        if *errors != json!(["not evaluated"]) {
            let evaluation = json!({"scores": scores});
            history.event(Kind::Evaluation, self.ended, evaluation)?;
        }
        for annotation in annotations.as_array().into_iter().flatten() {
            let time = time_of(&annotation["timestamp"]).unwrap_or(self.ended);
            let mut value = fields(annotation.clone());
            let author = value.remove("reviewer_id");
            value.remove("timestamp");
            let annotation = json!({"target": "trial", "value": value, "author": author});
            history.event(Kind::Annotation, time, annotation)?;
        }
        Ok(())
    }
}

/// A text, unless it stands for one that is not known.
fn known(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| *text != "unknown")
}

/// The manifest of a run, beside the record.
fn manifest(path: &Path, run: &str) -> Value {
    let name = format!("{}.json", hex_digest(run.as_bytes()));
    let file = path.with_file_name("_runs").join(name);
    read_document(&file).map_or(Value::Null, |(_, manifest)| manifest)
}

/// The experiment of a record of schema 2: its manifest's, or the directory's name.
fn experiment(path: &Path, manifest: &Value) -> String {
    let path = path.canonicalize().ok();
    let dir = path.as_deref().and_then(Path::parent);
    let name = dir.and_then(|dir| dir.file_name()?.to_str());
    let known = manifest["experiment_id"].as_str().or(name);
    known.unwrap_or("default").to_owned()
}
