//! `prime`: samples of a hosted evaluation, as `prime eval samples` prints them, with the evaluation itself as
//! `prime eval get` prints it. A sample is a session, and has what a partial record of a trial needs.
//!
//! The path is that of the samples, of the evaluation, or of a directory with both: `samples.json` and
//! `evaluation.json`. The evaluation is optional.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::document::{Members, Want, member_names, parse, read_document, read_members};
use super::history::{Fields, History, fields};
use super::lines::file_time;
use super::messages::Messages;
use super::time::{from_seconds, time_of};
use super::{Import, ImportError};
use crate::trace::{Kind, Outcome, time_text};

const EVALUATION: &str = "evaluation.json";
const SAMPLES: &str = "samples.json";
/// The member with the samples.
const LIST: &str = "samples";

/// Whether the document with these members is an evaluation.
pub(super) fn is_evaluation(has: impl Fn(&str) -> bool) -> bool {
    has("evaluation_id") || (has("id") && has("eval_config"))
}

/// The samples, and what is beside them.
fn files(path: &Path) -> (PathBuf, PathBuf) {
    if path.is_dir() {
        return (path.join(SAMPLES), path.join(EVALUATION));
    }
    let names = member_names(path).unwrap_or_default();
    let has = |name: &str| names.iter().any(|known| known == name);
    match !has(LIST) && is_evaluation(has) {
        true => (path.with_file_name(SAMPLES), path.to_owned()),
        false => (path.to_owned(), path.with_file_name(EVALUATION)),
    }
}

pub(super) fn read<'a>(import: &'a Import, path: &Path) -> Result<Vec<History<'a>>, ImportError> {
    let (samples_file, evaluation_file) = files(path);
    let mut document = Document::default();
    read_members(&samples_file, &mut document)?;
    if !document.has_samples {
        return Err(ImportError::new(
            &samples_file,
            "no list `samples` is in it",
        ));
    }
    let document = Value::from(document.members);
    let modified = file_time(&samples_file);
    let evaluation = match evaluation_file.exists() {
        true => read_document(&evaluation_file)?.1,
        false => Value::Null,
    };
    let mut samples = Samples {
        import,
        evaluation: Evaluation::of(&document, &evaluation, &samples_file),
        modified,
        ids: HashSet::new(),
        number: 0,
        written: Vec::new(),
    };
    read_members(&samples_file, &mut samples)?;
    match samples.written.is_empty() {
        true => Err(ImportError::new(&samples_file, "no sample is in it")),
        false => Ok(samples.written),
    }
}

/// The members of the document beside the samples.
#[derive(Default)]
struct Document {
    members: Fields,
    has_samples: bool,
}

impl Members for Document {
    fn want(&mut self, name: &str) -> Want {
        self.has_samples |= name == LIST;
        match name {
            LIST => Want::Nothing,
            _ => Want::Value,
        }
    }

    fn value(&mut self, name: &str, json: &str) -> io::Result<()> {
        self.members.insert(name.to_owned(), parse(json)?);
        Ok(())
    }
}

/// Writes the samples.
struct Samples<'a, 'e> {
    import: &'a Import,
    evaluation: Evaluation<'e>,
    /// The time of a sample that has none.
    modified: u64,
    ids: HashSet<String>,
    number: usize,
    written: Vec<History<'a>>,
}

impl Members for Samples<'_, '_> {
    fn want(&mut self, name: &str) -> Want {
        match name {
            LIST => Want::Items,
            _ => Want::Nothing,
        }
    }

    fn value(&mut self, _: &str, sample: &str) -> io::Result<()> {
        let sample = parse(sample)?;
        self.number += 1;
        let failed = |why: &dyn std::fmt::Display| {
            io::Error::other(format!("sample {}: {why}", self.number))
        };
        let sample = Sample::of(&self.evaluation, &sample, self.modified);
        let sample = sample.map_err(|why| failed(&why))?;
        // A page may repeat samples.
        if self.ids.insert(sample.trial_id.clone()) {
            let history = History::new(self.import, "prime", &sample.trial_id);
            let written = sample.write(history).map_err(|error| failed(&error))?;
            self.written.push(written);
        }
        Ok(())
    }
}

struct Evaluation<'a> {
    id: String,
    model: Option<&'a str>,
    document: &'a Value,
}

impl<'a> Evaluation<'a> {
    fn of(samples: &'a Value, evaluation: &'a Value, path: &Path) -> Self {
        let text = |of: &'a Value, name: &str| of[name].as_str();
        let id = [evaluation, samples]
            .into_iter()
            .find_map(|of| text(of, "evaluation_id").or(text(of, "id")));
        // Without one, the file is named by where it is.
        let dir = path.canonicalize().ok();
        let dir = dir.as_deref().and_then(Path::parent);
        let dir = dir.and_then(|dir| dir.file_name()?.to_str());
        let model = text(evaluation, "model_name")
            .or(text(evaluation, "inference_model"))
            .or(text(&evaluation["metadata"], "model"));
        Self {
            id: id.or(dir).unwrap_or("eval").to_owned(),
            model,
            document: evaluation,
        }
    }
}

/// A sample of either shape.
struct Sample<'a> {
    of: &'a Evaluation<'a>,
    sample: &'a Value,
    trial_id: String,
    reward: Option<f64>,
    started: u64,
}

/// Characters of a trial's id.
fn plain(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    text.chars()
        .map(|c| if plain(c) { c } else { '-' })
        .collect()
}

/// A text, or a number as one.
fn name_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

impl<'a> Sample<'a> {
    fn of(of: &'a Evaluation<'a>, sample: &'a Value, modified: u64) -> Result<Self, String> {
        if !sample.is_object() {
            return Err("not a JSON object".to_owned());
        }
        let rollout = || {
            let (example, rollout) = (name_of(&sample["example_id"])?, &sample["rollout_number"]);
            Some(format!(
                "{example}-{}",
                name_of(rollout).unwrap_or("0".into())
            ))
        };
        let id = name_of(&sample["sample_id"]).or_else(rollout);
        let id = id.ok_or("no `sample_id` and no `example_id`")?;
        let mut sample = Self {
            of,
            sample,
            trial_id: plain(&format!("prime-{}-{id}", of.id)),
            reward: None,
            started: time_of(&sample["created_at"]).unwrap_or(modified),
        };
        let rewards = [
            &sample.sample["reward"],
            &sample.sample["aec_bench_reward"],
            &sample.sample["score"],
            &sample.get("metrics")["aec_bench_reward"],
            &sample.sample["info"]["aec_bench_reward"],
        ];
        let reward = rewards.into_iter().find_map(Value::as_f64);
        if let Some(reward) = reward.filter(|reward| !(0.0..=1.0).contains(reward)) {
            return Err(format!("reward {reward} is not from 0 to 1"));
        }
        sample.reward = reward;
        Ok(sample)
    }

    /// A member that the newest shape has at the top, and the old one in `info`.
    fn get(&self, name: &str) -> &'a Value {
        match self.sample.get(name) {
            None | Some(Value::Null) => &self.sample["info"][name],
            Some(value) => value,
        }
    }

    /// How long a part took: in milliseconds in the old shape, in seconds in the newest one.
    fn length(&self, part: &str) -> Option<u64> {
        let timing = self.get("timing");
        let old = timing[format!("{part}_ms")].as_f64();
        let new = match &timing[part] {
            Value::Object(part) => part.get("duration").and_then(from_seconds),
            seconds => from_seconds(seconds),
        };
        new.or(old
            .filter(|ms| *ms >= 0.0)
            .map(|ms| (ms * 1e6).round() as u64))
    }

    fn write<'h>(&self, mut history: History<'h>) -> io::Result<History<'h>> {
        let model = self.of.model.or(self.sample["model"].as_str());
        history.start_run(
            self.started,
            json!({
                "agent": "prime",
                "model_id": model,
                "external_ids": {"prime": self.sample["sample_id"], "prime_eval": self.of.id},
            }),
        )?;
        self.write_trial(&mut history)?;
        let mut messages = Messages::new(history, self.started, json!({"model_id": model}));
        let said = ["prompt", "completion"].into_iter();
        for message in said.flat_map(|name| spoken(&self.sample[name], name)) {
            messages.add(&message)?;
        }
        let answer = match messages.submitted.take() {
            Some(submitted) => Some(match submitted.get("content") {
                Some(content) => content.clone(),
                None => submitted,
            }),
            None => messages.answer.take().map(Value::from),
        };
        let said = messages.now();
        let mut history = messages.end()?;
        let total = from_seconds(&self.sample["total_time"]).or(self.length("total"));
        let ended = total
            .map_or(said, |ns| self.started.saturating_add(ns))
            .max(said);
        self.write_result(&mut history, ended, answer)?;
        let raw = json!({"evaluation": self.of.document, "sample": self.sample});
        history.keep_source(&raw.to_string())?;
        let error = error_of(self.get("error"));
        let outcome = match (&error, self.get("is_completed").as_bool()) {
            (Some(_), _) => Outcome::Error,
            (None, Some(true)) => Outcome::Ok,
            (None, _) => Outcome::Unset,
        };
        let end = json!({
            "stop_reason": self.get("stop_condition"),
            "usage": usage(self.get("token_usage")),
            "error": error,
        });
        history.end_run(ended, outcome, end)?;
        Ok(history)
    }

    fn write_trial(&self, history: &mut History<'_>) -> io::Result<()> {
        let (info, evaluation) = (&self.sample["info"], self.of.document);
        let data = &info["dataset"];
        let dataset = match (data["name"].as_str(), data["version"].as_str()) {
            (Some(name), Some(version)) => Some(format!("{name}@{version}")),
            _ => None,
        };
        let task = name_of(&info["task_id"]).or(name_of(&self.sample["example_id"]));
        let trial = json!({
            "trial_id": self.trial_id,
            "experiment_id": plain(&format!("prime-{}", self.of.id)),
            "dataset_id": dataset,
            "task_id": task,
            "task_revision": info["task_revision"],
            "instruction": info["instruction"].as_str(),
            "harness": "prime",
            "config": evaluation["eval_config"],
        });
        history.event(Kind::Trial, self.started, trial)?;
        history.event(Kind::Environment, self.started, json!({"backend": "prime"}))
    }

    fn write_result(
        &self,
        history: &mut History<'_>,
        ended: u64,
        answer: Option<Value>,
    ) -> io::Result<()> {
        let output = fields(json!({
            "final": answer,
            "expected": self.sample["answer"],
            "viewer_url": self.of.document["viewer_url"],
        }));
        history.event(Kind::Output, ended, output.into())?;
        let mut start = self.started;
        for (part, name) in [("generation", "agent"), ("scoring", "verification")] {
            let Some(end) = self.length(part).map(|ns| start.saturating_add(ns)) else {
                continue;
            };
            let phase =
                json!({"name": name, "start": time_text(start, 9), "end": time_text(end, 9)});
            history.event(Kind::Phase, ended, phase)?;
            start = end;
        }
        let scores = fields(json!({"reward": self.reward, "breakdown": self.get("metrics")}));
        if scores.is_empty() {
            return Ok(());
        }
        let evaluation = json!({"scores": scores, "author": "prime"});
        history.event(Kind::Evaluation, ended, evaluation)
    }
}

/// The messages of a prompt or a completion. A text is one.
fn spoken(value: &Value, name: &str) -> Vec<Fields> {
    let role = if name == "prompt" {
        "user"
    } else {
        "assistant"
    };
    let message = |text: &Value| fields(json!({"role": role, "content": text}));
    match value {
        Value::String(_) => vec![message(value)],
        Value::Array(list) => list
            .iter()
            .filter_map(|item| match item {
                Value::Object(object) => Some(object.clone()),
                Value::String(_) => Some(message(item)),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// An error: a text, or an object. `verifiers` writes the type as `error` and the message with its causes as
/// `error_chain_str`.
fn error_of(error: &Value) -> Option<Value> {
    let first = |names: &[&str]| {
        let mut names = names.iter();
        names.find_map(|name| error[name].as_str())
    };
    match error {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        Value::Object(members) if members.is_empty() => None,
        Value::Object(_) => Some(json!({
            "error_type": first(&["error_type", "type", "error"]),
            "message": first(&["message", "error_chain_str"]),
            "details": error,
        })),
        other => Some(json!({"message": other.as_str().map_or(other.to_string(), String::from)})),
    }
}

fn usage(given: &Value) -> Option<Fields> {
    let count = |names: [&str; 2]| names.into_iter().find_map(|name| given[name].as_f64());
    let whole = |number: f64| number.round() as u64;
    given.is_object().then(|| {
        fields(json!({
            "input_tokens": count(["input_tokens", "prompt_tokens"]).map(whole),
            "output_tokens": count(["output_tokens", "completion_tokens"]).map(whole),
            "total_tokens": count(["total_tokens", "total"]).map(whole),
        }))
    })
}
