//! The schema: every kind of line and its fields, in one table, which is in the files of this directory.
//!
//! [`schema!`] hands the table to a macro. [`Kind`](super::Kind), the typed readers, the constructors
//! of [`events`](crate::events) and the page `docs/events.md` are made from it. To add a kind or a
//! field, add it there. None is ever removed.
//!
//! A field is `role form name;`:
//!
//! | role | meaning |
//! |---|---|
//! | `need` | an argument of the constructor |
//! | `input` | known before the work begins; on a span it is written when it is recorded |
//! | `outcome` | known at the end; on a short span it is written with the close line |
//! | `stamped` | set by the recorder |
//! | `own` | set by the recorder; a user's field of this name is written as `custom.…` |
//!
//! | form | value |
//! |---|---|
//! | `text`, `u64`, `f64`, `bool` | a string, a number, `true` or `false` |
//! | `long` | a string that is often cut or moved to a blob |
//! | `object`, `list`, `json` | JSON; a text that holds an object or an array is parsed |
//! | `any` | JSON; a text stays a text |
//! | `time` | a string, RFC 3339 in UTC |
//! | `outcome` | one of the words of [`Outcome`](crate::Outcome) |
//! | `usage`, `error` | an object with known members: [`Usage`](crate::Usage), [`Failure`](crate::Failure) |
//!
//! A span is `Variant Builder Reader "name" opens [kinds] closes [kind] { fields }`, a group of
//! events `Reader [kinds with the constructor's arguments] { fields }`.

mod events;
mod lines;
mod spans;

pub(crate) use events::event_schema;
pub(crate) use lines::line_schema;
pub(crate) use spans::span_schema;

macro_rules! schema {
    ($then:ident) => {
        $crate::trace::span_schema! { $then }
    };
}
pub(crate) use schema;

#[cfg(test)]
mod tests;
