//! The six spans of an agent: their names, the kinds of their lines, and what each field is.

/// What a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SpanKind {
    Run,
    Turn,
    Model,
    Tool,
    Permission,
    Compaction,
    /// Any other span, recorded because the user asked for it.
    Other,
}

/// When a field recorded on an open span reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldRole {
    /// Explains what is about to happen: written at once.
    Input,
    /// Says how it went: rides on the close line.
    Outcome,
    /// A part of `usage`.
    Usage(UsageField),
    /// The error: always an object.
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageField {
    /// Index into [`super::Usage::COUNTS`].
    Count(usize),
    Cost,
    Details,
    /// All of them in one object.
    Whole,
}

impl SpanKind {
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "session.run" => Self::Run,
            "session.turn" => Self::Turn,
            "model.call" => Self::Model,
            "tool.call" => Self::Tool,
            "permission.evaluate" => Self::Permission,
            "compaction.run" => Self::Compaction,
            _ => return None,
        })
    }

    /// The kind of the open line. A run opens as `session_start` or `session_resume`; the ledger,
    /// which knows whether the session exists, picks.
    pub const fn open_kind(self) -> &'static str {
        match self {
            Self::Run => "session_start",
            Self::Turn => "turn_start",
            Self::Model => "model_call",
            Self::Tool => "tool_call",
            Self::Permission => "permission_request",
            Self::Compaction => "compaction_start",
            Self::Other => "span_start",
        }
    }

    pub const fn close_kind(self) -> &'static str {
        match self {
            Self::Run => "session_end",
            Self::Turn => "turn_end",
            Self::Model => "model_result",
            Self::Tool => "tool_result",
            Self::Permission => "permission_evaluate",
            Self::Compaction => "context_compaction",
            Self::Other => "span_end",
        }
    }

    pub fn from_open_kind(kind: &str) -> Option<Self> {
        Some(match kind {
            "session_start" | "session_resume" => Self::Run,
            "turn_start" => Self::Turn,
            "model_call" => Self::Model,
            "tool_call" => Self::Tool,
            "permission_request" => Self::Permission,
            "compaction_start" => Self::Compaction,
            "span_start" => Self::Other,
            _ => return None,
        })
    }

    pub fn from_close_kind(kind: &str) -> Option<Self> {
        Some(match kind {
            "session_end" => Self::Run,
            "turn_end" => Self::Turn,
            "model_result" => Self::Model,
            "tool_result" => Self::Tool,
            "permission_evaluate" => Self::Permission,
            "context_compaction" => Self::Compaction,
            "span_end" => Self::Other,
            _ => return None,
        })
    }

    pub fn is_close_kind(kind: &str) -> bool {
        kind == "interrupted" || Self::from_close_kind(kind).is_some()
    }

    /// The field without which the open line would not say what was opened. Declared empty, as
    /// some libraries do, it holds the line back until it is recorded.
    pub const fn identity(self) -> Option<&'static str> {
        match self {
            Self::Run => Some("session_id"),
            Self::Model => Some("model_id"),
            Self::Tool | Self::Permission => Some("tool_id"),
            Self::Turn => Some("turn_index"),
            Self::Compaction | Self::Other => None,
        }
    }

    /// Runs and turns stay open for long: what they learn is written when they learn it.
    pub const fn writes_outcomes_at_once(self) -> bool {
        matches!(self, Self::Run | Self::Turn)
    }

    /// Whether a field that is recorded on such a span waits for the close line.
    pub fn rides_on_close(self, field: &str) -> bool {
        !self.writes_outcomes_at_once() && self.role(field) == FieldRole::Outcome
    }

    /// Whether a span's lines have a member of this name that is ours to write.
    pub fn owns(self, field: &str) -> bool {
        match field {
            "start" | "duration_ns" | "outcome" | "opened_seg" | "events" | "events_dropped"
            | "links" | "late" | "attributes" => true,
            // What decides whether and how it is sent.
            "sampled" | "tracestate" | "parent_remote" | "span_kind" => true,
            "totals" => matches!(self, Self::Run | Self::Turn),
            "synthetic" => self == Self::Turn,
            _ => false,
        }
    }

    pub fn role(self, field: &str) -> FieldRole {
        if self != Self::Other && field == "error" {
            return FieldRole::Error;
        }
        match self {
            Self::Run | Self::Turn | Self::Model => {
                if let Some(index) = super::Usage::COUNTS.iter().position(|n| *n == field) {
                    return FieldRole::Usage(UsageField::Count(index));
                }
                match field {
                    "cost_usd" => FieldRole::Usage(UsageField::Cost),
                    "usage_details" => FieldRole::Usage(UsageField::Details),
                    "usage" => FieldRole::Usage(UsageField::Whole),
                    "stop_reason" | "finish_reason" | "response_id" | "response_model"
                    | "message_id" | "ttft_ms" | "http_status" | "retry_after" => {
                        FieldRole::Outcome
                    }
                    _ => FieldRole::Input,
                }
            }
            Self::Tool => match field {
                "result" | "stdout" | "stderr" | "exit_code" | "truncated" | "media"
                | "tool_state" | "blocked_ms" => FieldRole::Outcome,
                _ => FieldRole::Input,
            },
            Self::Permission => match field {
                "action" | "source" | "rule" | "decision" | "decided_by" | "options"
                | "interrupt_id" => FieldRole::Outcome,
                _ => FieldRole::Input,
            },
            Self::Compaction => match field {
                "summarized_message_count"
                | "messages_before"
                | "messages_after"
                | "kept"
                | "offloaded"
                | "summary"
                | "summary_tokens"
                | "input_tokens"
                | "output_tokens" => FieldRole::Outcome,
                _ => FieldRole::Input,
            },
            Self::Other => FieldRole::Input,
        }
    }
}

/// Fields whose text is taken as JSON when it is an object or an array. `content` and the other
/// texts of a conversation never are: a message that happens to be JSON is still a message.
pub(crate) fn is_json_field(name: &str) -> bool {
    matches!(
        name,
        "args"
            | "result"
            | "tools"
            | "rules"
            | "rule"
            | "parts"
            | "params"
            | "media"
            | "locations"
            | "options"
            | "attachments"
            | "metadata"
            | "tags"
            | "external_ids"
            | "branched_from"
            | "state"
            | "diff"
            | "details"
            | "error"
            | "usage_details"
            | "metrics"
            | "parameters_changed"
            | "input_message_ids"
            | "hidden_ids"
            | "evidence"
            | "payload"
            | "pending"
            | "decision"
            | "scores"
            | "config"
            | "tool_versions"
            | "artifact"
            | "size_px"
    )
}
