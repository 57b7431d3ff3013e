//! Errors as lines have them: an object with the type and the chain of causes.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;

use serde_json::{Map, Value};

use super::refused::Refused;

/// The message of an error inside `Ok`.
pub(crate) const UNKNOWN_TEXT: &str =
    "the future returned Ok(Err(_)), whose text is not known; `async { future.await? }` records it";
/// How the message begins of a span that was given up after its time limit.
pub(crate) const TIME_LIMIT: &str = "it did not end within ";

/// An error as a line shows it.
///
/// [`SpanExt::record_error`](crate::SpanExt::record_error) makes one from any error; build one by hand for an
/// error that is not a Rust error, such as a guardrail that stopped a run:
///
/// ```
/// use spanledger::Failure;
/// let failure = Failure::new("GuardrailTripped", "too many tool calls")
///     .guardrail("max_tool_calls", 50, 51);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    members: Map<String, Value>,
    is_timeout: bool,
}

impl Failure {
    /// An error of a type, with its message.
    pub fn new(error_type: impl Into<String>, message: impl Into<String>) -> Self {
        let mut map = Map::new();
        map.insert("error_type".into(), Value::String(error_type.into()));
        map.insert("message".into(), Value::String(message.into()));
        Self::of(map)
    }

    fn of(members: Map<String, Value>) -> Self {
        Self {
            members,
            is_timeout: false,
        }
    }

    /// A message whose type is not known.
    pub fn message(message: impl Into<String>) -> Self {
        let mut map = Map::new();
        map.insert("message".into(), Value::String(message.into()));
        Self::of(map)
    }

    /// Where it happened: a backtrace or a stack of another language.
    pub fn stack(self, stack: impl Into<String>) -> Self {
        self.set("stack", stack.into())
    }

    /// Anything else that explains it.
    pub fn details(self, details: impl Into<Value>) -> Self {
        self.set("details", details)
    }

    /// The limit that stopped the work on purpose.
    pub fn guardrail(
        self,
        name: impl Into<String>,
        threshold: impl Into<Value>,
        actual: impl Into<Value>,
    ) -> Self {
        self.set("guardrail", name.into())
            .set("threshold", threshold)
            .set("actual", actual)
    }

    fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.members.insert(key.into(), value.into());
        self
    }

    /// From an error, with the name of its type if the compiler knows it; otherwise `Debug` gives the name.
    pub(crate) fn from_error(error: &(dyn Error + 'static), type_name: Option<&str>) -> Self {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return refused.to_failure();
        }
        let timeout = causes(error).any(is_timeout);
        let stopped = causes(error).find_map(|cause| cause.downcast_ref::<Refused>());
        let causes = causes(error).skip(1);
        let chain: Vec<_> = causes
            .map(|cause| spelled(format_args!("{cause}")))
            .collect();
        let name = std_name(error).or(type_name);
        let name = name.map_or_else(|| name_from_debug(error), str::to_owned);
        let mut failure = Self::new(name, spelled(format_args!("{error}")));
        failure.is_timeout = timeout;
        if !chain.is_empty() {
            failure = failure.set("source", chain);
        }
        match stopped {
            Some(refused) => refused.add_to(failure),
            None => failure,
        }
    }

    /// An error inside `Ok`, of which only the type is known.
    pub(crate) fn nested(error_type: &str) -> Self {
        Self::new(error_type, UNKNOWN_TEXT)
    }

    /// A span that was given up after its time limit.
    pub(crate) fn time_limit(ms: u64) -> Self {
        Self::new("timeout", format!("{TIME_LIMIT}{ms} ms"))
    }

    pub(crate) fn panic(message: &str, place: Option<&Location<'_>>) -> Self {
        let failure = Self::new("panic", message);
        match place {
            Some(place) => failure.stack(format!("at {place}")),
            None => failure,
        }
    }

    /// Whether a time limit was exceeded.
    pub(crate) fn is_timeout(&self) -> bool {
        self.is_timeout
    }

    /// Its message.
    pub(crate) fn text(&self) -> Option<&str> {
        self.members.get("message").and_then(Value::as_str)
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(&self.members).unwrap_or_else(|_| "{}".into())
    }
}

/// Formats a value of the user's. If that fails, the text so far is returned; `to_string` would panic.
pub(crate) fn spelled(text: fmt::Arguments<'_>) -> String {
    use fmt::Write;
    let mut out = String::new();
    let _ = out.write_fmt(text);
    out
}

/// The name of an error of the standard library whose `Debug` begins with another word: `Os`, `NotPresent`,
/// `Timeout`.
fn std_name(error: &(dyn Error + 'static)) -> Option<&'static str> {
    macro_rules! name {
        ($($error:ty),+) => {
            $(if error.is::<$error>() { return Some(stringify!($error)); })+
        };
    }
    name!(
        std::io::Error,
        std::fmt::Error,
        std::env::VarError,
        std::sync::mpsc::RecvTimeoutError,
        std::sync::mpsc::TryRecvError
    );
    None
}

/// An error and the errors that caused it, the nearest first. A chain may be endless by mistake.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source()).take(65)
}

/// The identifier that a derived `Debug` begins with. For a wrapper that only adds context (all of them are called
/// `Error`), the identifier of its cause.
fn name_from_debug(error: &(dyn Error + 'static)) -> String {
    for current in causes(error) {
        if let Some(name) = std_name(current) {
            return name.to_owned();
        }
        let name = debug_name(current);
        let named = name.starts_with(|c: char| c.is_ascii_uppercase());
        if named && name != "Error" && name != "ContextError" {
            return name;
        }
    }
    "Error".into()
}

/// Whether an error says that a time limit was exceeded: tokio's `Elapsed`, the `TimedOut` of HTTP
/// clients, `std::io::ErrorKind::TimedOut`.
fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref::<std::io::Error>() {
        Some(error) => error.kind() == std::io::ErrorKind::TimedOut,
        None => matches!(&*debug_name(error), "Elapsed" | "TimedOut" | "TimeoutError"),
    }
}

fn debug_name(error: &(dyn Error + 'static)) -> String {
    let mut name = Identifier(String::new());
    let _ = fmt::Write::write_fmt(&mut name, format_args!("{error:?}"));
    name.0
}

/// Keeps the identifier that a text begins with, and ends the formatting there: behind it may come a
/// backtrace, whose symbols take 100 ms to resolve.
struct Identifier(String);

impl fmt::Write for Identifier {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.0.len() >= 200 || !(c.is_alphanumeric() || matches!(c, '_' | ':')) {
                return Err(fmt::Error);
            }
            self.0.push(c);
        }
        Ok(())
    }
}

/// Marks errors that implement [`std::error::Error`].
#[derive(Debug)]
pub enum ViaError {}

/// Marks errors that point at one: `anyhow::Error`, `Box<dyn Error + Send + Sync>`.
#[derive(Debug)]
pub enum ViaDeref {}

/// Marks other types that are accepted: a text, `Box<dyn Error>`.
#[derive(Debug)]
pub enum ViaType {}

/// A type that can be recorded as an error. `M` keeps the implementations apart and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be recorded as an error",
    label = "this error type can't be recorded",
    note = "implement `std::error::Error`, or use `anyhow::Error`, `Box<dyn Error>`, `String` or `&str`",
    note = "or record it by hand: `span.record_failure(&Failure::new(type, message))` and `span.finish(Outcome::Error)`"
)]
pub trait AsFailure<M> {
    /// The error as a line has it.
    fn as_failure(&self) -> Failure;
}

impl<E: Error + 'static> AsFailure<ViaError> for E {
    fn as_failure(&self) -> Failure {
        Failure::from_error(self, Some(std::any::type_name::<E>()))
    }
}

impl<E> AsFailure<ViaDeref> for E
where
    E: Deref<Target = dyn Error + Send + Sync + 'static>,
{
    fn as_failure(&self) -> Failure {
        let error: &(dyn Error + Send + Sync + 'static) = &**self;
        Failure::from_error(error, None)
    }
}

impl AsFailure<ViaType> for Box<dyn Error> {
    fn as_failure(&self) -> Failure {
        Failure::from_error(&**self, None)
    }
}

impl AsFailure<ViaType> for Box<dyn Error + Send> {
    fn as_failure(&self) -> Failure {
        Failure::from_error(&**self, None)
    }
}

/// The error that a tool returns to the model is often only a text.
impl AsFailure<ViaType> for String {
    fn as_failure(&self) -> Failure {
        Failure::message(self)
    }
}

impl AsFailure<ViaType> for &str {
    fn as_failure(&self) -> Failure {
        Failure::message(*self)
    }
}

impl AsFailure<ViaType> for str {
    fn as_failure(&self) -> Failure {
        Failure::message(self)
    }
}
