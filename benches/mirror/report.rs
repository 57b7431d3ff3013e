//! What is printed.

use serde_json::{Value, json};

use super::common::{Figure, grouped, median};
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
            figure.print();
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
        let figures = self.figures.iter().map(Figure::to_json);
        json!({
            "rows": rows.collect::<Vec<_>>(),
            "figures": figures.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}
