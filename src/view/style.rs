//! Colors, and times for people.

use jiff::{Timestamp, tz::TimeZone};

use super::text::{cut, pad, wrap};

/// How text looks.
#[derive(Clone, Debug)]
pub struct Style {
    /// Whether to use colors.
    pub color: bool,
    /// The number of columns.
    pub width: usize,
    /// The time zone of the times.
    pub zone: TimeZone,
    /// Whether to truncate nothing.
    pub full: bool,
    /// The current time, in nanoseconds since 1970.
    pub now: u64,
}

impl Style {
    /// Plain text in UTC, 80 columns wide.
    pub fn plain() -> Self {
        Self {
            color: false,
            width: 80,
            zone: TimeZone::UTC,
            full: false,
            now: 0,
        }
    }

    /// A safe text as one row, cut to the width, or as several if nothing may be truncated.
    pub(super) fn rows(&self, text: &str) -> Vec<String> {
        match self.full {
            true => wrap(text, self.width),
            false => vec![cut(text, self.width).into_owned()],
        }
    }

    /// A row of a list: its name, and a safe text, cut to the width.
    pub(super) fn named(&self, name: &str, text: &str) -> String {
        let text = cut(text, self.width.saturating_sub(12));
        format!("{}{text}", self.dim(&pad(name, 12)))
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Less important.
    pub fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Most important.
    pub fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Failures.
    pub fn red(&self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Success.
    pub fn green(&self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Warnings.
    pub fn yellow(&self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Names.
    pub fn cyan(&self, text: &str) -> String {
        self.paint("36", text)
    }

    /// People.
    pub fn magenta(&self, text: &str) -> String {
        self.paint("35", text)
    }

    /// Date and time.
    pub fn moment(&self, ns: u64) -> String {
        self.format(ns, "%Y-%m-%d %H:%M:%S")
    }

    /// The time of day.
    pub fn clock(&self, ns: u64) -> String {
        self.format(ns, "%H:%M:%S")
    }

    /// The time of day with milliseconds.
    pub fn exact_clock(&self, ns: u64) -> String {
        self.format(ns, "%H:%M:%S%.3f")
    }

    fn format(&self, ns: u64, how: &str) -> String {
        match Timestamp::from_nanosecond(i128::from(ns)) {
            Ok(ts) => ts.to_zoned(self.zone.clone()).strftime(how).to_string(),
            Err(_) => "?".into(),
        }
    }

    /// The age of a moment.
    pub fn ago(&self, ns: u64) -> String {
        let past = self.now.saturating_sub(ns) / 1_000_000_000;
        match past {
            0..60 => format!("{past}s"),
            60..3_600 => format!("{}m", past / 60),
            3_600..86_400 => format!("{}h", past / 3_600),
            _ => format!("{}d", past / 86_400),
        }
    }
}

/// The color of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// Less important.
    Quiet,
    /// A person's part.
    Person,
    /// Calls.
    Work,
    /// Failures.
    Bad,
    /// Needs attention.
    Look,
}

impl Tone {
    /// A text in the tone's color.
    pub fn paint(self, style: &Style, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Quiet => style.dim(text),
            Self::Person => style.magenta(text),
            Self::Work => style.cyan(text),
            Self::Bad => style.red(text),
            Self::Look => style.yellow(text),
        }
    }
}
