//! Without the feature `sqlite` no database can be read.

use std::convert::Infallible;
use std::io;
use std::path::Path;

use super::history::Fields;
use super::{Import, ImportError, Source};

pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";

pub(super) struct Database(Infallible);

/// Which database it is can't be seen. To import it fails with the reason.
pub(super) fn detect(_: &Path) -> Option<Source> {
    Some(Source::TraceSqlite)
}

impl Database {
    pub fn open(_: &Import, path: &Path) -> Result<Self, ImportError> {
        let why = "SQLite needs spanledger's feature `sqlite`";
        Err(ImportError::new(path, why))
    }

    pub fn version(&self) -> Result<i64, ImportError> {
        match self.0 {}
    }

    pub fn columns(&self, _: &str) -> Result<Vec<String>, ImportError> {
        match self.0 {}
    }

    pub fn need(&self, _: &str, _: &[&str]) -> Result<(), ImportError> {
        match self.0 {}
    }

    pub fn each(
        &self,
        _: &str,
        _: &[&str],
        _: impl FnMut(Fields) -> io::Result<()>,
    ) -> Result<(), ImportError> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_file_and_feature() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.sqlite");
        std::fs::write(&path, MAGIC).unwrap();
        let source = Source::detect(&path).unwrap();
        let error = Import::new(dir.path()).unwrap().read(source, &path);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("trace.sqlite") && error.contains("feature `sqlite`"),
            "{error}"
        );
    }
}
