//! A program that runs on the isolated CPUs, and its descendants.
//!
//! It joins the isolated cgroup between fork and exec, so that it never runs elsewhere. This process becomes the parent
//! of its orphans (`PR_SET_CHILD_SUBREAPER`): processes it leaves behind can still be distinguished from newcomers.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Tid;

use crate::child::{bound_to_parent, not_started};
use crate::error::{Error, Result};
use crate::sched;

/// The program.
#[derive(Debug)]
pub struct IsolatedProgram {
    child: Child,
    said: Option<fs::File>, // its stdout, in memory
}

impl IsolatedProgram {
    /// Starts `command` on `cpus`, in `cgroup` if there is one.
    ///
    /// # Errors
    /// If it cannot be found, or may not run there.
    pub fn start(command: &[OsString], cpus: &CpuSet, cgroup: Option<&Path>) -> Result<IsolatedProgram> {
        IsolatedProgram::start_with(command, cpus, cgroup, None)
    }

    /// The same; its stdout is kept for [`IsolatedProgram::said`].
    ///
    /// # Errors
    /// As [`IsolatedProgram::start`].
    pub fn start_heard(
        command: &[OsString],
        cpus: &CpuSet,
        cgroup: Option<&Path>,
    ) -> Result<IsolatedProgram> {
        // SAFETY: a static name; the descriptor is new and ours.
        let file =
            unsafe { libc::memfd_create(c"output of an isolated command".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(Error::last_os("make", "a file in memory"));
        }
        // SAFETY: see above.
        let file = unsafe { fs::File::from(OwnedFd::from_raw_fd(file)) };
        IsolatedProgram::start_with(command, cpus, cgroup, Some(file))
    }

    fn start_with(
        command: &[OsString],
        cpus: &CpuSet,
        cgroup: Option<&Path>,
        said: Option<fs::File>,
    ) -> Result<IsolatedProgram> {
        let [program, arguments @ ..] = command else {
            return Err(Error::refused("start", "nothing", "give a command after --"));
        };
        let procs = match cgroup.map(|directory| directory.join("cgroup.procs")) {
            Some(path) => Some(
                fs::OpenOptions::new()
                    .write(true)
                    .open(&path)
                    .map_err(|error| Error::new("open", path.display().to_string(), error))?,
            ),
            None => None,
        };
        // SAFETY: prctl with plain integers.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
        let cpus = cpus.clone();
        let mut builder = Command::new(program);
        builder.args(arguments);
        if let Some(file) = &said {
            let copy = file.try_clone().map_err(|error| Error::new("share", "a file in memory", error))?;
            builder.stdout(Stdio::from(copy));
        }
        let join = move || {
            if let Some(procs) = &procs {
                // SAFETY: one byte from a static string, to a descriptor that we own. "0" is the writer itself.
                if unsafe { libc::write(procs.as_raw_fd(), b"0".as_ptr().cast(), 1) } != 1 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            sched::set_affinity_of(Tid(0), &cpus)
        };
        // SAFETY: the closure makes system calls and nothing else; it allocates nothing.
        let started = bound_to_parent(unsafe { builder.pre_exec(join) }).spawn();
        let child = started.map_err(|error| not_started(&program.to_string_lossy(), error))?;
        Ok(IsolatedProgram { child, said })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Its stdout so far; empty if that was not kept.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn said(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        if let Some(file) = &mut self.said {
            let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes));
            read.map_err(|error| Error::new("read", "what the command wrote", error))?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// If the kernel does not know it.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(|error| Error::new("wait for", "the command", error))
    }

    /// Sends it `signal`, or SIGTERM for one that is about this process, unless the terminal has done so: Ctrl-C and Ctrl-\
    /// reach the whole foreground group.
    pub fn pass_on(&self, signal: i32) {
        let signal = crate::signals::for_command(signal);
        // SAFETY: no pointers; a process that has ended and was not waited for keeps its id.
        unsafe {
            let typed = matches!(signal, libc::SIGINT | libc::SIGQUIT);
            let by_terminal = typed && libc::tcgetpgrp(0) == libc::getpgrp();
            if !by_terminal {
                libc::kill(self.pid(), signal);
            }
        }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

/// The exit code for `status`: that of the program, or 128 plus its signal, as shells do.
#[must_use]
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    u8::try_from(code.unwrap_or(1)).unwrap_or(u8::MAX)
}

/// All processes below this one.
#[must_use]
pub fn descendants() -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent =
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let mut found = BTreeSet::new();
    let mut due = vec![std::process::id().cast_signed()];
    while let Some(pid) = due.pop() {
        let below = children.get(&pid).into_iter().flatten();
        due.extend(below.filter(|&&child| found.insert(child)));
    }
    found.into_iter().collect()
}
