//! A load for the machine under test: CPU, memory, system calls and forks, files with fsync, timers, loopback network.
//!
//! An idle machine rarely shows its worst latencies. The load is `stress-ng` if installed, else the built-in one
//! ([`builtin`]), or a user's command. All of it runs at SCHED_OTHER, below a *keeper* process (`keeper.rs`) that ends
//! everything on request, when its time is over, or when this process dies, even by `kill -9`; its files are in one
//! private directory, removed at the end.
//!
//! Start a load before locking memory: the keeper is forked, and locked pages would be copied at once.

mod activity;
pub mod builtin;
mod keeper;
mod report;
mod stress_ng;
mod sweep;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use lathunt_core::conditions::LoadOverTime;
use lathunt_core::time::{Mono, Ns};

use crate::error::{Error, Result};
use crate::{private_directory, programs};
use report::Report;

pub use crate::programs::find_program;
pub(crate) use keeper::{become_ordinary, hung_up, NICE};
pub(crate) use sweep::until_alone;

/// Which load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadSpec {
    /// `stress-ng` if installed, else the built-in one.
    Auto,
    /// The built-in one.
    Builtin,
    /// None at all.
    None,
    /// A command for `sh -c`.
    Command(String),
}

impl FromStr for LoadSpec {
    type Err = std::convert::Infallible;

    /// `auto`, `builtin`, `none`; anything else is a command.
    fn from_str(text: &str) -> std::result::Result<LoadSpec, Self::Err> {
        Ok(match text.trim() {
            "" | "auto" => LoadSpec::Auto,
            "builtin" => LoadSpec::Builtin,
            "none" => LoadSpec::None,
            command => LoadSpec::Command(command.to_owned()),
        })
    }
}

/// The job to run.
#[derive(Clone, Debug)]
enum Job {
    Builtin { cpus: usize },
    Program { arguments: Vec<String>, description: String },
}

/// A running load; ends when dropped.
#[derive(Debug)]
pub struct Load {
    description: String,
    may_pause: bool,
    keeper: Option<Keeper>,
    report: Option<Report>,
}

#[derive(Debug)]
struct Keeper {
    pid: libc::pid_t,
    directory: PathBuf,        // removed by the keeper, or by us if that was killed
    lifeline: Option<OwnedFd>, // closing it ends the load
}

impl Load {
    /// Starts the load for at most `duration` (plus a margin, so that it outlasts the measurement).
    ///
    /// # Errors
    /// If the keeper, its directory or the program cannot be started.
    pub fn start(spec: &LoadSpec, duration: Duration) -> Result<Load> {
        let Some(job) = job(spec, duration) else {
            let description = "none".to_owned();
            return Ok(Load { description, may_pause: false, keeper: None, report: None });
        };
        let description = job.describe();
        let directory = private_directory()?;
        let _held = private_directory::hold(&directory); // until its keeper holds it
        let limit = duration + GRACE;
        let (pid, lifeline, report) = keeper::start(job, &directory, limit).inspect_err(|_| {
            let _ = std::fs::remove_dir(&directory); // still empty
        })?;
        let mut load = Load {
            description,
            may_pause: matches!(spec, LoadSpec::Command(_)),
            keeper: Some(Keeper { pid, directory, lifeline: Some(lifeline) }),
            report: Some(Report::new(report)),
        };
        load.await_start()?;
        Ok(load)
    }

    /// Description of the load for the conditions of a run; `none` if there is none.
    #[must_use]
    pub fn describe(&self) -> String {
        self.description.clone()
    }

    /// How the load ended, if it ended by itself; `None` while it runs. Never blocks.
    pub fn ended_early(&mut self) -> Option<String> {
        self.report.as_mut()?.end()
    }

    /// Reads the report of the keeper so far: every few seconds, or it stops reporting windows. Never blocks.
    pub fn look(&mut self) {
        self.report.iter_mut().for_each(Report::read);
    }

    /// When the load ran between `begin` and `end`, complete after [`Load::stop`]; `None`: there is none, or it cannot be
    /// watched. Time in which the keeper itself did not run counts as a pause.
    pub fn over_time(&mut self, begin: Mono, end: Mono) -> Option<LoadOverTime> {
        self.look();
        self.report.as_ref()?.over_time(begin, end, self.may_pause)
    }

    /// Ends the load, waits until nothing of it is left, and returns how it ended if that was early, and its CPU time.
    ///
    /// # Errors
    /// If something is still left after some seconds (a process stuck in the kernel); the error names its keeper's pid.
    pub fn stop(&mut self) -> Result<Ended> {
        let early = self.ended_early();
        self.end().map(|cpu| Ended { early, cpu })
    }

    /// The keeper's first line reports whether the job could be started.
    fn await_start(&mut self) -> Result<()> {
        let what = format!("the load '{}'", self.description);
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            match self.report.as_mut().and_then(Report::start) {
                Some(line) if line == keeper::STARTED => return Ok(()),
                Some(line) => {
                    _ = self.end()?;
                    return Err(Error::refused("start", what, line));
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        Err(Error::refused("start", what, "its keeper did not answer in 10 s"))
    }

    /// Returns the CPU time of everything that ran; `None` if there was nothing, or another waiter reaped it.
    fn end(&mut self) -> Result<Option<Ns>> {
        let Some(mut keeper) = self.keeper.take() else { return Ok(None) };
        keeper.lifeline = None;
        // SAFETY: kill takes plain values; the keeper is our child and not reaped yet.
        unsafe { libc::kill(keeper.pid, libc::SIGCONT) }; // whoever stopped it, it has to end
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            // SAFETY: plain old data, for which zeros are valid.
            let mut used: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: wait4 on our own child with no status wanted; `used` is a local.
            let waited =
                unsafe { libc::wait4(keeper.pid, std::ptr::null_mut(), libc::WNOHANG, &raw mut used) };
            if waited != 0 {
                let _ = std::fs::remove_dir_all(&keeper.directory); // almost always gone already
                self.look();
                let own = self.report.as_ref().map_or(Ns::ZERO, Report::keeper_used);
                return Ok((waited > 0).then(|| cpu_time(&used).saturating_sub(own)));
            }
            if Instant::now() > deadline {
                return Err(Error::refused(
                    "end",
                    format!("the load '{}'", self.description),
                    format!("a process below {} does not end (stuck in the kernel?)", keeper.pid),
                ));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.end(); // the reader is gone; the keeper continues trying
    }
}

/// How a load ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How, if it ended early.
    pub early: Option<String>,
    /// CPU time of all its processes without the keeper's; `None`: there was no load, or it is unknown.
    pub cpu: Option<Ns>,
}

/// CPU time of a process and its descendants: the keeper waits for each of them.
fn cpu_time(used: &libc::rusage) -> Ns {
    let us = |time: libc::timeval| (time.tv_sec as u64).saturating_mul(1_000_000) + time.tv_usec as u64;
    Ns::from_us(us(used.ru_utime).saturating_add(us(used.ru_stime)))
}

/// How much longer than the measurement the load may last.
const GRACE: Duration = Duration::from_secs(10);

fn job(spec: &LoadSpec, duration: Duration) -> Option<Job> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    match spec {
        LoadSpec::None => None,
        LoadSpec::Builtin => Some(Job::Builtin { cpus }),
        LoadSpec::Auto => Some(match programs::find("stress-ng") {
            Some(program) => stress_ng::job(&program, cpus, duration + GRACE),
            None => Job::Builtin { cpus },
        }),
        LoadSpec::Command(command) => Some(Job::Program {
            arguments: ["/bin/sh", "-c", command].map(str::to_owned).to_vec(),
            description: command.clone(),
        }),
    }
}

impl Job {
    fn describe(&self) -> String {
        match self {
            Job::Builtin { cpus } => builtin::describe(*cpus),
            Job::Program { description, .. } => description.clone(),
        }
    }
}

/// A private directory.
fn private_directory() -> Result<PathBuf> {
    let [first, second] = private_directory::places();
    private_directory::below(&first, private_directory::LOAD)
        .or_else(|_| private_directory::below(&second, private_directory::LOAD))
        .map_err(|error| Error::new("make a directory for the load in", second.display().to_string(), error))
}
