//! A load for the machine under test: CPU, memory, system calls and forks, files with fsync, timers, loopback network.
//!
//! Why a load: an idle machine shows its worst latencies rarely. It is `stress-ng` where that is installed, else the
//! built-in one ([`builtin`]), or a command of the user's. All of it runs at SCHED_OTHER, below a *keeper* process
//! (`keeper.rs`) that ends everything when told to, when its time is over, or when this process dies, be it by
//! `kill -9`; its files lie in one private directory, removed at the end.
//!
//! Start a load before locking memory: the keeper is forked, and what is locked later is made private at once.

pub mod builtin;
mod keeper;
mod stress_ng;
mod sweep;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::private_directory;

/// Which load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadSpec {
    /// `stress-ng` where installed, else the built-in one.
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

/// What exactly is to run.
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
    directory: PathBuf,        // removed by the keeper, and by us should it have been killed
    lifeline: Option<OwnedFd>, // closing it ends the load
    report: File,              // what the keeper has to say, one line each
    heard: String,             // what came of it so far
}

impl Load {
    /// Starts the load for at most `duration` (and a little more, so that it outlasts the measurement).
    ///
    /// # Errors
    /// When the keeper, its directory or the program cannot be started.
    pub fn start(spec: &LoadSpec, duration: Duration) -> Result<Load> {
        let Some(job) = job(spec, duration) else {
            return Ok(Load { description: "none".to_owned(), keeper: None, ended: None });
        };
        let description = job.describe();
        let directory = private_directory()?;
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

    /// What exactly runs, for the conditions of a run; `none` when nothing does.
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

    /// Ends the load, waits until nothing of it is left, and says how it ended if that was early.
    ///
    /// # Errors
    /// When something is still left after some seconds (a process stuck in the kernel); it is named by its keeper's pid.
    pub fn stop(mut self) -> Result<Option<String>> {
        let early = self.ended_early();
        self.end().map(|()| early)
    }

    /// The keeper's first line says whether the job could be started.
    fn await_start(&mut self) -> Result<()> {
        let what = format!("the load '{}'", self.description);
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            match self.keeper.as_mut().and_then(|keeper| keeper.line(0)) {
                Some(line) if line == keeper::STARTED => return Ok(()),
                Some(line) => {
                    self.end()?;
                    return Err(Error::refused("start", what, line));
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        Err(Error::refused("start", what, "its keeper did not answer in 10 s"))
    }

    fn end(&mut self) -> Result<()> {
        let Some(mut keeper) = self.keeper.take() else { return Ok(()) };
        keeper.lifeline = None;
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            // SAFETY: waitpid on our own child with no status wanted.
            let waited = unsafe { libc::waitpid(keeper.pid, std::ptr::null_mut(), libc::WNOHANG) };
            if waited != 0 {
                let _ = std::fs::remove_dir_all(&keeper.directory); // almost always gone already
                return Ok(()); // reaped, or reaped by somebody else
            }
            if Instant::now() > deadline {
                return Err(Error::refused(
                    "end",
                    format!("the load '{}'", self.description),
                    format!("something below process {} does not die (stuck in the kernel?)", keeper.pid),
                ));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Keeper {
    /// Line `number` of what the keeper says, once it has said it whole; what is wrong when it can say no more.
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
        let _ = self.end(); // nobody is left to hear; the keeper goes on trying
    }
}

/// How much longer than the measurement the load may last.
const GRACE: Duration = Duration::from_secs(10);

fn job(spec: &LoadSpec, duration: Duration) -> Option<Job> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let found = || find_program("stress-ng", &std::env::var_os("PATH")?);
    match spec {
        LoadSpec::None => None,
        LoadSpec::Builtin => Some(Job::Builtin { cpus }),
        LoadSpec::Auto => Some(match found() {
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

/// The first executable file `name` on a search path like `$PATH`.
#[must_use]
pub fn find_program(name: &str, search_path: &OsStr) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(search_path).map(|directory| directory.join(name)).find(executable)
}

/// A directory of our own: on disk where possible, since fsync in memory exercises nothing.
fn private_directory() -> Result<PathBuf> {
    let (first, second) = (Path::new("/var/tmp"), std::env::temp_dir());
    private_directory::below(first, "lathunt-load")
        .or_else(|_| private_directory::below(&second, "lathunt-load"))
        .map_err(|error| Error::new("make a directory for the load in", second.display().to_string(), error))
}
