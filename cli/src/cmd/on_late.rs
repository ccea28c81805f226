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
    /// Action on a late case, during the measurement: a shell command, `signal:PID[:NAME]`, or trace; can be repeated
    ///
    /// A case is late above --on-late-above, or above its deadline if that is not given. A command reads the case as JSON from
    /// stdin, in the form of an entry of `peaks` in the run file, with the context known some ms later. It runs on CPUs that
    /// are not measured, if there are any, and under sudo as the user who called sudo. Its output goes to stderr with
    /// control characters escaped, at most 1 MiB of each command and 64 MiB in total; the rest is discarded, with a line.
    /// signal:PID sends SIGUSR1 to that process, signal:PID:TERM another signal (USR1, USR2, HUP, INT, TERM, QUIT, STOP, CONT, KILL).
    /// trace (hunt and record) saves the flight recorder of all recorded CPUs to DIR/late-N, for lathunt explain. An action
    /// disturbs the machine: only one runs at a time, and worst cases that overlap it are marked.
    #[arg(long, value_name = "CMD|signal:PID|trace", value_parser = what, help_heading = HEADING)]
    on_late: Vec<What>,
    /// Latency above which a case is late [default: the deadline]; bare numbers are µs
    #[arg(long, value_name = "TIME", requires = "on_late", value_parser = microseconds, help_heading = HEADING)]
    on_late_above: Option<Ns>,
    /// Maximum number of late cases acted on per minute
    #[arg(long, value_name = "N", requires = "on_late", default_value_t = 10, help_heading = HEADING, value_parser = clap::value_parser!(u16).range(1..=600))]
    on_late_limit: u16,
    /// Kill a command and its descendants after this time; bare numbers are seconds
    #[arg(long, value_name = "TIME", requires = "on_late", default_value = "10s", value_parser = at_most_an_hour, help_heading = HEADING)]
    on_late_timeout: Ns,
    /// Run commands as this user [default: the user who called sudo, else the current user]
    #[arg(long, value_name = "NAME", requires = "on_late", help_heading = HEADING)]
    on_late_user: Option<String>,
}

impl OnLateArgs {
    /// The requested actions.
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
