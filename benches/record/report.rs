//! What is printed.

use serde_json::{Value, json};

use super::common::{Figure, grouped};
use super::{Plan, ROUNDS};

pub struct Row {
    pub name: &'static str,
    pub wall: f64,
    pub cpu: f64,
    pub to_opentelemetry: f64,
    pub to_json: f64,
}

#[derive(Default)]
pub struct Report {
    pub rows: Vec<Row>,
    pub figures: Vec<Figure>,
    pub notes: Vec<String>,
}

impl Report {
    pub fn print(&self, plan: &Plan) {
        println!(
            "a tool.call span with seven fields, {} rounds of {} spans, medians\n",
            ROUNDS,
            grouped(plan.spans)
        );
        let heads = ["ns/span", "CPU ns", "x OTel", "x json"];
        println!(
            "{:<46}{:>9}{:>9}{:>9}{:>9}",
            "", heads[0], heads[1], heads[2], heads[3]
        );
        for row in &self.rows {
            println!(
                "{:<46}{:>9.0}{:>9.0}{:>9.2}{:>9.2}",
                row.name, row.wall, row.cpu, row.to_opentelemetry, row.to_json
            );
        }
        println!();
        for figure in &self.figures {
            figure.print();
        }
        println!();
        for note in &self.notes {
            println!("{note}");
        }
    }

    pub fn to_json(&self, plan: &Plan) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "name": row.name,
                "ns_per_span": row.wall,
                "cpu_ns_per_span": row.cpu,
                "times_opentelemetry": row.to_opentelemetry,
                "times_fmt_json_new_close": row.to_json,
            })
        });
        let figures = self.figures.iter().map(Figure::to_json);
        json!({
            "rounds": ROUNDS,
            "spans_per_round": plan.spans,
            "per_span": rows.collect::<Vec<_>>(),
            "figures": figures.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}
