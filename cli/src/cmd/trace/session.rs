//! A recording from its start to the files in DIR: the kernel, instrumented programs, or both, around one command.
//!
//! Both parts use `CLOCK_MONOTONIC`, so that one query can cover both. Not here: sessions without a terminal
//! (`programs.rs`).

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use lathunt_core::time::Ns;
use lathunt_host::beneath::Readers;
use lathunt_host::channel::daemon;
use lathunt_host::channel::place::Place;
use lathunt_host::child::{bound_to_parent, not_started};
use lathunt_host::load::find_program;
use lathunt_host::threads::scoped;
use lathunt_host::tracefs::{self, EventSet};
use lathunt_host::user::User;

use super::kernel::{Ended, Kernel};
use super::maps::Maps;
use super::programs::{self, SessionArgs};
use crate::beside::{CONDITIONS_FILE, FLIGHT_FILE, INTERRUPTS_FILE, KALLSYMS_FILE, MAPS_FILE};
use crate::own::Kind;
use crate::{exit, file};

/// Files of an earlier kernel recording, and how to recognize them.
const FILES: [file::Left; 7] = [
    (tracefs::FILE, |kind| *kind == Kind::Trace),
    (tracefs::HEAD_FILE, |kind| *kind == Kind::Trace),
    (FLIGHT_FILE, |kind| *kind == Kind::Flight),
    (KALLSYMS_FILE, |kind| *kind == Kind::Symbols),
    (MAPS_FILE, |kind| matches!(kind, Kind::Text(line) if line.starts_with("# #"))),
    (INTERRUPTS_FILE, |kind| matches!(kind, Kind::Text(line) if line.trim_start().starts_with("CPU"))),
    (CONDITIONS_FILE, |kind| *kind == Kind::Json("lathunt-trace-conditions".to_owned())),
];

const TURN: Duration = Duration::from_millis(10);

/// Options of the command.
#[derive(Debug)]
pub struct Plan {
    /// Directory of instrumented programs.
    pub place: Place,
    /// Kernel events; `None`: do not record the kernel.
    pub events: Option<EventSet>,
    /// Trace every kernel function too.
    pub functions: bool,
    /// Record instrumented programs too.
    pub user: bool,
    /// Output directory and limits.
    pub session: SessionArgs,
    /// Maximum length.
    pub duration: Option<Ns>,
    /// Program to run; empty: none.
    pub command: Vec<OsString>,
    /// Its user; `None`: that of this process.
    pub as_user: Option<User>,
}

/// Records in the foreground until the command ends, the time is over, or a signal comes.
///
/// # Errors
/// If the recording or the command cannot start, or something cannot be written.
pub fn record(plan: &Plan) -> Result<ExitCode> {
    let stop = daemon::stop_on_signals();
    let directory = &plan.session.output;
    if let Some(program) = plan.command.first() {
        found(Path::new(program))?;
    }
    let output = file::directory(directory, Readers::Owner)?;
    let earlier = if plan.events.is_some() { file::set_aside(&output, &FILES)? } else { None };
    if let Some(old) = earlier {
        eprintln!("lathunt: an earlier recording was there: it is now {}", old.display());
    }
    let output = Arc::new(output);
    // A separate process, like that of a session: the reader must not be delayed by the recorded program.
    let consumer = plan.user.then(|| programs::session_of(&plan.session)).transpose()?;
    let consumer = consumer.map(|session| daemon::start_bound(&plan.place, &session)).transpose()?;
    let mut maps = plan.events.map(|_| Maps::new(output.clone()));
    if let Some(maps) = &mut maps {
        maps.take_all();
    }
    let mut kernel = plan.events.map(|events| Kernel::start(events, plan, output.clone())).transpose()?;
    let written = maps.as_ref().map_or(Ok(()), Maps::write);
    let mut child = match written.and_then(|()| start(&plan.command, plan.as_user.as_ref())) {
        Ok(child) => child,
        Err(error) => {
            kernel.into_iter().for_each(Kernel::discard);
            return Err(error);
        }
    };
    let end = plan.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    let has_child = child.is_some();
    let (done, failed) = (AtomicBool::new(false), AtomicBool::new(false));
    let drained = std::thread::scope(|threads| {
        let drain = kernel.as_mut().map(|kernel| {
            scoped(threads, || {
                let drained = kernel.drain_until(&done);
                match &drained {
                    // A program is not ended because its recording is.
                    Err(error) if has_child => {
                        eprintln!("lathunt: recording of the kernel ended early: {error}")
                    }
                    Err(_) => failed.store(true, Ordering::Relaxed),
                    // At its limit, or switched off: nothing is left to wait for.
                    Ok(()) if !has_child && !plan.user => failed.store(true, Ordering::Relaxed),
                    Ok(()) => {}
                }
                drained
            })
        });
        let drain = match drain.transpose() {
            Ok(drain) => drain,
            Err(refused) => return Some(Err(refused.into())),
        };
        wait(&[stop, &failed], end, child.as_mut(), maps.as_mut());
        done.store(true, Ordering::Relaxed);
        drain.map(|thread| thread.join().unwrap_or_else(|_| Ok(())))
    });
    // The recording ends before anything else is done: later work is not part of it.
    let recorded = kernel.map(Kernel::finish).transpose();
    let ended = child.map(conclude_child);
    let status = consumer.map(|_| daemon::stop(&plan.place)).transpose()?.flatten();
    let mut code = 0;
    // The events first: if the disk is full, they matter more than the names saved beside them.
    let written = recorded.and_then(|recorded| recorded.map(Ended::write).transpose());
    let named = maps.as_mut().map_or(Ok(()), |maps| {
        maps.take_all();
        maps.write()
    });
    code = written.as_ref().map_or(code, |of_kernel| of_kernel.unwrap_or_default());
    // One message for a full disk: the end has the remedy.
    let written = if written.is_ok() { drained.unwrap_or(Ok(())) } else { written.map(drop) };
    if let Some(status) = status {
        let conclude = if plan.events.is_some() { programs::conclude } else { programs::conclude_alone };
        code = code.max(conclude(&status));
    }
    if let Some(ended) = ended.flatten() {
        eprintln!("lathunt: {}: {ended}", plan.command[0].to_string_lossy());
    }
    exit::all([named, written])?;
    Ok(ExitCode::from(code))
}

/// Checks that there is such a program, before anything is written.
fn found(program: &Path) -> Result<()> {
    let shown = program.display();
    let by_path = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        program.to_str().is_some_and(|name| find_program(name, &path).is_some())
    };
    let named = program.components().count() > 1 || program.is_absolute();
    if !(if named { program.is_file() } else { by_path() }) {
        bail!("cannot start {shown}: no such program{}", if named { "" } else { " in PATH" });
    }
    Ok(())
}

fn start(command: &[OsString], user: Option<&User>) -> Result<Option<Child>> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    let mut command = Command::new(program);
    // First: becoming another user clears the request to die with the parent.
    user.into_iter().for_each(|user| user.runs(&mut command));
    let child = bound_to_parent(command.args(arguments)).spawn();
    Ok(Some(child.map_err(|error| not_started(&program.to_string_lossy(), error))?))
}

fn wait(
    stop: &[&AtomicBool],
    end: Option<Instant>,
    mut child: Option<&mut Child>,
    mut maps: Option<&mut Maps>,
) {
    while !stop.iter().any(|stop| stop.load(Ordering::Relaxed)) && end.is_none_or(|end| Instant::now() < end)
    {
        if let Some(child) = &mut child
            && !matches!(child.try_wait(), Ok(None))
        {
            return;
        }
        if let Some(maps) = &mut maps {
            maps.look(child.as_ref().map(|child| child.id()));
        }
        std::thread::sleep(TURN);
    }
}

/// Ends a command that is still running; returns how it ended if it failed.
fn conclude_child(mut child: Child) -> Option<String> {
    match child.try_wait() {
        Ok(Some(status)) => (!status.success()).then(|| status.to_string()),
        _ => {
            let _ = child.kill();
            let _ = child.wait();
            None
        }
    }
}

/// Exit code of a recording that lost `lost` events.
pub(super) fn code_of(lost: u64) -> u8 {
    match lost {
        0 => 0,
        _ => exit::INCONCLUSIVE,
    }
}
