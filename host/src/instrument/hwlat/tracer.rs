//! The kernel's hwlat tracer (kernel/trace/trace_hwlat.c) in an instance of its own.
//!
//! Window, width, mode and threshold are global to the tracer: they are changed through the journal of knobs and restored.
//! Their paths go into the journal, so tracefs has to be mounted: a mount private to this process would be gone when
//! `lathunt restore` looks for them.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::hwlat::classify::{classify, Evidence};
use lathunt_core::hwlat::tracer_line::Sample;
use lathunt_core::hwlat::{Found, Gap};
use lathunt_core::time::{Cpu, Mono, Ns};

use super::{Options, KEPT};
use crate::error::{Error, Result};
use crate::facts::counters;
use crate::knob::{self, Knobs};
use crate::tracefs::{Instance, Tracefs};
use crate::tree::{Tree, LIVE};
use crate::{arch, signals};

const TRACING: &str = "/sys/kernel/tracing";

/// Why the tracer cannot be used here; `None`: it can.
#[must_use]
pub fn missing() -> Option<String> {
    match fs::read_to_string(Path::new(TRACING).join("available_tracers")) {
        Ok(text) if text.split_ascii_whitespace().any(|tracer| tracer == "hwlat") => None,
        Ok(_) => Some("this kernel has no hwlat tracer (CONFIG_HWLAT_TRACER)".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("tracefs is not mounted at {TRACING}, or this kernel has none"))
        }
        Err(error) => Some(format!("{TRACING}: {error}; needs root")),
    }
}

/// Runs the tracer for the duration, or until a signal; `each` gets every sample as it arrives. `per_cpu`: on all CPUs at
/// once (since 5.14) instead of one after the other.
///
/// # Errors
/// If tracefs refuses an operation; all settings are restored then.
pub fn run(options: &Options, per_cpu: bool, mut each: impl FnMut(&Sample)) -> Result<Found> {
    let (mut knobs, before) = Knobs::open(&knob::default_directory())?;
    let tracefs = Tracefs::open()?;
    let instance = Instance::new(&tracefs, "hwlat")?;
    set_parameters(&mut knobs, options, per_cpu)?;
    instance.set("tracing_cpumask", &mask(options))?;
    instance.set("current_tracer", "hwlat")?;
    instance.set("tracing_on", "1")?;
    let mut pipe = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(instance.path().join("trace_pipe"))
        .map_err(|error| Error::new("read", "trace_pipe of the instance", error))?;
    let (begin, mut text, mut samples) = (Instant::now(), String::new(), Vec::new());
    let (mut look, mut stopped, mut was_off) = (Look::now(), false, false);
    while !stopped {
        was_off = instance.is_off() || instance.text("current_tracer").trim_end() != "hwlat";
        stopped = begin.elapsed() >= Duration::from_nanos(options.duration.0)
            || signals::stop_requested().is_some()
            || was_off;
        if stopped {
            instance.set("tracing_on", "0")?;
        } else {
            std::thread::sleep(Duration::from_millis(50));
        }
        drain(&mut pipe, &mut text)?;
        let mut came = Vec::new();
        while let Some((line, rest)) = text.split_once('\n') {
            if let Some(sample) = Sample::parse(line) {
                each(&sample);
                came.push(sample);
            }
            text = rest.to_owned();
        }
        // Counters are read once per window: reading them interrupts the CPU.
        if !came.is_empty() || look.at.elapsed() > Duration::from_nanos(options.window.0) {
            let now = Look::now();
            samples.extend(came.into_iter().map(|sample| look.until(&now, sample)));
            look = now;
        }
    }
    let watched = begin.elapsed().as_nanos() as u64 / options.window.0.max(1) * options.width.0;
    drop(pipe); // an instance with an open file cannot be removed
    drop(instance);
    let left = knobs.restore()?;
    let notes = left
        .iter()
        .filter(|one| !matches!(one.outcome, knob::Outcome::PutBack { .. }))
        .chain(before.iter().filter(|one| one.outcome.is_due()))
        .map(ToString::to_string)
        .chain(
            was_off.then(|| "another program switched the tracer off: the rest was not watched".to_owned()),
        );
    Ok(found(options, per_cpu, samples, Ns(watched), notes.collect()))
}

/// SMIs and stolen time at one moment.
struct Look {
    at: Instant,
    smi: BTreeMap<Cpu, u64>,
    steal: BTreeMap<Cpu, Ns>,
}

/// A sample with the SMIs and the stolen time of its CPU around it.
struct Seen {
    sample: Sample,
    smi: Option<u64>,
    steal_ns: Option<Ns>,
}

impl Look {
    fn now() -> Look {
        let tree = Tree::new(Path::new(LIVE));
        let steal = counters::steal(&tree).unwrap_or_default();
        let smi = steal.keys().filter_map(|cpu| Some((*cpu, counters::smi_count(&tree, *cpu)?))).collect();
        Look { at: Instant::now(), smi, steal: steal.into_iter().collect() }
    }

    fn until(&self, now: &Look, sample: Sample) -> Seen {
        let cpu = sample.cpu.unwrap_or(Cpu(0));
        let smi = now.smi.get(&cpu).zip(self.smi.get(&cpu)).map(|(now, then)| now.saturating_sub(*then));
        let steal = now.steal.get(&cpu).zip(self.steal.get(&cpu));
        Seen { sample, smi, steal_ns: steal.map(|(now, then)| Ns(now.0.saturating_sub(then.0))) }
    }
}

fn set_parameters(knobs: &mut Knobs, options: &Options, per_cpu: bool) -> Result<()> {
    let base = Path::new(TRACING);
    let us = |ns: Ns| (ns.0 / 1000).to_string();
    let (window, width) = (base.join("hwlat_detector/window"), base.join("hwlat_detector/width"));
    // The kernel requires width below window at every step.
    let now: u64 = fs::read_to_string(&window).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let (first, second) = ((&window, options.window), (&width, options.width));
    let order = if options.window.0 / 1000 >= now { [first, second] } else { [second, first] };
    for (path, value) in order {
        knobs.set(path, &us(value))?;
    }
    let mode = base.join("hwlat_detector/mode");
    if mode.exists() {
        knobs.set(&mode, if per_cpu { "per-cpu" } else { "round-robin" })?;
    } else if per_cpu {
        return Err(Error::refused(
            "watch",
            "all CPUs at once",
            "kernels before 5.14 go from one CPU to the next",
        ));
    }
    knobs.set(&base.join("tracing_thresh"), &us(options.threshold)).map(|_| ())
}

fn mask(options: &Options) -> String {
    let last = options.cpus.iter().next_back().map_or(0, |cpu| cpu.0);
    let mut words = vec![0u32; last as usize / 32 + 1];
    options.cpus.iter().for_each(|cpu| words[cpu.0 as usize / 32] |= 1 << (cpu.0 % 32));
    words.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

fn drain(pipe: &mut fs::File, text: &mut String) -> Result<()> {
    let mut buffer = [0; 65536];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => text.push_str(&String::from_utf8_lossy(&buffer[..length])),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(())
            }
            Err(error) => return Err(Error::new("read", "trace_pipe of the instance", error)),
        }
    }
}

fn found(options: &Options, per_cpu: bool, seen: Vec<Seen>, watched: Ns, mut notes: Vec<String>) -> Found {
    if !per_cpu && options.cpus.len() > 1 {
        notes.push("one CPU at a time: each was watched for its share only".to_owned());
    }
    let hypervisor = arch::hypervisor();
    let gap = |Seen { sample, smi, steal_ns }: &Seen| Gap {
        cpu: sample.cpu.unwrap_or(Cpu(0)),
        at: Mono(timestamp_ns(&sample.timestamp)),
        gap_ns: sample.largest(),
        judgement: classify(&Evidence {
            gap_ns: sample.largest(),
            threshold_ns: options.threshold,
            hypervisor: hypervisor.clone(),
            interrupts_off: true,
            nmi: sample.nmi,
            smi: *smi,
            steal_ns: *steal_ns,
            ..Evidence::default()
        }),
        threads: Vec::new(),
    };
    let mut worst: Vec<Gap> = seen.iter().map(gap).collect();
    worst.sort_by_key(|gap| std::cmp::Reverse(gap.gap_ns));
    worst.truncate(KEPT);
    let samples: Vec<Sample> = seen.into_iter().map(|one| one.sample).collect();
    let mut histograms = BTreeMap::new();
    for sample in &samples {
        let of_cpu = histograms.entry(sample.cpu.unwrap_or(Cpu(0)));
        of_cpu.or_insert_with(|| Histogram::new(Layout::LATENCY)).record(sample.largest());
    }
    Found {
        detector: "kernel tracer",
        histograms,
        watched_ns: watched,
        gaps: samples.iter().map(|sample| sample.count.unwrap_or(1)).sum(),
        max_ns: samples.iter().map(Sample::largest).max(),
        worst,
        samples,
        notes,
        left: Vec::new(),
    }
}

/// `seconds.nanoseconds` → ns.
fn timestamp_ns(text: &str) -> u64 {
    let (seconds, rest) = text.split_once('.').unwrap_or((text, "0"));
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    number(seconds).saturating_mul(1_000_000_000).saturating_add(number(rest))
}
