//! The kernel's part of a recording: through tracefs, or with `--flight` through the rings of the BPF recorder.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lathunt_core::conditions::Conditions;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::printable;
use lathunt_core::time::Cpu;
use lathunt_core::trace::flight;
use lathunt_host::beneath::{Directory, Readers};
use lathunt_host::recorder::{self, Calls, Recorder};
use lathunt_host::topology::Topology;
use lathunt_host::tracefs::{self, EventSet};
use lathunt_host::{facts, sched, wall};
use serde::Serialize;

use super::session::{code_of, Plan};
use crate::beside::{CONDITIONS_FILE, FLIGHT_FILE, INTERRUPTS_FILE, KALLSYMS_FILE, MAPS_FILE};
use crate::file;

/// Ring per CPU if everything is written, and if only the newest is kept.
const RING_BYTES: u64 = 16 << 20;
const FLIGHT_RING_BYTES: u64 = 8 << 20;
/// How long to wait for a CPU's flight ring.
const PATIENCE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// A running recording of the kernel.
pub struct Kernel {
    way: Way,
    directory: Arc<Directory>,
    record: Record,
    conditions: Conditions,
}

enum Way {
    Tracefs(Box<tracefs::Recording>),
    Flight(Box<Recorder>, CpuSet),
}

/// Description of the recording in `conditions.json`.
#[derive(Clone, Debug, Default, Serialize)]
struct Record {
    events: &'static str,
    functions: bool,
    flight: bool,
    clock: &'static str,
    bytes: u64,
    /// Events overwritten by newer ones.
    overwritten: u64,
    /// Events dropped by the kernel.
    dropped: u64,
    /// Another program switched the recording off before its end.
    switched_off: bool,
    notes: Vec<String>,
}

/// The file `conditions.json`.
#[derive(Serialize)]
struct ConditionsFile<'a> {
    format: &'static str,
    version: u32,
    recording: &'a Record,
    conditions: &'a Conditions,
}

/// A recording that has ended.
pub struct Ended {
    what: What,
    directory: Arc<Directory>,
    record: Record,
    conditions: Conditions,
    started: Instant,
}

enum What {
    Pages(Box<tracefs::Recorded>),
    Flight(Vec<u8>),
}

impl Kernel {
    /// Starts it; if a requirement of `--flight` is missing, reports that and uses tracefs.
    ///
    /// # Errors
    /// A kernel feature that is missing or refused.
    pub fn start(events: EventSet, plan: &Plan, directory: Arc<Directory>) -> Result<Kernel> {
        let online = Topology::read(Path::new("/"))?.online;
        let mut conditions = facts::gather(Path::new("/"), &online);
        conditions.started = wall::now_rfc3339();
        conditions.command = Some(crate::conditions::command_line());
        let mut record = Record {
            events: name(events),
            functions: plan.functions,
            flight: plan.session.flight,
            clock: "mono",
            ..Record::default()
        };
        if plan.functions {
            let warning = "function tracing makes kernel code about 4 times slower: latencies are larger than without it";
            eprintln!("lathunt: {warning}");
            record.notes.push(warning.to_owned());
        }
        if plan.session.flight && !plan.functions {
            let calls = match events {
                EventSet::Min => Calls::None,
                EventSet::Rt => Calls::Markers,
                EventSet::Full => Calls::All,
            };
            match Recorder::start(&recorder::Options { calls, ..recorder::Options::on(online.clone()) }) {
                Ok(recorder) => {
                    record.notes.extend(recorder.notes().iter().cloned());
                    const OWN_SET: &str = "the flight recorder has its own set of events: --events full adds every system call to it, and no disk, page or network";
                    const OWN_SIZE: &str = "--ring has no effect on the flight recorder of the kernel, which keeps 4096 events per CPU";
                    let has_size = plan.session.ring.is_some() && !plan.user;
                    for (note, applies) in [(OWN_SET, events == EventSet::Full), (OWN_SIZE, has_size)] {
                        if applies {
                            eprintln!("lathunt: {note}");
                            record.notes.push(note.to_owned());
                        }
                    }
                    let way = Way::Flight(Box::new(recorder), online);
                    return Ok(Kernel { way, directory, record, conditions });
                }
                Err(error) => {
                    let note = format!(
                        "no BPF recorder: {error}; the newest events are kept in the ftrace buffer instead"
                    );
                    eprintln!("lathunt: {note}");
                    record.notes.push(note);
                }
            }
        }
        let usual = if plan.session.flight { FLIGHT_RING_BYTES } else { RING_BYTES };
        let recording = tracefs::Recording::start(tracefs::Options {
            events,
            functions: plan.functions,
            newest_only: plan.session.flight,
            ring_bytes: plan.session.ring.unwrap_or(usual),
            limit_bytes: plan.session.limit,
            directory: directory.clone(),
        })?;
        // Written now in case the recording is killed; rewritten at its end, with the losses.
        if let Err(error) = write_conditions(&directory, &record, &conditions) {
            recording.discard();
            return Err(error);
        }
        Ok(Kernel { way: Way::Tracefs(Box::new(recording)), directory, record, conditions })
    }

    /// Keeps the rings from overflowing until `stop`.
    ///
    /// # Errors
    /// If the data cannot be written.
    pub fn drain_until(&mut self, stop: &AtomicBool) -> Result<()> {
        match &mut self.way {
            Way::Tracefs(recording) => Ok(recording.drain_until(stop)?),
            Way::Flight(recorder, _) => {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(POLL);
                    recorder.poll(); // late real-time tasks do not freeze here, so there is nothing to keep
                }
                Ok(())
            }
        }
    }

    /// Ends the recording and leaves nothing of it.
    pub fn discard(self) {
        let directory = self.directory;
        if let Way::Tracefs(recording) = self.way {
            recording.discard();
        }
        for name in [CONDITIONS_FILE, MAPS_FILE] {
            let _ = directory.remove(OsStr::new(name));
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// If the last events cannot be read.
    pub fn finish(self) -> Result<Ended> {
        let Kernel { way, directory, mut record, conditions } = self;
        let what = match way {
            Way::Tracefs(recording) => What::Pages(Box::new(recording.finish()?)),
            Way::Flight(mut recorder, cpus) => {
                let (bytes, silent) = freeze_all(&mut recorder, &cpus);
                record.notes.extend(silent.iter().map(|cpu| format!("CPU {cpu} did not hand over its ring")));
                // Most counters concern the recorder's latency series, and the rings report their own losses.
                let losses = recorder.losses();
                record.notes.extend(
                    losses.iter().map(|loss| format!("{} {}: {}", loss.count, loss.counter, loss.meaning)),
                );
                record.dropped = u64::from(!silent.is_empty());
                record.overwritten = flight::headers(&bytes).iter().map(|ring| ring.overwritten).sum();
                What::Flight(bytes)
            }
        };
        Ok(Ended { what, directory, record, conditions, started: Instant::now() })
    }
}

/// Requests the ring of every CPU; a CPU freezes it at its next switch, which a short migration to it causes.
fn freeze_all(recorder: &mut Recorder, cpus: &CpuSet) -> (Vec<u8>, Vec<u32>) {
    let mut asked: Vec<(Cpu, u64)> = Vec::new();
    for cpu in cpus.iter() {
        asked.extend(recorder.freezer(cpu).freeze().map(|id| (cpu, id)));
    }
    let (mut bytes, begin) = (Vec::new(), Instant::now());
    while !asked.is_empty() && begin.elapsed() < PATIENCE {
        std::thread::scope(|threads| {
            asked.iter().for_each(|&(cpu, _)| {
                let visit = lathunt_host::threads::scoped(threads, move || {
                    let _ = sched::pin(cpu); // an offline CPU has no ring to freeze
                    std::thread::sleep(Duration::from_millis(1));
                });
                drop(visit); // refused: the CPU may freeze its ring without it, or is named as one that did not
            });
        });
        for frozen in recorder.poll() {
            if let Some(index) = asked.iter().position(|&(cpu, id)| (cpu, id) == (frozen.cpu, frozen.id)) {
                asked.swap_remove(index);
                bytes.extend(frozen.bytes);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    (bytes, asked.into_iter().map(|(cpu, _)| cpu.0).collect())
}

impl Ended {
    /// Writes the trace and its companion files, and describes it; returns the exit code.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub fn write(self) -> Result<u8> {
        let Ended { what, directory, mut record, conditions, started } = self;
        let put = |name, bytes: &[u8]| file::put(&directory, name, bytes, Readers::Owner);
        let file = match what {
            What::Pages(recorded) => {
                let summary = recorded.write()?;
                record.bytes = summary.bytes;
                record.overwritten = summary.overwritten;
                record.dropped = summary.dropped;
                record.switched_off = summary.was_switched_off;
                record.notes.extend(summary.notes);
                tracefs::FILE
            }
            What::Flight(bytes) => {
                record.bytes = bytes.len() as u64;
                put(FLIGHT_FILE, &bytes)?;
                let symbols = fs::read("/proc/kallsyms").context("cannot read /proc/kallsyms")?;
                put(KALLSYMS_FILE, &symbols)?;
                let interrupts = fs::read("/proc/interrupts").context("cannot read /proc/interrupts")?;
                put(INTERRUPTS_FILE, &interrupts)?;
                FLIGHT_FILE
            }
        };
        write_conditions(&directory, &record, &conditions)?;
        Ok(said(&directory.path().join(file), &record, started))
    }
}

fn write_conditions(directory: &Directory, record: &Record, conditions: &Conditions) -> Result<()> {
    let file =
        ConditionsFile { format: "lathunt-trace-conditions", version: 1, recording: record, conditions };
    let text = printable::json(serde_json::to_string_pretty(&file)? + "\n");
    file::put(directory, CONDITIONS_FILE, text.as_bytes(), Readers::Owner)
}

fn said(path: &Path, record: &Record, started: Instant) -> u8 {
    let mut text = format!("{}: {} bytes of events", path.display(), record.bytes);
    if record.overwritten > 0 {
        let why = if record.flight {
            "older ones, overwritten as requested"
        } else {
            "overwritten before they were read (a larger --ring keeps them)"
        };
        let _ = write!(text, ", {} {why}", record.overwritten);
    }
    if record.dropped > 0 {
        let _ = write!(text, ", {} dropped by the kernel", record.dropped);
    }
    let took = started.elapsed();
    if took > Duration::from_secs(1) {
        let _ = write!(text, "; written in {:.1} s", took.as_secs_f64());
    }
    text.push('\n');
    record.notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
    if !crate::out::print_or_say(&text) {
        return crate::exit::COULD_NOT_MEASURE;
    }
    let overwritten = if record.flight { 0 } else { record.overwritten };
    code_of(record.dropped + overwritten + u64::from(record.switched_off))
}

fn name(events: EventSet) -> &'static str {
    match events {
        EventSet::Min => "min",
        EventSet::Rt => "rt",
        EventSet::Full => "full",
    }
}
