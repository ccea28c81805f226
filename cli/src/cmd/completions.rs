//! `lathunt completions`: completion scripts for shells.

use std::process::ExitCode;

use clap_complete::Shell;

use crate::out;

/// Print a shell completion script.
///
/// `make install` installs the scripts for bash, zsh and fish. Manually: `lathunt completions bash
/// >/etc/bash_completion.d/lathunt`.
#[derive(clap::Args, Debug)]
pub struct CompletionsArgs {
    /// Shell to complete for
    shell: Shell,
}

/// # Errors
/// If stdout is not writable.
pub fn run(args: &CompletionsArgs, command: &mut clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "lathunt", &mut script);
    out::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
