//! Many live sessions in one process.

use serde_json::json;
use spanledger::{Outcome, SpanExt, events, spans};
use tracing::Span;

#[derive(Default)]
pub struct Many(Vec<Span>);

impl Many {
    pub fn open(&mut self, count: usize) {
        self.0 = (0..count)
            .map(|n| spans::session_run(format!("many_{n}"), "many").start())
            .collect();
    }

    /// Every session gets a tool call with an event inside, from four threads at once.
    pub fn round(&self, round: usize) {
        let share = self.0.len().div_ceil(4);
        std::thread::scope(|scope| {
            for runs in self.0.chunks(share) {
                scope.spawn(move || {
                    for run in runs {
                        let tool = spans::tool_call("t", format!("c{round}"))
                            .child_of(run)
                            .start();
                        events::custom("probe", json!({"n": round}))
                            .on(&tool)
                            .emit();
                        tool.finish(Outcome::Ok);
                    }
                });
            }
        });
    }

    pub fn close(&mut self) {
        for run in self.0.drain(..) {
            run.finish(Outcome::Ok);
        }
    }
}

/// Threads that share one session.
pub fn burst(session: &str, threads: usize, count: usize, tag: &str) {
    let run = spans::session_run(session, "burst").start();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let run = &run;
            scope.spawn(move || {
                for n in 0..count {
                    let key = format!("{tag}.{thread}.{n}");
                    let tool = spans::tool_call("t", &key).child_of(run).start();
                    events::custom("probe", json!({"key": key}))
                        .on(&tool)
                        .emit();
                    tool.finish(Outcome::Ok);
                }
            });
        }
    });
    run.finish(Outcome::Ok);
}
