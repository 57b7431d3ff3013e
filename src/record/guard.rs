//! The agent's guard and handles of a ledger.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::Level;
use tracing::level_filters::LevelFilter;

use crate::error::Error;
use crate::record::health::Health;
use crate::record::layer::{FILTERED, Op, Recorder, Target, on_current};
use crate::record::spans::{Session, probe};

const NOT_INSTALLED: &str = "the layer is not installed: the layer of `build()` was never added to the active \
     subscriber (`registry().with(layer)`)";
const ONLY_OUR_TARGET: &str = "a global filter spares only the target `spanledger`, so your own spans and macros don't \
     reach the trace and can't carry a session; filter your fmt layer instead: `fmt::layer().with_filter(..)`";

/// Keeps a ledger in order until the end of `main`.
///
/// Dropped, it does what [`shutdown`](Self::shutdown) does and swallows the error. Recording goes
/// on working after either: spans that end later still get their lines.
#[derive(Debug)]
#[must_use = "bind it to a name: `let _ = …` drops it at once"]
pub struct Guard {
    recorder: Arc<Recorder>,
    /// Up to which level foreign spans carry a session.
    carry: LevelFilter,
    /// How long a shutdown waits for the mirror.
    timeout: Duration,
    done: bool,
}

impl Guard {
    pub(crate) fn new(recorder: Arc<Recorder>, carry: LevelFilter, timeout: Duration) -> Self {
        Self {
            recorder,
            carry,
            timeout,
            done: false,
        }
    }

    /// How recording is going.
    pub fn health(&self) -> Health {
        self.recorder.process.health()
    }

    /// A handle that can be cloned and sent anywhere.
    pub fn handle(&self) -> Handle {
        Handle {
            recorder: Arc::clone(&self.recorder),
        }
    }

    /// Checks that agent spans made here and now reach this ledger: that the layer is installed,
    /// that no global filter (a bare `EnvFilter`, say) switches them or your own spans off, and that nothing
    /// has been lost so far. Where the trace is sent, also that no `tracing-opentelemetry` layer sends
    /// agent spans once more; one that uses another version of the crate `opentelemetry` is not found.
    ///
    /// To see what other layers see, it makes a span `session.run`, of which nothing is recorded or sent.
    ///
    /// Where recording is disabled (`SPANLEDGER_DISABLED`), this succeeds.
    pub fn check(&self) -> Result<(), Error> {
        let not = |why| Err(Error::NotRecording { why });
        let recorder = &self.recorder;
        if recorder.process.disabled {
            return Ok(());
        }
        if recorder.process.ledger.is_forked() {
            return not("this process was forked from the one that records, without an exec");
        }
        match on_current(Op::Probe) {
            Some(found) if Arc::ptr_eq(&found.recorder, recorder) => {}
            Some(_) => return not("another ledger's layer is installed here"),
            None => return not(NOT_INSTALLED),
        }
        let seen = Arc::new(AtomicBool::new(false));
        let (_probe, is_sent_twice) = recorder.otel.probe(|| probe(&seen));
        if !seen.load(Ordering::Relaxed) {
            return not(FILTERED);
        }
        let carries = self.carry >= LevelFilter::INFO;
        if carries && !tracing::span_enabled!(target: "any_other_target", Level::INFO) {
            return not(ONLY_OUR_TARGET);
        }
        if is_sent_twice {
            return Err(Error::SentTwice);
        }
        let health = recorder.process.health();
        match health.last_error {
            Some(cause) if health.failed > 0 => Err(Error::Lost {
                events: health.failed,
                root: recorder.process.root().to_owned(),
                cause,
            }),
            _ => Ok(()),
        }
    }

    /// Tries once more to write lines that could not be written, syncs, and reports what is missing. Recording
    /// still works afterwards.
    ///
    /// Where there is a mirror, it sends what it can within
    /// `Builder::shutdown_timeout` and ends; the rest, and what is
    /// recorded later, is sent by the next process that starts with this root. A rest to send is no error:
    /// `Health::mirror` has its size. Metrics are sent one last time, within the same time; what spans
    /// that end later would add to them is not.
    pub fn shutdown(mut self) -> Result<Health, Error> {
        self.done = true;
        self.close()
    }

    fn close(&self) -> Result<Health, Error> {
        let recorder = &self.recorder;
        let (missing, synced) = recorder.process.flush();
        recorder.process.stop_sending(self.timeout);
        let health = recorder.process.health();
        let cause = match synced {
            Err(error) => format!("sync: {error}"),
            Ok(()) if missing == 0 => return Ok(health),
            Ok(()) => health.last_error.unwrap_or_default(),
        };
        Err(Error::Lost {
            events: missing,
            root: recorder.process.root().to_owned(),
            cause,
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.done {
            let _ = self.close();
        }
    }
}

/// Reaches a ledger from anywhere. Cloned from the [`Guard`].
#[derive(Clone, Debug)]
pub struct Handle {
    recorder: Arc<Recorder>,
}

impl Handle {
    /// A session by its id, new or old, ended or not.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let (layer, guard) = spanledger::builder().root(dir.path()).build::<tracing_subscriber::Registry>()?;
    /// use spanledger::events;
    /// let session = guard.handle().session("ses_1");
    /// session.record(events::annotation("3:7", "wrong file").author("reviewer"));
    /// # drop(layer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn session(&self, id: &str) -> Session {
        let log = self.recorder.process.session(id);
        Session::new(&self.recorder, Target::session(log))
    }

    /// How recording is going.
    pub fn health(&self) -> Health {
        self.recorder.process.health()
    }

    /// Where the trace is.
    pub fn root(&self) -> &Path {
        self.recorder.process.root()
    }

    /// Tries now to write lines that could not be written, and syncs. Returns how many events are still missing
    /// and not counted by a `gap` line.
    pub fn flush(&self) -> u64 {
        self.recorder.process.flush().0
    }
}
