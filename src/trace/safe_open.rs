//! Open directories. All that is created, changed, renamed or removed below a root goes through one, so it happens in
//! that directory, wherever its path leads by then.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::{Errno, retry_on_intr};

/// Creates a file, unless one of this name is there.
pub(crate) const NEW_FILE: OFlags = FILE.union(OFlags::EXCL);
/// Opens a file for writing, and creates it if it isn't there.
pub(crate) const FILE: OFlags = OFlags::CREATE.union(OFlags::WRONLY);

/// An open directory. What is done by a name in it happens in it, also if a link stands in its place meanwhile.
#[derive(Debug)]
pub(crate) struct Dir {
    file: File,
    path: PathBuf,
}

impl Dir {
    /// Opens a directory. The last `below` names of its path are below a root, which may be a symbolic link; none of
    /// them may be one, as it could lead out of the root.
    pub fn open(path: &Path, below: usize) -> io::Result<Self> {
        Self::walk(path, below, false)
    }

    /// The same, where what is not there is created, the root with it.
    pub fn make(path: &Path, below: usize) -> io::Result<Self> {
        Self::walk(path, below, true)
    }

    fn walk(path: &Path, below: usize, create: bool) -> io::Result<Self> {
        let (parent, name) = split(path);
        if below > 0 && !name.is_empty() {
            let parent = Self::walk(parent, below - 1, create)?;
            return match create {
                true => parent.make_dir(name),
                false => parent.dir(name),
            };
        }
        if create && !path.exists() {
            make_root(path)?;
        }
        let here = Path::new(".").join(path);
        Self::open_at(CWD, &here, path.to_owned(), OFlags::empty())
    }

    /// Opens a directory in this one.
    pub fn dir(&self, name: impl AsRef<Path>) -> io::Result<Self> {
        let name = name.as_ref();
        Self::open_at(
            self.file.as_fd(),
            name,
            self.path.join(name),
            OFlags::NOFOLLOW,
        )
    }

    /// The same, where a directory that is not there is created, private to the owner.
    pub fn make_dir(&self, name: impl AsRef<Path>) -> io::Result<Self> {
        let name = name.as_ref();
        match self.dir(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match mkdirat(&self.file, name, Mode::RWXU) {
            // Another thread or process was quicker.
            Ok(()) | Err(Errno::EXIST) => self.dir(name),
            Err(error) => Err(error.into()),
        }
    }

    fn open_at(dir: BorrowedFd<'_>, name: &Path, path: PathBuf, flags: OFlags) -> io::Result<Self> {
        match Self::open_fd(dir, name, flags) {
            Ok(file) => Ok(Self { file, path }),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(not_ours(&path, "not a directory")),
            Err(error) => Err(error.into()),
        }
    }

    fn open_fd(dir: BorrowedFd<'_>, name: &Path, flags: OFlags) -> Result<File, Errno> {
        let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
        retry_on_intr(|| openat(dir, name, flags, Mode::empty())).map(File::from)
    }

    /// Opens a file in it, as [`open_private`] does.
    pub fn file(&self, name: impl AsRef<Path>, flags: OFlags) -> io::Result<File> {
        let name = name.as_ref();
        open_file(self.file.as_fd(), name, &self.path.join(name), flags)
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// The names of what is in it.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.file)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Renames what is called `from` in it to what `to` is called in `dir`.
    pub fn rename(
        &self,
        from: impl AsRef<Path>,
        dir: &Self,
        to: impl AsRef<Path>,
    ) -> io::Result<()> {
        Ok(renameat(&self.file, from.as_ref(), &dir.file, to.as_ref())?)
    }

    /// Removes a file.
    pub fn remove(&self, name: impl AsRef<Path>) -> io::Result<()> {
        Ok(unlinkat(&self.file, name.as_ref(), AtFlags::empty())?)
    }

    /// Removes a file, or a directory with all that is in it.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        match Self::open_fd(self.file.as_fd(), Path::new(name), OFlags::NOFOLLOW) {
            Ok(file) => {
                let path = self.path.join(name);
                let dir = Self { file, path };
                dir.names()?
                    .iter()
                    .try_for_each(|name| dir.remove_all(name))?;
                Ok(unlinkat(&self.file, name, AtFlags::REMOVEDIR)?)
            }
            Err(Errno::NOTDIR | Errno::LOOP) => self.remove(name),
            Err(error) => Err(error.into()),
        }
    }
}

/// Makes the root and its parents, private to the owner.
pub(crate) fn make_root(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a file of ours: private to the owner, close-on-exec, never as descriptor 0, 1 or 2 (where an
/// agent closed its stderr, what others write there must not end up in the trace). It must be a regular
/// file: a symbolic link could lead out of the root, and opening a pipe could wait forever.
pub(crate) fn open_private(path: &Path, flags: OFlags) -> io::Result<File> {
    open_file(CWD, path, path, flags)
}

fn open_file(dir: BorrowedFd<'_>, name: &Path, path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = retry_on_intr(|| openat(dir, name, flags, Mode::RUSR | Mode::WUSR));
    let file = File::from(opened.map_err(|error| match error {
        Errno::LOOP => not_ours(path, "a symbolic link, not a file"),
        Errno::ISDIR => not_ours(path, "a directory, not a file"),
        // A pipe without a reader, or a socket, for which macOS has an error of its own.
        Errno::NXIO | Errno::OPNOTSUPP => not_ours(path, "not a regular file"),
        error => error.into(),
    })?);
    if !file.metadata()?.is_file() {
        return Err(not_ours(path, "not a regular file"));
    }
    if file.as_raw_fd() > 2 {
        return Ok(file);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&file, 3)?.into())
}

/// The directory that holds what is at `path`, and the name there.
pub(crate) fn split(path: &Path) -> (&Path, &OsStr) {
    let parts = path.parent().zip(path.file_name());
    parts.unwrap_or((path, OsStr::new("")))
}

/// Whether a file or directory belongs to the user of this process.
pub(crate) fn is_own(meta: &Metadata) -> bool {
    meta.uid() == rustix::process::geteuid().as_raw()
}

fn not_ours(path: &Path, what: &str) -> io::Error {
    let path = path.display();
    let why = format!("{path} is {what}; remove it, or choose another root");
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests;
