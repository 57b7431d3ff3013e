//! Texts that every turn repeats.

/// The three texts that are stored once a session and named by digest afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digested {
    SystemPrompt,
    ToolCatalog,
    PermissionRules,
}

impl Digested {
    pub const ALL: [Self; 3] = [Self::SystemPrompt, Self::ToolCatalog, Self::PermissionRules];

    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.kind() == kind)
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
