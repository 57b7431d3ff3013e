//! `completions` and `man`: made from the commands themselves.

use std::io::{self, Write};

use clap::{Args, Command};

use super::context::Failed;

/// Print a shell's completions
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  spanledger completions bash > ~/.local/share/bash-completion/completions/spanledger"
)]
pub(crate) struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

impl Completions {
    pub fn run(&self, mut command: Command) -> Result<(), Failed> {
        let mut out = Vec::new();
        clap_complete::generate(self.shell, &mut command, "spanledger", &mut out);
        Ok(io::stdout().write_all(&out)?)
    }
}

/// Print the manual page of the tool, or of one of its commands
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  spanledger man > spanledger.1\n  spanledger man tail | man -l -"
)]
pub(crate) struct Man {
    /// A command; the tool itself by default
    command: Option<String>,
}

impl Man {
    pub fn run(&self, mut command: Command) -> Result<(), Failed> {
        // Gives the commands the options that all of them take.
        command.build();
        if let Some(name) = &self.command {
            let found = command.find_subcommand(name).ok_or_else(|| {
                let names = command.get_subcommands().map(Command::get_name);
                let names: Vec<_> = names.filter(|name| *name != "help").collect();
                Failed::Usage(format!(
                    "no command {name:?}; there are {}",
                    names.join(", ")
                ))
            })?;
            let title = format!("spanledger-{}", found.get_name());
            // The page's title is a name that lives as long as the program.
            command = found.clone().name(clap::builder::Str::from(&*title.leak()));
        }
        let mut out = Vec::new();
        clap_mangen::Man::new(command).render(&mut out)?;
        Ok(io::stdout().write_all(&out)?)
    }
}
