//! `lathunt completions`: completion scripts for shells.

use std::process::ExitCode;

use clap_complete::Shell;

use crate::out;

/// Print the completion script of a shell.
///
/// `make install` puts those of bash, zsh and fish where they look for them. By hand:
/// `lathunt completions bash >/etc/bash_completion.d/lathunt`.
#[derive(clap::Args, Debug)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// # Errors
/// When stdout cannot be written.
pub fn run(args: &CompletionsArgs, command: &mut clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "lathunt", &mut script);
    out::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
