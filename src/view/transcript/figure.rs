//! The files of artifacts, as far as a page can show them.

use std::path::{Component, Path};

use super::super::text::{self, Text};
use super::Written;
use super::page::Figure;
use super::rows::RowMaker;
use crate::inspect::{ArtifactError, ArtifactFile, AttemptArtifact};
use crate::session::{Item, Node};

/// A larger image is not part of the page.
const LARGEST_IMAGE: u64 = 4 * 1024 * 1024;

/// The file of an artifact. Its name and path are remembered for a bundle.
pub(super) fn of(node: &Node, maker: &RowMaker<'_>, written: &mut Written) -> Option<Figure> {
    let Item::Artifact(artifact) = node.item() else {
        return None;
    };
    let path = artifact.path().unwrap_or_default();
    let code = artifact.source_code().map(Text::from);
    let (blob, digest) = (artifact.blob(), artifact.sha256());
    let file = maker.files.open(&path, blob.as_deref(), digest.as_deref());
    Some(shown(&path, code, file, maker, written))
}

/// The file of an attempt's artifact.
pub(super) fn of_attempt(
    artifact: &AttemptArtifact,
    maker: &RowMaker<'_>,
    written: &mut Written,
) -> Figure {
    let code = artifact.source_code.clone().map(Text::from);
    let (blob, digest) = (artifact.blob.as_deref(), artifact.sha256.as_deref());
    let file = maker.files.open(&artifact.path, blob, digest);
    shown(&artifact.path, code, file, maker, written)
}

fn shown(
    path: &str,
    code: Option<Text>,
    file: Result<ArtifactFile, ArtifactError>,
    maker: &RowMaker<'_>,
    written: &mut Written,
) -> Figure {
    let mut figure = Figure {
        path: text::line(path).into_owned(),
        image: None,
        file: None,
        note: None,
        code: code.map(|code| maker.body(code, false)),
    };
    match file {
        Ok(file) => {
            let name = keep(path, &file.path, written);
            figure.file = maker.bundled.then_some(name);
            show(file, &mut figure);
        }
        Err(error) => {
            let why = text::line(&error.to_string()).into_owned();
            let known = written.artifacts.entry(bundle_name(path));
            known.or_insert_with(|| Err(why.clone()));
            figure.note = Some(why);
        }
    }
    figure
}

/// Remembers a file, and returns its name in a bundle. Files of two directories may have the same path.
fn keep(path: &str, file: &Path, written: &mut Written) -> String {
    let mut name = bundle_name(path);
    let is_other = |name: &str| {
        let known = written.artifacts.get(name);
        known.is_some_and(|known| known.as_deref().is_ok_and(|known| known != file))
    };
    let mut n = 1;
    while is_other(&name) {
        n += 1;
        name = bundle_name(&format!("{n}/{path}"));
    }
    written.artifacts.insert(name.clone(), Ok(file.to_owned()));
    name
}

/// Puts an image into the figure, or says what the file is.
fn show(file: ArtifactFile, figure: &mut Figure) {
    let size = text::size(file.bytes);
    match file.read(LARGEST_IMAGE) {
        None => figure.note = Some(format!("{size}: too large to be shown here")),
        Some(Err(error)) => figure.note = Some(format!("can't be read: {error}")),
        Some(Ok(bytes)) => match image_type(&bytes) {
            Some(kind) => figure.image = Some((kind, bytes)),
            None => figure.note = Some(format!("{size}, not an image")),
        },
    }
}

/// The media type of an image, by how the file begins: what the trace says may be wrong.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    let is_svg = || {
        let head = &bytes[..bytes.len().min(1024)];
        let head = String::from_utf8_lossy(head);
        let head = head.trim_start_matches('\u{feff}').trim_start();
        head.starts_with("<svg") || (head.starts_with("<?xml") && head.contains("<svg"))
    };
    let starts: [(&[u8], &str); 3] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
    ];
    if let Some((_, kind)) = starts.iter().find(|(start, _)| bytes.starts_with(start)) {
        return Some(kind);
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    // A browser runs no script of an image and loads nothing for it.
    is_svg().then_some("image/svg+xml")
}

/// The name of an artifact's file in a bundle: below `artifacts/` for every path.
fn bundle_name(path: &str) -> String {
    let parts = Path::new(path).components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    let safe = |c: char| match c {
        '\\' | ':' => '_',
        c if c.is_control() => '_',
        c => c,
    };
    let parts: Vec<String> = parts.map(|part| part.chars().map(safe).collect()).collect();
    format!("artifacts/{}", parts.join("/"))
}

#[cfg(test)]
mod tests;
