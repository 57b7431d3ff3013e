//! Which messages of a conversation a session has recorded already. Libraries send the whole history
//! with every model call; each message is recorded once.
//!
//! Messages are compared by position, not only by text: "yes" said twice is two
//! messages. A conversation is a chain of digests, each made of the one before and the message, so
//! that one digest stands for all messages up to it. A request is looked up by its longest known
//! prefix. The digests are keyed, and each message's line carries the one up to it as `history`,
//! so that the next process can go on.

use std::collections::HashMap;

/// How many chain tips a session remembers. With more, the oldest half is forgotten, and its messages
/// would be recorded again.
const MOST_TIPS: usize = 8192;

/// A message, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageKey {
    pub digest: u128,
    pub from_model: bool,
    pub is_system: bool,
}

/// The digest of a conversation up to some message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ChainTip(pub u128);

impl ChainTip {
    /// `key` is a keyed digest: the text can't be guessed from it.
    fn then(self, digest: u128, key: impl Fn(&[u8]) -> u128) -> Self {
        let mut both = [0; 32];
        both[..16].copy_from_slice(&self.0.to_be_bytes());
        both[16..].copy_from_slice(&digest.to_be_bytes());
        Self(key(&both))
    }
}

#[derive(Debug)]
struct Known {
    answered: bool,
    age: u64,
}

/// The conversations of a session.
#[derive(Debug, Default)]
pub(crate) struct History {
    tips: HashMap<ChainTip, Known>,
    /// The digests of the last request and its answer.
    last: Vec<u128>,
    clock: u64,
}

impl History {
    /// A call sent these messages. Returns which of them are new, each with the tip up to it, and the tip of
    /// all.
    pub fn observe_request(
        &mut self,
        messages: &[MessageKey],
        key: impl Fn(&[u8]) -> u128,
    ) -> (Vec<(usize, ChainTip)>, ChainTip) {
        let count = messages.len();
        let mut end = ChainTip::default();
        let mut known = 0;
        let mut ends = Vec::with_capacity(count);
        for (index, message) in messages.iter().enumerate() {
            end = end.then(message.digest, &key);
            ends.push(end);
            if self.tips.contains_key(&end) {
                known = index + 1;
            }
        }
        let new = if known == 0 {
            self.new_after_overlap(messages)
        } else if known == count && self.tips.get(&end).is_some_and(|known| known.answered) {
            // Not the same call tried again: that one got its answer. It is asked anew.
            let asked = messages.iter().rposition(|message| message.from_model);
            (asked.map_or(0, |at| at + 1)..count).collect()
        } else {
            (known..count).collect()
        };
        self.note(end, false);
        self.last.clear();
        self.last
            .extend(messages.iter().map(|message| message.digest));
        (new.into_iter().map(|at| (at, ends[at])).collect(), end)
    }

    /// The model answered the request that ended with `end`. Returns the tip with the answer.
    pub fn answer(&mut self, end: ChainTip, digest: u128, key: impl Fn(&[u8]) -> u128) -> ChainTip {
        self.note(end, true);
        let now = end.then(digest, key);
        self.note(now, false);
        self.last.push(digest);
        now
    }

    /// Takes over what earlier lines say, in their order: the tip of each message, and whether the model
    /// wrote it.
    pub fn recall(&mut self, said: &[(ChainTip, bool)]) {
        let mut before = None;
        for (end, from_model) in said {
            if let Some(before) = before.filter(|before| before != end && *from_model) {
                self.note(before, true);
            }
            self.note(*end, false);
            before = Some(*end);
        }
    }

    /// Where the beginning was cut off, as by a window that slides, or begins with other
    /// instructions, the rest overlaps with what was heard last. One message alone is no overlap:
    /// another conversation may begin as this one ended.
    fn new_after_overlap(&self, messages: &[MessageKey]) -> Vec<usize> {
        let leading = messages.iter().take_while(|m| m.is_system).count();
        let rest = &messages[leading..];
        let fits = |from: &usize| {
            let tail = &self.last[*from..];
            (2..=rest.len()).contains(&tail.len())
                && tail
                    .iter()
                    .zip(rest)
                    .all(|(digest, message)| *digest == message.digest)
        };
        let Some(from) = (0..self.last.len()).find(fits) else {
            return (0..messages.len()).collect();
        };
        let known = leading + self.last.len() - from;
        let instructions =
            (0..leading).filter(|index| !self.last.contains(&messages[*index].digest));
        instructions.chain(known..messages.len()).collect()
    }

    fn note(&mut self, end: ChainTip, answered: bool) {
        self.clock += 1;
        let age = self.clock;
        if self.tips.len() >= MOST_TIPS {
            let oldest = age.saturating_sub(MOST_TIPS as u64 / 2);
            self.tips.retain(|_, known| known.age > oldest);
        }
        self.tips.insert(end, Known { answered, age });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A conversation as a text: capital letters are the model's, `#` is the system's.
    fn heard(text: &str) -> Vec<MessageKey> {
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

    /// What is new in each of these calls; what follows a colon is the answer. Between two a bar
    /// stands for another process.
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
            let (sent, answer) = call.split_once(':').unwrap_or((call, ""));
            let (sent, answer) = (heard(sent), heard(answer));
            let (new, end) = history.observe_request(&sent, key);
            lines.extend(new.iter().map(|(at, end)| (*end, sent[*at].from_model)));
            if let Some(answer) = answer.first() {
                lines.push((history.answer(end, answer.digest, key), true));
            }
            let chars: Vec<char> = call.chars().collect();
            all.push(new.into_iter().map(|(at, _)| chars[at]).collect());
        }
        all
    }

    #[test]
    fn each_call_tells_what_came_since_the_one_before() {
        assert_eq!(new_of(&["#a:B", "#aBc:D", "#aBcDe:F"]), ["#a", "c", "e"]);
    }

    #[test]
    fn a_message_said_twice_is_told_twice() {
        assert_eq!(new_of(&["y:A", "yAy:A", "yAyAy:A"]), ["y", "y", "y"]);
    }

    #[test]
    fn a_call_that_is_tried_again_tells_nothing_new() {
        assert_eq!(new_of(&["ab", "ab:C", "abCd"]), ["ab", "", "d"]);
    }

    #[test]
    fn a_question_asked_anew_after_its_answer_is_told_again() {
        assert_eq!(new_of(&["xAy:B", "xAy:B"]), ["xAy", "y"]);
    }

    #[test]
    fn an_answer_that_nobody_heard_is_told_from_the_history() {
        assert_eq!(new_of(&["a", "aBc"]), ["a", "Bc"]);
    }

    #[test]
    fn conversations_that_take_turns_keep_apart() {
        let calls = ["a:B", "x:Y", "aBc:D", "xYz:W"];
        assert_eq!(new_of(&calls), ["a", "x", "c", "z"]);
    }

    #[test]
    fn a_conversation_goes_on_from_any_point_of_it() {
        assert_eq!(new_of(&["a:B", "aBc:D", "aBe:F"]), ["a", "c", "e"]);
    }

    #[test]
    fn a_history_that_lost_its_beginning_is_not_told_again() {
        let calls = ["#aBcDe:F", "#cDeFg:H", "#eFgHi"];
        assert_eq!(new_of(&calls), ["#aBcDe", "g", "i"]);
    }

    #[test]
    fn the_next_process_goes_on_where_the_last_one_ended() {
        let calls = ["a:B", "aBc:D", "|", "aBcDe:F", "|", "aBcDeFg"];
        assert_eq!(new_of(&calls), ["a", "c", "e", "g"]);
        let calls = ["a:B", "|", "a:B"];
        assert_eq!(new_of(&calls), ["a", "a"], "asked anew");
        let calls = ["a", "|", "a:B"];
        assert_eq!(new_of(&calls), ["a", ""], "tried again");
    }

    #[test]
    fn a_conversation_that_begins_as_another_ended_is_told() {
        assert_eq!(new_of(&["aBy", "y:C"]), ["aBy", "y"]);
    }
}
