//! Exports that are kept current while sessions grow.
//!
//! The target itself says how far an export got: rows have the address of the line that they were made
//! from. So after a crash of any process, reading the session again and passing over the rows that are there
//! leaves every row in the target exactly once.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use super::appended::Appended;
use super::database::Database;
use super::feed::Feed;
use super::target::{replace, replaced};
use super::{Exported, Exporter, Format, Options, Piece, Rows, Shape};
use crate::read::SessionReader;
use crate::trace::{Address, ReadItem};

/// Of more sessions than this, the databases are closed between two calls.
const MANY: usize = 32;

/// Keeps the export of sessions current.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let (layer, guard) = spanledger::builder().root(dir.path()).build::<tracing_subscriber::Registry>()?;
/// use spanledger::export::{Format, Live};
/// # guard.handle().session("ses_1").title("Fix the build");
/// let mut live = Live::new(Format::Trajectory, dir.path().join("out"));
/// let session = spanledger::read::session_dir(dir.path(), "ses_1");
/// live.sync(&session)?; // again whenever the session has grown
/// # drop(layer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Live {
    format: Format,
    options: Options,
    place: Place,
    sessions: HashMap<PathBuf, Session>,
    /// The file of all sessions.
    shared: Opened,
    exported: Exported,
}

/// Where the files are.
enum Place {
    /// A file or directory of all sessions, or the file of the only one.
    At(PathBuf),
    /// A directory with a file for each session.
    Files(PathBuf),
    /// Each session's directory.
    Sessions,
}

type Files = HashMap<PathBuf, Appended>;

/// What is known of a target. Its files are closed between two calls, because there may be many.
#[derive(Default)]
struct Opened {
    files: Files,
    database: Option<Database>,
    /// The database's file, also while it is closed.
    identity: Option<(u64, u64)>,
}

/// A session that is not over.
struct Session {
    reader: SessionReader,
    feed: Feed,
    exporter: Box<dyn Exporter>,
    opened: Opened,
}

impl Live {
    /// Exports to a file or a directory, as the format's [`shape`](Format::shape) is. A format with one
    /// file for each session gets a directory.
    pub fn new(format: Format, base: impl Into<PathBuf>) -> Self {
        Self::at(
            format,
            match format.shape() {
                Shape::FileOfSession => Place::Files(base.into()),
                _ => Place::At(base.into()),
            },
        )
    }

    /// Exports one session to one file, in a format with a file for each session.
    pub fn file(format: Format, path: impl Into<PathBuf>) -> Self {
        Self::at(format, Place::At(path.into()))
    }

    /// Exports to a file in each session's directory, for a format that [has one](Format::file_in_session).
    pub fn in_sessions(format: Format) -> Self {
        Self::at(format, Place::Sessions)
    }

    fn at(format: Format, place: Place) -> Self {
        Self {
            format,
            options: Options::default(),
            place,
            sessions: HashMap::new(),
            shared: Opened::default(),
            exported: Exported::default(),
        }
    }

    /// Sets what the format leaves open.
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Exports what a session has now. Returns whether the session is over: none of its spans is open. After
    /// an error, call it again when the target can be written: nothing is lost and nothing is written twice.
    /// A target that was removed or replaced is written again from the session's beginning.
    pub fn sync(&mut self, session: &Path) -> io::Result<bool> {
        let synced = self.sync_once(session);
        match synced {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.sync_once(session),
            synced => synced,
        }
    }

    /// What was not exported as it should have been since this was last called.
    pub fn exported(&mut self) -> Exported {
        std::mem::take(&mut self.exported)
    }

    fn sync_once(&mut self, session: &Path) -> io::Result<bool> {
        let synced = self.add(session);
        if synced.as_ref().is_ok_and(|over| !over) {
            return synced;
        }
        // It is read from the beginning if it goes on.
        self.sessions.remove(session);
        if synced.is_err() && self.format.shape() == Shape::File {
            // The next file may be another one.
            self.shared = Opened::default();
            self.sessions.clear();
        }
        synced
    }

    fn add(&mut self, dir: &Path) -> io::Result<bool> {
        let format = self.format;
        if !format.is_live() {
            let why = format!("{format} is not kept current; export it when the session is over");
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let is_many = self.sessions.len() > MANY;
        let session = match self.sessions.entry(dir.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Session {
                reader: SessionReader::open(dir)?,
                feed: Feed::new(dir.to_owned()),
                exporter: format.exporter(dir, self.options, true),
                opened: Opened::default(),
            }),
        };
        let base = self.place.path(dir, format);
        let opened = match format.shape() {
            Shape::File => &mut self.shared,
            _ => &mut session.opened,
        };
        opened.begin(format, &base, dir)?;
        let mut documents = BTreeMap::new();
        session.reader.refresh()?;
        while let Some(found) = session.reader.next()? {
            let line = match found {
                ReadItem::Line(line) => line,
                ReadItem::Damaged(damage) => {
                    self.exported.damages.push(damage);
                    continue;
                }
            };
            if let Some(database) = &mut opened.database {
                database.write(&Rows::of_line(&line), None)?;
            }
            session.feed.take(&line, |fed| {
                let mut rows = Rows::at(fed.at);
                session.exporter.add(&fed, &mut rows);
                match &mut opened.database {
                    Some(database) => database.write(&rows, Some(fed.at)),
                    None => write(rows, format, &base, &mut opened.files, &mut documents),
                }
            })?;
        }
        if let Some(database) = &mut opened.database {
            let mut rows = Rows::at(Address { seg: 1, seq: 1 });
            let arriving = session.feed.rest();
            session.exporter.show_unfinished(&arriving, &mut rows);
            database.write(&rows, None)?;
        }
        opened.end()?;
        let mut documents = documents.iter();
        documents.try_for_each(|(path, text)| replace(path, text))?;
        self.exported.lost.append(&mut session.feed.lost);
        session.reader.close();
        let is_over = session.feed.is_over();
        if is_many && format.shape() != Shape::File {
            session.opened.database = None;
        }
        Ok(is_over)
    }
}

impl Place {
    /// The target of a session.
    fn path(&self, session: &Path, format: Format) -> PathBuf {
        match self {
            Self::At(path) => path.clone(),
            Self::Files(dir) => {
                let name = session.file_name().unwrap_or_default().to_string_lossy();
                dir.join(format!("{name}.{}", format.extension()))
            }
            Self::Sessions => session.join(format.file_in_session().unwrap_or_default()),
        }
    }
}

impl Opened {
    /// Begins to export a session.
    fn begin(&mut self, format: Format, path: &Path, session: &Path) -> io::Result<()> {
        let Some(schema) = format.schema() else {
            return Ok(());
        };
        let database = match &mut self.database {
            Some(database) => database,
            none => none.insert(Database::open(path, &schema)?),
        };
        let file = database.file();
        if *self.identity.get_or_insert(file) != file {
            return Err(replaced(path));
        }
        database.begin(session)
    }

    fn end(&mut self) -> io::Result<()> {
        self.files.values_mut().try_for_each(Appended::close)?;
        self.database.as_mut().map_or(Ok(()), Database::commit)
    }
}

fn write(
    rows: Rows,
    format: Format,
    base: &Path,
    files: &mut Files,
    documents: &mut BTreeMap<PathBuf, String>,
) -> io::Result<()> {
    for piece in rows.written {
        match piece {
            Piece::Append { file, row, at } => {
                let path = match file.is_empty() {
                    true => base.to_owned(),
                    false => base.join(file),
                };
                let file = files
                    .entry(path)
                    .or_insert_with_key(|path| Appended::new(path));
                file.open(format)?;
                file.append(&row, at)?;
            }
            // Only its last state counts.
            Piece::Replace { file, text } | Piece::Create { file, text } => {
                documents.insert(base.join(file), text);
            }
            Piece::Header { .. } | Piece::Sql { .. } => {}
        }
    }
    Ok(())
}

impl std::fmt::Display for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Place::At(path) | Place::Files(path) => write!(f, "{}={}", self.format, path.display()),
            Place::Sessions => self.format.fmt(f),
        }
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live")
            .field("target", &self.to_string())
            .finish_non_exhaustive()
    }
}
