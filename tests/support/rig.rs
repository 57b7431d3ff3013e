//! Runs the program under `examples/rig`, an agent built on the real rig.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::skipped::skipped;

/// What was recorded of a run, and where.
pub struct Rig {
    pub root: tempfile::TempDir,
}

fn program() -> Option<PathBuf> {
    let named = std::env::var_os("SPANLEDGER_RIG").map(PathBuf::from);
    let built = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/rig/target/debug/spanledger-rig"
    );
    let found = Some(named.unwrap_or_else(|| built.into())).filter(|path| path.is_file());
    if found.is_none() {
        skipped("examples/rig is not built: SPANLEDGER_RIG doesn't name it (.ci/run builds it)");
    }
    found
}

fn command(program: &Path, root: &Path, args: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("OTEL_") {
            command.env_remove(name);
        }
    }
    command
        .args(args.split_whitespace())
        .env_remove("SPANLEDGER_DISABLED")
        .env("SPANLEDGER_DIR", root);
    command
}

/// Additional environment variables of the program.
pub type Env<'a> = &'a [(&'a str, &'a str)];

impl Rig {
    /// Runs it to its end. Prints why and returns `None` if it isn't built.
    pub fn run(args: &str) -> Option<Self> {
        Self::run_with(args, &[])
    }

    pub fn run_with(args: &str, env: Env<'_>) -> Option<Self> {
        let root = tempfile::tempdir().unwrap();
        let rig = Self { root };
        rig.again(args, env)?;
        Some(rig)
    }

    /// Runs it once more, where the last one left its sessions.
    pub fn again(&self, args: &str, env: Env<'_>) -> Option<()> {
        let mut command = command(&program()?, self.path(), args);
        let output = command.envs(env.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Some(())
    }

    /// Runs it until it waits inside a tool.
    pub fn hang(args: &str) -> Option<Hanging> {
        Self::hang_with(args, &[])
    }

    pub fn hang_with(args: &str, env: Env<'_>) -> Option<Hanging> {
        let root = tempfile::tempdir().unwrap();
        let mut command = command(&program()?, root.path(), args);
        command.envs(env.iter().copied());
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut hanging = Hanging {
            child,
            rig: Some(Self { root }),
        };
        let out = BufReader::new(hanging.child.stdout.take().unwrap());
        let waits = out.lines().any(|line| line.unwrap() == "waiting");
        assert!(waits, "it ended by itself");
        Some(hanging)
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }
}

/// One that waits inside a tool. Killed when dropped.
pub struct Hanging {
    child: Child,
    rig: Option<Rig>,
}

impl Hanging {
    pub fn path(&self) -> &Path {
        self.rig.as_ref().unwrap().path()
    }

    /// `kill -9`.
    pub fn kill(mut self) -> Rig {
        self.end();
        self.rig.take().unwrap()
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.end();
    }
}
