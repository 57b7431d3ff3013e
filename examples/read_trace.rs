//! Reads a trace with the library: the totals of a session, and what it did turn by turn.
//!
//! ```sh
//! cargo run --example read_trace                 # the most recently active session
//! cargo run --example read_trace -- SESSION
//! ```
//!
//! Lines are read one by one, so memory does not grow with the trace. A session that is still live, or
//! whose process was killed, is read the same way.

use std::path::PathBuf;

use spanledger::read::SessionReader;
use spanledger::session::{Item, Store, Summary, Turn, Turns};
use spanledger::trace::ReadItem;
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
            ReadItem::Damaged(damage) => eprintln!("skipped {damage}"),
            _ => {}
        }
        // A turn is returned when it is over, so one turn is in memory, not the session.
        while let Some(turn) = turns.ready() {
            print(&turn);
        }
    }
    // Turns without an end: the session is live, or its process died.
    turns.finish().iter().for_each(print);

    let totals = summary.totals();
    let status = summary.status(|writer| store.is_alive(writer));
    println!(
        "{} by {}: {}, {} turns, {} tool calls, {} errors",
        summary.session_id,
        summary.agent.as_deref().unwrap_or("an unnamed agent"),
        status.as_str(),
        totals.turns,
        totals.tool_calls,
        totals.errors,
    );
    // A count that no model call reported is unknown, which is not 0.
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
        // Fields are parsed when they are read. A text that is too large for a line is in a blob,
        // which `spanledger::session::whole` reads.
        let what = match node.item() {
            Item::ToolCall(call) => call.tool_id(),
            Item::ModelCall(call) => call.model_id(),
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

/// Records a session to read, if the root is empty.
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
    if let Err(lost) = guard.shutdown() {
        eprintln!("{lost}");
    }
    Ok(())
}

fn root() -> PathBuf {
    std::env::var_os("SPANLEDGER_DIR").map_or_else(
        || std::env::temp_dir().join("spanledger-examples"),
        PathBuf::from,
    )
}
