//! Helpers for I/O errors.

use std::io;
use std::path::Path;

use crate::error::Error;

/// `None` if the file was removed in the meantime.
pub(crate) fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Names the path that an I/O error is about.
pub(crate) fn io_error(path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        path: path.clone(),
        source,
    }
}
