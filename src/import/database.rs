//! A SQLite database of another program. It is only read: nothing is written to it or beside it, views and
//! virtual tables are refused, and its pages are checked first.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, params_from_iter};
use serde_json::Value;

use super::history::Fields;
use super::staging::StagedDir;
use super::{Import, ImportError, Source};
use crate::trace::{Dir, NEW_FILE};

/// How every database begins.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";

/// A longer value is refused.
const LONGEST: i32 = 256 << 20;

/// So much of a write-ahead log is searched for the names of tables.
const LARGEST_LOG: u64 = 16 << 20;

pub(super) struct Database {
    path: PathBuf,
    connection: Connection,
    /// A copy that is removed after the connection is closed.
    _copy: Option<StagedDir>,
}

/// The format of a database, by its tables.
pub(super) fn detect(path: &Path) -> Option<Source> {
    let wal_mode = check_header(path).ok()?;
    let mode = match Way::to(path, wal_mode) {
        Way::Shared => "mode=ro",
        Way::Alone | Way::Copied => "immutable=1",
    };
    let connection = connect(&uri(path, mode)).ok();
    let is = |table: &str| is_table(connection.as_ref()?, table).ok();
    match () {
        () if is("chat_sessions") == Some(true) => Some(Source::ChatSqlite),
        () if is("events") == Some(true) => Some(Source::TraceSqlite),
        // Its tables may be in the log only.
        () => in_log(path),
    }
}

fn in_log(path: &Path) -> Option<Source> {
    let mut log = Vec::new();
    let file = fs::File::open(beside(path, "-wal")).ok()?;
    file.take(LARGEST_LOG).read_to_end(&mut log).ok()?;
    let log = String::from_utf8_lossy(&log);
    match () {
        () if log.contains("chat_sessions") => Some(Source::ChatSqlite),
        () if log.contains("payload_json") => Some(Source::TraceSqlite),
        () => None,
    }
}

impl Database {
    pub fn open(import: &Import, path: &Path) -> Result<Self, ImportError> {
        let failed = |error: io::Error| ImportError::new(path, error);
        let wal_mode = check_header(path).map_err(failed)?;
        let (connection, copy) = match Way::to(path, wal_mode) {
            Way::Alone => (connect(&uri(path, "immutable=1")), None),
            Way::Shared => match connect(&uri(path, "mode=ro")) {
                Err(error) if can_copy(&error) => connect_copy(import, path).map_err(failed)?,
                opened => (opened, None),
            },
            Way::Copied => connect_copy(import, path).map_err(failed)?,
        };
        let database = Self {
            path: path.to_owned(),
            connection: connection.map_err(|error| ImportError::new(path, error))?,
            _copy: copy,
        };
        database.check()?;
        Ok(database)
    }

    fn failed(&self, error: rusqlite::Error) -> ImportError {
        ImportError::new(&self.path, error)
    }

    fn check(&self) -> Result<(), ImportError> {
        let query = "PRAGMA quick_check(1)";
        let found = self
            .connection
            .query_row(query, [], |row| row.get::<_, String>(0));
        match found.map_err(|error| self.failed(error))?.as_str() {
            "ok" => Ok(()),
            damage => Err(ImportError::new(
                &self.path,
                format!("the database is damaged: {damage}"),
            )),
        }
    }

    /// The version that its program gave it.
    pub fn version(&self) -> Result<i64, ImportError> {
        let version = self
            .connection
            .pragma_query_value(None, "user_version", |row| row.get(0));
        version.map_err(|error| self.failed(error))
    }

    /// The columns of a table; none if there is no such table.
    pub fn columns(&self, table: &str) -> Result<Vec<String>, ImportError> {
        if !is_table(&self.connection, table).map_err(|error| self.failed(error))? {
            return Ok(Vec::new());
        }
        let mut columns = Vec::new();
        let column = |row: &rusqlite::Row<'_>| {
            columns.push(row.get("name")?);
            Ok(())
        };
        let listed = self.connection.pragma(None, "table_info", table, column);
        listed.map_err(|error| self.failed(error))?;
        Ok(columns)
    }

    /// Fails unless a table is there with these columns.
    pub fn need(&self, table: &str, columns: &[&str]) -> Result<(), ImportError> {
        let found = self.columns(table)?;
        if found.is_empty() {
            return Err(ImportError::new(
                &self.path,
                format!("it has no table `{table}`"),
            ));
        }
        let missing = columns
            .iter()
            .find(|name| !found.iter().any(|one| one == *name));
        missing.map_or(Ok(()), |name| {
            let why = format!("its table `{table}` has no column `{name}`");
            Err(ImportError::new(&self.path, why))
        })
    }

    /// Passes on the rows of a query, each with the names of its columns.
    pub fn each(
        &self,
        query: &str,
        values: &[&str],
        mut each: impl FnMut(Fields) -> io::Result<()>,
    ) -> Result<(), ImportError> {
        let failed = |error| self.failed(error);
        let mut statement = self.connection.prepare_cached(query).map_err(failed)?;
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.query(params_from_iter(values)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let cell = |(at, name): (usize, &String)| Ok((name.clone(), value(row.get_ref(at)?)));
            let cells: rusqlite::Result<Fields> = names.iter().enumerate().map(cell).collect();
            let added = each(cells.map_err(failed)?);
            added.map_err(|error| ImportError::new(&self.path, error))?;
        }
        Ok(())
    }
}

fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into(),
    }
}

/// Whether a database is in WAL mode, or why the file is none.
fn check_header(path: &Path) -> io::Result<bool> {
    // To open a pipe would wait for a writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut header = Vec::new();
    fs::File::open(path)?.take(20).read_to_end(&mut header)?;
    match header.starts_with(MAGIC) {
        true => Ok(header.get(18) == Some(&2)),
        false => Err(io::Error::other("not a SQLite database")),
    }
}

/// How a database can be read so that nothing is created beside it.
enum Way {
    /// No other program has it open, and all of it is in the file.
    Alone,
    /// Together with programs that have it open.
    Shared,
    /// In a copy: a program that died has left rows outside of the file.
    Copied,
}

impl Way {
    fn to(path: &Path, wal_mode: bool) -> Self {
        let has = |end: &str| has_beside(path, end);
        match () {
            () if has("-journal") => Self::Copied,
            () if has("-wal") && !has("-shm") => Self::Copied,
            () if has("-wal") || !wal_mode => Self::Shared,
            () => Self::Alone,
        }
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

fn has_beside(path: &Path, end: &str) -> bool {
    beside(path, end).symlink_metadata().is_ok()
}

/// Whether a copy could be opened where the database itself can't.
fn can_copy(error: &rusqlite::Error) -> bool {
    let codes = [
        ErrorCode::CannotOpen,
        ErrorCode::ReadOnly,
        ErrorCode::PermissionDenied,
    ];
    error
        .sqlite_error_code()
        .is_some_and(|code| codes.contains(&code))
}

type Opened = (rusqlite::Result<Connection>, Option<StagedDir>);

/// Copies the database with what is beside it, and opens the copy.
fn connect_copy(import: &Import, path: &Path) -> io::Result<Opened> {
    let copy = import.writer.staging.new_dir();
    let dir = Dir::make(copy.path(), 2)?;
    let database = copy.path().join("database");
    for end in ["", "-wal", "-journal"] {
        let from = beside(path, end);
        if end.is_empty() || from.is_file() {
            let mut file = dir.file(format!("database{end}"), NEW_FILE)?;
            io::copy(&mut fs::File::open(from)?, &mut file)?;
        }
    }
    Ok((connect(&uri(&database, "mode=rw")), Some(copy)))
}

fn uri(path: &Path, mode: &str) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("{uri}?{mode}").into()
}

fn connect(uri: &OsString) -> rusqlite::Result<Connection> {
    let access = match uri.to_string_lossy().ends_with("mode=rw") {
        true => OpenFlags::SQLITE_OPEN_READ_WRITE,
        false => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let flags = access | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "cell_size_check", "ON")?;
    // All queries see the same moment.
    connection.execute_batch("BEGIN")?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// Whether there is an ordinary table of this name: reading a view or a virtual table runs code of the file.
fn is_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let query = "SELECT 1 FROM sqlite_schema WHERE name = ?1 AND type = 'table' AND rootpage > 0";
    let found = connection.query_row(query, [name], |_| Ok(())).optional()?;
    Ok(found.is_some())
}
