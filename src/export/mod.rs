//! Sessions in the formats of other tools: one file for each format, a fold over the lines of a session.
//!
//! ```no_run
//! use spanledger::export::{Format, Target, export};
//! let format: Format = "trajectory".parse()?;
//! let mut target = Target::file("trajectory.jsonl");
//! export(format, "sessions/ses_1", &mut target)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod acp;
mod agentdbg;
mod answers;
mod appended;
mod atif;
mod chat;
mod chat_sqlite;
mod chat_text;
mod chrome_trace;
mod conversation;
#[cfg_attr(not(feature = "sqlite"), path = "database_off.rs")]
mod database;
mod feed;
mod format;
mod live;
mod maida;
mod messages;
#[cfg(feature = "mirror")]
mod otlp_json;
mod request;
mod session_log;
mod target;
mod trace_sqlite;
mod trajectory;
mod trial;
mod values;

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::read::SessionReader;
use crate::trace::typed::SegmentHeader;
use crate::trace::{Address, Damage, RawLine, ReadItem};
use feed::{Fed, Feed};

pub(crate) use conversation::request_before;
pub use format::{Format, Options, Shape, TrialSchema, UnknownFormat};
pub use live::Live;
pub use request::{Export, ExportError};
pub use target::Target;

/// Turns the spans and events of one session into rows. It depends on nothing else, so the same lines
/// give the same rows.
trait Exporter: Send {
    /// Sees a line before what is made of it. Returns whether that is wanted. Exports that are kept current don't
    /// call this.
    fn line(&mut self, line: &RawLine<'_>, rows: &mut Rows) -> bool {
        let _ = (line, rows);
        true
    }

    /// Adds a span that opened or closed, or an event.
    fn add(&mut self, fed: &Fed, rows: &mut Rows);

    /// The session has no more lines.
    fn end(&mut self, rows: &mut Rows) {
        let _ = rows;
    }

    /// Shows in a database what is not complete, with the texts that have begun to arrive. More lines may follow.
    fn show_unfinished(&mut self, arriving: &[Fed], rows: &mut Rows) {
        let _ = (arriving, rows);
    }

    /// After all lines: whether to read them once more.
    fn again(&mut self) -> bool {
        false
    }

    /// At last: writes what the document has of other sessions.
    fn embed_others(&mut self, write: &mut Sink<'_>) -> io::Result<()> {
        let _ = write;
        Ok(())
    }
}

/// Writes rows to a target, with the address of their line if they are only written once.
type Sink<'a> = dyn FnMut(Rows, Option<Address>) -> io::Result<()> + 'a;

/// What an exporter writes for one line of the trace.
#[derive(Debug)]
struct Rows {
    /// The line.
    at: Address,
    written: Vec<Piece>,
    /// Who wrote the segment and when it began, of its first line.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
    segment: Option<String>,
    /// Why the session can't be exported.
    refused: Option<io::Error>,
}

#[derive(Debug, PartialEq)]
enum Piece {
    /// A line at the end of a file, with the address that it has. Without one, the file has the same line once.
    Append {
        file: String,
        row: String,
        at: Option<Address>,
    },
    /// A small file as a whole.
    Replace { file: String, text: String },
    /// The first line of a file that may have rows of several sessions.
    Header { row: String },
    /// A change of a database.
    Sql {
        statement: &'static str,
        values: Vec<Value>,
    },
    /// A small file that must not be there.
    Create { file: String, text: String },
}

/// The tables of a database.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
struct Schema {
    /// The database's `user_version`.
    version: i64,
    tables: &'static str,
}

impl Rows {
    fn at(at: Address) -> Self {
        Self {
            at,
            written: Vec::new(),
            segment: None,
            refused: None,
        }
    }

    /// For what is written of a line.
    fn of_line(line: &RawLine<'_>) -> Self {
        let header = SegmentHeader::of(line);
        let segment = header.map(|header| {
            let writer = header.writer().unwrap_or_default();
            format!("{writer} {}", line.ts)
        });
        Self {
            segment,
            ..Self::at(line.address())
        }
    }

    /// Adds a row with the line's address to the format's only file.
    fn row(&mut self, row: &Value) {
        self.append(String::new(), row, Some(self.at));
    }

    /// Adds a row without an address. The same row is not written again.
    fn once(&mut self, row: &Value) {
        self.append(String::new(), row, None);
    }

    /// Adds a line without an address.
    fn text(&mut self, row: String) {
        let (file, at) = (String::new(), None);
        self.written.push(Piece::Append { file, row, at });
    }

    /// Adds a row to a file of a directory. The addresses of a segment's lines only rise in a file.
    fn append(&mut self, file: String, row: &Value, at: Option<Address>) {
        let row = in_one_line(row.to_string());
        self.written.push(Piece::Append { file, row, at });
    }

    /// Replaces a file of a directory.
    fn replace(&mut self, file: String, document: &Value) {
        self.written.push(Piece::Replace {
            file,
            text: document.to_string(),
        });
    }

    /// Begins the file with a line.
    fn header(&mut self, row: String) {
        self.written.push(Piece::Header { row });
    }

    /// Executes a statement. It is executed once for each line.
    fn sql(&mut self, statement: &'static str, values: Vec<Value>) {
        self.written.push(Piece::Sql { statement, values });
    }

    /// Creates a file of a directory.
    fn create(&mut self, file: String, document: &Value) {
        let text = document.to_string();
        self.written.push(Piece::Create { file, text });
    }

    /// Refuses the export of the session.
    fn refuse(&mut self, why: io::Error) {
        self.refused = Some(why);
    }

    /// The line's address, for a row's data.
    fn address(&self) -> Value {
        json!({"seg": self.at.seg, "seq": self.at.seq})
    }
}

/// JSON of a row, with the characters escaped at which readers cut lines besides newlines: Python's `splitlines` does.
fn in_one_line(mut json: String) -> String {
    if json.is_ascii() {
        return json;
    }
    for (separator, escaped) in [
        ('\u{85}', "\\u0085"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        if json.contains(separator) {
            json = json.replace(separator, escaped);
        }
    }
    json
}

/// What was not exported as it should have been.
#[derive(Debug, Default)]
pub struct Exported {
    /// Damaged places of the trace, which were passed over.
    pub damages: Vec<Damage>,
    /// Blobs that could not be read. Their values are markers.
    pub lost: Vec<io::Error>,
}

/// Exports a session as it is now.
pub fn export(
    format: Format,
    session: impl AsRef<Path>,
    target: &mut Target,
) -> io::Result<Exported> {
    export_with(Options::default(), format, session, target)
}

/// Exports a session as it is now, with what the format leaves open.
pub fn export_with(
    options: Options,
    format: Format,
    session: impl AsRef<Path>,
    target: &mut Target,
) -> io::Result<Exported> {
    let session = session.as_ref();
    let mut exporter = format.exporter(session, options, false);
    target.begin(format, session)?;
    let write = &mut |rows, line| target.write(rows, line);
    let exported = export_session(format, session, &mut *exporter, write)?;
    target.commit()?;
    Ok(exported)
}

/// Reads a session as often as the exporter wants.
fn export_session(
    format: Format,
    session: &Path,
    exporter: &mut dyn Exporter,
    write: &mut Sink<'_>,
) -> io::Result<Exported> {
    let mut exported = read(format, session, exporter, write)?;
    if exporter.again() {
        exported = read(format, session, exporter, write)?;
    }
    exporter.embed_others(write)?;
    Ok(exported)
}

fn read(
    format: Format,
    session: &Path,
    exporter: &mut dyn Exporter,
    write: &mut Sink<'_>,
) -> io::Result<Exported> {
    let mut feed = Feed::new(session.to_owned());
    let mut exported = Exported::default();
    let mut reader = SessionReader::open(session)?;
    let mut last = Address { seg: 1, seq: 1 };
    while let Some(found) = reader.next()? {
        let line = match found {
            ReadItem::Line(line) => line,
            ReadItem::Damaged(damage) => {
                exported.damages.push(damage);
                continue;
            }
        };
        last = line.address();
        let mut rows = Rows::of_line(&line);
        let wants_nodes = exporter.line(&line, &mut rows);
        write(rows, None)?;
        if wants_nodes {
            feed.take(&line, |fed| add(exporter, &fed, write, Some(fed.at)))?;
        }
    }
    let arriving = feed.rest();
    let mut rows = Rows::at(last);
    if format.is_database() {
        exporter.show_unfinished(&arriving, &mut rows);
    } else {
        let mut arriving = arriving.iter();
        arriving.try_for_each(|fed| add(exporter, fed, write, None))?;
        exporter.end(&mut rows);
    }
    write(rows, None)?;
    exported.lost = feed.lost;
    Ok(exported)
}

fn add(
    exporter: &mut dyn Exporter,
    fed: &Fed,
    write: &mut Sink<'_>,
    line: Option<Address>,
) -> io::Result<()> {
    let mut rows = Rows::at(fed.at);
    exporter.add(fed, &mut rows);
    write(rows, line)
}

/// Whether an answer to a question allows what was asked, if it is one of the usual words.
fn approves(answer: &Value) -> Option<bool> {
    let answer = answer.get("type").unwrap_or(answer);
    match answer.as_str()?.to_ascii_lowercase().as_str() {
        "approve" | "approved" | "allow" | "allow_once" | "allow_always" | "yes" => Some(true),
        "reject" | "rejected" | "deny" | "denied" | "reject_once" | "reject_always" | "no" => {
            Some(false)
        }
        _ => None,
    }
}
