//! The program `muster-tests`: a world for a person. Everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_tests::cli::main()
}
