//! Two futures, of which the first that is ready counts.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Until one of them is ready; the other is dropped.
pub(crate) async fn first<T>(a: impl Future<Output = T>, b: impl Future<Output = T>) -> T {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|context| match a.as_mut().poll(context) {
        Poll::Pending => b.as_mut().poll(context),
        ready => ready,
    })
    .await
}
