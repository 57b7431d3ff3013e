//! A process with one subscriber: spans created while another is created, while a thread exits, or first on a
//! thread without it.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use spanledger::{Guard, spans};
use tempfile::TempDir;
use tracing::span::Attributes;
use tracing::{Id, Span, Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::support::child;
use crate::support::{LineExt, Recording, Trace};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls `what`, unless it is being called already.
fn once_inside(what: impl FnOnce()) {
    if !INSIDE.replace(true) {
        what();
        INSIDE.set(false);
    }
}

/// Another layer, which creates an agent span when a model call is created.
struct Nosy;

impl<S: Subscriber> Layer<S> for Nosy {
    fn on_new_span(&self, attrs: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if attrs.metadata().name() == "model.call" {
            once_inside(|| drop(spans::compaction_run().start()));
        }
    }
}

/// A foreign span that `record_spans` is asked about.
fn asked_about() -> Span {
    info_span!("asked about")
}

/// The root of the one ledger.
fn root() -> &'static Path {
    static LEDGER: OnceLock<(TempDir, Guard)> = OnceLock::new();
    let (dir, _) = LEDGER.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let builder = spanledger::builder().root(dir.path());
        let builder = builder.record_spans(|meta| {
            let asked = meta.name() == "asked about";
            if asked {
                once_inside(|| drop(asked_about()));
            }
            asked
        });
        let (layer, guard) = builder.build().unwrap();
        let subscriber = tracing_subscriber::registry().with(Nosy).with(layer);
        tracing::subscriber::set_global_default(subscriber).unwrap();
        (dir, guard)
    });
    dir.path()
}

#[test]
fn span_created_while_creating_another() {
    child::alone(|| {
        let root = root();
        let _run = spans::session_run("nosy", "planner").start().entered();
        let call = spans::model_call("anthropic", "sonnet").params("for us alone");
        drop(call.start());
        let trace = Trace::read(root);
        assert_eq!(trace.one("model_call").text("params"), "for us alone");
        assert_eq!(trace.all("compaction_start").len(), 1);
    });
}

#[test]
fn span_created_in_the_record_spans_filter() {
    child::alone(|| {
        let root = root();
        let _run = spans::session_run("asked", "planner").start().entered();
        drop(asked_about());
        let trace = Trace::read(root);
        let opened = trace.kinds("asked").into_iter();
        assert_eq!(opened.filter(|kind| *kind == "span_start").count(), 2);
    });
}

/// One line, however much is recorded outside every run, and none before that.
#[test]
fn stderr_names_the_implicit_session_once() {
    if child::is_child() {
        let recording = Recording::new();
        recording.run(|| {
            drop(spans::session_run("s", "planner").start());
            eprintln!("the run is over");
            drop(spans::tool_call("lost", "c1").start());
            drop(spans::tool_call("lost", "c2").start());
        });
        let health = recording.guard.health();
        assert!(health.orphaned > 1);
        println!("implicit={}", health.implicit_session.unwrap());
        return;
    }
    let output = child::calling_test().output().unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|out| String::from_utf8(out).unwrap());
    let (_, id) = stdout.split_once("implicit=").unwrap();
    let (before, after) = stderr.split_once("the run is over").unwrap();
    assert!(!before.contains("spanledger:"), "{stderr}");
    let lines: Vec<_> = after
        .lines()
        .filter(|line| line.contains("spanledger: "))
        .collect();
    let [line] = lines[..] else {
        panic!("{stderr}")
    };
    assert!(line.contains(id.lines().next().unwrap()), "{line}");
    assert!(line.contains(".recorded(span)"), "{line}");
}

#[test]
fn stderr_names_a_filter_that_disables_agent_spans() {
    if child::is_child() {
        let dir = tempfile::tempdir().unwrap();
        let builder = spanledger::builder().root(dir.path());
        let (layer, _guard) = builder.build().unwrap();
        let subscriber = tracing_subscriber::registry()
            .with(layer)
            .with(tracing_subscriber::EnvFilter::new("warn"));
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..3 {
                let run = spans::session_run("s", "planner").start();
                assert!(run.is_disabled());
            }
        });
        return;
    }
    let warnings = |variables: &[(&str, &str)]| {
        let mut child = child::calling_test();
        let output = child.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success());
        let stderr = String::from_utf8(output.stderr).unwrap();
        stderr
            .matches("spanledger: agent spans are not recorded: a global filter")
            .count()
    };
    assert_eq!(warnings(&[]), 1);
    assert_eq!(warnings(&[("SPANLEDGER_DISABLED", "true")]), 0);
}

#[test]
fn span_first_created_without_the_subscriber() {
    child::alone(|| {
        type Make = fn() -> Span;
        let run: Make = || spans::session_run("s", "planner").start();
        let call: Make = || spans::model_call("anthropic", "sonnet").start();
        let tool: Make = || spans::tool_call("bash", "c1").start();
        let recording = Recording::new();
        recording.run(|| {
            // One after the other: each is found disabled right after the one before was repaired.
            for make in [run, call, tool] {
                let elsewhere = std::thread::spawn(move || make().is_disabled());
                assert!(elsewhere.join().unwrap());
                assert!(!make().is_disabled());
            }
            recording.guard.check().unwrap();
        });
        for closed in ["session_end", "model_result", "tool_result"] {
            assert_eq!(recording.trace().all(closed).len(), 1);
        }
    });
}

/// Creates a span when it is dropped.
struct Parting(&'static str);

impl Drop for Parting {
    fn drop(&mut self) {
        let call = spans::tool_call("bash", self.0).args("at the end");
        drop(call.start());
    }
}

thread_local! {
    static LATER: RefCell<Option<Parting>> = const { RefCell::new(None) };
    static EARLIER: RefCell<Option<Parting>> = const { RefCell::new(None) };
}

#[test]
fn span_created_while_its_thread_exits() {
    child::alone(|| {
        static PANICS: AtomicUsize = AtomicUsize::new(0);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            hook(panic);
        }));
        let root = root();
        let thread = std::thread::spawn(|| {
            // The registry's thread-local data is destroyed last.
            drop(info_span!("theirs"));
            LATER.set(Some(Parting("later")));
            drop(spans::tool_call("bash", "alive").start());
            EARLIER.set(Some(Parting("earlier")));
        });
        thread.join().unwrap();
        let trace = Trace::read(root);
        for id in ["earlier", "later"] {
            let call = trace.find("tool_call", "tool_call_id", id);
            assert_eq!(call.text("args"), "at the end", "{id}");
        }
        assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    });
}
