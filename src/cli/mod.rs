//! The command `spanledger`: one file a command. It uses nothing but the library.

mod attempts;
mod baseline;
mod completions;
mod context;
mod context_window;
mod demo;
mod diff;
mod doctor;
mod export;
mod find;
mod grep;
mod guard;
mod import;
mod interrupt;
mod list;
mod mirror;
mod permissions;
mod progress;
mod prune;
mod recover;
mod replay;
mod show;
mod stats;
mod status;
mod summary;
mod tail;
mod transcript;
mod verify;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use context::Context;

/// Records what AI agents do, and shows it.
///
/// Exit codes: 0 for success, 1 for a finding (what a command was asked to look for), 2 for a
/// usage error, something not found or not done, 3 for a damaged trace.
#[derive(Debug, Parser)]
#[command(
    name = "spanledger",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(
    after_help = "Start with `spanledger demo`: it records a scripted agent and shows its timeline."
)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Common {
    /// Where the traces are [default: $SPANLEDGER_DIR, else $XDG_STATE_HOME/spanledger, else
    /// ~/.local/state/spanledger]
    #[arg(long, global = true, value_name = "DIR")]
    root: Option<std::path::PathBuf>,
    /// Print JSON: one document, or one object a line
    #[arg(long, global = true)]
    json: bool,
    /// When to use colors; NO_COLOR turns them off
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: When,
    /// Show times in UTC instead of local time
    #[arg(long, global = true)]
    utc: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

/// The commands, each in its file.
macro_rules! commands {
    ($( $Command:ident($type:ty), )+) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            $( $Command($type), )+
            Completions(completions::Completions),
            Man(completions::Man),
        }

        fn run(cli: &Cli) -> Result<(), context::Failed> {
            match &cli.command {
                $( Command::$Command(command) => {
                    let mut context = Context::new(&cli.common)?;
                    let done = command.run(&mut context);
                    context.end(done)
                } )+
                // These two need no root.
                Command::Completions(command) => command.run(Cli::command()),
                Command::Man(command) => command.run(Cli::command()),
            }
        }
    };
}

commands! {
    Demo(demo::Demo),
    List(list::List),
    Show(show::Show),
    Transcript(transcript::Transcript),
    Attempts(attempts::Attempts),
    Find(find::Find),
    Grep(grep::Grep),
    Stats(stats::Stats),
    Context(context_window::ContextWindow),
    Summary(summary::Summary),
    Baseline(baseline::Baseline),
    Assert(baseline::Assert),
    Permissions(permissions::Permissions),
    Diff(diff::Diff),
    Replay(replay::Replay),
    Tail(tail::Tail),
    Status(status::Status),
    Guard(guard::Guard),
    Recover(recover::Recover),
    Mirror(mirror::Mirror),
    Verify(verify::Verify),
    Export(export::Export),
    Import(import::Import),
    Prune(prune::Prune),
    Doctor(doctor::Doctor),
}

/// Prints what is wrong with the arguments, or the help. The standard library's words for a number that is none are
/// replaced.
fn print_usage_error(error: &clap::Error) {
    let text = error.to_string();
    let plain = text.replace("invalid digit found in string", "write a whole number");
    let _ = match plain == text {
        true => error.print(),
        false => write!(io::stderr(), "{plain}"),
    };
}

/// Runs the command.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            print_usage_error(&error);
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => failed.report(),
    }
}
