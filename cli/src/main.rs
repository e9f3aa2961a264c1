//! The program `whittle`.

use std::process::ExitCode;

/// The allocator of the functions.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    whittle::run()
}
