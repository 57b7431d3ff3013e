//! An agent built on rig, recorded by spanledger: two lines in `main` are enough.
//!
//! It talks to a server of its own that answers as the OpenAI or the Anthropic API does, so it needs no
//! network and no key. `cargo run -- --help` lists its options.

mod options;
mod schema;
mod server;
mod tools;

use futures::StreamExt;
use options::{Api, Options};
use rig::AgentBuilder;
use rig::agent::{Agent, MultiTurnStreamItem};
use rig::providers::{anthropic::AnthropicConfig, openai::OpenAIConfig};
use tracing::Instrument;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Some(options) = Options::from_args()? else {
        return Ok(());
    };
    // The first line: from here on the agent is recorded.
    let guard = spanledger::try_init()?;

    let server = server::start(options.script, options.fail).await?;
    let agent = agent(&options, &server);
    let asked = ask(&agent, &options);
    let answer = if let Some(id) = &options.session {
        let run = spanledger::spans::session_run(id.clone(), "host").start();
        asked.instrument(run).await
    } else if options.request {
        // As a web framework does it: a span around each request.
        asked
            .instrument(tracing::info_span!("request", path = "/ask"))
            .await
    } else {
        asked.await
    };
    println!("{}", answer?);

    // The second line: writes and sends the rest. An error says how many events are missing.
    if let Err(lost) = guard.shutdown() {
        eprintln!("{lost}");
    }
    Ok(())
}

fn agent(options: &Options, server: &str) -> Agent {
    let builder = match options.api {
        Api::OpenAi => {
            let openai = OpenAIConfig::new("none").with_base_url(format!("{server}/v1"));
            AgentBuilder::new(openai.client().chat("gpt-4o"))
        }
        Api::Anthropic => {
            let anthropic = AnthropicConfig::new("none").with_base_url(server);
            AgentBuilder::new(anthropic.client().completion("claude-sonnet-4-5"))
        }
    };
    builder
        .name("calculator")
        .preamble("You calculate with tools.")
        .max_tokens(1024)
        .tool(tools::Add)
        .tool(tools::Divide)
        .tool(tools::Wait)
        // Without this rig reports token counts, but no messages, arguments or results.
        .record_content_telemetry(options.content)
        .build()
}

async fn ask(agent: &Agent, options: &Options) -> anyhow::Result<String> {
    let prompt = "What is (19 + 23) / 2?";
    let mut tries = 0;
    loop {
        tries += 1;
        let answer = if options.stream {
            streamed(agent, prompt).await
        } else {
            let response = agent.prompt(prompt).max_turns(5).await;
            response
                .map(|response| response.output())
                .map_err(Into::into)
        };
        match answer {
            Err(error) if tries < 3 => eprintln!("{error:#}; once more"),
            answer => return answer,
        }
    }
}

async fn streamed(agent: &Agent, prompt: &str) -> anyhow::Result<String> {
    let mut stream = agent.prompt(prompt).max_turns(5).stream();
    let mut answer = String::new();
    while let Some(item) = stream.next().await {
        if let MultiTurnStreamItem::FinalResponse(response) = item? {
            answer = response.output().to_owned();
        }
    }
    Ok(answer)
}
