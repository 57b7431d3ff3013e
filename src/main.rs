//! The command `spanledger`. It uses nothing but the public library.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
