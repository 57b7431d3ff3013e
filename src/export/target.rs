//! Where an export is written.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::database::Database;
use super::{Format, Piece, Rows};
use crate::trace::{Address, about, if_exists};

/// A file, a directory or a stream that an export is written to.
///
/// Files get their names when the export is complete: [`finish`](Self::finish).
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use spanledger::export::Target;
/// let target = Target::file(dir.path().join("run.jsonl"));
/// target.finish()?;
/// assert!(!dir.path().join("run.jsonl").exists());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Target {
    to: To,
    files: HashMap<PathBuf, BufWriter<File>>,
    documents: HashMap<PathBuf, String>,
    database: Option<Database>,
    /// Something was written.
    begun: bool,
    /// Files that must not be there.
    created: HashMap<PathBuf, String>,
}

enum To {
    Path(PathBuf),
    Stream(Box<dyn Write>),
}

impl Target {
    /// One file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(To::Path(path.into()))
    }

    /// A directory, for a format of several files.
    pub fn directory(path: impl Into<PathBuf>) -> Self {
        Self::file(path)
    }

    /// A stream, for a format of one file.
    pub fn stream(stream: impl Write + 'static) -> Self {
        Self::new(To::Stream(Box::new(stream)))
    }

    fn new(to: To) -> Self {
        Self {
            to,
            files: HashMap::new(),
            documents: HashMap::new(),
            database: None,
            begun: false,
            created: HashMap::new(),
        }
    }

    /// Whether nothing was written to it so far.
    pub fn is_empty(&self) -> bool {
        let has_files = self.begun || !self.documents.is_empty() || !self.created.is_empty();
        !has_files && self.database.is_none()
    }

    /// Begins the export of a session.
    pub(super) fn begin(&mut self, format: Format, session: &Path) -> io::Result<()> {
        let Some(schema) = format.schema() else {
            return Ok(());
        };
        let path = self.path("")?;
        let database = match &mut self.database {
            Some(database) => database,
            none => none.insert(Database::open(&path, &schema)?),
        };
        database.begin(session)
    }

    /// Ends the export of a session.
    pub(super) fn commit(&mut self) -> io::Result<()> {
        self.database.as_mut().map_or(Ok(()), Database::commit)
    }

    pub(super) fn write(&mut self, rows: Rows, line: Option<Address>) -> io::Result<()> {
        if let Some(why) = rows.refused {
            return Err(why);
        }
        if let Some(database) = &mut self.database {
            return database.write(&rows, line);
        }
        for piece in rows.written {
            match piece {
                Piece::Append { file, row, .. } => self.append(&file, &row)?,
                Piece::Replace { file, text } => {
                    let path = self.path(&file)?;
                    self.documents.insert(path, text);
                }
                Piece::Header { row } if !self.begun => self.append("", &row)?,
                Piece::Header { .. } | Piece::Sql { .. } => {}
                Piece::Create { file, text } => {
                    let path = self.path(&file)?;
                    if path.exists() || self.created.contains_key(&path) {
                        return Err(is_there(&path));
                    }
                    self.created.insert(path, text);
                }
            }
        }
        Ok(())
    }

    fn append(&mut self, file: &str, row: &str) -> io::Result<()> {
        self.begun = true;
        if let To::Stream(stream) = &mut self.to {
            return writeln!(stream, "{row}");
        }
        let path = self.path(file)?;
        let writer = match self.files.get_mut(&path) {
            Some(writer) => writer,
            None => {
                let created = create_part(&path)?;
                self.files
                    .entry(path.clone())
                    .or_insert(BufWriter::new(created))
            }
        };
        writeln!(writer, "{row}").map_err(about(&path))
    }

    fn path(&self, file: &str) -> io::Result<PathBuf> {
        match &self.to {
            To::Path(path) if file.is_empty() => Ok(path.clone()),
            To::Path(path) => Ok(path.join(file)),
            To::Stream(_) => Err(io::Error::other("this format needs a path")),
        }
    }

    /// Completes the export: files that were written so far replace older ones.
    pub fn finish(mut self) -> io::Result<()> {
        if let To::Stream(stream) = &mut self.to {
            return stream.flush();
        }
        for (path, writer) in self.files {
            let file = writer.into_inner().map_err(io::IntoInnerError::into_error);
            file.map_err(about(&path))?;
            fs::rename(part(&path), &path).map_err(about(&path))?;
        }
        let mut created = self.created.iter();
        created.try_for_each(|(path, text)| create(path, text))?;
        let mut documents = self.documents.iter();
        documents.try_for_each(|(path, text)| replace(path, text))
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = match &self.to {
            To::Path(path) => Some(path),
            To::Stream(_) => None,
        };
        f.debug_struct("Target")
            .field("path", &path)
            .finish_non_exhaustive()
    }
}

/// The file while it is written.
fn part(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Creates the file to write that replaces the one at `path`, if one is there: `/dev/stdout` must not become a file.
/// One that a crash left behind is removed. A link is not followed: it could lead to a file that the export must
/// not change.
fn create_part(path: &Path) -> io::Result<File> {
    let part = &part(path);
    create_parent(part)?;
    let there = if_exists(fs::metadata(path)).map_err(about(path))?;
    if there.is_some_and(|there| !there.is_file()) {
        let why = "not a regular file; name another, or leave -o out for standard output";
        return Err(about(path)(io::Error::other(why)));
    }
    let left = if_exists(fs::symlink_metadata(part)).map_err(about(part))?;
    match left {
        Some(left) if !left.is_file() => {
            let why = "not a regular file; remove it and export again";
            return Err(about(part)(io::Error::other(why)));
        }
        Some(_) => if_exists(fs::remove_file(part)).map_err(about(part))?,
        None => None,
    };
    File::create_new(part).map_err(about(part))
}

/// Replaces a small file as a whole.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let part = part(path);
    let mut file = create_part(path)?;
    file.write_all(text.as_bytes()).map_err(about(&part))?;
    fs::rename(&part, path).map_err(about(path))
}

/// Creates a small file, unless it is there.
fn create(path: &Path, text: &str) -> io::Result<()> {
    let part = part(path);
    let mut file = create_part(path)?;
    file.write_all(text.as_bytes()).map_err(about(&part))?;
    let linked = fs::hard_link(&part, path);
    fs::remove_file(&part).map_err(about(&part))?;
    linked.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => is_there(path),
        _ => about(path)(error),
    })
}

fn is_there(path: &Path) -> io::Error {
    let why = format!("{} exists; a record is written once", path.display());
    io::Error::new(io::ErrorKind::AlreadyExists, why)
}

/// The file is not the one that was written before.
pub(super) fn replaced(path: &Path) -> io::Error {
    let why = format!("{}: it was removed or replaced", path.display());
    io::Error::new(io::ErrorKind::NotFound, why)
}

pub(super) fn create_parent(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.map_or(Ok(()), |parent| {
        let created = fs::create_dir_all(parent).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                io::Error::other("not a directory; the files are written into one")
            }
            _ => error,
        });
        created.map_err(about(parent))
    })
}
