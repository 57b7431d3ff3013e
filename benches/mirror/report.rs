//! What is printed.

use serde_json::{Value, json};

use super::contender::Measured;

pub struct Row {
    pub name: String,
    /// How many spans there were to send.
    pub due: u64,
    pub measured: Measured,
}

impl Row {
    /// The rounds of one row as one: medians, but the highest peak and the fewest spans.
    pub fn median(rounds: &[Self]) -> Self {
        let of = |what: fn(&Measured) -> f64| median(rounds.iter().map(|row| what(&row.measured)));
        let measured = rounds.iter().map(|row| row.measured);
        let peak = measured.clone().map(|one| one.peak_mb);
        Self {
            name: rounds[0].name.clone(),
            due: rounds[0].due,
            measured: Measured {
                wall_ns: of(|one| one.wall_ns),
                thread_cpu_ns: of(|one| one.thread_cpu_ns),
                arrived: measured
                    .map(|one| one.arrived)
                    .fold(f64::INFINITY, f64::min),
                requests: of(|one| one.requests),
                rate: of(|one| one.rate),
                cpu_seconds: of(|one| one.cpu_seconds),
                peak_mb: peak.fold(0.0, f64::max),
            },
        }
    }

    pub fn is_ours(&self) -> bool {
        self.name.starts_with("spanledger")
    }

    /// What of it arrived, in hundredths.
    pub fn share(&self) -> f64 {
        100.0 * self.measured.arrived / self.due as f64
    }

    fn per_span(&self, all: f64) -> f64 {
        all / self.due as f64
    }
}

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
    fn verdict(&self) -> &'static str {
        let met = match self.target {
            Target::AtMost(most) => self.value <= most,
            Target::AtLeast(least) => self.value >= least,
        };
        if met { "ok" } else { "missed" }
    }

    fn target(&self) -> String {
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

    fn value(&self) -> String {
        match self.value {
            large if large >= 1_000.0 => grouped(large as usize),
            small => format!("{small:.2}"),
        }
    }
}

#[derive(Default)]
pub struct Report {
    pub rows: Vec<Row>,
    pub figures: Vec<Figure>,
    pub notes: Vec<String>,
}

/// The calling thread's time is nothing where a backlog is sent.
pub fn print_rows(rows: &[Row]) {
    println!(
        "{:<46}{:>9}{:>9}{:>11}{:>8}{:>10}{:>8}{:>8}{:>9}",
        "", "ns/span", "CPU ns", "arrived", "%", "spans/s", "reqs", "CPU s", "peak MB"
    );
    for row in rows {
        let one = &row.measured;
        println!(
            "{:<46}{:>9.0}{:>9.0}{:>11}{:>8.2}{:>10}{:>8.0}{:>8.2}{:>9.1}",
            row.name,
            row.per_span(one.wall_ns),
            row.per_span(one.thread_cpu_ns),
            grouped(one.arrived as usize),
            row.share(),
            grouped(one.rate as usize),
            one.requests,
            one.cpu_seconds,
            one.peak_mb
        );
    }
}

impl Report {
    pub fn print(&self) {
        println!(
            "tool.call spans with seven fields, over gRPC to a server that counts them; ns/span and CPU ns on the calling thread\n"
        );
        print_rows(&self.rows);
        println!();
        for figure in &self.figures {
            println!(
                "{:<62}{:>10} {:<3} {:<18} {}",
                figure.name,
                figure.value(),
                figure.unit,
                figure.target(),
                figure.verdict()
            );
        }
        println!();
        for note in &self.notes {
            println!("{note}");
        }
    }

    pub fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "name": row.name,
                "due": row.due,
                "arrived": row.measured.arrived,
                "ns_per_span": row.per_span(row.measured.wall_ns),
                "cpu_ns_per_span": row.per_span(row.measured.thread_cpu_ns),
                "spans_per_second": row.measured.rate,
                "requests": row.measured.requests,
                "cpu_seconds": row.measured.cpu_seconds,
                "peak_mb": row.measured.peak_mb,
            })
        });
        let figures = self.figures.iter().map(|figure| {
            json!({
                "name": figure.name,
                "value": figure.value,
                "unit": figure.unit,
                "target": figure.target(),
                "verdict": figure.verdict(),
            })
        });
        json!({
            "rows": rows.collect::<Vec<_>>(),
            "figures": figures.collect::<Vec<_>>(),
            "notes": self.notes,
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
