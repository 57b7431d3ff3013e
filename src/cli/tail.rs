//! `tail`: lines as they are written.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::context::{Context, Failed, damage_json, warn};
use super::interrupt;
use spanledger::read::Start;
use spanledger::session::{Monitor, MonitorEvent, OpenSpan, Store, Writer, is_delta};
use spanledger::trace::{Address, RawLine, time_text};
use spanledger::view::text::{line, safe_json};
use spanledger::view::{LiveRows, named_span};

/// Follow what happens in a session and its subagents, or in all live sessions
///
/// A row an event: the time, the session (if there are several), the event's address, what it is, and
/// its text. Streamed text comes in readable lines, not delta by delta. A row reports that the process
/// of a session died, or that the session was resumed. Ctrl-C ends it after a whole row, with exit
/// code 0.
///
/// With --json the trace's lines come as they are, except that characters which affect a terminal become
/// `\u` escapes. Of the last events, the deltas of streamed text are left out unless the text is still
/// arriving. The other rows come as {"notice": …}: writer_died,
/// resumed, damaged, nothing_live.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger tail last\n  spanledger tail --kind tool_call,tool_result,error\n  spanledger tail ses_0193 --from 1:17 --no-follow --json"
)]
pub(crate) struct Tail {
    /// The session: its id, a prefix of it, its directory, or `last`; all live ones by default
    session: Option<String>,
    /// How many of the last events to begin with
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Only events of this kind, such as tool_call; can be repeated
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,
    /// Begin with the event at this address of the session, such as 1:17
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "session",
        conflicts_with = "lines"
    )]
    from: Option<Address>,
    /// Print what is there and stop
    #[arg(long)]
    no_follow: bool,
    /// Truncate nothing
    #[arg(long)]
    full: bool,
}

/// How long nothing has to come before the writers are checked.
const TICK: Duration = Duration::from_millis(400);

impl Tail {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        context.style.full = self.full;
        interrupt::install();
        let mut monitor = self.monitor(context)?;
        let mut rows = Rows {
            live: LiveRows::new(monitor.main(), &self.kind),
            past: Some(VecDeque::new()),
            counted: 0,
            limit: self.from.map_or(self.lines, |_| usize::MAX),
            context,
        };
        while !interrupt::asked()
            && let Some(event) = monitor.next_past()?
        {
            rows.take(event)?;
        }
        rows.end_past()?;
        if monitor.main().is_none() && !monitor.is_live() {
            let text = match self.no_follow {
                true => "nothing is running",
                false => "nothing is running; waiting for a session to begin",
            };
            rows.notice("nothing_live", text, json!({}))?;
        }
        if self.no_follow {
            return rows.settle();
        }
        monitor.report_dead();
        let mut quiet = Duration::ZERO;
        while !interrupt::asked() {
            if let Some(event) = monitor.next(interrupt::STEP)? {
                rows.take(event)?;
                quiet = Duration::ZERO;
                continue;
            }
            quiet += interrupt::STEP;
            if quiet >= TICK {
                quiet = Duration::ZERO;
                rows.settle()?;
                monitor.check_writers();
                if reader_is_gone() {
                    return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
                }
            }
        }
        rows.settle()?;
        // A notice was printed of each.
        context.damages.clear();
        context.lost.clear();
        Ok(())
    }

    fn monitor(&self, context: &mut Context) -> Result<Monitor, Failed> {
        let start = match self.from {
            Some(address) => Start::At(address),
            None => Start::Last {
                lines: self.lines,
                kinds: self.kind.clone(),
            },
        };
        let dir = match &self.session {
            Some(session) => Some(context.resolve(session)?),
            None => None,
        };
        let store = Store::new(context.store.root());
        let monitor = match dir {
            Some(dir) => Monitor::session(store, &dir, &start)?,
            None => Monitor::all(store, &start, !self.no_follow)?,
        };
        for unreadable in &monitor.unreadable {
            warn(&unreadable.to_string());
        }
        Ok(monitor)
    }
}

/// What a row is: only events count as the last ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    Event,
    Delta,
    Notice,
}

/// Prints rows. Holds back all but the last ones until the past is over.
struct Rows<'c> {
    live: LiveRows,
    /// The rows of the past.
    past: Option<VecDeque<(Row, String)>>,
    counted: usize,
    limit: usize,
    context: &'c mut Context,
}

impl Rows<'_> {
    fn take(&mut self, event: MonitorEvent) -> Result<(), Failed> {
        match event {
            MonitorEvent::Line(bytes) => match RawLine::parse(&bytes) {
                Ok(raw) if self.context.json => self.json(&raw),
                Ok(raw) => {
                    let rows = self.live.line(&raw, &self.context.style);
                    rows.into_iter()
                        .try_for_each(|row| self.put(Row::Event, row))
                }
                Err(_) => Ok(()),
            },
            MonitorEvent::Damaged(damage) => {
                let text = format!("damaged: {damage}");
                self.notice("damaged", &text, damage_json(&damage))?;
                self.context.damages.push(damage);
                Ok(())
            }
            MonitorEvent::WriterDied {
                session_id,
                writer,
                open,
            } => self.writer_died(&session_id, writer.as_ref(), open.as_ref()),
            MonitorEvent::Resumed {
                session_id,
                writer,
                address,
            } => {
                let pid = writer.pid();
                let by = pid.map(|pid| format!(" by pid {pid}")).unwrap_or_default();
                let object = json!({
                    "session_id": session_id,
                    "writer": writer.id,
                    "pid": pid,
                    "address": address.to_string(),
                });
                self.notice("resumed", &format!("{session_id} is resumed{by}"), object)
            }
            MonitorEvent::Failed(error) => {
                warn(&error.to_string());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn writer_died(
        &mut self,
        session_id: &str,
        writer: Option<&Writer>,
        open: Option<&OpenSpan>,
    ) -> Result<(), Failed> {
        let pid = writer.and_then(Writer::pid);
        let process = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        let mut text = format!("{session_id}: its process{process} died");
        if let Some(open) = open {
            let named = named_span(open.kind, &open.name);
            let since = self.context.style.clock(open.since);
            let at = open.address;
            text.push_str(&format!(" with {named} open since {since} at {at}"));
        }
        let open = open.map(|open| {
            json!({
                "kind": open.kind.as_str(),
                "name": open.name,
                "address": open.address.to_string(),
                "since": time_text(open.since, 6),
            })
        });
        let object = json!({
            "session_id": session_id,
            "writer": writer.map(|writer| &writer.id),
            "pid": pid,
            "open": open,
        });
        self.notice("writer_died", &text, object)
    }

    /// The line as it is. One whose values are no JSON is reported instead.
    fn json(&mut self, raw: &RawLine<'_>) -> Result<(), Failed> {
        if !self.live.wants(raw) {
            return Ok(());
        }
        let Err(error) = serde_json::from_slice::<IgnoredAny>(raw.as_bytes()) else {
            let text = String::from_utf8_lossy(raw.as_bytes()).into_owned();
            let row = match is_delta(raw.kind()) {
                true => Row::Delta,
                false => Row::Event,
            };
            return self.put(row, safe_json(&text).into_owned());
        };
        let (id, address, why) = (
            &raw.session_id,
            raw.address().to_string(),
            error.to_string(),
        );
        let error = format!("session {id:?}: line {address}: {why}");
        let error = io::Error::new(io::ErrorKind::InvalidData, error);
        self.context.lost.push(error);
        let object = json!({"session_id": id, "address": address, "why": why});
        self.put(Row::Notice, notice_json("damaged", object))
    }

    /// Reports something that is no line of the trace: with --json an object, else a text.
    fn notice(&mut self, name: &str, text: &str, object: Value) -> Result<(), Failed> {
        if self.context.json {
            return self.put(Row::Notice, notice_json(name, object));
        }
        self.settle()?;
        let text = format!("-- {}", line(text));
        let text = self.context.style.yellow(&text);
        self.put(Row::Notice, text)
    }

    /// The past is over: prints its last rows. From here on each row is printed at once.
    fn end_past(&mut self) -> Result<(), Failed> {
        let past = self.past.take().unwrap_or_default();
        // An event after a delta has its text, or makes it old. From an address on, every line counts.
        let last = past.iter().rposition(|(row, _)| *row == Row::Event);
        let is_old = |at: usize| self.limit != usize::MAX && last.is_some_and(|last| at < last);
        for (at, (row, text)) in past.iter().enumerate() {
            if !(*row == Row::Delta && is_old(at)) {
                self.context.line(text)?;
            }
        }
        self.context.flush()
    }

    /// Prints the streamed text that is held back.
    fn settle(&mut self) -> Result<(), Failed> {
        let rows = self.live.settle(None, &self.context.style);
        rows.into_iter()
            .try_for_each(|row| self.put(Row::Event, row))
    }

    fn put(&mut self, kind: Row, row: String) -> Result<(), Failed> {
        let Some(past) = &mut self.past else {
            self.context.line(&row)?;
            return self.context.flush();
        };
        past.push_back((kind, row));
        self.counted += usize::from(kind == Row::Event);
        while self.counted > self.limit
            && let Some((kind, _)) = past.pop_front()
        {
            self.counted -= usize::from(kind == Row::Event);
        }
        Ok(())
    }
}

fn notice_json(name: &str, object: Value) -> String {
    let mut notice = json!({"notice": name});
    if let (Value::Object(all), Value::Object(fields)) = (&mut notice, object) {
        all.extend(fields);
    }
    safe_json(&notice.to_string()).into_owned()
}

/// Whether the reader of our output is gone. Without rows to write we would not notice.
fn reader_is_gone() -> bool {
    let mut stdout = [PollFd::from_borrowed_fd(
        rustix::stdio::stdout(),
        PollFlags::empty(),
    )];
    let ready = poll(&mut stdout, Some(&Timespec::default()));
    let gone = PollFlags::ERR | PollFlags::NVAL;
    ready.is_ok_and(|ready| ready > 0) && stdout[0].revents().intersects(gone)
}
