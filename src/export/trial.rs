//! `trial`: a TrialRecord of aec-bench for each session, `<experiment>/<trial>.json`. A record is written once.

mod record;

use std::io;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::feed::Fed;
use super::values::{is_ok, object, text_of};
use super::{Exporter, Options, Rows, TrialSchema};
use crate::session::{Item, Node, NodeState, Role, Summary};
use crate::trace::typed::{Annotation, Evaluation, InputFile, Phase, Trial as TrialEvent};
use crate::trace::{RawLine, Usage, parse_time, time_text};

const UNKNOWN: &str = "unknown";
/// A longer name is no file name.
const NAME_BYTES: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Trial {
    options: Options,
    summary: Summary,
    trial: Map<String, Value>,
    environment: Map<String, Value>,
    input_files: Option<Vec<Value>>,
    instruction: Option<String>,
    system_prompt: Option<String>,
    output: Map<String, Value>,
    evaluation: Option<Map<String, Value>>,
    annotations: Vec<Value>,
    /// Seconds, by phase.
    phases: Map<String, Value>,
    run_ns: u64,
    /// When the last run ended.
    ended_at: u64,
    /// The commit of the working directory, if it had no other changes.
    commit: Option<String>,
    advisor: Option<(u64, Usage)>,
    /// How the last run ended.
    ended: Option<(bool, String)>,
}

impl Trial {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }
}

impl Exporter for Trial {
    fn line(&mut self, line: &RawLine<'_>, _: &mut Rows) -> bool {
        self.summary.take(line);
        true
    }

    fn add(&mut self, fed: &Fed, _: &mut Rows) {
        let node = &fed.node;
        let closed = node.state == NodeState::Closed;
        match node.item() {
            Item::Trial(trial) => self.trial(node, &trial),
            Item::SegmentHeader(header) => {
                let git = header.process().and_then(|process| process.get("git"));
                let clean =
                    git.filter(|git| git.get("dirty").and_then(|dirty| dirty.bool()) != Some(true));
                let commit = clean.and_then(|git| git.get("commit")?.text());
                self.commit = commit.map(String::from).or(self.commit.take());
            }
            Item::Environment(_) => self.environment.extend(members(node)),
            Item::InputFile(file) => self
                .input_files
                .get_or_insert_default()
                .push(input_file(&file)),
            Item::Output(_) => self.output.extend(members(node)),
            Item::Evaluation(evaluation) => self.evaluation = Some(evaluated(&evaluation)),
            Item::Annotation(annotation) => self.annotations.push(annotated(node, &annotation)),
            Item::Phase(phase) => self.phases.extend(seconds(&phase)),
            Item::Message(_) if node.role() == Some(Role::User) && self.instruction.is_none() => {
                self.instruction = node.content().map(String::from);
            }
            Item::ContextAsset(asset) if self.system_prompt.is_none() => {
                self.system_prompt = asset.body().map(text_of);
            }
            Item::ModelCall(call) if closed && call.purpose().as_deref() == Some("advisor") => {
                let (calls, usage) = self.advisor.get_or_insert_default();
                *calls += 1;
                usage.add(&call.usage().unwrap_or_default());
            }
            Item::Run(_) if closed && node.span_id == fed.run => {
                self.run_ns += node.duration.unwrap_or(0);
                self.ended_at = self.ended_at.max(node.end());
                let outcome = node.outcome_name().unwrap_or_default();
                self.ended = Some((is_ok(node), outcome.into_owned()));
            }
            _ => {}
        }
    }

    fn end(&mut self, rows: &mut Rows) {
        let trial_id = text(&self.trial, "trial_id", &self.summary.session_id);
        let experiment = text(&self.trial, "experiment_id", "default");
        let missing = self.missing();
        if self.options.complete && !missing.is_empty() {
            let missing = missing.join(", ");
            return rows.refuse(io::Error::other(format!(
                "trial {trial_id} is not complete: {missing} missing"
            )));
        }
        for name in [&experiment, &trial_id] {
            if !is_file_name(name) {
                return rows.refuse(io::Error::other(format!(
                    "{name:?} can't name a file of a trial"
                )));
            }
        }
        let file = format!("{experiment}/{trial_id}.json");
        if self.options.trial_schema != TrialSchema::V2 {
            return rows.create(file, &self.record(&trial_id, &experiment));
        }
        rows.create(file, &self.record_2(&trial_id));
        let run = crate::trace::hex(&Sha256::digest(self.summary.session_id.as_bytes()));
        rows.create(
            format!("{experiment}/_runs/{run}.json"),
            &self.manifest(&experiment),
        );
    }
}

/// Whether a name leads nowhere else, and is a record's to aec-bench: it passes over names with `_`.
fn is_file_name(name: &str) -> bool {
    let safe = |c: char| c != '/' && c != '\\' && !c.is_control();
    !name.is_empty()
        && name.len() <= NAME_BYTES
        && !name.starts_with(['.', '_'])
        && name.chars().all(safe)
}

fn text(of: &Map<String, Value>, name: &str, default: &str) -> String {
    let known = of
        .get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.trim().is_empty());
    known.unwrap_or(default).to_owned()
}

fn members(node: &Node) -> Map<String, Value> {
    match node.payload_json() {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn input_file(file: &InputFile<'_>) -> Value {
    let hash = file.sha256().filter(|hash| !hash.is_empty());
    json!({"path": file.path(), "hash": hash.unwrap_or(UNKNOWN.into())})
}

/// The seconds of a phase, by the name that a record has for it.
fn seconds(phase: &Phase<'_>) -> Option<(String, Value)> {
    let time = |text: Option<std::borrow::Cow<'_, str>>| parse_time(&text?);
    let (start, end) = (time(phase.start())?, time(phase.end())?);
    let name = phase.name()?;
    let known = ["agent", "setup", "verification"].contains(&name.as_ref());
    let seconds = end.saturating_sub(start) as f64 / 1e9;
    known.then(|| (format!("{name}_seconds"), seconds.into()))
}

/// A grade in the form of a record. Scores that it has no member for are its breakdown.
fn evaluated(evaluation: &Evaluation<'_>) -> Map<String, Value> {
    let given = evaluation.scores().and_then(|scores| scores.value());
    let mut scores = match given.unwrap_or_default() {
        Value::Object(scores) => scores,
        reward => Map::from_iter([("reward".to_owned(), reward)]),
    };
    let mut take = |name: &str| scores.remove(name).unwrap_or_default();
    let reward = take("reward").as_f64();
    let reward = reward.filter(|reward| (0.0..=1.0).contains(reward));
    let given = take("validity");
    let check = |name: &str| {
        given
            .get(name)
            .and_then(Value::as_bool)
            .unwrap_or(reward.is_some())
    };
    let (parseable, valid) = (check("output_parseable"), check("schema_valid"));
    let none = json!(["no reward from 0 to 1 was recorded"]);
    let errors = given
        .get("errors")
        .filter(|errors| errors.is_array())
        .cloned();
    let errors = errors.unwrap_or(if reward.is_some() { json!([]) } else { none });
    let mut out = Map::from_iter([
        // An output that can't be read has earned nothing.
        (
            "reward".to_owned(),
            json!(reward.filter(|_| parseable && valid).unwrap_or(0.0)),
        ),
        (
            "validity".to_owned(),
            json!({
                "output_parseable": parseable,
                "schema_valid": valid,
                "verifier_completed": check("verifier_completed"),
                "errors": errors,
            }),
        ),
    ]);
    let (taxonomy, confidence, breakdown) = (
        take("error_taxonomy"),
        take("confidence"),
        take("breakdown"),
    );
    if taxonomy.is_array() {
        out.insert("error_taxonomy".into(), taxonomy);
    }
    if confidence.is_object() {
        out.insert("confidence".into(), confidence);
    }
    if let Value::Object(breakdown) = breakdown {
        scores.extend(breakdown);
    }
    if !scores.is_empty() {
        out.insert("breakdown".into(), scores.into());
    }
    out
}

fn annotated(node: &Node, annotation: &Annotation<'_>) -> Value {
    let value = annotation.value();
    let words = value.and_then(|value| {
        value
            .get("judgment")
            .and_then(|word| word.text())
            .or_else(|| value.text())
    });
    let judgment = words.filter(|word| ["pass", "fail", "defer"].contains(&word.as_ref()));
    let mut out = json!({
        "reviewer_id": annotation.author().unwrap_or(UNKNOWN.into()),
        "timestamp": time_text(node.start, 6),
        "judgment": judgment.unwrap_or("defer".into()),
    });
    // An annotation of a record has its notes in a member; of any other, all of it is a note.
    let member = |name: &str| value.and_then(|value| value.get(name));
    let is_record = member("judgment").is_some();
    let notes = if is_record { member("notes") } else { value };
    if let Some(notes) = notes {
        out["notes"] = text_of(notes).into();
    }
    if let Some(discipline) = member("reviewer_discipline").filter(|_| is_record) {
        out["reviewer_discipline"] = text_of(discipline).into();
    }
    let categories = member("categories").and_then(|list| list.value());
    let is_text = |list: &Value| {
        list.as_array()
            .is_some_and(|list| list.iter().all(Value::is_string))
    };
    if let Some(categories) = categories.filter(is_text).filter(|_| is_record) {
        out["categories"] = categories;
    }
    out
}

impl Trial {
    fn trial(&mut self, node: &Node, trial: &TrialEvent<'_>) {
        self.trial.extend(members(node));
        let adaptation = trial.adaptation().and_then(object);
        self.trial.insert(
            "adaptation".into(),
            adaptation.map_or(Value::Null, Value::Object),
        );
    }

    /// What a complete record has to have and this session lacks.
    fn missing(&self) -> Vec<&'static str> {
        let of_trial = [
            ("trial_id", "trial_id"),
            ("experiment_id", "experiment_id"),
            ("task_id", "task.task_id"),
            ("task_revision", "task.task_revision"),
            ("harness", "agent.adapter"),
            ("adapter_revision", "agent.adapter_revision"),
        ];
        let of_environment = [
            ("image", "environment.runtime_image"),
            ("backend", "environment.compute_backend"),
        ];
        let lacks = |of: &Map<String, Value>, name: &str| text(of, name, "").is_empty();
        let trial = of_trial
            .into_iter()
            .filter(|(name, _)| lacks(&self.trial, name));
        let environment = of_environment
            .into_iter()
            .filter(|(name, _)| lacks(&self.environment, name));
        let rest = [
            (self.summary.model_id.is_none(), "agent.model"),
            (
                !self
                    .environment
                    .get("tool_versions")
                    .is_some_and(Value::is_object),
                "environment.tool_versions",
            ),
            (self.input_files.is_none(), "inputs.input_files"),
            (self.instruction.is_none(), "inputs.instruction"),
            (self.evaluation.is_none(), "evaluation"),
            (self.ended.is_none(), "the end of the run"),
        ];
        let rest = rest
            .into_iter()
            .filter_map(|(missing, name)| missing.then_some(name));
        trial
            .chain(environment)
            .map(|(_, name)| name)
            .chain(rest)
            .collect()
    }
}
