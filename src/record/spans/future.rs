//! Futures whose span ends as they do.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tracing::Span;

use super::ext::SpanExt;
use crate::trace::{AsFailure, Failure, Outcome};

/// Gives a future's span its outcome.
pub trait FutureExt: Future + Sized {
    /// Runs the future inside `span` and closes the span with its outcome: `ok` or `error` from the
    /// `Result`, `cancelled` when the future is dropped unfinished (a timeout, an abort, the
    /// other branch of a `select!`), and `error` with the panic's message when it panics.
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
                match &result {
                    Ok(_) => this.span.finish(Outcome::Ok),
                    Err(error) => {
                        this.span.record_failure(&error.as_failure());
                        this.span.finish(Outcome::Error);
                    }
                }
                this.future.set(None);
                Poll::Ready(result)
            }
            Err(panic) => {
                *this.done = true;
                this.span
                    .record_failure(&Failure::panic(panic_message(&*panic)));
                this.span.finish(Outcome::Error);
                resume_unwind(panic)
            }
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> Option<&str> {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
