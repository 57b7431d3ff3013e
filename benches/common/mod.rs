//! What the benches share: figures beside their targets, and a few tools.

use serde_json::{Value, json};

pub enum Target {
    AtMost(f64),
    AtLeast(f64),
}

pub struct Figure {
    pub name: String,
    pub value: f64,
    pub unit: &'static str,
    pub target: Target,
}

impl Figure {
    pub fn verdict(&self) -> &'static str {
        let met = match self.target {
            Target::AtMost(most) => self.value <= most,
            Target::AtLeast(least) => self.value >= least,
        };
        if met { "ok" } else { "missed" }
    }

    pub fn target(&self) -> String {
        let (words, number) = match self.target {
            Target::AtMost(most) => ("at most", most),
            Target::AtLeast(least) => ("at least", least),
        };
        let number = match number {
            large if large >= 1_000.0 => grouped(large as usize),
            small => small.to_string(),
        };
        format!("{words} {number} {}", self.unit)
            .trim_end()
            .to_owned()
    }

    pub fn value(&self) -> String {
        match self.value {
            large if large >= 1_000.0 => grouped(large as usize),
            small => format!("{small:.2}"),
        }
    }

    pub fn print(&self) {
        println!(
            "{:<66}{:>10} {:<3} {:<18} {}",
            self.name,
            self.value(),
            self.unit,
            self.target(),
            self.verdict()
        );
    }

    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "target": self.target(),
            "verdict": self.verdict(),
        })
    }
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        even if even.is_multiple_of(2) => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
