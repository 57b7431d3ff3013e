//! The kind of a line, as the [schema](super::schema) lists them.

use std::borrow::Cow;
use std::fmt;

use super::schema::schema;
use super::span::SpanKind;

/// The enum and its names, from a list of all kinds.
macro_rules! kind_enum {
    ($( $Kind:ident $name:ident $doc:literal, )+) => {
        /// What a line is about. `docs/events.md` describes every kind and its fields.
        ///
        /// ```
        /// use spanledger::trace::{Kind, SpanKind};
        /// assert_eq!(Kind::parse("tool_result").closes(), Some(SpanKind::Tool));
        /// assert_eq!(Kind::ToolCall.as_str(), "tool_call");
        /// assert_eq!(Kind::parse("my_own"), Kind::Other);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $( #[doc = $doc] $Kind, )+
            /// A kind that this version does not know, or a user's own. The line has its name.
            Other,
        }

        impl Kind {
            /// Every known kind.
            pub const ALL: &[Self] = &[$( Self::$Kind, )+];

            /// The kind's name in a line; `other` for [`Kind::Other`].
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$Kind => stringify!($name), )+
                    Self::Other => "other",
                }
            }

            /// The kind with this name.
            pub fn parse(name: &str) -> Self {
                match name {
                    $( stringify!($name) => Self::$Kind, )+
                    _ => Self::Other,
                }
            }
        }
    };
}

macro_rules! define_kinds {
    (
        spans { $(
            $span:ident $builder:ident $reader:ident $name:literal: $span_doc:literal
            opens [$( $open:ident $Open:ident: $open_doc:literal ),+ $(,)?]
            closes $close:ident $Close:ident: $close_doc:literal $fields:tt
        )* }
        other_span {
            $other_reader:ident: $other_doc:literal
            opens [$other_open:ident $OtherOpen:ident: $other_open_doc:literal]
            closes $other_close:ident $OtherClose:ident: $other_close_doc:literal $other_fields:tt
        }
        every_span $every_span:tt
        events { $(
            $event_reader:ident [$( $event:ident $Event:ident $args:tt: $event_doc:literal ),+ $(,)?] $event_fields:tt
        )* }
        other_events { $(
            $rest_reader:ident [$( $rest:ident $Rest:ident(): $rest_doc:literal ),+ $(,)?] $rest_fields:tt
        )* }
        pieces $pieces:tt
        own_lines { $(
            $own_reader:ident [$( $own:ident $Own:ident(): $own_doc:literal ),+ $(,)?] $own_fields:tt
        )* }
    ) => {
        kind_enum! {
            $( $( $Open $open $open_doc, )+ $Close $close $close_doc, )*
            $OtherOpen $other_open $other_open_doc,
            $OtherClose $other_close $other_close_doc,
            $( $( $Event $event $event_doc, )+ )*
            $( $( $Rest $rest $rest_doc, )+ )*
            $( $( $Own $own $own_doc, )+ )*
        }

        impl Kind {
            /// The kind of span that a line of this kind opens.
            pub const fn opens(self) -> Option<SpanKind> {
                match self {
                    $( $( Self::$Open )|+ => Some(SpanKind::$span), )*
                    Self::$OtherOpen => Some(SpanKind::Other),
                    _ => None,
                }
            }

            /// The kind of span that a line of this kind closes. An [`Interrupted`](Self::Interrupted)
            /// line closes one too; its field `closes` has the kind that it replaces.
            pub const fn closes(self) -> Option<SpanKind> {
                match self {
                    $( Self::$Close => Some(SpanKind::$span), )*
                    Self::$OtherClose => Some(SpanKind::Other),
                    _ => None,
                }
            }

            /// Whether only the recorder writes such lines: those of spans and of the ledger itself.
            pub const fn is_own(self) -> bool {
                match self {
                    $( $( Self::$Own )|+ => true, )*
                    kind => kind.opens().is_some() || kind.closes().is_some(),
                }
            }
        }
    };
}
schema!(define_kinds);

impl Kind {
    /// Whether a line of this kind closes a span.
    pub const fn is_close(self) -> bool {
        self.closes().is_some() || matches!(self, Self::Interrupted)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name under which an event of the user's is written: `[a-z0-9_.-]`, at most 64 characters.
/// A kind that only the recorder writes becomes `custom.…`, because readers rely on those lines.
pub(crate) fn event_kind(name: &str) -> Cow<'_, str> {
    match plain_word(name) {
        own if Kind::parse(&own).is_own() => format!("custom.{own}").into(),
        name => name,
    }
}

fn plain_word(name: &str) -> Cow<'_, str> {
    let plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
    if !name.is_empty() && name.len() <= 64 && name.bytes().all(plain) {
        return name.into();
    }
    let word: String = name
        .chars()
        .take(64)
        .map(|c| match c.to_ascii_lowercase() {
            c if c.is_ascii() && plain(c as u8) => c,
            _ => '_',
        })
        .collect();
    if word.is_empty() {
        "custom".into()
    } else {
        word.into()
    }
}

#[cfg(test)]
mod tests;
