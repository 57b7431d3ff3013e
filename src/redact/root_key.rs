//! The key of the digests in masks. It never leaves the root.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::trace::{NEW_FILE, Root, about, hex, is_own, make_root, open_private, random_bytes};

/// Reads the root's key, or creates it. The file appears whole, by a link, so two processes that
/// start at once agree on one key.
pub(crate) fn load_or_create(root: &Root) -> io::Result<[u8; 32]> {
    let path = root.redaction_key();
    match read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read,
    }
    make_root(root.path())?;
    let key: [u8; 32] = random_bytes();
    let unnamed = root.path().join(format!(
        ".redaction.key.{}.{:x}",
        std::process::id(),
        u64::from_ne_bytes(random_bytes())
    ));
    let made = open_private(&unnamed, NEW_FILE)
        .and_then(|mut file| {
            writeln!(file, "{}", hex(&key))?;
            file.sync_all()
        })
        .and_then(|()| std::fs::hard_link(&unnamed, &path));
    let _ = std::fs::remove_file(&unnamed);
    match made {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(&path),
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> io::Result<[u8; 32]> {
    let mut digits = String::new();
    let file = open_private(path, OFlags::RDONLY).map_err(|error| match error.raw_os_error() {
        Some(_) => about(path)(error),
        None => error,
    })?;
    let meta = file.metadata()?;
    if !is_own(&meta) || meta.mode() & 0o077 != 0 {
        let why = format!(
            "{} is not private: it must belong to this user, with mode 600",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    file.take(128).read_to_string(&mut digits)?;
    let digits = digits.trim_end();
    let invalid = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is not a key of 64 hex digits", path.display()),
        )
    };
    if digits.len() != 64 || !digits.is_ascii() {
        return Err(invalid());
    }
    let mut key = [0; 32];
    for (index, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).map_err(|_| invalid())?;
    }
    Ok(key)
}
