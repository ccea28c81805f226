//! Path analysis on kernels with the preemptirq tracepoints (src/bpf/path.h): per CPU, the longest section of each term of the
//! scheduling latency, with its place, and the executions of interrupts.
//!
//! A separate BPF object, as for potential latencies: other recordings do not pay for these frequent events.

mod block;
#[cfg(test)]
mod oracle;

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Release;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::path_analysis::executions::{Collector, Executions};
use lathunt_core::path_analysis::latency::NMI;
use lathunt_core::path_analysis::{Longest, PathAnalysis};
use lathunt_core::time::Cpu;
use libbpf_rs::{Link, MapCore, Object};

use self::block::{Execution, PathBlock, Source, Tails};
use super::block::Blocks;
use super::longest::{self, telling};
use super::{blocking, figures, names};
use crate::bpf_object;
use crate::clock;
use crate::error::{Error, Result};
use crate::symbols::Symbols;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/path.bpf.o.gz"));

/// Tracepoints that a path analysis needs.
const REQUIRED: [&str; 6] =
    ["irq_disable", "irq_enable", "preempt_disable", "preempt_enable", "cpu_idle", "irq_handler_entry"];

/// The kernel function that disables interrupts to choose the next thread.
const SCHEDULER: &str = "__schedule";

/// Checks whether this kernel can be analysed.
///
/// # Errors
/// What is missing: a tracepoint, PREEMPT_RT, or the address of the scheduler.
pub fn refuse_unless_possible() -> Result<()> {
    possible().map(drop)
}

/// The kernel's symbols, and start and end of the scheduler.
fn possible() -> Result<(Symbols, [u64; 2])> {
    // arm64 preempts a thread in user space with interrupts disabled since the interrupt: the scheduler run would count as part of
    // that interrupt.
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::refused(
            "analyse the paths of the kernel:",
            "it is supported on x86-64 only",
            "--potential records the longest times with interrupts and preemption disabled",
        ));
    }
    for name in REQUIRED {
        if !blocking::has_tracepoint(name)? {
            let what = format!("this kernel has no tracepoint {name}");
            return Err(Error::refused(
                "analyse the paths of the kernel:",
                what,
                "it needs a kernel with CONFIG_IRQSOFF_TRACER and CONFIG_PREEMPT_TRACER, which those of distributions \
                 lack; --potential estimate gives an observed-blocking estimate instead",
            ));
        }
    }
    let version = std::fs::read_to_string("/proc/sys/kernel/version").unwrap_or_default();
    if !version.contains("PREEMPT_RT") && !version.contains("PREEMPT RT") {
        return Err(Error::refused(
            "analyse the paths of the kernel:",
            "it is not fully preemptive (PREEMPT_RT): the analysis does not apply",
            "--potential records the longest times with interrupts and preemption disabled",
        ));
    }
    let symbols = Symbols::read()?;
    let bounds = symbols.address(SCHEDULER).and_then(|address| symbols.bounds(address));
    let (begin, end) = bounds.ok_or_else(|| {
        Error::refused(
            "analyse the paths of the kernel:",
            format!("no function {SCHEDULER} in /proc/kallsyms"),
            "it needs CONFIG_KALLSYMS, and a compiler that keeps this function under its name",
        )
    })?;
    Ok((symbols, [begin, end]))
}

/// TIF_NEED_RESCHED of x86 in a kernel of this release, as a mask: bit 3, since 6.18 bit 4 (asm-generic/thread_info_tif.h).
fn resched_flag(release: &str) -> u64 {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version >= (6, 18) {
        true => 1 << 4,
        false => 1 << 3,
    }
}

/// Clock and current thread of the programs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    /// Those of the kernel.
    Real,
    /// Values from a test; all programs are loaded.
    Simulated,
}

/// The running reader; dropping it detaches.
pub struct Paths {
    cpus: CpuSet,
    blocks: Blocks<PathBlock>,
    object: Object,
    symbols: Symbols,
    links: Vec<Link>,
    collected: BTreeMap<Cpu, Collected>,
}

/// Data from the rings of one CPU.
#[derive(Default)]
struct Collected {
    tails: Tails,
    sources: BTreeMap<Source, Collector>,
    lost: u64,
}

impl fmt::Debug for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paths").field("cpus", &self.cpus).field("programs", &self.links.len()).finish()
    }
}

impl Paths {
    /// Loads and attaches.
    ///
    /// # Errors
    /// A kernel feature that is missing or refused, in one line.
    pub fn start(cpus: &CpuSet) -> Result<Paths> {
        let (symbols, scheduler) = possible()?;
        let mut paths = Paths::load(cpus, symbols, scheduler, Clock::Real)?;
        paths.links = bpf_object::attach_all(&paths.object)?;
        paths.switch_on();
        Ok(paths)
    }

    /// Loads; does not record yet.
    fn load(cpus: &CpuSet, symbols: Symbols, scheduler: [u64; 2], clock: Clock) -> Result<Paths> {
        let simulated = clock == Clock::Simulated;
        let mut open = bpf_object::open("path", OBJECT)?;
        for mut program in open.progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let name = section.rsplit('/').next().unwrap_or(&section);
            program.set_autoload(simulated || blocking::has_tracepoint(name)?);
        }
        let possible =
            libbpf_rs::num_possible_cpus().map_err(|error| Error::new("count", "the CPUs", error))?;
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        for mut map in open.maps_mut() {
            let set = match map.name().to_str() {
                Some("paths") => map.set_max_entries(possible as u32),
                Some(".rodata.telling") => map.set_initial_value(&telling(&symbols)),
                Some(".rodata.scheduler") => map.set_initial_value(&scheduler.map(u64::to_ne_bytes).concat()),
                Some(".rodata.resched") => map.set_initial_value(&resched_flag(&release).to_ne_bytes()),
                Some(".rodata.simulated") => map.set_initial_value(&[u8::from(simulated)]),
                _ => Ok(()),
            };
            set.map_err(|error| Error::new("size", "the maps of the path analysis", error))?;
        }
        let object = bpf_object::load("path", open)?;
        let map = object.maps().find(|map| map.name() == "paths");
        let map = map.ok_or_else(|| Error::refused("find", "the map of the path analysis", ""))?;
        let blocks = Blocks::map(map.as_fd(), possible)?;
        let (cpus, collected) = (cpus.clone(), BTreeMap::new());
        Ok(Paths { cpus, blocks, object, symbols, links: Vec::new(), collected })
    }

    /// From now on the programs record; before, they returned at once.
    fn switch_on(&self) {
        for block in self.cpus.iter().filter_map(|cpu| self.blocks.of(cpu)) {
            block.on.store(1, Release);
        }
    }

    /// Reads the executions of interrupts. The ring of a CPU holds 65,535: with a call every 100 ms, 655,350 per second are read
    /// without loss.
    pub fn poll(&mut self) {
        for (cpu, block) in self.cpus.iter().filter_map(|cpu| Some((cpu, self.blocks.of(cpu)?))) {
            let Collected { tails, sources, lost } = self.collected.entry(cpu).or_default();
            *lost += block.take(tails, |Execution { source, arrival, took }| {
                let collector = sources.entry(source).or_insert_with(|| Collector::new(String::new()));
                collector.add(arrival, took);
            });
        }
    }

    /// The terms of each CPU so far.
    pub fn read(&mut self) -> Vec<PathAnalysis> {
        self.poll();
        let lines = names::interrupts();
        // The kernel does not count them per CPU.
        let missed = bpf_object::recursions(&self.object, |_| true);
        let online = longest::online(&self.cpus);
        let of = |(cpu, block): (Cpu, &PathBlock)| {
            let collected = self.collected.get(&cpu);
            let term = |term: usize| {
                let found = block.longest(term)?;
                let (begun, ended) = found.places(&|address| self.symbols.name(address));
                let place = format!("begins {begun}; ends {ended}");
                Some(Longest { ns: found.ns, end: found.at, thread: found.thread(), place })
            };
            let named = |(source, collector): (&Source, &Collector)| Executions {
                source: match *source {
                    Source::Vector(number) => {
                        figures::Source::Vector(figures::vector(number.into())).to_string()
                    }
                    Source::Irq(number) => {
                        figures::Source::Irq(number.into(), lines.get(&number.into()).cloned()).to_string()
                    }
                    Source::Nmi => NMI.to_owned(),
                },
                ..collector.executions().clone()
            };
            let open = if online.contains(cpu) { block.open_and_longest(clock::mono()) } else { 0 };
            // DST is the end of PSD: read it first, as a longer scheduler run may come between the two reads.
            let dst = term(3);
            PathAnalysis {
                cpu,
                poid: term(0),
                paie: term(1),
                psd: term(2),
                dst,
                interrupts: collected.iter().flat_map(|one| &one.sources).map(named).collect(),
                lost: collected.map_or(0, |one| one.lost) + block.unmatched() + missed + open,
            }
        };
        self.cpus.iter().filter_map(|cpu| Some((cpu, self.blocks.of(cpu)?))).map(of).collect()
    }
}

#[test]
fn need_resched_has_the_bit_of_the_release() {
    let of = ["6.1.0-49-rt-amd64", "6.12.74+deb13-rt-amd64", "6.17.0", "6.18.44-fc", "7.0.0-rc1", ""]
        .map(resched_flag);
    assert_eq!(of, [8, 8, 8, 16, 16, 8]);
}
