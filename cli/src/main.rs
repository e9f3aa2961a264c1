//! `whittle`, as a program.

use std::process::ExitCode;

/// As the functions allocate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    whittle::run()
}
