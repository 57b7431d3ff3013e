//! A transcript in a zip file, with the artifacts and blobs that it names.

use std::io::{self, Seek, Write};
use std::path::Path;

use serde_json::json;
use zip::CompressionMethod;
use zip::result::ZipError;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::{Transcript, TranscriptFormat, Written};
use crate::inspect::open_regular;

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
/// let written = write_bundle(Transcript::new(&store, &style), &store.resolve("last")?, file)?;
/// println!("{} files", written.files.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_bundle(
    mut transcript: Transcript<'_>,
    session: &Path,
    out: impl Write + Seek,
) -> io::Result<Written> {
    transcript.bundled = true;
    let mut zip = ZipWriter::new(out);
    let name = match transcript.format {
        TranscriptFormat::Html => "transcript.html",
        TranscriptFormat::Markdown => "transcript.md",
    };
    zip.start_file(name, options()).map_err(zip_error)?;
    let mut page = io::BufWriter::new(&mut zip);
    let mut written = transcript.write(session, &mut page)?;
    page.flush()?;
    drop(page);
    written.files.push(name.to_owned());
    add_files(&mut written, &mut zip)?;
    let manifest = json!({
        "transcript": name,
        "sessions": written.sessions,
        "files": written.files,
        "missing": written.missing.iter().map(|(name, why)| json!({"file": name, "why": why})).collect::<Vec<_>>(),
    });
    zip.start_file("manifest.json", options())
        .map_err(zip_error)?;
    writeln!(zip, "{manifest:#}")?;
    written.files.push("manifest.json".into());
    zip.finish().map_err(zip_error)?.flush()?;
    Ok(written)
}

fn options() -> SimpleFileOptions {
    let options = SimpleFileOptions::default();
    // The sizes are not known before a file is written.
    options
        .compression_method(CompressionMethod::Deflated)
        .large_file(true)
}

fn add_files(written: &mut Written, zip: &mut ZipWriter<impl Write + Seek>) -> io::Result<()> {
    let blobs = written.blobs.iter();
    let blobs = blobs.map(|(digest, path)| (format!("blobs/{digest}"), Ok(path)));
    let artifacts = written.artifacts.iter();
    let artifacts = artifacts.map(|(name, file)| (name.clone(), file.as_ref()));
    for (name, file) in artifacts.chain(blobs) {
        let opened = file.map_err(String::clone).and_then(|path| {
            let opened = open_regular(path).map_err(|error| error.to_string())?;
            opened.ok_or_else(|| "not a regular file".to_owned())
        });
        match opened {
            Ok((mut file, _)) => {
                zip.start_file(name.as_str(), options())
                    .map_err(zip_error)?;
                io::copy(&mut file, zip)?;
                written.files.push(name);
            }
            Err(why) => written.missing.push((name, why)),
        }
    }
    Ok(())
}
