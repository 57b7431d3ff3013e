//! Futures whose span ends as they do.

use std::any::type_name;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::discriminant;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tracing::Span;

use super::ext::SpanExt;
use crate::record::panics::caught_panic;
use crate::trace::{AsFailure, Failure, Outcome};

/// Gives a future's span its outcome.
pub trait FutureExt: Future + Sized {
    /// Runs the future inside `span` and closes the span with the truth: `ok` or `error` from the
    /// `Result`, `timed_out` if the error is a timeout, `cancelled` when the future is dropped
    /// unfinished (an abort, the other branch of a `select!`), and an error with its message when it
    /// panics.
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
            done: false,
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
        done: bool,
        _marker: PhantomData<fn(M)>,
    }

    impl<F, M> PinnedDrop for Recorded<F, M> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if !*this.done {
                // Events of the future's destructors belong inside the span.
                this.span.in_scope(|| this.future.set(None));
                this.span.finish(Outcome::Cancelled);
            }
        }
    }
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
        // The panic continues; only its message is recorded.
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => {
                *this.done = true;
                let failure = match &result {
                    Ok(value) => nested_error(value),
                    Err(error) => Some(error.as_failure()),
                };
                if let Some(failure) = &failure {
                    this.span.record_failure(failure);
                }
                this.span.finish(match failure {
                    None => Outcome::Ok,
                    Some(failure) if failure.is_timeout() => Outcome::TimedOut,
                    Some(_) => Outcome::Error,
                });
                this.future.set(None);
                Poll::Ready(result)
            }
            Err(panic) => {
                *this.done = true;
                this.span.record_failure(&caught_panic(&*panic));
                this.span.finish(Outcome::Error);
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
        Failure::new(
            error,
            "the future returned Ok(Err(_)); its text is not known",
        )
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
mod tests {
    use super::*;

    #[test]
    fn nested_results_are_looked_into() {
        type Pair = (u8, Vec<String>);
        assert_eq!(
            nested_error(&Ok::<Pair, std::io::Error>((0, Vec::new()))),
            None
        );
        assert_eq!(nested_error(&Some(1)), None);
        assert_eq!(nested_error(&"core::result::Result<"), None);
        let failure = nested_error(&Err::<Pair, String>("no".into())).unwrap();
        assert!(failure.to_json().contains("alloc::string::String"));
        let failure = nested_error(&Err::<u8, Result<u8, (u8, String)>>(Ok(1))).unwrap();
        assert!(
            failure.to_json().contains("Result<u8, (u8, "),
            "{failure:?}"
        );
    }
}
