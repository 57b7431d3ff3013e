//! `status --watch`: each change of a status, as it happens.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use spanledger::read::Start;
use spanledger::session::{Entry, Monitor, MonitorEvent, StatusReport, Store};
use spanledger::trace::{RawLine, time_text};
use spanledger::view;

use crate::cli::context::{Context, Failed, warn};
use crate::cli::interrupt;

/// How often it looks whether processes died.
const TICK: Duration = Duration::from_millis(400);

/// Prints the status of a session and its subagents, or of all that are running, and then each change.
pub(super) fn run(session: Option<&str>, context: &mut Context) -> Result<(), Failed> {
    interrupt::install();
    let dir = session
        .map(|session| context.resolve(session))
        .transpose()?;
    let store = || Store::new(context.store.root());
    let mut monitor = match &dir {
        Some(dir) => Monitor::session(store(), dir, &Start::Now)?,
        None => Monitor::all(store(), &Start::Now, true)?,
    };
    let mut watch = Watch {
        printed: HashMap::new(),
        context,
    };
    watch.print_first(dir.is_some().then(|| monitor.main()).flatten())?;
    let mut changed = BTreeSet::new();
    let mut checked = Instant::now();
    while !interrupt::asked() {
        let event = monitor.next(interrupt::STEP)?;
        let quiet = event.is_none();
        match event {
            Some(MonitorEvent::Line(bytes)) => {
                let line = RawLine::parse(&bytes).ok();
                changed.extend(line.map(|line| line.session_id.into_owned()));
            }
            Some(MonitorEvent::WriterDied { session_id, .. }) => drop(changed.insert(session_id)),
            Some(MonitorEvent::Failed(error)) => warn(&error.to_string()),
            _ => {}
        }
        // Many lines at once are one look at the session.
        if quiet || checked.elapsed() >= TICK {
            for id in std::mem::take(&mut changed) {
                watch.look_at(&id)?;
            }
        }
        if checked.elapsed() >= TICK {
            monitor.check_writers();
            checked = Instant::now();
        }
    }
    Ok(())
}

struct Watch<'c> {
    /// What was printed last, by session.
    printed: HashMap<String, StatusReport>,
    context: &'c mut Context,
}

impl Watch<'_> {
    fn print_first(&mut self, main: Option<&str>) -> Result<(), Failed> {
        let entries = match main {
            Some(id) => vec![self.context.store.peek(&self.context.store.dir(id))?],
            None => self.context.store.list()?,
        };
        for entry in entries {
            if main.is_some() || entry.status.is_live() {
                self.print(&entry)?;
            }
        }
        self.context.flush()
    }

    /// Prints the status of a session if it has changed.
    fn look_at(&mut self, id: &str) -> Result<(), Failed> {
        self.context.store.forget_writers();
        // Pruned in the meantime.
        let Ok(entry) = self.context.store.peek(&self.context.store.dir(id)) else {
            return Ok(());
        };
        if self.printed.get(id) != Some(&entry.report()) {
            self.print(&entry)?;
        }
        self.context.flush()
    }

    fn print(&mut self, entry: &Entry) -> Result<(), Failed> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |time| time.as_nanos() as u64);
        let report = entry.report();
        let id = entry.summary.session_id.clone();
        if self.context.json {
            let mut object = report.to_json();
            object["at"] = time_text(now, 6).into();
            object["session_id"] = id.clone().into();
            self.context.object(&object)?;
        } else {
            let row = view::status_change(now, entry, &self.context.style);
            self.context.line(&row)?;
        }
        self.printed.insert(id, report);
        Ok(())
    }
}
