//! The kinds of spans, and the role of each of their fields.

use super::Kind;
use super::schema::schema;

/// When a field that is recorded on an open span is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldRole {
    /// Known before the work begins: written when it is recorded.
    Input,
    /// Known at the end: written with the close line.
    Outcome,
    /// A part of `usage`.
    Usage(UsageField),
    /// The error: always an object.
    Error,
    /// Written by the recorder itself. A user's field of this name is kept under another one.
    Own,
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

impl UsageField {
    fn of(field: &str) -> Option<Self> {
        if let Some(index) = super::Usage::COUNTS.iter().position(|n| *n == field) {
            return Some(Self::Count(index));
        }
        match field {
            "cost_usd" => Some(Self::Cost),
            "usage_details" => Some(Self::Details),
            "usage" => Some(Self::Whole),
            _ => None,
        }
    }
}

macro_rules! define_spans {
    (@role own $form:ident) => { FieldRole::Own };
    (@role $role:ident error) => { FieldRole::Error };
    (@role outcome $form:ident) => { FieldRole::Outcome };
    (@role $role:ident $form:ident) => { FieldRole::Input };
    // Whether a text in a field of this role and form is parsed if it is an object or an array.
    (@parsed own $form:ident) => { false };
    (@parsed stamped $form:ident) => { false };
    (@parsed $role:ident object) => { true };
    (@parsed $role:ident list) => { true };
    (@parsed $role:ident json) => { true };
    (@parsed $role:ident error) => { true };
    (@parsed $role:ident $form:ident) => { false };
    (
        spans { $(
            $span:ident $builder:ident $reader:ident $name:literal: $doc:literal
            opens [$open:ident $Open:ident: $open_doc:literal $($more_opens:tt)*]
            closes $close:ident $Close:ident: $close_doc:literal {
                $( $role:ident $form:ident $field:ident: $field_doc:literal; )*
            }
        )* }
        other_span {
            $other_reader:ident: $other_doc:literal
            opens [$other_open:ident $OtherOpen:ident: $other_open_doc:literal]
            closes $other_close:ident $OtherClose:ident: $other_close_doc:literal { $($other_fields:tt)* }
        }
        every_span { $( own $every_form:ident $every:ident: $every_doc:literal; )* }
        events { $(
            $event_reader:ident [$($events:tt)*] {
                $( $event_role:ident $event_form:ident $event_field:ident: $event_doc:literal; )*
            }
        )* }
        other_events { $(
            $rest_reader:ident [$($rest:tt)*] {
                $( $rest_role:ident $rest_form:ident $rest_field:ident: $rest_doc:literal; )*
            }
        )* }
        pieces { $(
            $piece:ident $piece_name:ident: $piece_doc:literal {
                $( $part_role:ident $part_form:ident $part:ident: $part_doc:literal; )*
            }
        )* }
        own_lines { $($own:tt)* }
    ) => {
        /// What a span is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum SpanKind {
            $( #[doc = $doc] $span, )*
            #[doc = $other_doc]
            Other,
        }

        impl SpanKind {
            pub(crate) const ALL: [Self; 7] = [$( Self::$span, )* Self::Other];

            /// The kind of an agent span with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $( $name => Some(Self::$span), )*
                    _ => None,
                }
            }

            /// The name of such an agent span.
            pub(crate) const fn name(self) -> Option<&'static str> {
                match self {
                    $( Self::$span => Some($name), )*
                    Self::Other => None,
                }
            }

            /// The kind of its open line. A run opens as [`Kind::SessionStart`], or as
            /// [`Kind::SessionResume`] where the session has had one.
            pub const fn opening(self) -> Kind {
                match self {
                    $( Self::$span => Kind::$Open, )*
                    Self::Other => Kind::$OtherOpen,
                }
            }

            /// The kind of its close line.
            pub const fn closing(self) -> Kind {
                match self {
                    $( Self::$span => Kind::$Close, )*
                    Self::Other => Kind::$OtherClose,
                }
            }

            /// When a field of such a span is written.
            pub(crate) fn role(self, field: &str) -> FieldRole {
                if self.has_usage()
                    && let Some(usage) = UsageField::of(field)
                {
                    return FieldRole::Usage(usage);
                }
                match self {
                    $( Self::$span => match field {
                        $( stringify!($field) => return define_spans!(@role $role $form), )*
                        _ => {}
                    }, )*
                    Self::Other => {}
                }
                match field {
                    $( stringify!($every) => FieldRole::Own, )*
                    _ => FieldRole::Input,
                }
            }
        }

        /// Fields whose text is parsed as JSON if it is an object or an array. The texts of a conversation are
        /// not among them: a message that happens to be JSON stays a text.
        pub(crate) fn is_json_field(name: &str) -> bool {
            match name {
                $( $( stringify!($field) if define_spans!(@parsed $role $form) => true, )* )*
                $( $( stringify!($event_field) if define_spans!(@parsed $event_role $event_form) => true, )* )*
                $( $( stringify!($rest_field) if define_spans!(@parsed $rest_role $rest_form) => true, )* )*
                $( $( stringify!($part) if define_spans!(@parsed $part_role $part_form) => true, )* )*
                _ => false,
            }
        }
    };
}
schema!(define_spans);

impl SpanKind {
    const fn has_usage(self) -> bool {
        matches!(self, Self::Run | Self::Turn | Self::Model)
    }

    /// The field that identifies what was opened. Where a library declares it empty, the open
    /// line waits until it is recorded.
    pub(crate) const fn identity(self) -> Option<&'static str> {
        match self {
            Self::Run => Some("session_id"),
            Self::Model => Some("model_id"),
            Self::Tool | Self::Permission => Some("tool_id"),
            Self::Turn => Some("turn_index"),
            Self::Compaction | Self::Other => None,
        }
    }

    /// Runs and turns stay open for long, so their outcomes are written when they are recorded.
    pub(crate) const fn writes_outcomes_at_once(self) -> bool {
        matches!(self, Self::Run | Self::Turn)
    }
}

#[cfg(test)]
mod tests;
