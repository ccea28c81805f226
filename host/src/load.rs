//! A load for the machine under test: CPU, memory, system calls and forks, files with fsync, timers, loopback network.
//!
//! An idle machine rarely shows its worst latencies. The load is `stress-ng` if installed, else the built-in one
//! ([`builtin`]), or a user's command. All of it runs at SCHED_OTHER, below a *keeper* process (`keeper.rs`) that ends
//! everything on request, when its time is over, or when this process dies, even by `kill -9`; its files are in one
//! private directory, removed at the end.
//!
//! Start a load before locking memory: the keeper is forked, and locked pages would be copied at once.

pub mod builtin;
mod keeper;
mod stress_ng;
mod sweep;

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use lathunt_core::time::Ns;

use crate::error::{Error, Result};
use crate::{private_directory, programs};

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
    keeper: Option<Keeper>,
    ended: Option<String>,
}

#[derive(Debug)]
struct Keeper {
    pid: libc::pid_t,
    directory: PathBuf,        // removed by the keeper, or by us if that was killed
    lifeline: Option<OwnedFd>, // closing it ends the load
    report: File,              // the keeper's report, one item per line
    heard: String,             // the part of it read so far
}

impl Load {
    /// Starts the load for at most `duration` (plus a margin, so that it outlasts the measurement).
    ///
    /// # Errors
    /// If the keeper, its directory or the program cannot be started.
    pub fn start(spec: &LoadSpec, duration: Duration) -> Result<Load> {
        let Some(job) = job(spec, duration) else {
            return Ok(Load { description: "none".to_owned(), keeper: None, ended: None });
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
            keeper: Some(Keeper { pid, directory, lifeline: Some(lifeline), report, heard: String::new() }),
            ended: None,
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
        if self.ended.is_none() {
            self.ended = self.keeper.as_mut()?.line(1);
        }
        self.ended.clone()
    }

    /// Ends the load, waits until nothing of it is left, and returns how it ended if that was early, and its CPU time.
    ///
    /// # Errors
    /// If something is still left after some seconds (a process stuck in the kernel); the error names its keeper's pid.
    pub fn stop(mut self) -> Result<Ended> {
        let early = self.ended_early();
        self.end().map(|cpu| Ended { early, cpu })
    }

    /// The keeper's first line reports whether the job could be started.
    fn await_start(&mut self) -> Result<()> {
        let what = format!("the load '{}'", self.description);
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            match self.keeper.as_mut().and_then(|keeper| keeper.line(0)) {
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
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            // SAFETY: plain old data, for which zeros are valid.
            let mut used: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: wait4 on our own child with no status wanted; `used` is a local.
            let waited =
                unsafe { libc::wait4(keeper.pid, std::ptr::null_mut(), libc::WNOHANG, &raw mut used) };
            if waited != 0 {
                let _ = std::fs::remove_dir_all(&keeper.directory); // almost always gone already
                return Ok((waited > 0).then(|| cpu_time(&used)));
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

impl Keeper {
    /// Line `number` of the keeper's report, once complete; an error message if there will be none.
    fn line(&mut self, number: usize) -> Option<String> {
        let mut bytes = [0; 1024];
        loop {
            match self.report.read(&mut bytes) {
                Ok(0) if self.heard.lines().count() <= number => {
                    return Some("its keeper was killed".to_owned())
                }
                Ok(length) if length > 0 => self.heard.push_str(&String::from_utf8_lossy(&bytes[..length])),
                _ => break,
            }
        }
        let whole = self.heard.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(str::trim).nth(number).map(str::to_owned)
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
    /// CPU time of all its processes; `None`: there was no load, or it is unknown.
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
