//! A transcript in a zip file, with the artifacts and blobs that it names.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use serde_json::json;
use zip::CompressionMethod;
use zip::result::ZipError;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::{Transcript, TranscriptFormat, Written};

/// What a bundle contains.
#[derive(Debug)]
#[non_exhaustive]
pub struct Bundled {
    /// What the transcript contains.
    pub written: Written,
    /// The names of its files.
    pub files: Vec<String>,
    /// The artifacts and blobs that are not in it, and why.
    pub missing: Vec<(String, String)>,
}

fn zip_error(error: ZipError) -> io::Error {
    match error {
        ZipError::Io(error) => error,
        error => io::Error::other(format!("the zip file can't be written: {error}")),
    }
}

/// Writes a bundle: `transcript.html` or `transcript.md`, the files below `artifacts/`, the blobs below `blobs/`, and
/// `manifest.json`, which lists them and names what is missing.
///
/// ```no_run
/// use spanledger::session::Store;
/// use spanledger::view::{Style, Transcript, write_bundle};
/// let (store, style) = (Store::new("/var/lib/agent"), Style::plain());
/// let file = std::fs::File::create("session.zip")?;
/// let bundled = write_bundle(Transcript::new(&store, &style), &store.resolve("last")?, file)?;
/// println!("{} files", bundled.files.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_bundle(
    mut transcript: Transcript<'_>,
    session: &Path,
    out: impl Write + Seek,
) -> io::Result<Bundled> {
    transcript.bundled = true;
    let mut zip = ZipWriter::new(out);
    let name = match transcript.format {
        TranscriptFormat::Html => "transcript.html",
        TranscriptFormat::Markdown => "transcript.md",
    };
    zip.start_file(name, options()).map_err(zip_error)?;
    let mut page = io::BufWriter::new(&mut zip);
    let written = transcript.write(session, &mut page)?;
    page.flush()?;
    drop(page);
    let mut bundled = Bundled {
        files: vec![name.to_owned()],
        missing: Vec::new(),
        written,
    };
    bundled.add_files(&mut zip)?;
    let manifest = json!({
        "transcript": name,
        "sessions": bundled.written.sessions,
        "files": bundled.files,
        "missing": bundled.missing.iter().map(|(name, why)| json!({"file": name, "why": why})).collect::<Vec<_>>(),
    });
    zip.start_file("manifest.json", options())
        .map_err(zip_error)?;
    writeln!(zip, "{manifest:#}")?;
    bundled.files.push("manifest.json".into());
    zip.finish().map_err(zip_error)?.flush()?;
    Ok(bundled)
}

fn options() -> SimpleFileOptions {
    let options = SimpleFileOptions::default();
    // The sizes are not known before a file is written.
    options
        .compression_method(CompressionMethod::Deflated)
        .large_file(true)
}

impl Bundled {
    fn add_files(&mut self, zip: &mut ZipWriter<impl Write + Seek>) -> io::Result<()> {
        let blobs = self.written.blobs.iter();
        let blobs = blobs.map(|(digest, path)| (format!("blobs/{digest}"), Ok(path)));
        let artifacts = self.written.artifacts.iter();
        let artifacts = artifacts.map(|(name, file)| (name.clone(), file.as_ref()));
        for (name, file) in artifacts.chain(blobs) {
            let opened = match file {
                Ok(path) => open(path).map_err(|error| error.to_string()),
                Err(why) => Err(why.clone()),
            };
            match opened {
                Ok(mut file) => {
                    zip.start_file(name.as_str(), options())
                        .map_err(zip_error)?;
                    io::copy(&mut file, zip)?;
                    self.files.push(name);
                }
                Err(why) => self.missing.push((name, why)),
            }
        }
        Ok(())
    }
}

/// Opens a regular file.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}
