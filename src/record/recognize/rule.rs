//! A user's own rule for the spans of a library.

use std::borrow::Cow;

use tracing::Metadata;

use crate::record::raw_fields::{RawFields, Rewrite};
use crate::trace::{SpanKind, setters};

/// How spans of a library are recognized that don't follow the GenAI conventions: by their name,
/// and if need be their target and the fields they declare. All of that is known before a span is
/// made, so that a rule costs nothing where it doesn't match.
///
/// Fields that the rule names are renamed; the others are understood by the names of the conventions,
/// and kept under their own if they have none.
///
/// ```
/// use spanledger::Rule;
/// # let dir = tempfile::tempdir()?;
/// let (layer, guard) = spanledger::builder()
///     .root(dir.path())
///     .recognize(Rule::run("agent.query").target("my_library"))
///     .recognize(
///         Rule::tool_call("tool")
///             .target("my_library")
///             .declares("otel.name")
///             .field_after("otel.name", "tool.", "tool_id"),
///     )
///     .build::<tracing_subscriber::Registry>()?;
/// # drop((layer, guard));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "give it to `Builder::recognize`"]
pub struct Rule {
    kind: SpanKind,
    name: Cow<'static, str>,
    target: Option<Cow<'static, str>>,
    declares: Vec<Cow<'static, str>>,
    renames: Vec<Rename>,
}

#[derive(Clone, Debug)]
struct Rename {
    theirs: Cow<'static, str>,
    /// The text before the value.
    before: Cow<'static, str>,
    ours: Cow<'static, str>,
}

impl Rule {
    fn new(kind: SpanKind, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            name: name.into(),
            target: None,
            declares: Vec::new(),
            renames: Vec::new(),
        }
    }

    /// Spans of this name are runs of an agent. One that names no session is a session of its own,
    /// unless it is inside one.
    pub fn run(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(SpanKind::Run, name)
    }

    /// Spans of this name are turns.
    pub fn turn(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(SpanKind::Turn, name)
    }

    /// Spans of this name are calls of a model.
    pub fn model_call(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(SpanKind::Model, name)
    }

    /// Spans of this name are calls of a tool.
    pub fn tool_call(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(SpanKind::Tool, name)
    }

    setters! {
        /// Only those whose target is this module or lies below it. By default any.
        pub fn target(self, target: impl Into<Cow<'static, str>>) {
            self.target = Some(target.into());
        }

        /// Only those that declare this field. By default any.
        pub fn declares(self, field: impl Into<Cow<'static, str>>) {
            self.declares.push(field.into());
        }
    }

    /// What the library calls `theirs` is `ours` (`docs/events.md` lists the fields).
    pub fn field(
        self,
        theirs: impl Into<Cow<'static, str>>,
        ours: impl Into<Cow<'static, str>>,
    ) -> Self {
        self.field_after(theirs, "", ours)
    }

    /// The same, for what follows `before` in the field's text. A text that doesn't begin so is
    /// kept as it is, under its own name.
    pub fn field_after(
        mut self,
        theirs: impl Into<Cow<'static, str>>,
        before: impl Into<Cow<'static, str>>,
        ours: impl Into<Cow<'static, str>>,
    ) -> Self {
        self.renames.push(Rename {
            theirs: theirs.into(),
            before: before.into(),
            ours: ours.into(),
        });
        self
    }

    pub(super) fn kind(&self) -> SpanKind {
        self.kind
    }

    pub(super) fn matches(&self, meta: &Metadata<'_>) -> bool {
        let below = |target: &str| {
            let rest = meta.target().strip_prefix(target);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        meta.is_span()
            && meta.name() == self.name
            && self.target.as_deref().is_none_or(below)
            && self
                .declares
                .iter()
                .all(|name| meta.fields().field(&**name).is_some())
    }

    /// The library's name of one of our fields.
    pub(super) fn theirs(&self, ours: &str) -> Option<&str> {
        let rename = self.renames.iter().find(|rename| rename.ours == ours)?;
        Some(&rename.theirs)
    }

    pub(super) fn rename(&self, raw: &mut RawFields) {
        if self.renames.is_empty() {
            return;
        }
        raw.rewrite(|name, text| {
            let fits =
                |rename: &&Rename| rename.theirs == name && text.starts_with(&*rename.before);
            match self.renames.iter().find(fits) {
                Some(rename) => Rewrite::Rename {
                    to: rename.ours.clone(),
                    skip: rename.before.len(),
                },
                None => Rewrite::Keep,
            }
        });
    }
}
