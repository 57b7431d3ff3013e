//! When and how often a request is sent again.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;

use super::Sender;
use super::batch::Batch;
use super::classify::{self, Verdict};
use super::in_flight::SpanRef;
use super::queue::Queue;
use crate::mirror::transport::Answer;

const FIRST_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Bounds for the delay that a server asks for.
const MAX_DELAY: Duration = Duration::from_secs(300);
const MIN_DELAY: Duration = Duration::from_millis(100);

#[derive(Clone, Copy)]
pub(super) struct Attempt {
    started: Instant,
    /// Whether the agent was shutting down already.
    is_last: bool,
}

impl Sender<'_> {
    pub(super) fn attempt(&mut self) -> Attempt {
        self.sent.requests += 1;
        Attempt {
            started: Instant::now(),
            is_last: self.queue.is_some_and(Queue::stopping),
        }
    }

    /// Sends a batch until there is a final verdict or patience runs out.
    pub(super) async fn request(&mut self, batch: &Batch<SpanRef>) -> Verdict {
        let request = Bytes::from(batch.encode_as(self.transport.encoding()));
        let attempt = self.attempt();
        let answer = self.transport.send(request.clone()).await;
        self.retry(request, attempt, answer).await
    }

    /// Sends a request again while its answers ask for that and patience is left.
    pub(super) async fn retry(
        &mut self,
        request: Bytes,
        mut attempt: Attempt,
        mut answer: Answer,
    ) -> Verdict {
        let started = attempt.started;
        let mut backoff = FIRST_BACKOFF;
        loop {
            let verdict = classify::answer(&answer, self.transport.is_grpc(), self.redactor);
            let (after, why) = match &verdict {
                Verdict::Retry { after, why } => (*after, why),
                Verdict::Wait { why } => (None, why),
                _ => return verdict,
            };
            // Half of the delay is random, so that clients that failed together spread out.
            let jittered = backoff / 2 + backoff.mul_f64(fastrand::f64() / 2.0);
            let delay = after.unwrap_or(jittered).clamp(MIN_DELAY, MAX_DELAY);
            let late = |most| started.elapsed() + delay > most;
            if attempt.is_last || self.patience.is_some_and(late) {
                return verdict;
            }
            self.report_waiting(why);
            match self.queue {
                // At shutdown there is one more attempt: the server may be back.
                Some(queue) => tokio::select! {
                    () = sleep(delay) => {}
                    () = queue.stopped() => {}
                },
                None => sleep(delay).await,
            }
            backoff = (backoff * 2).min(MAX_BACKOFF);
            attempt = self.attempt();
            answer = self.transport.send(request.clone()).await;
        }
    }
}
