//! The options of `--on-late`, the same for every command that measures.

use std::time::Duration;

use clap::Args;
use lathunt_core::time::Ns;

use super::units::{microseconds, seconds};
use crate::on_late::{Wanted, What};

const HEADING: &str = "Actions on late cases";

/// What is to be done on late cases.
#[derive(Args, Clone, Debug, Default)]
pub struct OnLateArgs {
    /// Act on a late case while it is measured: a shell command, `signal:PID[:NAME]`, or trace; may be given several times
    ///
    /// A case is late above --on-late-above, or else above its deadline. A command gets it as JSON on stdin, as in the list
    /// `peaks` of the run file, with what is known some ms later. It never runs on the measured CPUs as long as there are
    /// others, and under sudo it runs as the user who called sudo. What it prints goes to stderr. signal:PID sends SIGUSR1 to
    /// that process, signal:PID:TERM another signal (USR1, USR2, HUP, INT, TERM, QUIT, STOP, CONT, KILL). trace (of hunt and
    /// record) keeps what the flight recorder holds of all recorded CPUs in DIR/late-N, for lathunt explain. An action
    /// disturbs the machine: while one runs no other begins, and worst cases that it overlaps are marked.
    #[arg(long, value_name = "CMD|signal:PID|trace", value_parser = what, help_heading = HEADING)]
    on_late: Vec<What>,
    /// Latency above which a case is late; a bare number counts in µs; default: the deadline
    #[arg(long, value_name = "TIME", requires = "on_late", value_parser = microseconds, help_heading = HEADING)]
    on_late_above: Option<Ns>,
    /// Act on at most this many late cases per minute
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = HEADING, value_parser = clap::value_parser!(u16).range(1..=600))]
    on_late_limit: u16,
    /// Kill a command and everything it started after this time; a bare number counts in seconds
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = at_most_an_hour, help_heading = HEADING)]
    on_late_timeout: Ns,
    /// Run commands as this user; default: the one who called sudo, else this user
    #[arg(long, value_name = "NAME", requires = "on_late", help_heading = HEADING)]
    on_late_user: Option<String>,
}

impl OnLateArgs {
    /// What they ask for.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        Wanted {
            what: self.on_late.clone(),
            above: self.on_late_above,
            per_minute: usize::from(self.on_late_limit),
            timeout: Duration::from_nanos(self.on_late_timeout.0),
            user: self.on_late_user.clone(),
        }
    }
}

fn what(text: &str) -> Result<What, String> {
    match text.split_once(':') {
        _ if text.trim().is_empty() => Err("it is empty: give a command, signal:PID or trace".to_owned()),
        _ if text.contains('\0') => Err("a command cannot contain a NUL".to_owned()),
        None if text == "trace" => Ok(What::Trace),
        Some(("signal", target)) => Ok(What::Signal(target.to_owned())),
        _ => Ok(What::Command(text.to_owned())),
    }
}

fn at_most_an_hour(text: &str) -> Result<Ns, String> {
    const HOUR: Ns = Ns(3_600 * 1_000_000_000);
    match seconds(text)? {
        time if time > HOUR => Err("is longer than an hour".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_from_commands() {
        assert_eq!(what("trace"), Ok(What::Trace));
        assert_eq!(what("signal:7:HUP"), Ok(What::Signal("7:HUP".to_owned())));
        for command in ["./trace", "trace it", "logger signal:7", "cat > x"] {
            assert_eq!(what(command), Ok(What::Command(command.to_owned())));
        }
        assert!(what("  ").is_err());
    }
}
