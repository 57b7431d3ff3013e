//! `tail`: what happens, as it happens.

mod family;
mod life;
mod rows;
mod streams;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::context::{Context, Failed, tell};
use super::interrupt;
use crate::ledger::parse_time;
use crate::reader::{Address, Damage, Followed, Follower, Found, RawLine, Start};
use crate::view::text::plural;
use family::Family;
use life::Lives;
use rows::Rows;

/// Follow what happens in a session and its subagents, or in all live sessions
///
/// A line an event: the time, the session (where there are several), the event's address, what it
/// is, and what it says. Text that is streamed comes in readable lines, not piece by piece. When
/// the process of a session dies that is said, and so is that the session is resumed. Ctrl-C ends
/// it after a whole line, with exit code 0.
///
/// With --json the trace's lines come as they are, and what tail itself has to say as
/// {"notice": …}: writer_died, resumed, damaged, nothing_live.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger tail last\n  spanledger tail --kind tool_call,tool_result,error\n  spanledger tail ses_0193 --from 1:17 --no-follow --json"
)]
pub(crate) struct Tail {
    /// The session: its id, the beginning of it, or `last`; all live ones by default
    session: Option<String>,
    /// How many of the last events to begin with
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Only events of this kind, such as tool_call; can be given again
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
    /// Cut nothing
    #[arg(long)]
    full: bool,
}

/// How long nothing has to come before looking whether the writers still live.
const TICK: Duration = Duration::from_millis(400);

impl Tail {
    pub fn run(&self, context: &mut Context) -> Result<(), Failed> {
        context.style.full = self.full;
        interrupt::heed();
        let mut lives = Lives::default();
        let (mut follower, mut family) = match &self.session {
            Some(session) => self.one(context, session, &mut lives)?,
            None => self.all(context, &mut lives)?,
        };
        let limit = if self.from.is_some() {
            usize::MAX
        } else {
            self.lines
        };
        let mut rows = Rows::new(&self.kind, family.main().map(str::to_owned), limit);
        let mut damages = Vec::new();

        // What is there. A writer that is quicker than we are must not keep us here.
        // Where the clock was ahead, what it wrote was there before us all the same.
        let began = lives.newest().max(context.style.now);
        let main = family.main().map(|id| context.store.dir(id));
        loop {
            let followed = match follower.next(Duration::ZERO) {
                Ok(Some(followed)) => followed,
                Ok(None) => break,
                Err(error) => {
                    goes_on(&follower, main.as_deref(), error)?;
                    continue;
                }
            };
            let written = self.take(followed, context, &mut family, &mut rows, &mut damages)?;
            if written.is_some_and(|ns| ns > began) || interrupt::asked() {
                break;
            }
        }
        rows.begin(context)?;
        if family.main().is_none() && !lives.any() {
            let text = match self.no_follow {
                true => "nothing is running",
                false => "nothing is running; waiting for a session to begin",
            };
            rows.notice(context, text, json!({"notice": "nothing_live"}))?;
        }
        if self.no_follow {
            rows.settle(context)?;
            return context.damaged(&damages);
        }
        lives.say_dead(context, &mut rows)?;

        let mut quiet = Duration::ZERO;
        loop {
            if interrupt::asked() {
                return rows.settle(context);
            }
            let next = match follower.next(interrupt::STEP) {
                Ok(next) => next,
                Err(error) => {
                    goes_on(&follower, main.as_deref(), error)?;
                    continue;
                }
            };
            let Some(followed) = next else {
                quiet += interrupt::STEP;
                if quiet < TICK {
                    continue;
                }
                quiet = Duration::ZERO;
                rows.settle(context)?;
                lives.check(context, &mut rows, &family)?;
                if nobody_listens() {
                    return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
                }
                continue;
            };
            quiet = Duration::ZERO;
            let dir = followed.session.to_owned();
            if let Found::Line(line) = &followed.found {
                lives.take(context, &mut rows, &dir, line, &family)?;
            }
            self.take(followed, context, &mut family, &mut rows, &mut damages)?;
            damages.clear();
        }
    }

    /// One session, its subagents, and those that it will have.
    fn one(
        &self,
        context: &Context,
        session: &str,
        lives: &mut Lives,
    ) -> Result<(Follower, Family), Failed> {
        let store = &context.store;
        let dir = store.resolve(session)?;
        let mut follower = Follower::new_sessions(store.root())?;
        let entry = store.glance(&dir)?;
        let mut family = Family::of(&entry.summary.session_id);
        if let Some(address) = self.from {
            let line = crate::session::line(&dir, address)?.ok_or_else(|| {
                let segments = plural(entry.summary.writers.len() as u64, "segment");
                Failed::Usage(format!(
                    "session {:?} has no line {address}; it has {segments}",
                    entry.summary.session_id
                ))
            })?;
            family.not_before(line.ts);
        }
        let start = match self.from {
            Some(address) => Start::At(address),
            None => self.last(),
        };
        follower.add(&dir, start)?;
        lives.add(context, entry);
        let others = store.list()?;
        for entry in family.descendants(&others) {
            let start = match self.from {
                Some(_) => Start::Beginning,
                None => self.last(),
            };
            follower.add(&entry.dir, start)?;
            lives.add(context, entry.clone());
        }
        Ok((follower, family))
    }

    /// All sessions: the last events of those that are live, and whatever comes.
    fn all(&self, context: &Context, lives: &mut Lives) -> Result<(Follower, Family), Failed> {
        let mut follower = Follower::new_sessions(context.store.root())?;
        let survey = context.store.survey()?;
        for unreadable in survey.unreadable.iter().map(ToString::to_string) {
            tell(&unreadable);
        }
        for entry in survey.entries {
            if entry.status.is_live() {
                follower.add(&entry.dir, self.last())?;
                lives.add(context, entry);
            }
        }
        // Any of the others may be resumed.
        let others = match self.no_follow {
            true => Vec::new(),
            false => context.store.dirs()?,
        };
        let is_readable = |dir: &PathBuf| survey.unreadable.iter().all(|one| one.dir != *dir);
        for dir in others.into_iter().filter(is_readable) {
            match follower.add(&dir, Start::Now) {
                // Pruned in between.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                added => added?,
            }
        }
        Ok((follower, Family::everybody()))
    }

    fn last(&self) -> Start {
        Start::Last {
            lines: self.lines,
            kinds: self.kind.clone(),
        }
    }

    /// Takes what came. When something happened by it, in nanoseconds since 1970.
    fn take(
        &self,
        followed: Followed<'_>,
        context: &mut Context,
        family: &mut Family,
        rows: &mut Rows,
        damages: &mut Vec<Damage>,
    ) -> Result<Option<u64>, Failed> {
        let Followed { session, found, .. } = followed;
        match found {
            Found::Line(line) => {
                for bytes in family.admit(session, &line) {
                    if let Ok(held) = RawLine::parse(&bytes) {
                        rows.take(context, &held)?;
                    }
                }
                if family.wants(&line) {
                    rows.take(context, &line)?;
                }
                let kind = line.kind.as_ref();
                let happened = !matches!(kind, "segment" | "checkpoint" | "interrupted");
                Ok(parse_time(line.ts).filter(|_| happened))
            }
            Found::Damaged(damage) => {
                if family.has(session) {
                    damaged(context, rows, &damage)?;
                    damages.push(damage);
                }
                Ok(None)
            }
        }
    }
}

/// Says what can't be followed any more, unless that is all there was to follow.
fn goes_on(follower: &Follower, main: Option<&Path>, error: io::Error) -> Result<(), Failed> {
    if main.is_some_and(|main| !follower.follows(main)) {
        return Err(error.into());
    }
    tell(&error.to_string());
    Ok(())
}

fn damaged(context: &mut Context, rows: &mut Rows, damage: &Damage) -> Result<(), Failed> {
    let object = json!({
        "notice": "damaged",
        "path": damage.path,
        "offset": damage.offset,
        "bytes": damage.bytes,
        "why": damage.why.to_string(),
    });
    rows.notice(context, &format!("damaged: {damage}"), object)
}

/// Whether whoever read our output is gone: without anything to write we would not notice.
fn nobody_listens() -> bool {
    let mut stdout = libc::pollfd {
        fd: libc::STDOUT_FILENO,
        events: 0,
        revents: 0,
    };
    // SAFETY: `stdout` is one valid entry, and nothing is waited for.
    let told = unsafe { libc::poll(&mut stdout, 1, 0) };
    told > 0 && stdout.revents & (libc::POLLERR | libc::POLLNVAL) != 0
}

/// The name of a session's directory, for keys.
fn name_of(dir: &Path) -> String {
    let name = dir.file_name().map(|name| name.to_string_lossy());
    name.unwrap_or_default().into_owned()
}
