//! The directories of sessions that are being imported. They become visible when they are complete; those of an
//! import that was killed are removed by the next one.

use std::io;
use std::path::{Path, PathBuf};

use crate::ledger::{Ledger, writer_is_alive};
use crate::trace::{Dir, Root, new_span_id, split};

/// How often it is tried to make the directory of an import.
const MOST_ATTEMPTS: u32 = 100;

/// The directories of one import. Their names begin with the id of its writer, which is locked while the import runs.
#[derive(Debug)]
pub(super) struct Staging {
    /// It is empty. While it is there, no other import removes the directory of all.
    own: PathBuf,
}

impl Staging {
    /// Begins an import, and removes what dead ones have left behind.
    pub fn begin(ledger: &Ledger) -> io::Result<Self> {
        let importing = ledger.root().path().join("importing");
        let own = importing.join(ledger.lock_writer()?);
        make(&own)?;
        remove_dead(ledger.root(), &importing);
        Ok(Self { own })
    }

    /// A name that nothing else has. The directory is not created.
    pub fn new_dir(&self) -> StagedDir {
        let extension = format!("{:016x}", new_span_id());
        StagedDir(self.own.with_extension(extension))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        remove(&self.own);
        // The last import removes the directory of all.
        let _ = std::fs::remove_dir(split(&self.own).0);
    }
}

/// Makes a directory. Another import may remove the one around it as long as that is empty.
fn make(own: &Path) -> io::Result<()> {
    let mut attempts = 1;
    loop {
        match Dir::make(own, 2) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < MOST_ATTEMPTS => {
                attempts += 1;
            }
            made => return made.map(drop),
        }
    }
}

/// A directory that is removed unless it was moved away.
#[derive(Debug)]
pub(super) struct StagedDir(PathBuf);

impl StagedDir {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for StagedDir {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(dir: &Path) {
    let (importing, name) = split(dir);
    let _ = Dir::open(importing, 1).and_then(|importing| importing.remove_all(name));
}

/// Removes the directories of imports whose writer is dead. What can't be removed now is removed by a later import.
fn remove_dead(root: &Root, importing: &Path) {
    let Ok(dir) = Dir::open(importing, 1) else {
        return;
    };
    for name in dir.names().unwrap_or_default() {
        let writer = Path::new(&name)
            .file_stem()
            .and_then(|writer| writer.to_str());
        if !writer.is_some_and(|writer| writer_is_alive(root, writer)) {
            let _ = dir.remove_all(&name);
        }
    }
}
