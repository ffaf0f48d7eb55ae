//! The program `muster`: everything it does is in the library, so that tests can reach it.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A decision about a large cluster takes copies of it for a moment. glibc's allocator keeps what they took for good, a quarter of
/// what the controller has at rest; this one gives it back.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    muster_controller::cli::main()
}
