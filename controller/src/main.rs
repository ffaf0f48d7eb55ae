//! Program `muster`. All of its code is in the library, so that tests can call it.

use std::process::ExitCode;

/// Decisions about a large cluster copy its state temporarily. glibc's allocator never returns that memory to the
/// system, half of the controller's resident memory at rest with 2,000 nodes; jemalloc returns it.
#[cfg(feature = "ec2")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    muster_controller::cli::main()
}
