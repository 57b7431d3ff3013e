use super::*;
use crate::trace::RawValue;
use crate::trace::typed::Artifact;

fn open(files: &ArtifactFiles, json: &str) -> Result<Vec<u8>, ArtifactError> {
    let artifact = Artifact::from(RawValue::new(json));
    let (path, blob, digest) = (artifact.path(), artifact.blob(), artifact.sha256());
    let file = files.open(
        &path.unwrap_or_default(),
        blob.as_deref(),
        digest.as_deref(),
    )?;
    Ok(file.read(1024).unwrap().unwrap())
}

#[test]
fn reads_files_of_the_output_directory_only() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    std::fs::create_dir_all(out.join("sub")).unwrap();
    std::fs::write(out.join("sub/a.png"), "inside").unwrap();
    std::fs::write(dir.path().join("secret"), "outside").unwrap();
    std::os::unix::fs::symlink(dir.path().join("secret"), out.join("link")).unwrap();
    let files = ArtifactFiles::new(dir.path(), Some(&out));
    assert_eq!(open(&files, r#"{"path":"sub/a.png"}"#).unwrap(), b"inside");
    let absolute = format!(r#"{{"path":"{}"}}"#, dir.path().join("secret").display());
    for path in [r#"{"path":"../secret"}"#, r#"{"path":"link"}"#, &absolute] {
        let error = open(&files, path).unwrap_err();
        assert!(
            matches!(error, ArtifactError::Outside(_)),
            "{path}: {error}"
        );
    }
    let error = open(&files, r#"{"path":"sub"}"#).unwrap_err();
    assert!(matches!(error, ArtifactError::NotAFile(_)), "{error}");
    let error = open(&files, r#"{"path":"none"}"#).unwrap_err();
    assert!(error.to_string().ends_with("is not there"), "{error}");
    let nowhere = ArtifactFiles::new(dir.path(), None::<PathBuf>);
    let error = open(&nowhere, r#"{"path":"sub/a.png"}"#).unwrap_err();
    assert!(matches!(error, ArtifactError::NoOutputDir), "{error}");
}

#[test]
fn compares_the_digest() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), "abc").unwrap();
    let files = ArtifactFiles::new(dir.path(), Some(dir.path()));
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let right = format!(r#"{{"path":"a","sha256":"{abc}"}}"#);
    assert_eq!(open(&files, &right).unwrap(), b"abc");
    let wrong = right.replace("ba78", "0000");
    let error = open(&files, &wrong).unwrap_err();
    assert!(matches!(error, ArtifactError::Changed(_)), "{error}");
    // A blob of the session, by its digest alone.
    std::fs::create_dir(dir.path().join("blobs")).unwrap();
    std::fs::write(dir.path().join("blobs").join(abc), "abc").unwrap();
    let blob = format!(r#"{{"path":"gone","blob":"{abc}"}}"#);
    assert_eq!(open(&files, &blob).unwrap(), b"abc");
}
