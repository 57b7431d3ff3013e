//! Reading a trace with the library: what a session adds up to, and what it did turn by turn.
//!
//! ```sh
//! cargo run --example read_trace                 # the most recently active session
//! cargo run --example read_trace -- SESSION
//! ```
//!
//! Lines are read and folded one by one, so the size of the trace doesn't matter. A session that
//! is still going on, or stopped in the middle, reads just as well.

use std::path::PathBuf;

use spanledger::read::SessionReader;
use spanledger::session::{Store, Summary, Turn, Turns};
use spanledger::trace::typed::{ModelCall, ToolCall};
use spanledger::trace::{Kind, ReadItem};
use spanledger::{Outcome, SpanExt, events, new_session_id, spans};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::new(root());
    if store.dirs()?.is_empty() {
        record_something()?;
    }
    let wanted = std::env::args().nth(1);
    let dir = store.resolve(wanted.as_deref().unwrap_or("last"))?;
    println!("trace: {}", dir.display());

    let mut reader = SessionReader::open(&dir)?;
    let mut summary = Summary::default();
    let mut turns = Turns::default();
    while let Some(found) = reader.next()? {
        match found {
            ReadItem::Line(line) => {
                summary.take(&line);
                turns.take(&line);
            }
            ReadItem::Damaged(damage) => eprintln!("passed over {damage}"),
            _ => {}
        }
        // A turn is handed out when it is over: one turn is in memory, not the session.
        while let Some(turn) = turns.ready() {
            print(&turn);
        }
    }
    // What never ended: the session goes on, or its process died.
    turns.finish().iter().for_each(print);

    let totals = summary.totals();
    let status = summary.status(|writer| store.is_alive(writer));
    println!(
        "{} by {}: {}, {} turns, {} tool calls, {} errors",
        summary.session_id,
        summary.agent.as_deref().unwrap_or("nobody"),
        status.as_str(),
        totals.turns,
        totals.tool_calls,
        totals.errors,
    );
    // Counts that no model call told are unknown, which is not 0.
    match totals.usage.input_tokens {
        Some(tokens) => println!("{tokens} tokens went in"),
        None => println!("how many tokens went in is not known"),
    }
    Ok(())
}

fn print(turn: &Turn) {
    match turn.index {
        Some(turn) => println!("turn {turn}"),
        None => println!("outside of turns"),
    }
    for node in &turn.nodes {
        // Fields are parsed when they are asked for; a text that is too large for a line is in a
        // blob, which `spanledger::session::whole` reads.
        let what = match node.kind {
            Kind::ToolCall => node.view::<ToolCall>().tool_id(),
            Kind::ModelCall => node.view::<ModelCall>().model_id(),
            _ => node.content(),
        };
        let outcome = node.outcome().map_or("", Outcome::as_str);
        println!(
            "  {:>5} {:<18} {} {outcome}",
            node.address.to_string(),
            node.kind_name(),
            what.unwrap_or_default(),
        );
    }
}

/// So that there is something to read.
fn record_something() -> Result<(), spanledger::Error> {
    let guard = spanledger::builder().root(root()).try_init()?;
    let run = spans::session_run(new_session_id(), "reader").start();
    run.in_scope(|| {
        let turn = spans::session_turn().start();
        turn.in_scope(|| {
            events::message_user("Which day is it?").emit();
            let tool = spans::tool_call("clock", "call_1").start();
            tool.record_result("Monday");
            tool.finish(Outcome::Ok);
        });
        turn.finish(Outcome::Ok);
    });
    run.finish(Outcome::Ok);
    guard.shutdown()?;
    Ok(())
}

fn root() -> PathBuf {
    std::env::var_os("SPANLEDGER_DIR").map_or_else(
        || std::env::temp_dir().join("spanledger-examples"),
        PathBuf::from,
    )
}
