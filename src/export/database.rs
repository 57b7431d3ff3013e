//! A SQLite database that rows are exported to.
//!
//! The table `spanledger_cursor` has the last exported line of each segment. It changes in one transaction
//! with the rows, so a crash at any moment leaves each row once. It also has the segment's header, by which
//! another session of the same name is known.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{ToSql, ToSqlOutput, Value as Sql, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, params, params_from_iter};
use serde_json::Value;

use super::target::{create_parent, replaced};
use super::{Piece, Rows, Schema};
use crate::trace::{Address, FILE, about, open_private};

/// So many rows are in one transaction, at least.
const BATCH: usize = 10_000;

const CURSOR: &str = "CREATE TABLE IF NOT EXISTS spanledger_cursor (
    session TEXT NOT NULL, segment INTEGER NOT NULL, line INTEGER NOT NULL, header TEXT,
    PRIMARY KEY (session, segment)
) WITHOUT ROWID;";

/// How long to wait for another program that writes. An agent's threads don't wait meanwhile, and its shutdown has a
/// time limit of its own.
const BUSY: Duration = Duration::from_secs(5);

pub(super) struct Database {
    path: PathBuf,
    /// The file's device and inode.
    file: (u64, u64),
    connection: Connection,
    session: String,
    /// The last line of each segment that was exported before this transaction.
    reached: BTreeMap<u32, u64>,
    /// The lines that this transaction adds.
    added: BTreeMap<u32, u64>,
    /// The header of each segment: who wrote it, and when it began.
    headers: BTreeMap<u32, String>,
    last: Option<Address>,
    rows: usize,
}

impl Database {
    /// Opens a database, and creates it with its tables if it is not there.
    pub fn open(path: &Path, schema: &Schema) -> io::Result<Self> {
        create_parent(path)?;
        // An existing file is not opened here: to close it would release the locks of another connection.
        match fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() => {
                return Err(about(path)(io::Error::other("not a regular file")));
            }
            Ok(_) => {}
            Err(_) => {
                let created = open_private(path, FILE);
                created.map_err(about(path))?;
            }
        }
        let connection = connect(path, schema).map_err(failed(path))??;
        Ok(Self {
            path: path.to_owned(),
            file: identity(path)?,
            connection,
            session: String::new(),
            reached: BTreeMap::new(),
            added: BTreeMap::new(),
            headers: BTreeMap::new(),
            last: None,
            rows: 0,
        })
    }

    /// The file's device and inode.
    pub fn file(&self) -> (u64, u64) {
        self.file
    }

    /// Begins a transaction with rows of a session.
    pub fn begin(&mut self, session: &Path) -> io::Result<()> {
        if identity(&self.path).ok() != Some(self.file) {
            return Err(replaced(&self.path));
        }
        let name = session.file_name().unwrap_or_default();
        self.session = name.to_string_lossy().into_owned();
        self.headers.clear();
        self.read_cursor().map_err(failed(&self.path))
    }

    fn read_cursor(&mut self) -> rusqlite::Result<()> {
        (self.added, self.rows) = (BTreeMap::new(), 0);
        if !self.connection.is_autocommit() {
            // The export of another session has failed.
            self.connection.execute_batch("ROLLBACK")?;
        }
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        self.reached.clear();
        let select = "SELECT segment, line, header FROM spanledger_cursor WHERE session = ?1";
        let mut select = self.connection.prepare_cached(select)?;
        let mut rows = select.query([&self.session])?;
        while let Some(row) = rows.next()? {
            let segment = row.get(0)?;
            self.reached
                .insert(segment, row.get::<_, i64>(1)?.cast_unsigned());
            let header: Option<String> = row.get(2)?;
            self.headers.extend(header.map(|header| (segment, header)));
        }
        Ok(())
    }

    /// Checks that a segment is the one that was exported before.
    fn check_header(&mut self, segment: u32, header: &str) -> io::Result<()> {
        let known = self.headers.entry(segment);
        if *known.or_insert_with(|| header.to_owned()) == header {
            return Ok(());
        }
        let why = format!(
            "it has another session named {}; export this one to another file",
            self.session
        );
        Err(about(&self.path)(io::Error::other(why)))
    }

    /// Writes the rows of a line, unless they are there. Rows that show the current state have no line.
    pub fn write(&mut self, rows: &Rows, line: Option<Address>) -> io::Result<()> {
        if let Some(header) = &rows.segment {
            self.check_header(rows.at.seg, header)?;
        }
        if let Some(at) = line {
            let reached = self.reached.get(&at.seg);
            if reached.is_some_and(|reached| at.seq <= *reached) {
                return Ok(());
            }
            // Rows of one line are in one transaction.
            if self.rows >= BATCH && self.last != line {
                self.commit()?;
                self.read_cursor().map_err(failed(&self.path))?;
            }
            self.added.insert(at.seg, at.seq);
            self.last = line;
        }
        let mut pieces = rows.written.iter();
        let written = pieces.try_for_each(|piece| self.execute(piece));
        written.map_err(failed(&self.path))
    }

    fn execute(&mut self, piece: &Piece) -> rusqlite::Result<()> {
        let Piece::Sql { statement, values } = piece else {
            return Ok(());
        };
        let mut statement = self.connection.prepare_cached(statement)?;
        statement.execute(params_from_iter(values.iter().map(Cell)))?;
        self.rows += 1;
        Ok(())
    }

    /// Makes the rows and the cursor durable together.
    pub fn commit(&mut self) -> io::Result<()> {
        self.write_cursor().map_err(failed(&self.path))
    }

    fn write_cursor(&mut self) -> rusqlite::Result<()> {
        let upsert = "INSERT INTO spanledger_cursor (session, segment, line, header) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (session, segment) DO UPDATE SET line = excluded.line, header = excluded.header";
        let mut upsert = self.connection.prepare_cached(upsert)?;
        for (segment, line) in &self.added {
            let (line, header) = (line.cast_signed(), self.headers.get(segment));
            upsert.execute(params![self.session, segment, line, header])?;
        }
        self.connection.execute_batch("COMMIT")
    }
}

fn connect(path: &Path, schema: &Schema) -> rusqlite::Result<io::Result<Connection>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    // Nothing is changed in a database that can't have the rows.
    if let Some(why) = refusal(&connection, schema)? {
        return Ok(Err(about(path)(io::Error::other(why))));
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.execute_batch(schema.tables)?;
    connection.execute_batch(CURSOR)?;
    connection.pragma_update(None, "user_version", schema.version)?;
    connection.execute_batch("COMMIT")?;
    Ok(Ok(connection))
}

/// Why a database can't have the rows, if it can't.
fn refusal(connection: &Connection, schema: &Schema) -> rusqlite::Result<Option<String>> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let age = match version {
        0 => None,
        version if version > schema.version => Some("newer"),
        version if version < schema.version => Some("older"),
        _ => None,
    };
    if let Some(age) = age {
        let known = schema.version;
        let why =
            format!("its user_version is {version}, {age} than {known}; export to another file");
        return Ok(Some(why));
    }
    let ours = Connection::open_in_memory()?;
    ours.execute_batch(schema.tables)?;
    let (ours, theirs) = (columns(&ours)?, columns(connection)?);
    if !theirs.is_empty() && !ours.keys().any(|table| theirs.contains_key(table)) {
        let why = "it is a database of another program; export to another file";
        return Ok(Some(why.to_owned()));
    }
    for (table, columns) in &ours {
        let Some(there) = theirs.get(table) else {
            continue;
        };
        if let Some(missing) = columns.iter().find(|column| !there.contains(column)) {
            let why =
                format!("its table `{table}` has no column `{missing}`; export to another file");
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// The columns of each table.
fn columns(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Vec<String>>> {
    let select = "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c
        WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'";
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut select = connection.prepare(select)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        tables.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    Ok(tables)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(path).map_err(about(path))?;
    Ok((found.dev(), found.ino()))
}

fn failed(path: &Path) -> impl FnOnce(rusqlite::Error) -> io::Error + '_ {
    move |error| {
        about(path)(match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                let why = "another program writes to it; try again when that is done";
                io::Error::new(io::ErrorKind::ResourceBusy, why)
            }
            _ => io::Error::other(error.to_string()),
        })
    }
}

/// A cell of a row.
struct Cell<'a>(&'a Value);

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Null => ToSqlOutput::Owned(Sql::Null),
            Value::Bool(is) => ToSqlOutput::Owned(Sql::Integer((*is).into())),
            Value::String(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Value::Number(number) => ToSqlOutput::Owned(match number.as_i64() {
                Some(number) => Sql::Integer(number),
                None => Sql::Real(number.as_f64().unwrap_or_default()),
            }),
            json => ToSqlOutput::Owned(Sql::Text(json.to_string())),
        })
    }
}
