//! A recording of the kernel: from the empty instance to the finished trace.dat.
//!
//! The clock is `mono`, that of instrumented programs, so that both compare. Full buffers overwrite their oldest events:
//! the kernel then marks missing events in the trace, which it does not when it drops new ones.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use lathunt_core::export::trace_dat::{head, Description};
use lathunt_core::time::Cpu;

use super::description::{cmdlines, describe, directories, page_size};
use super::instance::Instance;
use super::pages::CpuPages;
use super::{EventSet, Tracefs};
use crate::beneath::{Directory, Readers};
use crate::error::{Error, Result};

/// Name of the recording in its directory.
pub const FILE: &str = "trace.dat";
/// Description of the events while the recording runs: if it is killed, the pages beside it are readable.
pub const HEAD_FILE: &str = "trace.dat.head";
/// Interval of emptying the rings; at a million events per second a ring of 16 MB is full after 0.25 s.
const TURN: Duration = Duration::from_millis(20);
/// Number of these intervals after which the switches of the instance are read: each program with the right to trace can
/// switch it off, as `trace-cmd reset -a` does with all instances.
const LOOK: u32 = 5;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which tracepoints.
    pub events: EventSet,
    /// Trace every kernel function too.
    pub functions: bool,
    /// Only the newest events, as many as the rings hold, read at the end.
    pub newest_only: bool,
    /// Bytes of ring per CPU.
    pub ring_bytes: u64,
    /// Stop when this many bytes are written.
    pub limit_bytes: Option<u64>,
    /// Directory of the recording; must exist.
    pub directory: Arc<Directory>,
}

/// A running recording.
#[derive(Debug)]
pub struct Recording {
    // In the order of dropping: an instance with open files, or in a mount that is gone, cannot be removed.
    cpus: Vec<CpuPages>,
    instance: Instance,
    tracefs: Tracefs,
    options: Options,
    description: Description,
    notes: Vec<String>,
    /// Switched off here, so that it is not recording is right.
    ended: bool,
    /// Another program switched it off.
    was_switched_off: bool,
}

/// Size and losses of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes of the trace.
    pub bytes: u64,
    /// Events that newer ones overwrote before they were read, over all CPUs.
    pub overwritten: u64,
    /// Events that the kernel dropped.
    pub dropped: u64,
    /// Another program switched the recording off before its end: later events are missing.
    pub was_switched_off: bool,
    /// Missing features of this kernel, and other notes: one line each.
    pub notes: Vec<String>,
}

/// A recording whose events are all in files, before they are merged into one trace.
#[derive(Debug)]
pub struct Recorded {
    cpus: Vec<CpuPages>, // the order of dropping matters, as above
    _instance: Instance,
    _tracefs: Tracefs,
    options: Options,
    description: Description,
    summary: Summary,
}

impl Recording {
    /// Creates the instance, enables the events and starts.
    ///
    /// # Errors
    /// A kernel feature that is missing or refused. Nothing remains changed then.
    pub fn start(options: Options) -> Result<Recording> {
        let tracefs = Tracefs::open()?;
        let instance = Instance::new(&tracefs, "trace")?;
        let mut notes = Vec::new();
        instance.set("buffer_size_kb", &(options.ring_bytes / 1024).max(16).to_string())?;
        instance.set("trace_clock", "mono")?;
        instance.set("options/overwrite", "1")?;
        // Since 6.15; before, markers written to the top-level buffer are only there.
        if instance.write("options/copy_trace_marker", "1").is_err() {
            notes
                .push("this kernel keeps trace_marker text in the top-level buffer: mark: finds none".into());
        }
        let systems = enable(&instance, options.events, &mut notes)?;
        if options.functions {
            trace_functions(&tracefs, &instance)?;
        }
        let header = String::from_utf8_lossy(&tracefs.bytes("events/header_page")).into_owned();
        let page_bytes = page_bytes(&header);
        let cpus = open_rings(&instance, &options.directory, page_bytes)?;
        let description = describe(&tracefs, &instance, &systems);
        let bytes = head(&description, &vec![0; cpus.len()]).bytes;
        let started = options
            .directory
            .replace(OsStr::new(HEAD_FILE), &bytes, Readers::Owner, false)
            .map_err(|error| {
                Error::new("write", options.directory.path().join(HEAD_FILE).display().to_string(), error)
            })
            .and_then(|()| instance.set("tracing_on", "1"));
        if let Err(error) = started {
            return Err(unfinished(cpus, &options.directory, error));
        }
        let (ended, was_switched_off) = (false, false);
        Ok(Recording { cpus, instance, tracefs, options, description, notes, ended, was_switched_off })
    }

    /// Empties the rings until `stop`, until the limit is reached, which is checked each round (data of one round, and the
    /// rest in the rings, may exceed it), or until another program switches the recording off.
    ///
    /// # Errors
    /// A full disk. [`Recording::finish`] keeps what was recorded until then.
    pub fn drain_until(&mut self, stop: &AtomicBool) -> Result<()> {
        for turn in 1_u32.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(TURN);
            if turn.is_multiple_of(LOOK) && self.is_switched_off() {
                return Ok(());
            }
            if self.options.newest_only {
                continue;
            }
            if let Err(error) = self.cpus.iter_mut().try_for_each(CpuPages::drain) {
                // The rings continue where the files end: no gap if the rest can be written at the end.
                let _ = self.switch_off();
                self.notes.push(format!("recording of the kernel ended early: {error}"));
                return Err(error);
            }
            let written: u64 = self.cpus.iter().map(|cpu| cpu.written).sum();
            if let Some(limit) = self.options.limit_bytes.filter(|&limit| written >= limit) {
                self.notes.push(format!(
                    "recording of the kernel ended at the limit of {limit} bytes, with {written} written"
                ));
                self.switch_off()?;
                return Ok(());
            }
        }
        Ok(())
    }

    fn switch_off(&mut self) -> Result<()> {
        self.is_switched_off();
        self.ended = true;
        self.instance.set("tracing_on", "0")
    }

    /// Whether another program switched off the instance or its context switches, which is noted once.
    fn is_switched_off(&mut self) -> bool {
        if self.ended || self.was_switched_off {
            return self.was_switched_off;
        }
        let has_switches = self.instance.text("events/sched/sched_switch/enable").starts_with('1');
        self.was_switched_off = self.instance.is_off() || !has_switches;
        if self.was_switched_off {
            self.notes.push(
                "another program switched off this recording of the kernel (trace-cmd reset, or a write to tracing_on): \
                 later events are missing"
                    .to_owned(),
            );
        }
        self.was_switched_off
    }

    /// Ends the recording and removes its files: the command that it is about did not start.
    pub fn discard(self) {
        let directory = &self.options.directory;
        self.cpus.into_iter().for_each(|cpu| cpu.remove(directory));
        let _ = directory.remove(OsStr::new(HEAD_FILE));
    }

    /// Ends the recording and reads the rest from the rings.
    ///
    /// # Errors
    /// If the rest cannot be read or written.
    pub fn finish(mut self) -> Result<Recorded> {
        self.switch_off()?;
        let mut summary = Summary { was_switched_off: self.was_switched_off, ..Summary::default() };
        let mut read = Ok(());
        self.description.cmdlines = cmdlines(&self.tracefs);
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            let text = self.instance.text(&format!("per_cpu/cpu{number}/stats"));
            let count = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|rest| rest.trim().parse::<u64>().ok()).unwrap_or(0)
            };
            summary.overwritten += count("overrun:");
            summary.dropped += count("commit overrun:") + count("dropped events:");
            self.description.statistics.push(format!("CPU: {number}\n{text}"));
            read = read.and_then(|()| cpu.read_all());
            summary.bytes += cpu.written;
        }
        summary.notes = self.notes;
        let Recording { cpus, instance, tracefs, options, description, .. } = self;
        if let Err(error) = read {
            return Err(unfinished(cpus, &options.directory, error));
        }
        Ok(Recorded { cpus, _instance: instance, _tracefs: tracefs, options, description, summary })
    }
}

impl Recorded {
    /// Writes trace.dat and removes the instance.
    ///
    /// # Errors
    /// If the file cannot be written; the pages of each CPU stay beside it then.
    pub fn write(mut self) -> Result<Summary> {
        let directory = self.options.directory.clone();
        let partial = OsString::from(format!("{FILE}.part"));
        let _ = directory.remove(&partial); // left by a killed one
        if let Err(error) = self.merge_into(&partial) {
            let _ = directory.remove(&partial);
            return Err(unfinished(self.cpus, &directory, error));
        }
        // Only now they are no longer needed.
        self.cpus.into_iter().for_each(|cpu| cpu.remove(&directory));
        let _ = directory.remove(OsStr::new(HEAD_FILE));
        Ok(self.summary)
    }

    fn merge_into(&mut self, partial: &OsStr) -> Result<()> {
        let directory = &self.options.directory;
        let path = directory.path().join(FILE);
        let failed = |error| Error::new("write", path.display().to_string(), error);
        let sizes: Vec<u64> = self.cpus.iter().map(|cpu| cpu.written).collect();
        let head = head(&self.description, &sizes);
        let mut file = directory.create_new(partial, Readers::Owner).map_err(failed)?;
        std::io::Write::write_all(&mut file, &head.bytes).map_err(failed)?;
        for (cpu, offset) in self.cpus.iter_mut().zip(head.offsets) {
            cpu.copy_to(&mut file, offset)?;
        }
        // A page is the unit of readers: the last one is whole even if no CPU has any.
        directory.rename(partial, OsStr::new(FILE)).map_err(failed)
    }
}

/// A recording that cannot be completed, usually because the disk is full: pages that were written stay readable, and
/// nothing else stays. The error with that, and with a remedy.
fn unfinished(cpus: Vec<CpuPages>, directory: &Directory, error: Error) -> Error {
    let remedy = "free some space or name another directory with -o";
    if cpus.iter().any(|cpu| cpu.written > 0) {
        let shown = directory.path().display();
        return error.hint(format!("`lathunt explain {shown}` reads the events before that; {remedy}"));
    }
    cpus.into_iter().for_each(|cpu| cpu.remove(directory));
    let _ = directory.remove(OsStr::new(HEAD_FILE));
    error.hint(format!("no event is kept; {remedy}"))
}

/// Files of pages beside a [`HEAD_FILE`], by CPU.
#[must_use]
pub fn pages_of_unfinished(directory: &Path) -> Vec<(Cpu, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of_cpu = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let number = name.strip_prefix(FILE)?.strip_prefix(".cpu")?.parse().ok()?;
        Some((Cpu(number), entry.path()))
    };
    let mut pages: Vec<(Cpu, PathBuf)> = entries.filter_map(of_cpu).collect();
    pages.sort();
    pages
}

/// Enables the events and notes missing ones. Returns those enabled.
fn enable(instance: &Instance, set: EventSet, notes: &mut Vec<String>) -> Result<Vec<(String, Vec<String>)>> {
    let mut on: Vec<(String, Vec<String>)> = Vec::new();
    for wanted in set.wanted() {
        let base = format!("events/{}", wanted.path);
        let directory = instance.path().join(&base);
        if !directory.exists() {
            // Of events that were renamed, one suffices.
            let renamed = matches!(wanted.path, "timer/hrtimer_setup" | "timer/hrtimer_init");
            if wanted.path == "sched/sched_switch" {
                return Err(Error::refused(
                    "trace",
                    "context switches",
                    "this kernel has no sched_switch event",
                ));
            } else if !renamed {
                notes.push(format!("this kernel has no {}", wanted.path.replace('/', ":")));
            }
            continue;
        }
        if let Some(filter) = wanted.filter {
            instance.set(&format!("{base}/filter"), filter)?;
        }
        instance.set(&format!("{base}/enable"), "1")?;
        let (system, events) = match wanted.path.split_once('/') {
            Some((system, event)) => (system, vec![event.to_owned()]),
            None => (wanted.path, directories(&directory)),
        };
        match on.iter_mut().find(|(known, _)| known == system) {
            Some((_, known)) => known.extend(events),
            None => on.push((system.to_owned(), events)),
        }
    }
    Ok(on)
}

fn trace_functions(tracefs: &Tracefs, instance: &Instance) -> Result<()> {
    let available = String::from_utf8_lossy(&tracefs.bytes("available_tracers")).into_owned();
    if !available.split_ascii_whitespace().any(|tracer| tracer == "function") {
        let hint = "this kernel has no function tracer (CONFIG_FUNCTION_TRACER); leave --function out";
        return Err(Error::refused("trace", "functions", hint));
    }
    let enabled = fs::read_to_string("/proc/sys/kernel/ftrace_enabled").unwrap_or_default();
    if enabled.trim() == "0" {
        let hint = "function tracing is switched off for the whole machine: sysctl kernel.ftrace_enabled=1";
        return Err(Error::refused("trace", "functions", hint));
    }
    let hint = "this kernel refuses function tracing (hardened, or locked down); leave --function out";
    instance.set("current_tracer", "function").map_err(|error| error.hint(hint))
}

fn open_rings(instance: &Instance, directory: &Directory, page_bytes: usize) -> Result<Vec<CpuPages>> {
    let mut numbers: Vec<u32> = directories(&instance.path().join("per_cpu"))
        .iter()
        .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let ring = |number: u32| {
        let raw = instance.path().join(format!("per_cpu/cpu{number}/trace_pipe_raw"));
        (raw, format!("{FILE}.cpu{number}").into())
    };
    CpuPages::open_all(numbers.into_iter().map(ring), directory, page_bytes)
}

/// Size of a page of the ring, header and data, which may be larger than a memory page (since 6.8).
fn page_bytes(header_page: &str) -> usize {
    let data = header_page.lines().find(|line| line.split(';').next().is_some_and(|d| d.ends_with(" data")));
    let number =
        |key: &str| -> Option<usize> { data?.split_once(key)?.1.split(';').next()?.trim().parse().ok() };
    match (number("offset:"), number("size:")) {
        (Some(offset), Some(size)) => offset + size,
        _ => page_size() as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_page_is_that_of_its_header_and_data() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                    \tfield: char data;\toffset:16;\tsize:16368;\tsigned:1;\n";
        assert_eq!(page_bytes(text), 16384);
        assert_eq!(page_bytes(""), page_size() as usize);
    }
}
