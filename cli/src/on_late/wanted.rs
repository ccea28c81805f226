//! What is to be done on late cases.

use std::time::Duration;

use anyhow::{bail, Result};
use lathunt_core::time::Ns;
use lathunt_host::on_late::{Action, Target};
use lathunt_host::user::User;

/// One action, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A shell command.
    Command(String),
    /// `PID` or `PID:NAME`.
    Signal(String),
    /// Keep the flight recorder's rings.
    Trace,
}

/// What a user asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// What is done on each case; empty: nothing.
    pub what: Vec<What>,
    /// Above which latency a case is late; `None`: above its deadline.
    pub above: Option<Ns>,
    /// Cases that are acted on, at most.
    pub per_minute: usize,
    /// How long a command may take.
    pub timeout: Duration,
    /// As whom commands run; `None`: as the user who called sudo, else as this process.
    pub user: Option<String>,
}

impl Wanted {
    /// Whether anything is to be done.
    #[must_use]
    pub fn is_given(&self) -> bool {
        !self.what.is_empty()
    }

    /// What must be done by a process of its own, and whether traces are wanted.
    ///
    /// # Errors
    /// One line: a process that cannot be signalled.
    pub(super) fn actions(&self) -> Result<(Vec<Action>, bool)> {
        let mut actions = Vec::new();
        for what in &self.what {
            match what {
                What::Command(command) => actions.push(Action::Command(command.clone())),
                What::Signal(target) => actions.push(Action::Signal(Target::parse(target)?)),
                What::Trace => {}
            }
        }
        Ok((actions, self.what.contains(&What::Trace)))
    }

    /// That it can be done by a command that has, or has not, a deadline from `option`, and `traces`.
    ///
    /// # Errors
    /// One line: what is missing, and which command has it.
    pub fn check(&self, deadline: bool, option: &str, traces: Result<(), &str>) -> Result<()> {
        if !self.is_given() {
            return Ok(());
        }
        if !deadline && self.above.is_none() {
            bail!("--on-late: nothing says what is late; give {option} or --on-late-above");
        }
        self.actions()?;
        User::of_command(self.user.as_deref())?;
        match traces {
            Err(why) if self.what.contains(&What::Trace) => bail!("--on-late trace: {why}"),
            _ => Ok(()),
        }
    }
}
