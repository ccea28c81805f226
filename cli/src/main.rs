//! The `lathunt` binary: arguments, terminal, files, exit codes. The work is done in `lathunt_host` and
//! `lathunt_core`.

#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods))]

#[macro_use]
mod talk;

mod beside;
mod cli;
mod cmd;
mod conditions;
mod exit;
mod file;
mod input;
mod limits;
mod live;
mod on_late;
mod out;
mod outdir;
mod own;
mod start_at;
mod stopped;
mod strict;
mod trace_file;
mod until;
mod working;

use std::process::ExitCode;

/// Fibers of a task set may be interrupted while they allocate. Other threads pay one read of a thread-local variable.
#[global_allocator]
static ALLOCATOR: lathunt_host::limits::Allocator = lathunt_host::limits::Allocator::new(out_of_memory);

fn out_of_memory(bytes: usize) -> i32 {
    limits::say_out_of_memory(bytes);
    i32::from(exit::COULD_NOT_MEASURE)
}

fn main() -> ExitCode {
    if !limits::leave_room() {
        return exit::COULD_NOT_MEASURE.into();
    }
    lathunt_host::signals::survive_file_size_limit();
    let called_as = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&called_as).file_name().and_then(|name| name.to_str());
    if let Some("cyclictest" | "hwlatdetect") = name {
        cmd::restore::all_after_kill();
    }
    match name {
        Some("cyclictest") => cmd::cyclictest::main(std::env::args_os().collect(), &mut |measured| {
            Some(cmd::cyclic::breaktrace::watch(measured))
        }),
        Some("hwlatdetect") => cmd::hwlatdetect::main(std::env::args_os().skip(1).collect()),
        _ => cli::main(),
    }
}
