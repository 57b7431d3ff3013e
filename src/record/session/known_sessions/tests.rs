use std::cell::Cell;

use super::*;

#[test]
fn live_sessions_are_not_scanned_for_each_new_one() {
    let (mut sessions, scans) = (KnownSessions::new(), Cell::new(0));
    let is_idle = |_: &()| {
        scans.set(scans.get() + 1);
        false
    };
    for n in 0..50_000 {
        sessions.get_or_make(&n.to_string(), is_idle, |_| ());
    }
    assert_eq!(sessions.iter().count(), 50_000);
    assert!((1..100_000).contains(&scans.get()), "{scans:?}");
}

#[test]
fn idle_unreferenced_sessions_are_dropped() {
    let mut sessions = KnownSessions::new();
    let mut make = |n: usize| sessions.get_or_make(&n.to_string(), |_| true, |again| again);
    let held = make(0);
    let again: Vec<bool> = (1..=IDLE).map(|n| *make(n)).collect();
    assert!(Arc::ptr_eq(&held, &make(0)));
    assert!(!again[..IDLE - 1].contains(&true));
    assert!(again[IDLE - 1]);
    assert_eq!(sessions.iter().count(), 2);
}
