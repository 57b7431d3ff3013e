use super::*;

#[test]
fn markers_are_read_and_other_objects_are_not() {
    let marker = |json| RawValue::new(json).marker();
    let blob = marker(r#"{"$blob":"ab","bytes":9,"media_type":"text/plain","head":"x","$cut":{"bytes":2,"sha256":"cd","rule":"value-limit"}}"#).unwrap();
    assert_eq!((blob.blob.as_deref(), blob.bytes), (Some("ab"), Some(9)));
    assert_eq!(blob.head.as_deref(), Some("x"));
    assert_eq!(blob.cut.unwrap().rule.as_deref(), Some("value-limit"));
    let lossy = marker(r#"{"$lossy":{"bytes":3,"replaced":1},"text":"a"}"#).unwrap();
    assert!(lossy.lossy && lossy.bytes == Some(3) && lossy.head.as_deref() == Some("a"));
    for other in [
        r#""$blob""#,
        "{}",
        r#"{"a":{"$blob":"b"}}"#,
        r#"{"$ref":"x"}"#,
        "[]",
    ] {
        assert_eq!(marker(other), None, "{other}");
    }
}
