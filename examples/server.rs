//! A server with many sessions at once, where a person's answer arrives in another request.
//!
//! ```sh
//! cargo run --example server
//! ```
//!
//! The request that asked waits inside its span. The request that brings the answer is outside that
//! session's spans, so it records through a [`Session`] handle, which can be cloned, stored and sent
//! anywhere. There is no network here: tasks and channels stand in for requests.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use serde_json::json;
use spanledger::{FutureExt, Outcome, Session, SpanExt, events, new_session_id, spans};
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument;

/// How many people talk to the server at once.
const SESSIONS: usize = 8;

/// A question that waits for a person.
struct Pending {
    session: Session,
    answer: oneshot::Sender<&'static str>,
}

struct Server {
    pending: Mutex<HashMap<String, Pending>>,
    /// The ids of questions, as the browsers of the users see them.
    questions: mpsc::UnboundedSender<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let guard = spanledger::builder()
        .root(root())
        .resource("service.name", "example-server")
        .try_init()?;

    let (questions, mut asked) = mpsc::unbounded_channel();
    let server = Arc::new(Server {
        pending: Mutex::default(),
        questions,
    });

    let sessions: Vec<String> = (0..SESSIONS).map(|_| new_session_id()).collect();
    let requests: Vec<_> = sessions
        .iter()
        .map(|id| tokio::spawn(post_message(Arc::clone(&server), id.clone())))
        .collect();

    // Every second person says no.
    for index in 0..SESSIONS {
        let question = asked.recv().await.context("no question arrived")?;
        let decision = ["allow", "deny"][index % 2];
        tokio::spawn(post_answer(Arc::clone(&server), question, decision)).await??;
    }
    for request in requests {
        request.await??;
    }

    if let Err(lost) = guard.shutdown() {
        eprintln!("{lost}");
    }
    println!("trace: {}", root().display());
    for id in sessions {
        let lines = spanledger::read::lines(spanledger::read::session_dir(root(), &id))?;
        let answer = lines.iter().find(|line| line.kind == "hitl_response");
        let answer = answer.context("the answer is missing")?;
        println!(
            "{id}: {} at {}",
            answer.payload["decision"],
            answer.address()
        );
    }
    Ok(())
}

/// `POST /sessions/{id}/messages`: a turn of the agent, which wants to send a mail.
async fn post_message(server: Arc<Server>, id: String) -> Result<()> {
    let run = spans::session_run(&id, "assistant").start();
    async {
        let turn = spans::session_turn().trigger("user").start();
        async {
            events::message_user("Send the report to the team.").emit();
            let allowed = send_mail(&server, &id).await?;
            events::message_assistant(if allowed { "Sent." } else { "As you like." }).emit();
            anyhow::Ok(())
        }
        .recorded(turn)
        .await
    }
    .recorded(run)
    .await
}

async fn send_mail(server: &Server, id: &str) -> Result<bool> {
    let tool = spans::tool_call("send_mail", "call_1")
        .args(json!({"to": "team@example.com"}))
        .start();
    let permission = spans::permission_evaluate("send_mail")
        .tool_call_id("call_1")
        .action("ask")
        .source("project")
        .child_of(&tool)
        .start();
    let decision = ask(server, format!("int-{id}"))
        .instrument(permission.clone())
        .await?;
    permission.set("decision", decision);
    permission.finish(Outcome::Ok);

    let allowed = decision == "allow";
    tool.finish(if allowed {
        Outcome::Ok
    } else {
        Outcome::Denied
    });
    Ok(allowed)
}

/// Asks a person, and waits. Until then `spanledger list` shows the session as `waiting`.
async fn ask(server: &Server, interrupt_id: String) -> Result<&'static str> {
    events::hitl_request(&interrupt_id)
        .tool_id("send_mail")
        .options(["allow", "deny"])
        .emit();
    let (answer, answered) = oneshot::channel();
    let session = tracing::Span::current()
        .session()
        .context("no ledger records this span")?;
    let pending = Pending { session, answer };
    server
        .pending
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .insert(interrupt_id.clone(), pending);
    server.questions.send(interrupt_id)?;
    Ok(answered.await?)
}

/// `POST /questions/{id}`: another request, outside the span that waits.
async fn post_answer(
    server: Arc<Server>,
    interrupt_id: String,
    decision: &'static str,
) -> Result<()> {
    let pending = server
        .pending
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .remove(&interrupt_id)
        .context("no such question")?;
    // Record first, so that the agent never acts on an answer that is not in the trace.
    pending.session.record(
        events::hitl_response(&interrupt_id)
            .decision(decision)
            .decided_by("ada"),
    );
    // Fails if the request that asked was cancelled meanwhile.
    let _ = pending.answer.send(decision);
    Ok(())
}

fn root() -> PathBuf {
    std::env::var_os("SPANLEDGER_DIR").map_or_else(
        || std::env::temp_dir().join("spanledger-examples"),
        PathBuf::from,
    )
}
