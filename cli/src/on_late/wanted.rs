//! Requested actions on late cases.

use std::time::Duration;

use anyhow::{bail, Result};
use lathunt_core::time::Ns;
use lathunt_host::on_late::{Action, Target};
use lathunt_host::user::User;

/// One action, as given by the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A shell command.
    Command(String),
    /// `PID` or `PID:NAME`.
    Signal(String),
    /// Keep the flight recorder's rings.
    Trace,
}

/// All requests.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Actions on each case; empty: none.
    pub what: Vec<What>,
    /// Limit above which a case is late; `None`: its deadline.
    pub above: Option<Ns>,
    /// Maximum number of cases acted on per minute.
    pub per_minute: usize,
    /// Time limit of a command.
    pub timeout: Duration,
    /// User for commands; `None`: the user who called sudo, else that of this process.
    pub user: Option<String>,
}

impl Wanted {
    /// Whether anything is to be done.
    #[must_use]
    pub fn is_given(&self) -> bool {
        !self.what.is_empty()
    }

    /// The actions for a separate process, and whether traces are requested.
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

    /// Checks that the command supports them: whether it has a deadline from `option`, and `traces`.
    ///
    /// # Errors
    /// One line: what is missing, and which command has it.
    pub fn check(&self, deadline: bool, option: &str, traces: Result<(), &str>) -> Result<()> {
        if !self.is_given() {
            return Ok(());
        }
        if !deadline && self.above.is_none() {
            bail!("--on-late: no limit for late cases; give {option} or --on-late-above");
        }
        self.actions()?;
        User::of_command(self.user.as_deref())?;
        match traces {
            Err(why) if self.what.contains(&What::Trace) => bail!("--on-late trace: {why}"),
            _ => Ok(()),
        }
    }
}
