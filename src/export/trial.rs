//! `trial`: a TrialRecord of aec-bench for each session, `<experiment>/<trial>.json`. A record is written once.

mod grade;
mod record;

use std::collections::HashSet;
use std::io;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::feed::Fed;
use super::values::{is_ok, object, text_of};
use super::{Exporter, Options, Rows, TrialSchema};
use crate::session::{Item, Node, NodeState, Role, Summary};
use crate::trace::typed::{InputFile, Phase, Trial as TrialEvent};
use crate::trace::{Kind, RawLine, Usage, parse_time};

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
    /// How the last run ended. None while one is open.
    ended: Option<Ended>,
}

/// The end of a run.
#[derive(Debug)]
struct Ended {
    is_ok: bool,
    outcome: String,
    stop_reason: Option<String>,
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
            Item::InputFile(file) => {
                let files = self.input_files.get_or_insert_default();
                files.extend(input_file(node, &file));
            }
            Item::Output(_) => self.output.extend(members(node)),
            Item::Evaluation(evaluation) => {
                self.evaluation = Some(grade::of(&evaluation, self.options.trial_schema));
            }
            Item::Annotation(annotation) => self.annotations.push(grade::review(node, &annotation)),
            Item::Phase(phase) => self.phases.extend(seconds(&phase)),
            Item::Message(_) if node.role() == Some(Role::User) && self.instruction.is_none() => {
                self.instruction = node.content().map(String::from);
            }
            Item::ContextAsset(asset)
                if node.kind == Kind::SystemPrompt && self.system_prompt.is_none() =>
            {
                self.system_prompt = asset.body().map(text_of);
            }
            Item::ModelCall(call) if closed && call.purpose().as_deref() == Some("advisor") => {
                let (calls, usage) = self.advisor.get_or_insert_default();
                *calls += 1;
                usage.add(&call.usage().unwrap_or_default());
            }
            Item::Run(_) if node.span_id == fed.run => self.run(node, closed),
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
    of.get(name).and_then(filled).unwrap_or(default).to_owned()
}

fn members(node: &Node) -> Map<String, Value> {
    match node.payload_json() {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// A text that is not blank.
fn filled(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.trim().is_empty())
}

/// A file, unless it has no path.
fn input_file(node: &Node, file: &InputFile<'_>) -> Option<Value> {
    let path = file.path().filter(|path| !path.trim().is_empty())?;
    let hash = file.sha256().filter(|hash| !hash.trim().is_empty());
    let mut out = json!({"path": path, "hash": hash.unwrap_or(UNKNOWN.into())});
    if let Some(source) = node.get("source").and_then(|source| source.text()) {
        out["source"] = source.into();
    }
    Some(out)
}

/// An adaptation as far as a record can have it: without one of its required texts there is none.
fn adaptation(given: &Map<String, Value>) -> Option<Value> {
    let variation = given.get("variation")?.as_object()?;
    let is_text =
        |(axis, value): (&String, &Value)| !axis.trim().is_empty() && filled(value).is_some();
    if variation.is_empty() || !variation.iter().all(is_text) {
        return None;
    }
    let mut out = json!({"variation": variation});
    for name in ["family_id", "seed_task_id", "variation_key"] {
        out[name] = filled(given.get(name)?)?.into();
    }
    let mut axes = HashSet::new();
    let mut step = |step: &Value| {
        let [axis, value, parent] =
            ["axis", "value", "parent_value"].map(|name| filled(&step[name]));
        let (axis, value, parent) = (axis?, value?, parent?);
        let fits = variation.get(axis)? == value && value != parent && axes.insert(axis.to_owned());
        fits.then(|| json!({"axis": axis, "value": value, "parent_value": parent}))
    };
    if let Some(Value::Array(lineage)) = given.get("derivation_lineage") {
        out["derivation_lineage"] = lineage.iter().filter_map(&mut step).collect();
    }
    Some(out)
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

impl Trial {
    fn trial(&mut self, node: &Node, trial: &TrialEvent<'_>) {
        self.trial.extend(members(node));
        let given = trial.adaptation().and_then(object);
        let adaptation = given.and_then(|given| adaptation(&given));
        self.trial
            .insert("adaptation".into(), adaptation.unwrap_or_default());
        // A session without input files says so here.
        if self.trial.get("input_files") == Some(&json!([])) {
            self.input_files.get_or_insert_default();
        }
    }

    fn run(&mut self, node: &Node, closed: bool) {
        self.ended = closed.then(|| Ended {
            is_ok: is_ok(node),
            outcome: node.outcome_name().unwrap_or_default().into_owned(),
            stop_reason: node
                .get("stop_reason")
                .and_then(|reason| Some(reason.text()?.into_owned())),
        });
        if closed {
            self.run_ns += node.duration.unwrap_or(0);
            self.ended_at = self.ended_at.max(node.end());
        }
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
            (
                self.input_files.is_none(),
                "inputs.input_files (if there are none, `input_files: []` in the trial event)",
            ),
            (self.instruction().is_none(), "inputs.instruction"),
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
