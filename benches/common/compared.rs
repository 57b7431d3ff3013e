//! Figures beside those from before a change.

use serde_json::Value;

use super::common::Figure;

/// A figure beside what it was before a change, at the full size.
pub struct Compared {
    pub before: &'static str,
    pub figure: Figure,
}

impl Compared {
    pub fn print_header() {
        println!("{:<52}{:>12}  {:<20}{:>12}", "", "before", "target", "now");
    }

    pub fn print(&self) {
        let Figure { name, unit, .. } = &self.figure;
        let now = format!("{} {unit}", self.figure.value());
        let (before, target) = (self.before, self.figure.target());
        let verdict = self.figure.verdict();
        println!(
            "{name:<52}{before:>12}  {target:<20}{:>12}  {verdict}",
            now.trim_end()
        );
    }

    pub fn to_json(&self) -> Value {
        let mut figure = self.figure.to_json();
        figure["before"] = self.before.into();
        figure
    }
}
