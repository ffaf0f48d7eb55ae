//! The program `muster-agent`. All code is in the library, so that tests can call it.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_agent::cli::main()
}
