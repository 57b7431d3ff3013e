use super::*;

/// A conversation as a text: capital letters are the model's, `#` is the system's.
fn messages(text: &str) -> Vec<MessageKey> {
    let message = |c: char| MessageKey {
        digest: c.into(),
        from_model: c.is_uppercase(),
        is_system: c == '#',
    };
    text.chars().map(message).collect()
}

fn key(bytes: &[u8]) -> u128 {
    use sha2::{Digest, Sha256};
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    u128::from_be_bytes(digest[..16].try_into().unwrap())
}

/// The new messages of each of these calls. The text after a colon is the answer; a bar
/// stands for a new process, a caret for one that has only a checkpoint.
fn new_of(calls: &[&str]) -> Vec<String> {
    let mut history = History::default();
    let mut lines = Vec::new();
    let mut all = Vec::new();
    for call in calls {
        if *call == "|" {
            history = History::default();
            history.recall(&lines);
            continue;
        }
        if *call == "^" {
            let newest = history.newest().into_iter();
            lines = newest
                .map(|(tip, answered)| PastTip {
                    tip,
                    from_model: false,
                    answered,
                })
                .collect();
            history = History::default();
            history.recall(&lines);
            continue;
        }
        let (sent, answer) = call.split_once(':').unwrap_or((call, ""));
        let (sent, answer) = (messages(sent), messages(answer));
        let (new, end) = history.observe_request(&sent, key);
        let past = |tip, from_model| PastTip {
            tip,
            from_model,
            answered: false,
        };
        lines.extend(new.iter().map(|(at, end)| past(*end, sent[*at].from_model)));
        if let Some(answer) = answer.first() {
            lines.push(past(history.answer(end, answer.digest, key), true));
        }
        let chars: Vec<char> = call.chars().collect();
        all.push(new.into_iter().map(|(at, _)| chars[at]).collect());
    }
    all
}

#[test]
fn only_messages_since_the_last_call_are_new() {
    assert_eq!(new_of(&["#a:B", "#aBc:D", "#aBcDe:F"]), ["#a", "c", "e"]);
}

#[test]
fn a_repeated_message_is_new_each_time() {
    assert_eq!(new_of(&["y:A", "yAy:A", "yAyAy:A"]), ["y", "y", "y"]);
}

#[test]
fn a_retried_call_has_no_new_messages() {
    assert_eq!(new_of(&["ab", "ab:C", "abCd"]), ["ab", "", "d"]);
}

#[test]
fn a_question_repeated_after_its_answer_is_new() {
    assert_eq!(new_of(&["xAy:B", "xAy:B"]), ["xAy", "y"]);
}

#[test]
fn an_unrecorded_answer_is_new_in_the_next_request() {
    assert_eq!(new_of(&["a", "aBc"]), ["a", "Bc"]);
}

#[test]
fn interleaved_conversations_stay_separate() {
    let calls = ["a:B", "x:Y", "aBc:D", "xYz:W"];
    assert_eq!(new_of(&calls), ["a", "x", "c", "z"]);
}

#[test]
fn a_conversation_continues_from_any_message() {
    assert_eq!(new_of(&["a:B", "aBc:D", "aBe:F"]), ["a", "c", "e"]);
}

#[test]
fn a_truncated_history_is_not_new() {
    let calls = ["#aBcDe:F", "#cDeFg:H", "#eFgHi"];
    assert_eq!(new_of(&calls), ["#aBcDe", "g", "i"]);
}

#[test]
fn the_next_process_resumes_the_history() {
    let calls = ["a:B", "aBc:D", "|", "aBcDe:F", "|", "aBcDeFg"];
    assert_eq!(new_of(&calls), ["a", "c", "e", "g"]);
    let calls = ["a:B", "|", "a:B"];
    assert_eq!(new_of(&calls), ["a", "a"], "asked anew");
    let calls = ["a", "|", "a:B"];
    assert_eq!(new_of(&calls), ["a", ""], "tried again");
}

#[test]
fn a_conversation_like_the_end_of_another_is_new() {
    assert_eq!(new_of(&["aBy", "y:C"]), ["aBy", "y"]);
}

#[test]
fn the_next_process_resumes_from_a_checkpoint() {
    let calls = ["a:B", "aBc:D", "^", "aBcDe:F", "^", "aBcDeFg"];
    assert_eq!(new_of(&calls), ["a", "c", "e", "g"]);
    assert_eq!(new_of(&["a:B", "^", "a:B"]), ["a", "a"], "asked anew");
    assert_eq!(new_of(&["a", "^", "a:B"]), ["a", ""], "tried again");
}
