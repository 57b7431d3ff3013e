//! The table of secrets that what stands before them gives away: a URL's user part, an
//! `Authorization` scheme, the arguments of programs that take passwords without naming them.

use super::rules::RuleKind::{Command, Context};
use super::rules::{Rule, any, rule, strong};
use super::text::{Mix, is_alnum};

/// The columns are those of [`VENDOR_RULES`](super::vendor_rules::VENDOR_RULES).
#[rustfmt::skip]
pub(super) static CONTEXT_RULES: [Rule; 12] = [
    // A password may hold unescaped slashes, unless what stands before them is a port.
    rule("url-password", "://", r##"[A-Za-z0-9.+-]+://[^\s:/?#"'`<>\\,|]*:((?:[^\s@/?#"'`<>\\,|]*[^\s@/?#"'`<>\\,|0-9][^\s@/?#"'`<>\\,|]*(?:/[^\s@/?#"'`<>\\,|]*)+|[^\s@/?#"`<>\\]*)(?:@[^\s@/?#"'`<>\\,|()\[\]]*)*)@"##, is_url_secret, "postgres://app:{18}@db.example.com/app", "http://localhost:8080/@scope/package").lead(is_scheme).kind(Context),
    rule("url-password", "://", r##"[A-Za-z0-9.+-]+://([^\s:@/?#"'`<>\\,|]{20,})@"##, |secret| strong(secret) && is_url_secret(secret), "https://{40}@example.com/repo.git", "ssh://git@github.com/org/repo.git").lead(is_scheme).kind(Context),
    rule("bearer", "bearer ", r"(?i)bearer ([\w+/=.~-]{16,})", strong, "Bearer {32}", "the Bearer authentication scheme").kind(Context),
    rule("basic-auth", "basic ", r"(?i)basic ([A-Za-z0-9+/]{6,}={0,2})", is_user_and_password, "Basic YW5uOmh1bnRlcjI=", "Basic authentication is not supported").kind(Context),
    rule("aws-secret-key", "A[KSB]IA|ACCA", r"(?s)A(?:[KSB]I|CC)A[A-Z0-9]{16}[^A-Z0-9](?:.{0,160}?[^A-Za-z0-9+/])?([A-Za-z0-9+/]{40})(?:[^A-Za-z0-9+/=]|$)", is_aws_secret, "AKIA{U16},{40}", "AKIA{U16},{h40}").kind(Context),
    rule("sql-password", "identified ", r#"(?i)identified\s+(?:with\s+\S+\s+)?(?:by|as)\s+(?:password\s+)?['"]([^'"\n]+)"#, any, "CREATE USER ann IDENTIFIED BY '{15}';", "identified by name").kind(Context),
    rule("sql-password", "password '", r"(?i)password '([^'\n]+)'", any, "CREATE ROLE ann LOGIN PASSWORD '{15}';", "the password 'is too short").kind(Context),
    // Programs and the options by which they take `user:password`, a password, or one right behind
    // the option.
    rule("password-argument", "curl", r#"(?:-[uU]|--(?:proxy-)?user[ ="'\\,])(?:[ ="'\\,]*"[^":\\\n]*:([^"\\\n]+)|[ ="'\\,]*'[^':\\\n]*:([^'\\\n]+)|[ =]*[^\s:"'`]*:((?:\\.|[^\s"'`\\])+))"#, is_argument, "curl -u admin:{15} https://example.com", "curl --user-agent \"a:b\" https://example.com").kind(Command),
    rule("password-argument", "smbclient", r#"-U(?:[ ="'\\,]*"[^":\\\n]*:([^"\\\n]+)|[ ="'\\,]*'[^':\\\n]*:([^'\\\n]+)|[ =]*[^\s:"'`]*:((?:\\.|[^\s"'`\\])+))"#, is_argument, "smbclient -U ann:{15} //host/share", "smbclient -U ann //host/share").kind(Command),
    rule("password-argument", "mysql|mysqldump|mysqladmin|mariadb", r#"-p(?:[='\\,]+([^'\\\n]+)|([^\s"'`=\\,](?:\\.|[^\s"'`\\])*))"#, is_argument, "mysql -u root -p{15} app", "mysql -u root -p mydb").kind(Command),
    rule("password-argument", "sshpass|docker login|docker\",\"login|docker\", \"login|mongosh", r#"-p(?:[ ="'\\,]*"([^"\\\n]+)|[ ="'\\,]*'([^'\\\n]+)|[ =]*((?:\\.|[^\s"'`\\])+))"#, is_argument, "sshpass -p '{15}' ssh host", "sshpass -p 22 ssh host").kind(Command),
    rule("password-argument", "redis-cli", r#"-a(?:[ ="'\\,]*"([^"\\\n]+)|[ ="'\\,]*'([^'\\\n]+)|[ =]*((?:\\.|[^\s"'`\\])+))"#, is_argument, "redis-cli -h host -a {15} ping", "redis-cli -a $PASSWORD").kind(Command),
];

/// Whether a program takes passwords as arguments, by its name.
pub(super) fn is_program(name: &str) -> bool {
    let commands = CONTEXT_RULES.iter().filter(|rule| rule.kind == Command);
    let mut programs = commands.flat_map(Rule::literals);
    programs.any(|program| program.split(' ').next() == Some(name))
}

fn is_scheme(byte: u8) -> bool {
    is_alnum(byte) || matches!(byte, b'+' | b'-' | b'.')
}

/// Neither a reference (`${DB_PASS}`) nor a filler.
fn is_url_secret(secret: &[u8]) -> bool {
    match secret {
        [b'%', digit, _, _, ..] if digit.is_ascii_hexdigit() => true,
        [] | [b'$' | b'<' | b'{' | b'%', ..] => false,
        // A quote that something closes with is not the password's: `['http://a:80','b@c']`.
        _ => {
            let ends_item = |pair: &[u8]| pair[0] == b'\'' && b",)]};:".contains(&pair[1]);
            !secret.windows(2).any(ends_item)
                && !secret.iter().all(|b| matches!(b, b'*' | b'x' | b'.'))
        }
    }
}

fn is_argument(secret: &[u8]) -> bool {
    let number = secret.len() < 4 && secret.iter().all(u8::is_ascii_digit);
    let reference = matches!(secret, [] | [b'$' | b'<' | b'-' | b'{', ..]);
    !number && !reference && !secret.iter().all(|b| *b == b'*')
}

fn is_aws_secret(secret: &[u8]) -> bool {
    let mix = Mix::of(secret);
    mix.lower > 2 && mix.upper > 2 && mix.digit > 0
}

/// Whether base64 text decodes to printable text with a colon in it.
fn is_user_and_password(base64: &[u8]) -> bool {
    let mut bits: u32 = 0;
    let mut count = 0;
    let mut colon = false;
    for byte in base64.iter().take_while(|b| **b != b'=') {
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
            if decoded.is_ascii_control() {
                return false;
            }
            colon |= decoded == b':';
        }
    }
    colon && (base64.len().is_multiple_of(4) || base64.len() > 512)
}
