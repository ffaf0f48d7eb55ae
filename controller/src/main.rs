//! The program `muster`: everything it does is in the library, so that tests can reach it.

use std::process::ExitCode;

/// A decision about a large cluster takes copies of it for a moment. glibc's allocator keeps what they took for good, half of
/// what the controller has at rest with 2,000 nodes; this one gives it back.
#[cfg(feature = "ec2")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    muster_controller::cli::main()
}
