//! Trajectories and TrialRecords as aec-bench reads them: its models are closed, and it cuts lines as Python does.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The lines of a text as Python's `splitlines` cuts them.
pub fn python_lines(text: &str) -> Vec<&str> {
    let cuts = |c| {
        matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}')
            || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    text.split_terminator(cuts).collect()
}

/// The entries of a trajectory, without its header.
#[track_caller]
pub fn trajectory(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for line in python_lines(text) {
        let row: Value = read(line);
        if row.get("version").is_none() || row.get("format").is_none() {
            entries.push(read(line));
        }
    }
    entries
}

#[track_caller]
fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A record of schema 1.
#[track_caller]
pub fn record(text: &str) -> Record {
    let record: Record = read(text);
    let validity = &record.evaluation.validity;
    let reward = record.evaluation.reward.0;
    assert!(validity.output_parseable || reward == 0.0, "{text}");
    if record.completeness == Completeness::Complete {
        assert!(record.agent.adapter_revision.is_some(), "{text}");
        assert!(record.environment.tool_versions.is_some(), "{text}");
        assert!(record.inputs.input_files.is_some(), "{text}");
    }
    record.adaptation.iter().for_each(Adaptation::check);
    record
}

/// A record of schema 2.
#[track_caller]
pub fn record_2(text: &str) -> Record2 {
    let record: Record2 = read(text);
    assert_eq!(record.schema_version, 2);
    let is_over = !matches!(record.execution_status.as_str(), "planned" | "running");
    assert_eq!(is_over, record.completed_at.is_some(), "{text}");
    if let Some(end) = &record.completed_at {
        let length = end.0.duration_since(record.started_at.0).as_secs_f64();
        let difference = (length - record.timing.total_seconds.0).abs();
        assert!(difference <= 0.001, "{text}");
    }
    let is_graded = record.evaluation_status == "completed";
    assert_eq!(is_graded, record.evaluation.is_some(), "{text}");
    if let Some(evaluation) = &record.evaluation {
        let validity = &evaluation.validity;
        let is_valid = validity.output_parseable && validity.schema_valid;
        assert!(is_valid || evaluation.reward.0 == 0.0, "{text}");
    }
    record
}

/// The manifest of a run, in schema 2.
#[track_caller]
pub fn manifest(text: &str) -> Manifest {
    read(text)
}

/// A text that is not blank.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct Filled(pub String);

impl TryFrom<String> for Filled {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.trim().is_empty() {
            true => Err("a blank text"),
            false => Ok(Self(text)),
        }
    }
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "f64")]
pub struct Fraction(pub f64);

impl TryFrom<f64> for Fraction {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        let inside = (0.0..=1.0).contains(&number);
        inside.then_some(Self(number)).ok_or("not from 0 to 1")
    }
}

/// A number that is not negative.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "f64")]
pub struct Amount(pub f64);

impl TryFrom<f64> for Amount {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        (number >= 0.0).then_some(Self(number)).ok_or("negative")
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Time(pub jiff::Timestamp);

impl TryFrom<String> for Time {
    type Error = jiff::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Completeness {
    Complete,
    Partial,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Judgment {
    Pass,
    Fail,
    Defer,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ErrorSource {
    Mechanical,
    Human,
    Judge,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum CallType {
    Warmup,
    Main,
    Subagent,
}

macro_rules! closed {
    ($($name:ident { $($field:ident: $type:ty),* $(,)? })*) => { $(
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $(pub $field: $type),* }
    )* };
}

closed! {
    Entry {
        step: u64, role: String, content: Option<String>, tool_name: Option<String>, command: Option<String>,
        arguments: Option<Map<String, Value>>, stdout: Option<String>, stderr: Option<String>, exit_code: Option<i64>,
        duration_ms: Option<i64>, media: Option<Vec<String>>, metadata: Option<Map<String, Value>>,
        call_type: Option<CallType>, output_summary: Option<String>, timestamp: Option<String>,
    }
    Record {
        trial_id: Filled, experiment_id: Filled, dataset_id: Option<String>, timestamp: Time, task: Task, agent: Agent,
        environment: Environment, inputs: Inputs, outputs: Outputs, evaluation: Evaluation, timing: Timing,
        cost: Option<Cost>, adaptation: Option<Adaptation>, completeness: Completeness,
    }
    Task { task_id: Filled, task_revision: Filled }
    Agent {
        adapter: Filled, model: Filled, adapter_revision: Option<Filled>, configuration: Option<Map<String, Value>>,
    }
    Environment {
        runtime_image: Filled, compute_backend: Filled, tool_versions: Option<BTreeMap<String, String>>,
    }
    Inputs { instruction: Filled, system_prompt: Option<String>, input_files: Option<Vec<File>> }
    File { path: Filled, hash: Filled, source: Option<String> }
    Outputs { agent_result: Option<Map<String, Value>> }
    Evaluation {
        reward: Fraction, validity: Validity, breakdown: Option<Map<String, Value>>, error_taxonomy: Option<Vec<ErrorTag>>,
        confidence: Option<Confidence>, annotations: Option<Vec<Annotation>>,
    }
    Validity { output_parseable: bool, schema_valid: bool, verifier_completed: bool, errors: Vec<String> }
    ErrorTag { category: Filled, description: Option<String>, source: ErrorSource }
    Confidence {
        annotator_count: Option<u64>, inter_rater_agreement: Option<Fraction>, confidence_interval: Option<(f64, f64)>,
        confidence_method: Option<Filled>,
    }
    Annotation {
        reviewer_id: Filled, reviewer_discipline: Option<Filled>, timestamp: Time, judgment: Judgment,
        categories: Option<Vec<String>>, notes: Option<String>,
    }
    Timing {
        total_seconds: Amount, agent_seconds: Option<Amount>, setup_seconds: Option<Amount>,
        verification_seconds: Option<Amount>,
    }
    Cost {
        tokens_in: Option<u64>, tokens_out: Option<u64>, cache_read_tokens: Option<u64>, cache_write_tokens: Option<u64>,
        estimated_cost_usd: Option<Amount>, advisor_calls: Option<u64>, advisor_input_tokens: Option<u64>,
        advisor_output_tokens: Option<u64>,
    }
    Adaptation {
        family_id: Filled, seed_task_id: Filled, variation_key: Filled, variation: BTreeMap<String, Filled>,
        derivation_lineage: Option<Vec<Step>>,
    }
    Step { axis: Filled, value: Filled, parent_value: Filled }
    Record2 {
        schema_version: u8, trial_id: Filled, run_id: Filled, task_id: Filled, attempt: u32, execution_status: String,
        evaluation_status: String, evidence_status: String, started_at: Time, completed_at: Option<Time>, input: Input2,
        output: Outputs, evaluation: Option<Evaluation>, timing: Timing, cost: Option<Cost2>,
    }
    Input2 { instruction: Filled, task_revision: Filled, system_prompt: Option<String> }
    Cost2 {
        model_calls: Option<u64>, tokens_in: Option<u64>, tokens_out: Option<u64>, cache_read_tokens: Option<u64>,
        cache_write_tokens: Option<u64>, estimated_cost_usd: Option<Amount>, advisor_calls: Option<u64>,
        advisor_input_tokens: Option<u64>, advisor_output_tokens: Option<u64>,
    }
    Manifest {
        schema_version: u8, run_id: Filled, experiment_id: Filled, source: BTreeMap<String, Filled>, agent: Agent,
        execution_environment: Environment, provider_route: Route,
    }
    Route { provider: Filled, route: Filled }
}

impl Adaptation {
    fn check(&self) {
        assert!(!self.variation.is_empty(), "{self:?}");
        let mut axes = HashSet::new();
        for step in self.derivation_lineage.iter().flatten() {
            assert!(axes.insert(&step.axis.0), "{self:?}");
            assert_eq!(self.variation.get(&step.axis.0), Some(&step.value));
            assert_ne!(step.value, step.parent_value);
        }
    }
}
