//! Colours, where they are wanted, and times as people read them.

use jiff::{Timestamp, tz::TimeZone};

/// How things are to look.
#[derive(Clone, Debug)]
pub struct Style {
    /// Whether to use colours.
    pub color: bool,
    /// How many columns there are.
    pub width: usize,
    /// The zone times are shown in.
    pub zone: TimeZone,
    /// Whether nothing is cut.
    pub full: bool,
    /// What counts as now, in nanoseconds since 1970.
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

    fn paint(&self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// For what is beside the point.
    pub fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    /// For what to read first.
    pub fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    /// For what went wrong.
    pub fn red(&self, text: &str) -> String {
        self.paint("31", text)
    }

    /// For what went well.
    pub fn green(&self, text: &str) -> String {
        self.paint("32", text)
    }

    /// For what needs a look.
    pub fn yellow(&self, text: &str) -> String {
        self.paint("33", text)
    }

    /// For names.
    pub fn cyan(&self, text: &str) -> String {
        self.paint("36", text)
    }

    /// For people.
    pub fn magenta(&self, text: &str) -> String {
        self.paint("35", text)
    }

    /// A moment, with its date.
    pub fn moment(&self, ns: u64) -> String {
        self.format(ns, "%Y-%m-%d %H:%M:%S")
    }

    /// A moment within a day.
    pub fn clock(&self, ns: u64) -> String {
        self.format(ns, "%H:%M:%S")
    }

    fn format(&self, ns: u64, how: &str) -> String {
        match Timestamp::from_nanosecond(i128::from(ns)) {
            Ok(ts) => ts.to_zoned(self.zone.clone()).strftime(how).to_string(),
            Err(_) => "?".into(),
        }
    }

    /// How long ago.
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
