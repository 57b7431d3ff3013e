//! What an agent asks before it goes on: limits, and the hooks before a tool.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::spans::Session;
use crate::trace::RawValue;
use crate::watch::Limits;

/// What a hook decides about a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The call may run.
    #[default]
    Allow,
    /// It may not, for this reason.
    Deny(String),
    /// A person has to decide, for this reason.
    Ask(String),
}

impl Decision {
    /// The call may not run.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny(reason.into())
    }

    /// A person has to decide.
    pub fn ask(reason: impl Into<String>) -> Self {
        Self::Ask(reason.into())
    }

    /// Its name in the trace.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny(_) => "deny",
            Self::Ask(_) => "ask",
        }
    }

    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Allow => None,
            Self::Deny(reason) | Self::Ask(reason) => Some(reason),
        }
    }
}

/// A tool call that waits for the decision of a hook. See [`Builder::before_tool`](crate::Builder::before_tool).
#[derive(Clone, Debug)]
pub struct BeforeTool {
    pub(super) tool_id: String,
    pub(super) tool_call_id: Option<String>,
    /// JSON, as it was recorded.
    pub(super) args: Option<String>,
    pub(super) session: Session,
}

impl BeforeTool {
    /// The tool's name.
    pub fn tool_id(&self) -> &str {
        &self.tool_id
    }

    /// The model's id of the call.
    pub fn tool_call_id(&self) -> Option<&str> {
        self.tool_call_id.as_deref()
    }

    /// The arguments as they were recorded: secrets are masked, and a value too large for a line is a marker.
    pub fn args(&self) -> Option<Value> {
        RawValue::new(self.args.as_deref()?).value()
    }

    /// The session at the call, to record in.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

pub(crate) type HookFn = Arc<dyn Fn(&BeforeTool) -> Decision + Send + Sync>;

/// A hook before tool calls.
#[derive(Clone)]
pub(crate) struct Hook {
    pub name: &'static str,
    pub run: HookFn,
}

/// What is watched while the agent runs.
#[derive(Clone, Default)]
pub(crate) struct Watching {
    pub limits: Option<Limits>,
    pub hooks: Vec<Hook>,
    /// The decision of a hook that panicked.
    pub on_panic: Decision,
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hooks = self.hooks.iter().map(|hook| hook.name);
        f.debug_struct("Watching")
            .field("limits", &self.limits)
            .field("hooks", &hooks.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Watching {
    /// `None`: nothing is watched.
    pub fn or_nothing(self) -> Option<Self> {
        let limits = self.limits.filter(|limits| !limits.is_off());
        let watching = Self { limits, ..self };
        (watching.limits.is_some() || !watching.hooks.is_empty()).then_some(watching)
    }
}
