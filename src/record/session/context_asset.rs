//! Prompts, tool catalogs and permission rules: stored once a session, named by digest afterwards.

/// A text that every turn repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextAsset {
    SystemPrompt,
    ToolCatalog,
    PermissionRules,
}

impl ContextAsset {
    pub const ALL: [Self; 3] = [Self::SystemPrompt, Self::ToolCatalog, Self::PermissionRules];

    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|asset| asset.kind() == kind)
    }

    pub const fn kind(self) -> &'static str {
        match self {
            Self::SystemPrompt => "system_prompt",
            Self::ToolCatalog => "tool_catalog",
            Self::PermissionRules => "permission_rules",
        }
    }

    /// What it is called on a model call.
    pub const fn stamp(self) -> &'static str {
        match self {
            Self::SystemPrompt => "system_prompt_digest",
            Self::ToolCatalog => "tool_catalog_digest",
            Self::PermissionRules => "permission_rules_digest",
        }
    }

    /// The member that holds the whole text.
    pub const fn body(self) -> &'static str {
        match self {
            Self::SystemPrompt => "body",
            Self::ToolCatalog => "tools",
            Self::PermissionRules => "rules",
        }
    }
}
