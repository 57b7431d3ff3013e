use super::*;
use crate::session::Status;

fn end(outcome: Outcome, reason: Option<&str>, guardrail: Option<&str>) -> Option<End> {
    Some(End {
        outcome,
        stop_reason: reason.map(str::to_owned),
        guardrail: guardrail.map(str::to_owned),
    })
}

fn ending(change: impl FnOnce(&mut Evidence)) -> Ending {
    let mut evidence = Evidence::default();
    change(&mut evidence);
    evidence.ending(Status::Ended)
}

#[test]
fn each_class_has_its_rule() {
    let turn = |outcome, reason: Option<&'static str>, guardrail: Option<&'static str>| {
        move |evidence: &mut Evidence| {
            evidence.turn = end(outcome, reason, guardrail);
        }
    };
    let cases = [
        (turn(Outcome::Ok, Some("end_turn"), None), Ending::Completed),
        (turn(Outcome::Ok, None, None), Ending::Completed),
        (turn(Outcome::Ok, Some("max_turns"), None), Ending::Limit),
        (turn(Outcome::Ok, Some("Max-Tokens"), None), Ending::Limit),
        (
            turn(Outcome::Error, None, Some("max_cost_usd")),
            Ending::Limit,
        ),
        (
            turn(Outcome::Error, None, Some("stop_on_loop")),
            Ending::Loop,
        ),
        (turn(Outcome::Error, Some("loop"), None), Ending::Loop),
        (turn(Outcome::Error, None, None), Ending::Error),
        (turn(Outcome::TimedOut, None, None), Ending::Error),
        (turn(Outcome::Denied, None, None), Ending::Denied),
        (turn(Outcome::Cancelled, None, None), Ending::Interrupted),
        (
            turn(Outcome::Ok, Some("aborted"), None),
            Ending::Interrupted,
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(ending(change), expected);
    }
}

#[test]
fn a_loop_warning_counts_only_in_a_turn_that_failed() {
    let warned = |outcome| {
        ending(|evidence| {
            evidence.start_turn();
            evidence.loop_warned = true;
            evidence.turn = end(outcome, None, None);
        })
    };
    assert_eq!(warned(Outcome::Error), Ending::Loop);
    assert_eq!(warned(Outcome::Ok), Ending::Completed);
    let earlier = ending(|evidence| {
        evidence.loop_warned = true;
        evidence.start_turn();
        evidence.turn = end(Outcome::Error, None, None);
    });
    assert_eq!(earlier, Ending::Error);
}

#[test]
fn a_live_or_dead_process_decides_first() {
    let evidence = Evidence {
        turn: end(Outcome::Error, Some("max_turns"), None),
        ..Evidence::default()
    };
    assert_eq!(evidence.ending(Status::Busy), Ending::Running);
    assert_eq!(evidence.ending(Status::Interrupted), Ending::Interrupted);
}

#[test]
fn classes_have_names_of_their_own() {
    for class in Ending::ALL {
        assert_eq!(Ending::parse(class.as_str()), Some(class));
    }
}
