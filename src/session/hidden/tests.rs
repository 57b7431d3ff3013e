use std::path::Path;

use super::*;
use crate::session::each_turn;

/// A session of these events, a second apart: a message by its id, `<id` for a rewind to it, `old=new` for an edit.
fn session(dir: &Path, events: &[&str]) {
    let mut text = String::new();
    for (n, event) in events.iter().enumerate() {
        let (kind, payload) = if let Some(to) = event.strip_prefix('<') {
            let (to, ids) = to.split_once(' ').unwrap_or((to, "[]"));
            let payload = format!(r#"{{"to_message_id":"{to}","hidden_ids":{ids}}}"#);
            ("rewind", payload)
        } else if let Some((old, new)) = event.split_once('=') {
            let payload = format!(r#"{{"content":"x","message_id":"{new}","replaces":"{old}"}}"#);
            ("message_user", payload)
        } else {
            let payload = format!(r#"{{"content":"x","message_id":"{event}"}}"#);
            ("message_user", payload)
        };
        let seq = n + 1;
        text += &format!(
            r#"{{"v":1,"seg":1,"seq":{seq},"ts":"2026-11-16T00:00:{n:02}.000000Z","kind":"{kind}","session_id":"s","payload":{payload}}}"#
        );
        text.push('\n');
    }
    std::fs::write(dir.join("trace.0001.jsonl"), text).unwrap();
}

/// The messages that are visible, and the address that hides each of the others.
fn visible(events: &[&str]) -> (Vec<String>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    session(dir.path(), events);
    let hidden = Hidden::read(dir.path()).unwrap();
    let (mut shown, mut not_shown) = (Vec::new(), Vec::new());
    each_turn(dir.path(), |turn| {
        for node in turn.nodes.iter().filter(|node| node.role().is_some()) {
            let id = node.get("message_id").unwrap().text().unwrap().into_owned();
            match hidden.by(node) {
                None => shown.push(id),
                Some(by) => not_shown.push(format!("{id} by {by}")),
            }
        }
        Ok::<(), io::Error>(())
    })
    .unwrap();
    (shown, not_shown)
}

#[test]
fn rewind_hides_what_came_after_its_message() {
    let (shown, hidden) = visible(&["a", "b", "c", "<a", "d"]);
    assert_eq!(shown, ["a", "d"]);
    assert_eq!(hidden, ["b by 1:4", "c by 1:4"]);
}

#[test]
fn later_rewind_keeps_an_earlier_one() {
    let (shown, hidden) = visible(&["a", "b", "<a", "c", "d", "e", "<d", "f"]);
    assert_eq!(shown, ["a", "c", "d", "f"]);
    assert_eq!(hidden, ["b by 1:3", "e by 1:7"]);
}

#[test]
fn rewind_to_a_hidden_message_shows_it_again() {
    let (shown, hidden) = visible(&["a", "b", "c", "<a", "d", "<b", "e"]);
    assert_eq!(shown, ["a", "b", "e"]);
    assert_eq!(hidden, ["c by 1:6", "d by 1:6"]);
}

#[test]
fn rewind_to_an_unknown_message_hides_what_it_names() {
    let (shown, hidden) = visible(&["a", "b", r#"<gone ["b","z"]"#, "c"]);
    assert_eq!(shown, ["a", "c"]);
    assert_eq!(hidden, ["b by 1:3"]);
}

#[test]
fn edit_hides_the_message_that_it_replaces() {
    let (shown, hidden) = visible(&["a", "b", "<a", "a=c", "d"]);
    assert_eq!(shown, ["c", "d"]);
    assert_eq!(hidden, ["a by 1:4", "b by 1:3"]);
}
