use super::*;

#[test]
fn bundle_name_stays_below_artifacts() {
    for (path, name) in [
        ("a/b.png", "artifacts/a/b.png"),
        ("/etc/passwd", "artifacts/etc/passwd"),
        ("../../x", "artifacts/x"),
        ("a/../../x", "artifacts/a/x"),
        ("c:\\x\n", "artifacts/c__x_"),
    ] {
        assert_eq!(bundle_name(path), name);
    }
}

#[test]
fn image_type_is_read_from_the_bytes() {
    assert_eq!(image_type(b"\x89PNG\r\n\x1a\n..."), Some("image/png"));
    assert_eq!(image_type(b"  <svg xmlns="), Some("image/svg+xml"));
    assert_eq!(image_type(b"<html><svg>"), None);
    assert_eq!(image_type(b""), None);
}
