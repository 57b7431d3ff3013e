//! Under the subscriber of the whole process, which hears of what happens while it hears of
//! something else, and until a thread's very end.

mod support;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use spanledger::{Guard, spans};
use support::{LineExt, Trace};
use tempfile::TempDir;
use tracing::span::Attributes;
use tracing::{Id, Span, Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Does something, but not while it does so.
fn once_inside(what: impl FnOnce()) {
    if !INSIDE.replace(true) {
        what();
        INSIDE.set(false);
    }
}

/// A neighbour that makes an agent span of its own when it sees a model called.
struct Nosy;

impl<S: Subscriber> Layer<S> for Nosy {
    fn on_new_span(&self, attrs: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if attrs.metadata().name() == "model.call" {
            once_inside(|| drop(spans::compaction_run().start()));
        }
    }
}

/// A span of others that the user is asked about.
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
fn a_span_keeps_its_fields_though_a_neighbour_makes_another_while_it_is_made() {
    let root = root();
    let _run = spans::session_run("nosy", "planner").start().entered();
    let call = spans::model_call("anthropic", "sonnet").params("for us alone");
    drop(call.start());
    let trace = Trace::read(root);
    assert_eq!(trace.one("model_call").text("params"), "for us alone");
    assert_eq!(trace.all("compaction_start").len(), 1);
}

#[test]
fn whoever_is_asked_whether_a_span_is_wanted_may_make_one_like_it() {
    let root = root();
    let _run = spans::session_run("asked", "planner").start().entered();
    drop(asked_about());
    let trace = Trace::read(root);
    let opened = trace.kinds("asked").into_iter();
    assert_eq!(opened.filter(|kind| *kind == "span_start").count(), 2);
}

/// Makes a span when it is dropped.
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
fn a_span_that_is_made_while_its_thread_ends_has_its_fields_and_panics_nowhere() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        hook(panic);
    }));
    let root = root();
    let thread = std::thread::spawn(|| {
        // The registry's part of the thread goes last.
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
}
