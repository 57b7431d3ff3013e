//! What every command has at hand, and how one ends.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};

use super::{Common, When, interrupt};
use spanledger::mirror::{Otlp, Resolved};
use spanledger::session::{Entry, ResolveError, Store, Unreadable};
use spanledger::trace::{Address, Damage, ParseAddressError};
use spanledger::view::Style;
use spanledger::view::text::{line, safe_json};

/// Why a command did not end with success.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The command found what it was asked to look for.
    Finding(String),
    /// It can't be done as given.
    Usage(String),
    /// Something isn't there. If the trace is damaged, that may be why.
    NotFound(String),
    /// The trace is damaged.
    Damaged(String),
    /// Reading or writing failed.
    Io(io::Error),
    /// A signal ended it before it was done.
    Interrupted,
}

impl Failed {
    /// A setting that can't be used, by the option that gives it; `endpoint` is the one of the URL.
    pub fn setting(error: spanledger::Error, endpoint: &str) -> Self {
        let spanledger::Error::Otlp { setting, why } = &error else {
            return Self::Usage(line(&error.to_string()).into_owned());
        };
        let option = match setting.strip_prefix("Otlp::") {
            Some("endpoint") => endpoint.to_owned(),
            Some(setter) => format!("--{}", setter.replace('_', "-")),
            None => (*setting).to_owned(),
        };
        Self::Usage(line(&format!("{option} can't be used: {why}")).into_owned())
    }

    /// A finding that was printed already, unless all is well.
    pub fn unless(is_well: bool) -> Result<(), Self> {
        match is_well {
            true => Ok(()),
            false => Err(Self::Finding(String::new())),
        }
    }

    pub fn report(&self) -> ExitCode {
        match self {
            // The reader of the output is gone.
            Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return ExitCode::SUCCESS;
            }
            Self::Finding(message) if message.is_empty() => {}
            Self::Interrupted => {}
            _ => warn(&self.to_string()),
        }
        ExitCode::from(match self {
            Self::Finding(_) => 1,
            Self::Usage(_) | Self::NotFound(_) | Self::Io(_) => 2,
            Self::Damaged(_) => 3,
            Self::Interrupted => interrupt::exit_code(),
        })
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finding(message)
            | Self::Usage(message)
            | Self::NotFound(message)
            | Self::Damaged(message) => f.write_str(message),
            Self::Io(error) => match error.kind() {
                io::ErrorKind::NotADirectory => write!(
                    f,
                    "{error}; the root must be a directory: set SPANLEDGER_DIR or give --root"
                ),
                io::ErrorKind::PermissionDenied => {
                    write!(
                        f,
                        "{error}; run this as a user who may, such as the agent's"
                    )
                }
                _ => error.fmt(f),
            },
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<spanledger::Error> for Failed {
    fn from(error: spanledger::Error) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<ResolveError> for Failed {
    fn from(resolve: ResolveError) -> Self {
        match resolve {
            ResolveError::Io(error) => Self::Io(error),
            other => Self::Usage(other.to_string()),
        }
    }
}

pub(crate) struct Context {
    pub store: Rc<Store>,
    pub style: Style,
    pub json: bool,
    /// Whether the user named the root.
    pub root_given: bool,
    /// What is damaged in the traces; reported at the end, as is what can't be read.
    pub damages: Vec<Damage>,
    /// The sessions that can't be read.
    pub unreadable: Vec<Unreadable>,
    /// The blobs that can't be read.
    pub lost: Vec<io::Error>,
    out: io::BufWriter<io::Stdout>,
}

impl Context {
    pub fn new(common: &Common) -> Result<Self, Failed> {
        let root = common
            .root
            .clone()
            .or_else(Store::default_root)
            .ok_or_else(|| {
                Failed::Usage("no root: set SPANLEDGER_DIR or HOME, or give --root".into())
            })?;
        let terminal = io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let style = Style {
            color: match common.color {
                When::Always => true,
                When::Never => false,
                When::Auto => terminal && !no_color,
            },
            width: width(),
            zone: if common.utc {
                jiff::tz::TimeZone::UTC
            } else {
                jiff::tz::TimeZone::system()
            },
            full: false,
            now: now.map_or(0, |d| d.as_nanos() as u64),
        };
        Ok(Self {
            store: Rc::new(Store::new(root)),
            style,
            json: common.json,
            root_given: common.root.is_some(),
            damages: Vec::new(),
            unreadable: Vec::new(),
            lost: Vec::new(),
            out: io::BufWriter::new(io::stdout()),
        })
    }

    /// The directory of a session, by what the user gave. A path to a session under another root
    /// selects that root.
    pub fn resolve(&mut self, session: &str) -> Result<PathBuf, Failed> {
        let dir = self.store.resolve(session)?;
        let sessions = dir.parent().filter(|parent| parent.ends_with("sessions"));
        let root = sessions.and_then(Path::parent);
        if let Some(root) = root.filter(|root| *root != self.store.root()) {
            self.store = Rc::new(Store::new(root));
        }
        Ok(dir)
    }

    /// The session and line of an address as `agent.trace.address` has it, `SESSION/1:17`. None if that
    /// names no session.
    pub fn resolve_address(&mut self, text: &str) -> Option<(PathBuf, Address)> {
        let EventAddress { session, address } = text.parse().ok()?;
        Some((self.resolve(&session?).ok()?, address))
    }

    /// One session by what the user gave, or all.
    pub fn select(&mut self, session: Option<&str>) -> Result<Vec<Entry>, Failed> {
        let Some(session) = session else {
            let survey = self.store.survey()?;
            self.unreadable.extend(survey.unreadable);
            return Ok(survey.entries);
        };
        let dir = self.resolve(session)?;
        Ok(vec![self.store.peek(&dir)?])
    }

    /// The directory of one session by what the user gave, or of all, the most recently active first.
    pub fn dirs(&mut self, session: Option<&str>) -> Result<Vec<PathBuf>, Failed> {
        if let Some(session) = session {
            return Ok(vec![self.resolve(session)?]);
        }
        let mut newest = self.store.newest()?;
        let dirs = newest.by_ref().map(|entry| entry.dir).collect();
        self.unreadable.extend(newest.into_unreadable());
        Ok(dirs)
    }

    /// The command as the user would type it for the same root.
    pub fn command(&self) -> String {
        let root = self.store.root();
        match Store::default_root() {
            Some(default) if default == root => "spanledger".into(),
            _ => format!("spanledger --root {}", quoted(&root.to_string_lossy())),
        }
    }

    pub fn line(&mut self, text: &str) -> Result<(), Failed> {
        Ok(writeln!(self.out, "{text}")?)
    }

    pub fn lines(&mut self, lines: &[String]) -> Result<(), Failed> {
        lines.iter().try_for_each(|line| self.line(line))
    }

    /// One JSON document.
    pub fn document(&mut self, value: &Value) -> Result<(), Failed> {
        let json = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
        self.line(&safe_json(&json))
    }

    /// One object of JSON lines.
    pub fn object(&mut self, value: &Value) -> Result<(), Failed> {
        self.line(&safe_json(&value.to_string()))
    }

    /// One object with --json, else lines for people.
    pub fn print(
        &mut self,
        object: impl FnOnce() -> Value,
        lines: impl FnOnce(&Style) -> Vec<String>,
    ) -> Result<(), Failed> {
        match self.json {
            true => self.object(&object()),
            false => self.lines(&lines(&self.style)),
        }
    }

    /// One document with --json, else lines for people.
    pub fn show(
        &mut self,
        document: impl FnOnce() -> Value,
        lines: impl FnOnce(&Style) -> Vec<String>,
    ) -> Result<(), Failed> {
        match self.json {
            true => self.document(&document()),
            false => self.lines(&lines(&self.style)),
        }
    }

    pub fn flush(&mut self) -> Result<(), Failed> {
        Ok(self.out.flush()?)
    }

    /// The end of a command: what of the traces can't be read is reported, and counts more than a finding.
    pub fn end(&mut self, done: Result<(), Failed>) -> Result<(), Failed> {
        if let Err(Failed::NotFound(message)) = &done {
            self.flush()?;
            if !(self.damages.is_empty() && self.unreadable.is_empty()) {
                warn(message);
            }
        }
        match done {
            Ok(()) | Err(Failed::Finding(_) | Failed::NotFound(_)) => {
                self.report_damage()?;
                done
            }
            failed => failed,
        }
    }

    /// Reports on stderr what can't be read, and ends the command with that.
    pub fn report_damage(&mut self) -> Result<(), Failed> {
        self.flush()?;
        let damages = self.damages.drain(..).map(|damage| damage.to_string());
        let unreadable = self.unreadable.drain(..).map(|one| one.to_string());
        let lost = self.lost.drain(..).map(|error| error.to_string());
        let mut all: Vec<String> = damages.chain(unreadable).chain(lost).collect();
        let Some(last) = all.pop() else {
            return Ok(());
        };
        all.iter().for_each(|text| warn(text));
        Err(Failed::Damaged(last))
    }
}

/// An address, alone or as the attribute `agent.trace.address` has it, after its session.
#[derive(Clone, Debug)]
pub(crate) struct EventAddress {
    pub session: Option<String>,
    pub address: Address,
}

impl FromStr for EventAddress {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let (session, address) = match text.rsplit_once('/') {
            // A bare number would be the name of a directory.
            Some((session, address)) if address.contains(':') => (Some(session), address),
            _ => (None, text),
        };
        Ok(Self {
            session: session.map(str::to_owned),
            address: address.parse()?,
        })
    }
}

/// The endpoint that was given, else the environment's, with the environment's other settings.
pub(crate) fn resolve_endpoint(
    given: Option<&String>,
) -> Result<Option<Resolved>, spanledger::Error> {
    let mut settings = Otlp::new();
    if let Some(endpoint) = given {
        settings = settings.endpoint(endpoint);
    }
    Otlp::resolve(Some(settings), |name| std::env::var(name).ok())
}

/// The sessions that the user gave, or the last one.
pub(crate) fn or_last(sessions: &[String]) -> Vec<String> {
    match sessions {
        [] => vec!["last".to_owned()],
        given => given.to_vec(),
    }
}

/// A damaged place as JSON.
pub(crate) fn damage_json(damage: &Damage) -> Value {
    json!({
        "path": damage.path,
        "offset": damage.offset,
        "bytes": damage.bytes,
        "why": damage.why.to_string(),
    })
}

/// Prints a message on stderr. Names and ids in it come from a trace: none affects the terminal.
pub(crate) fn warn(text: &str) {
    let lines: Vec<_> = text.trim_end().split('\n').map(line).collect();
    let _ = writeln!(io::stderr(), "spanledger: {}", lines.join("\n"));
}

/// A text as one word for a shell.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => line(text),
        false => format!("'{}'", line(text).replace('\'', "'\\''")).into(),
    }
}

/// Reads one of these names; `--help` lists them.
pub(crate) fn one_of<T>(
    names: impl IntoIterator<Item = &'static str>,
) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = String> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse::<T>())
}

/// The terminal's columns: COLUMNS, else the terminal's size, else 80.
fn width() -> usize {
    let given = std::env::var("COLUMNS").ok();
    let given = given.and_then(|text| text.parse().ok());
    let terminal = || {
        let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    given.or_else(terminal).unwrap_or(80).clamp(40, 400)
}

/// An age such as `90s`, `30m`, `2h`, `7d`, in nanoseconds.
pub(crate) fn parse_age(text: &str) -> Result<u64, String> {
    let wrong = || "write 30s, 10m, 2h or 7d".to_owned();
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..at].parse().map_err(|_| wrong())?;
    let seconds = match &text[at..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(seconds * 1_000_000_000)
        .ok_or_else(wrong)
}
