//! The typed fields of a node or a line.

use std::borrow::Cow;

use super::node::Node;
use crate::trace::typed::{self, Fields};
use crate::trace::{Kind, RawLine, schema};

macro_rules! define_items {
    (
        spans { $(
            $span:ident $builder:ident $view:ident $name:literal: $doc:literal
            opens [$( $open:ident $Open:ident: $open_doc:literal ),+ $(,)?]
            closes $close:ident $Close:ident: $close_doc:literal $fields:tt
        )* }
        other_span {
            $other:ident: $other_doc:literal
            opens [$other_open:ident $OtherOpen:ident: $other_open_doc:literal]
            closes $other_close:ident $OtherClose:ident: $other_close_doc:literal $other_fields:tt
        }
        every_span $every:tt
        events { $(
            $event:ident [$( $event_kind:ident $Event:ident($($args:tt)*): $event_doc:literal ),+ $(,)?] $event_fields:tt
        )* }
        other_events { $(
            $rest:ident [$( $rest_kind:ident $Rest:ident(): $rest_doc:literal ),+ $(,)?] $rest_fields:tt
        )* }
        pieces $pieces:tt
        own_lines { $(
            $own:ident [$( $own_kind:ident $Own:ident(): $own_doc:literal ),+ $(,)?] $own_fields:tt
        )* }
    ) => {
        /// What a node or a line is about, with its typed fields: one variant for each span and each
        /// group of events in `docs/events.md`.
        ///
        /// ```
        /// use spanledger::session::{Item, Node};
        /// # let bytes = br#"{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_result","session_id":"s","payload":{"tool_id":"bash","result":"ok"}}"#;
        /// let line = spanledger::trace::RawLine::parse(bytes)?;
        /// let text = match Node::of_line(&line).item() {
        ///     Item::ToolCall(call) => call.result().and_then(|result| result.text()?.parse().ok()),
        ///     Item::Message(message) => message.message_id().map(String::from),
        ///     _ => None,
        /// };
        /// assert_eq!(text.as_deref(), Some("ok"));
        /// # Ok::<(), spanledger::trace::LineError>(())
        /// ```
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum Item<'a> {
            $( #[doc = $doc] $view(typed::$view<'a>), )*
            #[doc = $other_doc] $other(typed::$other<'a>),
            $( #[doc = concat!($( $event_doc, " " ),+)] $event(typed::$event<'a>), )*
            $( #[doc = concat!($( $rest_doc, " " ),+)] $rest(typed::$rest<'a>), )*
            $( #[doc = concat!($( $own_doc, " " ),+)] $own(typed::$own<'a>), )*
            /// A kind that this version does not know, or a user's own.
            Unknown(Fields<'a>),
        }

        impl<'a> Item<'a> {
            /// The fields of a line or a node of this kind.
            pub fn new(kind: Kind, fields: impl Into<Fields<'a>>) -> Self {
                let fields = fields.into();
                match kind {
                    $( $( Kind::$Open )|+ | Kind::$Close => Self::$view(fields.into()), )*
                    Kind::$OtherOpen | Kind::$OtherClose => Self::$other(fields.into()),
                    $( $( Kind::$Event )|+ => Self::$event(fields.into()), )*
                    $( $( Kind::$Rest )|+ => Self::$rest(fields.into()), )*
                    $( $( Kind::$Own )|+ => Self::$own(fields.into()), )*
                    Kind::Other => Self::Unknown(fields),
                }
            }

            /// All fields, also those that the schema does not know.
            pub fn all_fields(&self) -> &Fields<'a> {
                match self {
                    $( Self::$view(view) => view.all_fields(), )*
                    Self::$other(view) => view.all_fields(),
                    $( Self::$event(view) => view.all_fields(), )*
                    $( Self::$rest(view) => view.all_fields(), )*
                    $( Self::$own(view) => view.all_fields(), )*
                    Self::Unknown(fields) => fields,
                }
            }
        }
    };
}
schema!(define_items);

impl<'a> Item<'a> {
    /// The fields of a line. The `interrupted` line of a span has the fields of the close line that it
    /// replaces.
    pub fn of(line: &RawLine<'a>) -> Self {
        let closes = line.closes().map(|span| span.closing());
        Self::new(closes.unwrap_or(line.kind()), line)
    }

    /// The fields that every span has.
    pub fn span(&self) -> typed::Span<'a> {
        self.all_fields().clone().into()
    }

    /// The name of a span: the agent, model, tool or other name.
    pub fn name(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Run(run) => run.agent(),
            Self::ModelCall(call) => call.model_id(),
            Self::ToolCall(call) => call.tool_id(),
            Self::Permission(permission) => permission.tool_id(),
            Self::OtherSpan(span) => span.name(),
            _ => None,
        }
    }
}

impl Node {
    /// What it is about, with its typed fields, the newest values first.
    pub fn item(&self) -> Item<'_> {
        let kind = match self.kind {
            // Only a run has a node of its own for its end.
            Kind::Interrupted => Kind::SessionEnd,
            kind => kind,
        };
        Item::new(kind, self.view::<typed::Fields<'_>>())
    }
}

#[cfg(test)]
mod tests;
