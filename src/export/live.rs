//! Exports that are kept current while sessions grow.
//!
//! The target itself says how far an export got: rows have the address of the line that they were made
//! from. So after a crash of any process, reading the session again and passing over the rows that are there
//! leaves every row in the target exactly once.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::database::Database;
use super::feed::Feed;
use super::target::{create_parent, replace};
use super::{Exporter, Format, Options, Piece, Rows, Shape};
use crate::read::SessionReader;
use crate::trace::{Address, ReadItem, about, open_private};

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

/// What is open of a target.
#[derive(Default)]
struct Opened {
    files: Files,
    database: Option<Database>,
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
        }
    }

    /// Sets what the format leaves open.
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Exports what a session has now. Returns whether the session is over: none of its spans is open. After
    /// an error, call it again when the target can be written: nothing is lost and nothing is written twice.
    pub fn sync(&mut self, session: &Path) -> io::Result<bool> {
        let synced = self.add(session);
        if synced.as_ref().is_ok_and(|over| !over) {
            return synced;
        }
        // It is read from the beginning if it goes on.
        self.sessions.remove(session);
        if synced.is_err() {
            self.shared = Opened::default();
            // The next database may be another one.
            if self.format.is_database() {
                self.sessions.clear();
            }
        }
        synced
    }

    fn add(&mut self, dir: &Path) -> io::Result<bool> {
        let format = self.format;
        if !format.is_live() {
            let why = format!("{format} is not kept current; export it when the session is over");
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
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
            let ReadItem::Line(line) = found else {
                continue;
            };
            session.feed.take(&line, |fed| {
                let mut rows = Rows::at(fed.at);
                session.exporter.add(&fed, &mut rows);
                match &mut opened.database {
                    Some(database) => database.write(&rows, Some(fed.at)),
                    None => write(rows, format, &base, &mut opened.files, &mut documents),
                }
            })?;
        }
        if let Some(database) = &mut opened.database
            && format == Format::ChatSqlite
        {
            // What is not complete. Its rows are replaced.
            let mut rows = Rows::at(Address { seg: 1, seq: 1 });
            let rest = session.feed.rest();
            rest.iter()
                .for_each(|fed| session.exporter.add(fed, &mut rows));
            session.exporter.end(&mut rows);
            database.write(&rows, None)?;
        }
        opened.end()?;
        let mut documents = documents.iter();
        documents.try_for_each(|(path, text)| replace(path, text))?;
        Ok(session.feed.is_over())
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
        database.begin(session)
    }

    fn end(&mut self) -> io::Result<()> {
        let mut locked = self.files.values_mut().filter(|file| file.locked);
        locked.try_for_each(Appended::unlock)?;
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
                open(files, path, format)?.append(&row, at)?;
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

/// A file, locked.
fn open(files: &mut Files, path: PathBuf, format: Format) -> io::Result<&mut Appended> {
    let file = match files.entry(path) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => {
            let file = Appended::open(new.key())?;
            new.insert(file)
        }
    };
    file.lock(format).map_err(about(&file.path))?;
    Ok(file)
}

/// So much is written at once.
const CHUNK: usize = 256 * 1024;

/// A file that rows are added to. It is locked while a session is exported.
struct Appended {
    path: PathBuf,
    file: File,
    locked: bool,
    /// The length of the rows that were read or written here.
    len: u64,
    /// The last line of each segment that has a row, and how many rows it has.
    reached: BTreeMap<u32, (u64, u64)>,
    /// Hashes of the rows without an address.
    others: HashSet<u64>,
    waiting: Vec<u8>,
}

impl Appended {
    fn open(path: &Path) -> io::Result<Self> {
        create_parent(path)?;
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::APPEND;
        // A link is not followed: it could lead to a file that the export must not change. Nor is a pipe opened,
        // which would wait for a reader.
        let file = open_private(path, flags);
        Ok(Self {
            path: path.to_owned(),
            file: file.map_err(about(path))?,
            locked: false,
            len: 0,
            reached: BTreeMap::new(),
            others: HashSet::new(),
            waiting: Vec::new(),
        })
    }

    /// Locks the file and reads the rows that others have added. A row that a crash has cut is removed.
    fn lock(&mut self, format: Format) -> io::Result<()> {
        if self.locked {
            return Ok(());
        }
        let is_there = |there: &fs::Metadata, ours: fs::Metadata| {
            (there.ino(), there.dev()) == (ours.ino(), ours.dev()) && ours.len() >= self.len
        };
        let there = fs::symlink_metadata(&self.path);
        if !there.is_ok_and(|there| {
            self.file
                .metadata()
                .is_ok_and(|ours| is_there(&there, ours))
        }) {
            return Err(io::Error::other("it was removed or replaced"));
        }
        if self.file.try_lock().is_err() {
            let why = "another process exports to it";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
        }
        self.locked = true;
        self.read_rows(format)
    }

    fn read_rows(&mut self, format: Format) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.len))?;
        let mut reader = BufReader::new(&self.file);
        let mut row = Vec::new();
        loop {
            row.clear();
            let read = reader.read_until(b'\n', &mut row)?;
            if row.pop() != Some(b'\n') {
                break;
            }
            self.len += read as u64;
            let value = serde_json::from_slice(&row).unwrap_or_default();
            match format.address(&value) {
                Some(at) => {
                    let reached = self.reached.entry(at.seg).or_default();
                    *reached = match reached.0 == at.seq {
                        true => (at.seq, reached.1 + 1),
                        false => (at.seq, 1),
                    };
                }
                None => {
                    self.others.insert(hash(&row));
                }
            }
        }
        match self.file.metadata()?.len() == self.len {
            true => Ok(()),
            false => self.file.set_len(self.len),
        }
    }

    fn append(&mut self, row: &str, at: Option<Address>) -> io::Result<()> {
        let known = match at {
            Some(at) => self.has(at),
            None => !self.others.insert(hash(row.as_bytes())),
        };
        if known {
            return Ok(());
        }
        self.waiting.extend_from_slice(row.as_bytes());
        self.waiting.push(b'\n');
        match self.waiting.len() >= CHUNK {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Whether the file has the next row of a line.
    fn has(&mut self, at: Address) -> bool {
        match self.reached.get_mut(&at.seg) {
            Some((seq, _)) if at.seq < *seq => true,
            // As many of its rows are there as were counted.
            Some((seq, rows)) if at.seq == *seq && *rows > 0 => {
                *rows -= 1;
                true
            }
            _ => false,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.waiting);
        if written.is_err() {
            // No row stays cut in the middle.
            let _ = self.file.set_len(self.len);
        }
        written.map_err(about(&self.path))?;
        self.len += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    fn unlock(&mut self) -> io::Result<()> {
        self.flush()?;
        self.locked = false;
        self.file.unlock()
    }
}

fn hash(row: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    row.hash(&mut hasher);
    hasher.finish()
}
