//! Typed views of lines: one for each span and each group of events of the schema table.
//!
//! A view finds a field when it is asked for it and reads each part of the payload once. A value of
//! another type than the schema's reads as `None`, and a time as nanoseconds since 1970. Fields that the schema does not know are in
//! [`Fields`].
//!
//! ```
//! use spanledger::trace::{RawLine, typed::ToolCall};
//! let line = RawLine::parse(br#"{"v":1,"seg":1,"seq":2,"ts":"2026-11-16T00:31:05.123456Z","kind":"tool_result","session_id":"s","payload":{"outcome":"ok","tool_id":"bash","exit_code":0,"mine":1}}"#)?;
//! let call = ToolCall::of(&line).unwrap();
//! assert_eq!(call.tool_id().as_deref(), Some("bash"));
//! assert_eq!(call.outcome(), Some(spanledger::Outcome::Ok));
//! assert_eq!(call.all_fields().get("mine").unwrap().u64(), Some(1));
//! # Ok::<(), spanledger::trace::LineError>(())
//! ```

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use super::json::{Member, Members};
use super::schema::schema;
use super::{Kind, Outcome, RawLine, RawValue, SpanKind, Usage, parse_time};

/// A text that outlives its line.
pub(crate) fn owned(text: Option<Cow<'_, str>>) -> Option<String> {
    text.map(Cow::into_owned)
}

/// Sets what is known, and keeps what was known otherwise.
pub(crate) fn set(slot: &mut Option<String>, new: Option<Cow<'_, str>>) {
    if let Some(new) = new {
        *slot = Some(new.into_owned());
    }
}

/// The fields of a payload or an object, found as they are asked for.
#[derive(Clone)]
pub struct Fields<'a>(RefCell<Scan<'a>>);

#[derive(Clone, Default)]
struct Scan<'a> {
    found: Vec<Member<'a>>,
    rest: Option<Members<'a>>,
    /// Objects with older values, the oldest first.
    older: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    /// The fields of several objects, the newest first: the first value of a field counts.
    pub fn newest_first(objects: impl IntoIterator<Item = &'a str>) -> Self {
        let mut older: Vec<_> = objects.into_iter().collect();
        older.reverse();
        Self(RefCell::new(Scan {
            older,
            ..Scan::default()
        }))
    }

    /// A field by its name.
    pub fn get(&self, name: &str) -> Option<RawValue<'a>> {
        let scan = &mut *self.0.borrow_mut();
        let known = scan.found.iter().find(|(key, _)| *key == name);
        if let Some((_, value)) = known {
            return Some(*value);
        }
        loop {
            match scan.rest.as_mut().and_then(Members::next).flatten() {
                Some(member) => {
                    scan.found.push(member);
                    if member.0 == name {
                        return Some(member.1);
                    }
                }
                None => scan.rest = Members::of(scan.older.pop()?),
            }
        }
    }
}

impl<'a> From<&RawLine<'a>> for Fields<'a> {
    /// The fields of a line. Where its reader has found them, they are not looked for again.
    fn from(line: &RawLine<'a>) -> Self {
        match &line.fields {
            Some(found) => Self(RefCell::new(Scan {
                found: found.clone(),
                ..Scan::default()
            })),
            None => line.payload().into(),
        }
    }
}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = &self.0.borrow().found;
        let shown = found.iter().map(|(name, value)| (name, value.json()));
        f.debug_map().entries(shown).finish_non_exhaustive()
    }
}

impl<'a> From<RawValue<'a>> for Fields<'a> {
    fn from(value: RawValue<'a>) -> Self {
        Self(RefCell::new(Scan {
            rest: Members::of(value.json()),
            ..Scan::default()
        }))
    }
}

/// The type that an accessor returns, by the field's form, and how it reads the value.
macro_rules! accessor {
    ($doc:literal text $name:ident) => {
        accessor! { @ $doc $name Cow<'a, str>, |value| value.text() }
    };
    ($doc:literal u64 $name:ident) => {
        accessor! { @ $doc $name u64, |value| value.u64() }
    };
    ($doc:literal f64 $name:ident) => {
        accessor! { @ $doc $name f64, |value| value.f64() }
    };
    ($doc:literal bool $name:ident) => {
        accessor! { @ $doc $name bool, |value| value.bool() }
    };
    ($doc:literal time $name:ident) => {
        accessor! { @ $doc $name u64, |value| parse_time(&value.text()?) }
    };
    ($doc:literal outcome $name:ident) => {
        accessor! { @ $doc $name Outcome, |value| Outcome::parse(&value.text()?) }
    };
    ($doc:literal usage $name:ident) => {
        accessor! { @ $doc $name Usage, |value| Some(Usage::of(&value.into())) }
    };
    ($doc:literal error $name:ident) => {
        accessor! { @ $doc $name ErrorInfo<'a>, |value| Some(ErrorInfo::from(value)) }
    };
    // Anything else, and a text that may be a marker.
    ($doc:literal $form:ident $name:ident) => {
        accessor! { @ $doc $name RawValue<'a>, Some }
    };
    (@ $doc:literal $name:ident $type:ty, $read:expr) => {
        #[doc = $doc]
        pub fn $name(&self) -> Option<$type> {
            let read: fn(RawValue<'a>) -> Option<$type> = $read;
            read(self.0.get(field_name(stringify!($name)))?)
        }
    };
}

/// The name of the field that an accessor reads: `r#final` reads `final`.
pub(crate) const fn field_name(accessor: &'static str) -> &'static str {
    match accessor.as_bytes() {
        [b'r', b'#', ..] => accessor.split_at(2).1,
        _ => accessor,
    }
}

/// A view: its accessors, and those that all views of its sort share.
macro_rules! view {
    ($doc:expr; $view:ident { $( $role:ident $form:ident $field:ident: $field_doc:literal; )* } { $( $more_role:ident $more_form:ident $more:ident: $more_doc:literal; )* }) => {
        #[doc = $doc]
        #[derive(Clone, Debug)]
        pub struct $view<'a>(Fields<'a>);

        impl<'a> $view<'a> {
            $( accessor! { $field_doc $form $field } )*
            $( accessor! { $more_doc $more_form $more } )*

            /// All fields, also those that the schema does not know.
            pub fn all_fields(&self) -> &Fields<'a> {
                &self.0
            }
        }

        impl<'a, F: Into<Fields<'a>>> From<F> for $view<'a> {
            fn from(fields: F) -> Self {
                Self(fields.into())
            }
        }
    };
}

/// Views of events: one for each group of kinds.
macro_rules! event_views {
    ($(
        $view:ident [$( $kind:ident $Kind:ident($($args:tt)*): $kind_doc:literal ),+ $(,)?] $fields:tt
    )*) => { $(
        view! { concat!("Lines of kind ", $( "`", stringify!($kind), "` " ),+, "."); $view $fields {} }

        impl<'a> $view<'a> {
            /// The line's fields, if it is of such a kind.
            pub fn of(line: &RawLine<'a>) -> Option<Self> {
                matches!(line.kind(), $( Kind::$Kind )|+).then(|| line.into())
            }
        }
    )* };
}

macro_rules! span_views {
    ($every:tt $( $span:ident $view:ident $doc:literal $fields:tt )*) => { $(
        view! { concat!($doc, " The fields of its open line, or of its close line, which has more."); $view $fields $every }

        impl<'a> $view<'a> {
            /// The line's fields, if it opens or closes such a span.
            pub fn of(line: &RawLine<'a>) -> Option<Self> {
                let span = line.kind().opens().or_else(|| line.closes());
                (span == Some(SpanKind::$span)).then(|| line.into())
            }
        }
    )* };
}

macro_rules! define_views {
    (
        spans { $(
            $span:ident $builder:ident $view:ident $name:literal: $doc:literal
            opens $opens:tt closes $close:ident $Close:ident: $close_doc:literal $fields:tt
        )* }
        other_span {
            $other:ident: $other_doc:literal
            opens $other_opens:tt closes $other_close:ident $OtherClose:ident: $other_close_doc:literal $other_fields:tt
        }
        every_span $every:tt
        events { $($events:tt)* }
        other_events { $($other_events:tt)* }
        pieces { $( $piece:ident $piece_name:ident: $piece_doc:literal $parts:tt )* }
        own_lines { $($own_lines:tt)* }
    ) => {
        span_views! { $every $( $span $view $doc $fields )* Other $other $other_doc $other_fields }
        view! { "The fields that every span has."; Span $every {} }
        event_views! { $($events)* }
        event_views! { $($other_events)* }
        event_views! { $($own_lines)* }
        $( view! { $piece_doc; $piece $parts {} } )*
    };
}
schema!(define_views);

impl<'a> Span<'a> {
    /// The line's fields, if it opens or closes a span.
    pub fn of(line: &RawLine<'a>) -> Option<Self> {
        let kind = line.kind();
        (kind.opens().is_some() || kind.is_close()).then(|| line.into())
    }
}

impl<'a> ContextAsset<'a> {
    /// The prompt, the catalog or the rules.
    pub fn text(&self) -> Option<RawValue<'a>> {
        self.body()
            .or_else(|| self.tools())
            .or_else(|| self.rules())
    }
}

impl ModelUsage<'_> {
    /// Tokens and cost.
    pub fn usage(&self) -> Usage {
        Usage::of(&self.0)
    }
}

#[cfg(test)]
mod tests;
