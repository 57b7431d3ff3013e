use super::*;

#[test]
fn marker_is_not_created_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("outbox")).unwrap();
    assert!(mark(&root.join("outbox/s.0001")).is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}
