//! Futures whose span ends as they do.

use std::any::type_name;
use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::discriminant;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tracing::Span;

use crate::record::layer::{Op, on_span};
use crate::record::panics::{caught_panic, last_panic};
use crate::trace::{AsFailure, Failure, Outcome};

/// Gives a future's span its outcome.
pub trait FutureExt: Future + Sized {
    /// Runs the future inside `span` and closes the span with the truth: `ok` or `error` from the
    /// `Result`, `timed_out` if the error is a timeout, `cancelled` when the future is dropped
    /// unfinished (an abort, the other branch of a `select!`), and an error with its message when it
    /// panics.
    ///
    /// A cancelled span says why if that is known: the future never ran, a panic dropped it, or the
    /// future around it was dropped. To give the reason yourself, call `span.record_error("…")` before
    /// you drop the future.
    ///
    /// `Ok(Err(_))`, which `timeout(limit, tool())` and a task's handle return, is an error too. Its text is
    /// not known here, only its type; to record the text, unwrap the outer result inside:
    /// `async { timeout(limit, tool()).await? }.recorded(span)`.
    ///
    /// ```
    /// use spanledger::{FutureExt, spans};
    /// # async fn run_tool() -> Result<String, std::io::Error> { Ok("done".into()) }
    /// # async fn example() -> Result<(), std::io::Error> {
    /// let tool = spans::tool_call("bash", "call_1").start();
    /// let output = run_tool().recorded(tool).await?;
    /// # Ok(()) }
    /// ```
    fn recorded<T, E, M>(self, span: Span) -> Recorded<Self, M>
    where
        Self: Future<Output = Result<T, E>>,
        E: AsFailure<M>,
    {
        Recorded {
            future: Some(self),
            span,
            state: State::New,
            _marker: PhantomData,
        }
    }
}

impl<F: Future> FutureExt for F {}

pin_project! {
    /// A future that closes its span; made by [`FutureExt::recorded`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Recorded<F, M> {
        #[pin]
        future: Option<F>,
        span: Span,
        state: State,
        _marker: PhantomData<fn(M)>,
    }

    impl<F, M> PinnedDrop for Recorded<F, M> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if *this.state != State::Done {
                let error = reason(*this.state);
                let outer = DROPPING.replace(true);
                // Events of the future's destructors belong inside the span.
                this.span.in_scope(|| this.future.set(None));
                DROPPING.set(outer);
                finish(this.span, Outcome::Cancelled, error);
            }
        }
    }
}

/// How far a future is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    New,
    Started,
    Done,
}

thread_local! {
    /// Whether a recorded future is being dropped on this thread.
    static DROPPING: Cell<bool> = const { Cell::new(false) };
}

fn finish(span: &Span, outcome: Outcome, error: Option<Failure>) {
    on_span(span, Op::Finish { outcome, error });
}

/// Why a future that is not done is dropped, if that is known.
fn reason(state: State) -> Option<Failure> {
    let why = if DROPPING.get() {
        "the future around it was dropped".to_owned()
    } else if std::thread::panicking() {
        let panic = last_panic();
        format!("dropped by a panic: {}", panic.text().unwrap_or_default())
    } else if state == State::New {
        "the future never ran".to_owned()
    } else {
        return None;
    };
    Some(Failure::new("cancelled", why))
}

impl<F, T, E, M> Future for Recorded<F, M>
where
    F: Future<Output = Result<T, E>>,
    E: AsFailure<M>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let _entered = this.span.enter();
        let Some(future) = this.future.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        if *this.state == State::New {
            *this.state = State::Started;
        }
        // The panic continues; only its message is recorded.
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => {
                *this.state = State::Done;
                let error = match &result {
                    Ok(value) => nested_error(value),
                    Err(error) => Some(error.as_failure()),
                };
                let outcome = match &error {
                    None => Outcome::Ok,
                    Some(error) if error.is_timeout() => Outcome::TimedOut,
                    Some(_) => Outcome::Error,
                };
                finish(this.span, outcome, error);
                this.future.set(None);
                Poll::Ready(result)
            }
            Err(panic) => {
                *this.state = State::Done;
                let error = caught_panic(&*panic);
                finish(this.span, Outcome::Error, Some(error));
                resume_unwind(panic)
            }
        }
    }
}

/// The error of a `Result` inside `Ok`. Rust has no way to ask whether a generic type is a `Result`, so this
/// asks for its name and its discriminant: `Ok` is 0 and `Err` is 1. A test notices if that changes.
fn nested_error<T>(value: &T) -> Option<Failure> {
    let types = type_name::<T>().strip_prefix("core::result::Result<")?;
    let is_err = format!("{:?}", discriminant(value)) == "Discriminant(1)";
    is_err.then(|| {
        let error = last_argument(types.strip_suffix('>').unwrap_or(types));
        Failure::nested(error)
    })
}

/// The last of the type arguments in `A, B<C, D>`.
fn last_argument(types: &str) -> &str {
    let mut depth = 0;
    let comma = types.bytes().rposition(|byte| {
        depth += match byte {
            b'>' | b')' | b']' => 1,
            b'<' | b'(' | b'[' => -1,
            _ => 0,
        };
        byte == b',' && depth == 0
    });
    comma.map_or(types, |comma| types[comma + 1..].trim_start())
}

#[cfg(test)]
mod tests;
