use super::*;

/// Each call comes three times, with a name of its own, so each is a loop: what is held is the window and the
/// patterns that were reported last, however many there were.
#[test]
fn memory_does_not_grow_with_the_calls() {
    let mut loops = Loops::new(&Limits::new().on_loop(LoopPolicy::Stop));
    loops.run_started();
    let mut warnings = 0;
    for seq in 0..90_000 {
        let name = format!("tool_{}", seq / 3);
        let tool = loops.known_tool(&name).unwrap_or_else(|| name.into());
        let step = ToolStep {
            tool,
            call: seq / 3,
            result: 0,
            failure: None,
            at: Address { seg: 1, seq },
        };
        warnings += usize::from(loops.push(step).is_some());
    }
    assert_eq!(warnings, 30_000);
    assert_eq!(loops.window.len(), WINDOW);
    assert_eq!(loops.known.len(), MOST_KNOWN);
    assert!(loops.window.capacity() <= 2 * WINDOW);
    assert!(loops.known.capacity() <= 2 * MOST_KNOWN);
}
