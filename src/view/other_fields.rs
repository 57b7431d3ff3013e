//! The fields of a node that its row does not show, for `--full`.

use super::text::Text;
use crate::session::Node;
use crate::trace::{Kind, RawValue};

/// The fields that the start of a run has, and the totals, which the header shows.
const RUN_FIELDS: [&str; 18] = [
    "session_id",
    "agent",
    "provider_id",
    "model_id",
    "variant",
    "temperature",
    "title",
    "workspace_root",
    "output_dir",
    "run_name",
    "parent_session_id",
    "branched_from",
    "external_ids",
    "metadata",
    "tags",
    "process",
    "timeout_ms",
    "totals",
];

/// The fields that are on the row, in its details or in its tree.
fn is_shown(node: &Node, name: &str) -> bool {
    let of_kind: &[&str] = match node.kind {
        Kind::SessionStart | Kind::SessionResume => &["agent", "session_id"],
        // The end of a run repeats the fields of its start.
        Kind::SessionEnd | Kind::Interrupted => &RUN_FIELDS,
        Kind::TurnStart => &["turn_index", "stop_reason", "totals"],
        Kind::ModelCall => &[
            "model_id",
            "variant",
            "finish_reason",
            "context_window",
            "ttft_ms",
        ],
        Kind::ToolCall => &["tool_id", "command", "result", "stdout", "stderr"],
        Kind::PermissionRequest => &["action", "pattern", "source", "decided_by", "decision"],
        Kind::CompactionStart => &["summarized_message_count", "summary"],
        Kind::SpanStart => &["name"],
        Kind::MessageUser
        | Kind::MessageAssistant
        | Kind::MessageReasoning
        | Kind::MessageSystem
        | Kind::MessageTool => &["content"],
        Kind::MessageDelta | Kind::ToolInputDelta => &["text"],
        Kind::HitlRequest => &["interrupt_id"],
        Kind::HitlResponse => &["decision", "decided_by"],
        Kind::Subagent => &["agent", "child_session_id"],
        Kind::Artifact => &["path", "caption"],
        Kind::Attempt => &["id", "rationale", "metrics"],
        Kind::Rewind => &["to_message_id", "snapshot_id"],
        Kind::Branch => &["child_session_id", "message_id"],
        Kind::SystemPrompt | Kind::ToolCatalog | Kind::PermissionRules => &[],
        Kind::SessionTitle => &["title"],
        Kind::SessionStatus => &["status"],
        Kind::Log => &["level", "message", "fields"],
        Kind::Gap => &["count", "cause"],
        Kind::Hook => &["point", "name", "decision", "reason"],
        Kind::LoopWarning => &["pattern", "repetitions", "verdict"],
        Kind::Error => &[],
        // These rows show all fields.
        _ => return true,
    };
    // The bar and the offset show the times; the events are rows of their own.
    let of_all = [
        "start",
        "duration_ns",
        "outcome",
        "error",
        "events",
        "conversation",
    ];
    of_kind.contains(&name) || of_all.contains(&name)
}

/// Whether the row of a tool call shows all of this field.
fn is_on_tool_row(node: &Node, name: &str, value: RawValue<'_>) -> bool {
    match name {
        // An object with one text is that text on the row, and a command comes before the arguments.
        "args" => {
            let is_whole = Text::input(value).text == Text::from(value).text;
            is_whole && node.get("command").is_none()
        }
        "exit_code" => value.json() != "0",
        _ => false,
    }
}

/// The fields that the row does not show, as `name: value`.
pub(super) fn other_fields(node: &Node) -> Vec<String> {
    let fields = node.fields();
    let is_shown = |name: &str, value| {
        is_shown(node, name) || (node.kind == Kind::ToolCall && is_on_tool_row(node, name, value))
    };
    let others = fields.into_iter();
    let others = others.filter(|(name, value)| !is_shown(name, *value));
    let text = |(name, value)| format!("{name}: {}", Text::from(value).text);
    others.map(text).collect()
}
