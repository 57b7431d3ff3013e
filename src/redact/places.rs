//! Secrets known by the place they stand in: a URL's user part, an `Authorization` scheme, the
//! arguments of programs that take passwords without naming them.

use std::ops::Range;

use super::bytes::{self, ALNUM, ALPHA, BARE64, BASE64, DASH, DOT, TILDE, URL64, opens};
use super::mask;
use super::value::strong;

/// A secret with the context on its left, and the secret itself.
pub(super) type Place = (Range<usize>, Range<usize>);

/// The password in the URL whose `://` is at `at`, as whole and secret.
pub(super) fn url_password(text: &[u8], at: usize) -> Option<Place> {
    let scheme = bytes::run_start(text, at, ALNUM | DASH | DOT, 24);
    if scheme == at {
        return None;
    }
    let start = at + 3;
    let mut end = start;
    let mut last_at = None;
    let mut ended_host = false;
    while end < text.len() && end - start < 1024 {
        match text[end] {
            b'@' if !ended_host => last_at = Some(end),
            b'/' | b'?' | b'#' if last_at.is_some() => break,
            // Before the `@`, a password may hold these unescaped; a host follows only then.
            b'/' if end - start < 128 && slashed_password(text, start, end) => {}
            b'/' | b'?' | b'#' => break,
            b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' | b','
            | b'|' => break,
            b'(' | b')' | b'[' | b']' if last_at.is_some() => ended_host = true,
            _ => {}
        }
        end += 1;
    }
    let last_at = last_at?;
    let user = &text[start..last_at];
    let secret = match user.iter().position(|&b| b == b':') {
        Some(colon) => start + colon + 1..last_at,
        // `https://<token>@host`: a name is not that long and mixed.
        None if user.len() >= 20 && strong(user) => start..last_at,
        None => return None,
    };
    let value = &text[secret.clone()];
    let reference = matches!(value.first(), None | Some(b'$' | b'<' | b'{' | b'%'))
        && !value
            .first()
            .is_some_and(|&b| b == b'%' && value.len() > 3 && value[1].is_ascii_hexdigit());
    if reference || value.iter().all(|&b| b == b'*' || b == b'x' || b == b'.') {
        return None;
    }
    Some((scheme..secret.end, secret))
}

/// Whether the slash at `slash` is inside a password: `user:` before it is no `host:port`, and an
/// `@` comes before anything that ends a URL.
fn slashed_password(text: &[u8], start: usize, slash: usize) -> bool {
    let Some(colon) = text[start..slash].iter().position(|&b| b == b':') else {
        return false;
    };
    let port = text[start + colon + 1..slash]
        .iter()
        .all(u8::is_ascii_digit);
    let rest = text[slash..].iter().take(200);
    let ends =
        |b: u8| b.is_ascii_whitespace() || matches!(b, b'"' | b'\'' | b'?' | b'#' | b'<' | b'>');
    !port && rest.take_while(|&&b| !ends(b)).any(|&b| b == b'@')
}

/// The token after the `Bearer ` that ends at `end`.
pub(super) fn bearer(text: &[u8], start: usize, end: usize) -> Option<Range<usize>> {
    if !opens(text, start, ALNUM) {
        return None;
    }
    let class = BASE64 | URL64 | DOT | TILDE;
    let stop = bytes::run_end(text, end, class, usize::MAX);
    let token = &text[end..stop];
    (token.len() >= 16 && strong(token)).then_some(end..stop)
}

/// The credentials after the `Basic ` that ends at `end`: base64 of `user:password`.
pub(super) fn basic(text: &[u8], start: usize, end: usize) -> Option<Range<usize>> {
    if !opens(text, start, ALNUM) {
        return None;
    }
    let bare = bytes::run_end(text, end, BARE64, 4096);
    let stop = bytes::run_end(text, bare, bytes::EQUALS, 2);
    let length = stop - end;
    (length >= 8 && length.is_multiple_of(4) && decodes_to_pair(&text[end..bare]))
        .then_some(end..stop)
}

/// Whether base64 text decodes to printable text with a colon in it.
fn decodes_to_pair(text: &[u8]) -> bool {
    let mut bits: u32 = 0;
    let mut count = 0;
    let mut colon = false;
    for &byte in text {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        bits = (bits << 6 | u32::from(six)) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            let decoded = (bits >> count & 0xff) as u8;
            if decoded < 0x20 || decoded == 0x7f {
                return false;
            }
            colon |= decoded == b':';
        }
    }
    colon
}

/// Programs and the options by which they take a password.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// Options whose value is `user:password`.
    pairs: &'static [&'static str],
    /// Options whose value, after a space or right behind the option, is a password.
    passwords: &'static [&'static str],
    /// Whether the password must be right behind the option.
    attached: bool,
}

/// The programs looked for; see [`arguments`].
pub(super) static PROGRAMS: &[Program] = &[
    Program {
        name: "curl",
        pairs: &["-u", "--user", "-U", "--proxy-user"],
        passwords: &[],
        attached: false,
    },
    Program {
        name: "mysql",
        pairs: &[],
        passwords: &["-p"],
        attached: true,
    },
    Program {
        name: "mysqldump",
        pairs: &[],
        passwords: &["-p"],
        attached: true,
    },
    Program {
        name: "mysqladmin",
        pairs: &[],
        passwords: &["-p"],
        attached: true,
    },
    Program {
        name: "mariadb",
        pairs: &[],
        passwords: &["-p"],
        attached: true,
    },
    Program {
        name: "sshpass",
        pairs: &[],
        passwords: &["-p"],
        attached: false,
    },
    Program {
        name: "redis-cli",
        pairs: &[],
        passwords: &["-a"],
        attached: false,
    },
    Program {
        name: "docker login",
        pairs: &[],
        passwords: &["-p"],
        attached: false,
    },
    Program {
        name: "mongosh",
        pairs: &[],
        passwords: &["-p"],
        attached: false,
    },
    Program {
        name: "smbclient",
        pairs: &["-U"],
        passwords: &[],
        attached: false,
    },
];

/// The passwords among the arguments of the program named at `start..end`, and where the command
/// ends.
pub(super) fn arguments(
    program: &Program,
    text: &[u8],
    start: usize,
    end: usize,
) -> (usize, Vec<Place>) {
    let mut found = Vec::new();
    if !opens(text, start, ALNUM) || !matches!(text.get(end), Some(b' ' | b'\t' | b'"' | b'\'')) {
        return (end, found);
    }
    let command_end = command_end(text, end);
    let mut at = end;
    while at < command_end {
        let blank = |b: u8| matches!(b, b' ' | b'\t' | b'\n' | b'"' | b'\'' | b',' | b'[');
        let Some(skip) = text[at..command_end].iter().position(|&b| blank(b)) else {
            break;
        };
        at += skip;
        while at < command_end && blank(text[at]) {
            at += 1;
        }
        if at >= command_end || text[at] != b'-' {
            continue;
        }
        if let Some(secret) = argument(program, text, at, command_end) {
            at = secret.end;
            found.push((start..secret.end, secret));
        }
    }
    (command_end, found)
}

fn argument(program: &Program, text: &[u8], at: usize, limit: usize) -> Option<Range<usize>> {
    for (options, pair) in [(program.pairs, true), (program.passwords, false)] {
        for option in options {
            if !text[at..limit].starts_with(option.as_bytes()) {
                continue;
            }
            let mut from = at + option.len();
            if option.starts_with("--") && bytes::is(ALPHA | DASH, *text.get(from)?) {
                continue;
            }
            let gap = |b: u8| matches!(b, b' ' | b'=' | b'"' | b'\'' | b'\\' | b',');
            let closed = |b: u8| matches!(b, b' ' | b'"');
            if program.attached && text.get(from).is_some_and(|&b| closed(b)) {
                continue;
            }
            let gap_from = from;
            while from < limit && gap(text[from]) && from < gap_from + 8 {
                from += 1;
            }
            let quote = from
                .checked_sub(1)
                .map(|i| text[i])
                .filter(|b| matches!(b, b'"' | b'\''));
            let stops = |b: u8| match quote {
                Some(q) => b == q || b == b'\\' || b == b'\n',
                None => b.is_ascii_whitespace() || matches!(b, b'"' | b'\'' | b'`'),
            };
            let to = text[from..limit]
                .iter()
                .position(|&b| stops(b))
                .map_or(limit, |n| from + n);
            let secret = if pair {
                let colon = text[from..to].iter().position(|&b| b == b':')?;
                from + colon + 1..to
            } else {
                from..to
            };
            let value = &text[secret.clone()];
            let stand_in = matches!(value.first(), None | Some(b'$' | b'<' | b'-' | b'{'))
                || (value.first() == Some(&b'[') && mask::mask_end(text, secret.start).is_some())
                || value.iter().all(|&b| b == b'*')
                || (!program.attached
                    && !pair
                    && value.iter().all(u8::is_ascii_digit)
                    && value.len() < 4);
            return (!stand_in).then_some(secret);
        }
    }
    None
}

/// Where the command that `from` is inside of ends: its line, unless that is continued.
fn command_end(text: &[u8], from: usize) -> usize {
    let limit = text.len().min(from + 2048);
    let mut at = from;
    while at < limit {
        match text[at] {
            b'\n' if text[at - 1] != b'\\' => return at,
            b'|' | b'&'
                if text[at - 1] == b' ' && matches!(text.get(at + 1), Some(b' ' | b'&' | b'|')) =>
            {
                return at;
            }
            _ => at += 1,
        }
    }
    // Cut on an ASCII byte so that ranges stay on character boundaries.
    while at > from && at < text.len() && !text[at].is_ascii() {
        at -= 1;
    }
    at
}
