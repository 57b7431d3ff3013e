//! The files of artifacts, read without leaving the directories that they may be in.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};

/// Finds the files of a session's artifacts: blobs of the session, and files under the output directory of its run.
///
/// The path of an artifact comes from the trace, and a model may have written it. A path that leads elsewhere, by
/// `..`, as an absolute path or through a link, is refused.
#[derive(Clone, Debug)]
pub struct ArtifactFiles {
    session: PathBuf,
    output_dir: Option<PathBuf>,
}

/// The file of an artifact, open for reading. Its digest was checked if the trace has one.
#[derive(Debug)]
pub struct ArtifactFile {
    /// The file.
    pub file: File,
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

/// Why the file of an artifact can't be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The run recorded no output directory, and the artifact no blob.
    NoOutputDir,
    /// It is not inside the output directory.
    Outside(PathBuf),
    /// It is a directory, a pipe or a device.
    NotAFile(PathBuf),
    /// It is not the file that was recorded: its digest differs.
    Changed(PathBuf),
    /// It can't be read.
    Io(PathBuf, io::Error),
}

impl fmt::Display for ArtifactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoOutputDir => f.write_str("the run recorded no output_dir to find it in"),
            Self::Outside(path) => {
                write!(f, "{} is outside the output directory", path.display())
            }
            Self::NotAFile(path) => write!(f, "{} is not a regular file", path.display()),
            Self::Changed(path) => write!(f, "{} has changed since", path.display()),
            Self::Io(path, error) if error.kind() == io::ErrorKind::NotFound => {
                write!(f, "{} is not there", path.display())
            }
            Self::Io(path, error) => write!(f, "{} can't be read: {error}", path.display()),
        }
    }
}

impl std::error::Error for ArtifactError {}

impl ArtifactFiles {
    /// Of the session in this directory, whose run had this output directory.
    pub fn new(session: impl Into<PathBuf>, output_dir: Option<impl Into<PathBuf>>) -> Self {
        Self {
            session: session.into(),
            output_dir: output_dir.map(Into::into),
        }
    }

    /// Opens the file of an artifact: its path, its blob and its digest, as recorded.
    pub fn open(
        &self,
        path: &str,
        blob: Option<&str>,
        digest: Option<&str>,
    ) -> Result<ArtifactFile, ArtifactError> {
        if let Some(blob) = blob.filter(|blob| is_digest(blob)) {
            let path = self.session.join("blobs").join(blob);
            return open_checked(&path, Some(blob));
        }
        let dir = self.output_dir.as_ref().ok_or(ArtifactError::NoOutputDir)?;
        let path = dir.join(path);
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(ArtifactError::Outside(path));
        }
        let real = |path: &Path| path.canonicalize().map_err(io_error(path));
        let (dir, path) = (real(dir)?, real(&path)?);
        if !path.starts_with(&dir) || path == dir {
            return Err(ArtifactError::Outside(path));
        }
        open_checked(&path, digest)
    }
}

impl ArtifactFile {
    /// The whole file, if it has no more than so many bytes.
    pub fn read(self, most: u64) -> Option<io::Result<Vec<u8>>> {
        if self.bytes > most {
            return None;
        }
        let mut bytes = Vec::with_capacity(self.bytes as usize);
        let read = self.file.take(most).read_to_end(&mut bytes);
        Some(read.map(|_| bytes))
    }
}

/// Whether a text can be the name of a blob.
pub(crate) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> ArtifactError + '_ {
    |error| ArtifactError::Io(path.to_owned(), error)
}

/// Opens a regular file. Returns its size, too. `None`: it is not a regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<Option<(File, u64)>> {
    // To open a pipe would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let meta = file.metadata()?;
    Ok(meta.is_file().then_some((file, meta.len())))
}

/// Opens a regular file, and compares its digest.
fn open_checked(path: &Path, digest: Option<&str>) -> Result<ArtifactFile, ArtifactError> {
    let opened = open_regular(path).map_err(io_error(path))?;
    let (mut file, bytes) = opened.ok_or_else(|| ArtifactError::NotAFile(path.to_owned()))?;
    if let Some(digest) = digest {
        let found = digest_of(&mut file).map_err(io_error(path))?;
        let digest = digest.strip_prefix("sha256:").unwrap_or(digest);
        if !found.eq_ignore_ascii_case(digest) {
            return Err(ArtifactError::Changed(path.to_owned()));
        }
    }
    Ok(ArtifactFile {
        file,
        path: path.to_owned(),
        bytes,
    })
}

/// The SHA-256 of a file, read from its start; the file is at its start afterwards.
fn digest_of(file: &mut File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = [0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => hasher.update(&buffer[..n]),
        }
    }
    file.rewind()?;
    let bytes = hasher.finalize();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests;
