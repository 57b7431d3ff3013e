//! Prompts, tool catalogs and permission rules: stored once in a session, named by digest afterwards.

use crate::trace::Kind;

/// A text that every turn repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextAsset {
    SystemPrompt,
    ToolCatalog,
    PermissionRules,
}

impl ContextAsset {
    /// In the order of their discriminants, which index arrays of one value each.
    pub const ALL: [Self; 3] = [Self::SystemPrompt, Self::ToolCatalog, Self::PermissionRules];

    pub fn from_kind(kind: Kind) -> Option<Self> {
        Self::ALL.into_iter().find(|asset| asset.kind() == kind)
    }

    pub const fn kind(self) -> Kind {
        match self {
            Self::SystemPrompt => Kind::SystemPrompt,
            Self::ToolCatalog => Kind::ToolCatalog,
            Self::PermissionRules => Kind::PermissionRules,
        }
    }

    /// The field of a model call that holds its digest.
    pub const fn stamp(self) -> &'static str {
        match self {
            Self::SystemPrompt => field!(ModelCall.system_prompt_digest),
            Self::ToolCatalog => field!(ModelCall.tool_catalog_digest),
            Self::PermissionRules => field!(ModelCall.permission_rules_digest),
        }
    }

    /// The field of its own line that holds the whole text.
    pub const fn body(self) -> &'static str {
        match self {
            Self::SystemPrompt => field!(ContextAsset.body),
            Self::ToolCatalog => field!(ContextAsset.tools),
            Self::PermissionRules => field!(ContextAsset.rules),
        }
    }
}
