use std::process::ExitCode;

fn main() -> ExitCode {
    spanledger::cli::main()
}
