//! Records of trials, in both schemas.

use serde_json::{Map, Value, json};

use super::{Trial, UNKNOWN, filled, text};
use crate::trace::time_text;

impl Trial {
    /// Schema 1.
    pub(super) fn record(&self, trial_id: &str, experiment: &str) -> Value {
        known(json!({
            "trial_id": trial_id,
            "experiment_id": experiment,
            "dataset_id": self.trial.get("dataset_id").and_then(filled),
            "timestamp": time_text(self.summary.first, 6),
            "task": {
                "task_id": text(&self.trial, "task_id", UNKNOWN),
                "task_revision": text(&self.trial, "task_revision", UNKNOWN),
            },
            "agent": self.agent(),
            "environment": known(self.environment()),
            "inputs": known(json!({
                "instruction": self.instruction().unwrap_or(UNKNOWN),
                "system_prompt": self.system_prompt,
                "input_files": self.input_files,
            })),
            "outputs": {"agent_result": self.agent_result()},
            "evaluation": self.evaluation(),
            "timing": self.timing(),
            "cost": known(self.cost()),
            "adaptation": self.trial.get("adaptation"),
            "completeness": if self.options.complete { "complete" } else { "partial" },
        }))
    }

    fn environment(&self) -> Value {
        let versions = self
            .environment
            .get("tool_versions")
            .and_then(Value::as_object);
        let text_of = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), String::from)
        };
        let versions: Option<Map<_, _>> = versions.map(|versions| {
            versions
                .iter()
                .map(|(tool, version)| (tool.clone(), text_of(version).into()))
                .collect()
        });
        json!({
            "runtime_image": text(&self.environment, "image", UNKNOWN),
            "compute_backend": text(&self.environment, "backend", UNKNOWN),
            "tool_versions": versions,
        })
    }

    /// What has no member of its own.
    fn agent_result(&self) -> Value {
        let totals = self.summary.totals();
        let config = self.trial.get("config");
        known(json!({
            // By this an import knows whose session it is.
            "recorder": "spanledger",
            "session_id": self.summary.session_id,
            "outcome": self.ended.as_ref().map(|ended| &ended.outcome),
            "stop_reason": self.ended.as_ref().and_then(|ended| ended.stop_reason.as_ref()),
            "turns_used": totals.turns,
            "max_turns": config.and_then(|config| config.get("max_turns")),
            "usage_input_tokens": totals.usage.input_tokens,
            "usage_output_tokens": totals.usage.output_tokens,
            "final": self.output.get("final"),
            "raw": self.output.get("raw"),
        }))
    }

    fn evaluation(&self) -> Value {
        let not_evaluated = || {
            let validity = json!({"output_parseable": false, "schema_valid": false, "verifier_completed": false, "errors": ["not evaluated"]});
            Map::from_iter([("reward".into(), 0.0.into()), ("validity".into(), validity)])
        };
        let mut evaluation = self.evaluation.clone().unwrap_or_else(not_evaluated);
        if !self.annotations.is_empty() {
            evaluation.insert("annotations".into(), self.annotations.clone().into());
        }
        evaluation.into()
    }

    fn timing(&self) -> Value {
        let mut timing = self.phases.clone();
        timing.insert("total_seconds".into(), (self.run_ns as f64 / 1e9).into());
        timing.into()
    }

    fn cost(&self) -> Value {
        let usage = self.summary.totals().usage;
        let advisor = self.advisor.as_ref();
        json!({
            "tokens_in": usage.input_tokens,
            "tokens_out": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "estimated_cost_usd": usage.cost_usd,
            "advisor_calls": advisor.map(|(calls, _)| calls),
            "advisor_input_tokens": advisor.and_then(|(_, usage)| usage.input_tokens),
            "advisor_output_tokens": advisor.and_then(|(_, usage)| usage.output_tokens),
        })
    }

    fn agent(&self) -> Value {
        let agent = self.summary.agent.as_deref().unwrap_or(UNKNOWN);
        known(json!({
            "adapter": text(&self.trial, "harness", agent),
            "model": self.summary.model_id.as_deref().unwrap_or(UNKNOWN),
            "adapter_revision": self.trial.get("adapter_revision").and_then(filled),
            "configuration": self.trial.get("config").filter(|config| config.is_object()),
        }))
    }

    /// The instruction of the trial event, or the user's first message.
    pub(super) fn instruction(&self) -> Option<&str> {
        let given = self.trial.get("instruction").and_then(filled);
        given.or(self
            .instruction
            .as_deref()
            .filter(|text| !text.trim().is_empty()))
    }

    /// Schema 2.
    pub(super) fn record_2(&self, trial_id: &str) -> Value {
        let status = match &self.ended {
            None => "running",
            Some(ended) if ended.is_ok => "completed",
            Some(ended) if ended.outcome == "cancelled" => "cancelled",
            Some(_) => "failed",
        };
        let ended = self.ended.as_ref().map(|_| self.ended_at);
        let started = self.summary.first;
        let total = ended.unwrap_or(self.summary.last).saturating_sub(started);
        // As long as the times say, which have microseconds.
        let total = (total / 1000) as f64 / 1e6;
        let mut timing = self.phases.clone();
        timing.insert("total_seconds".into(), total.into());
        let mut cost = self.cost();
        cost["model_calls"] = self.summary.totals().model_calls.into();
        known(json!({
            "schema_version": 2,
            "trial_id": trial_id,
            "run_id": self.summary.session_id,
            "task_id": text(&self.trial, "task_id", UNKNOWN),
            "attempt": 1,
            "execution_status": status,
            "evaluation_status": if self.evaluation.is_some() { "completed" } else { "not_requested" },
            "evidence_status": "not_required",
            "started_at": time_text(started, 6),
            "completed_at": ended.map(|end| time_text(end, 6)),
            "input": known(json!({
                "instruction": self.instruction().unwrap_or(UNKNOWN),
                "task_revision": text(&self.trial, "task_revision", UNKNOWN),
                "system_prompt": self.system_prompt,
            })),
            // Files are referred to by their bytes, which a trace does not have.
            "output": {"agent_result": self.agent_result()},
            "evaluation": self.evaluation.as_ref().map(|_| self.evaluation()),
            "timing": timing,
            "cost": known(cost),
        }))
    }

    /// What trials of a run share in schema 2.
    pub(super) fn manifest(&self, experiment: &str) -> Value {
        let is_commit = |text: &&str| {
            text.len() == 40
                && text
                    .bytes()
                    .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
        };
        let source = match self.commit.as_deref().filter(is_commit) {
            Some(commit) => json!({"kind": "git", "revision": commit}),
            None => {
                json!({"kind": "unresolved", "reason": "no commit without other changes was recorded"})
            }
        };
        let provider = self.summary.provider_id.as_deref().unwrap_or(UNKNOWN);
        json!({
            "schema_version": 2,
            "run_id": self.summary.session_id,
            "experiment_id": experiment,
            "source": source,
            "agent": self.agent(),
            "execution_environment": known(self.environment()),
            "provider_route": {"provider": provider, "route": provider},
        })
    }
}

/// Without the members that are not known.
fn known(mut part: Value) -> Value {
    let members = part.as_object_mut().into_iter();
    members.for_each(|members| members.retain(|_, value| !value.is_null()));
    part
}
