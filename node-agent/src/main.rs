//! The program `muster-agent`: everything it does is in the library, so that tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_agent::cli::main()
}
