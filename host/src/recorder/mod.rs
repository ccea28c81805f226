//! The kernel recorder: how late is every real-time task, what takes time from it, and what happened just before.
//!
//! BPF programs (src/bpf) on tracepoints, because that costs a fifth of ftrace and runs on any kernel with BTF, PREEMPT_RT
//! included, without a kernel module. All their data are in memory that is mapped here: reading it costs no system call, and
//! a measuring thread freezes the flight ring with one atomic operation ([`Freezer`]).
//!
//! `plan` decides what this kernel supports; `crate::bpf_object` loads and attaches; `block` is the shared memory; decoding
//! is `lathunt_core::trace::flight`. Not here: which peaks to keep, and their explanation.

mod activations;
mod begun;
mod block;
pub mod blocking;
mod capability;
mod chosen;
mod figures;
mod floor;
mod follow;
mod freezer;
mod frozen;
mod longest;
mod losses;
mod names;
mod options;
mod parity;
pub mod path;
mod plan;
pub mod potential;
mod starving;
mod syscalls;
mod unfinished;

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::Arc;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::run::Loss;
use lathunt_core::series::{Quantity, SecondMax, Series};
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_core::trace::activation::Activation;
use libbpf_rs::{Link, MapCore, Object};

use begun::Begun;
use block::{Blocks, Over};
use chosen::Chosen;
use plan::{Kernel, Plan};

pub use capability::capability;
pub use figures::{Interference, Source};
pub use floor::Floor;
pub use follow::{Follow, Names};
pub use freezer::Freezer;
pub use frozen::{Frozen, Trigger};
pub use names::parse_interrupts;
pub use options::{Calls, Options};
pub use parity::kernel_bins;
pub(crate) use starving::Pending;
pub use starving::Starving;
pub use syscalls::name as syscall_name;
pub(crate) use unfinished::cpu_time;

use crate::bpf_object;
use crate::clock;
use crate::error::{Error, Result};
use crate::sched;

/// The program that finds out what each thread does when recording begins (src/bpf/start.h).
const AT_START: &str = "on_each_task";

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/recorder.bpf.o.gz"));

/// The running recorder; dropping it detaches everything.
pub struct Recorder {
    blocks: Arc<Blocks>,
    over: Blocks<Over>,
    chosen: Chosen,
    cpus: CpuSet,
    notes: Vec<String>,
    frozen: HashMap<Cpu, frozen::Chain>,
    seconds: HashMap<(Cpu, usize), Vec<SecondMax>>,
    origin: Option<Mono>, // origin of the seconds; `None`: the first sample of each series
    largest: HashMap<(Cpu, usize), Ns>, // since `take_largest`
    read: HashMap<Cpu, u64>, // activations read so far
    held: activations::Held,
    begun: Begun,
    links: Vec<Link>,
    object: Object,
}

impl Recorder {
    /// Loads and attaches the programs: tens of ms; call it before real-time threads start, and not from one.
    ///
    /// # Errors
    /// A kernel feature that is missing or refused, in one line.
    pub fn start(options: &Options) -> Result<Recorder> {
        Recorder::start_with(options, Vec::new)
    }

    /// As [`Recorder::start`]; `born` is asked once the programs record, before they find what each thread does then: it
    /// returns the threads to measure that are newer than [`Options::tids`], as loading takes up to seconds.
    pub(crate) fn start_with(options: &Options, born: impl FnOnce() -> Vec<Tid>) -> Result<Recorder> {
        if !sched::ids_are_the_kernels() {
            return Err(Error::refused("record", "the kernel", "this is a PID namespace (a container), with other thread ids than the kernel's; run it in that of the machine (docker run --pid=host)"));
        }
        let mut open = bpf_object::open("recorder", OBJECT)?;
        let targets: Vec<String> = open.progs().map(|p| tracepoint(&p.section().to_string_lossy())).collect();
        let plan = Plan::of(&Kernel::probe(targets.iter().map(String::as_str))?)?;
        let sees_the_start = plan.load.contains(plan::TASKS);
        for mut program in open.progs_mut() {
            let target = tracepoint(&program.section().to_string_lossy());
            program.set_autoload(plan.load.contains(&target) && options.wants(&target));
        }
        let cpus = libbpf_rs::num_possible_cpus().map_err(|error| Error::new("count", "the CPUs", error))?;
        for mut map in open.maps_mut() {
            let set = match map.name().to_str() {
                Some("blocks") => map.set_max_entries(cpus as u32),
                Some(".rodata.tick") => map.set_initial_value(&clock::tick().0.to_ne_bytes()),
                Some(".rodata.options") => map.set_initial_value(&options.bits().to_ne_bytes()),
                Some(".rodata.followed") => {
                    options.follow.as_ref().map_or(Ok(()), |follow| map.set_initial_value(&follow.bytes()))
                }
                _ => Ok(()),
            };
            set.map_err(|error| Error::new("size", "the recorder's maps", error))?;
        }
        let object = bpf_object::load("recorder", open)?;
        let map = |name: &str| {
            let map = object.maps().find(|map| map.name() == name);
            map.ok_or_else(|| Error::refused("find", format!("the recorder's map {name}"), ""))
        };
        let blocks = Arc::new(Blocks::map(map("blocks")?.as_fd(), cpus)?);
        let over = Blocks::map(map(".data.over")?.as_fd(), 1)?;
        let chosen = Chosen::map(map("wakings")?.as_fd())?;
        let mut recorder = Recorder {
            blocks,
            over,
            chosen,
            cpus: options.cpus.clone(),
            notes: plan.notes,
            frozen: HashMap::new(),
            seconds: HashMap::new(),
            origin: None,
            largest: HashMap::new(),
            read: HashMap::new(),
            held: activations::Held::default(),
            begun: Begun::default(),
            links: Vec::new(),
            object,
        };
        options.tids.iter().flatten().try_for_each(|&tid| recorder.watch(tid).map(|_| ()))?;
        recorder.configure(options)?;
        recorder.links = bpf_object::attach_all(&recorder.object)?;
        clock::arm_timers_of_clocks_that_are_set();
        recorder.switch_on();
        for tid in born() {
            let _ = recorder.watch(tid); // one without room is found again, and reported
        }
        if sees_the_start {
            recorder.begun = Begun::read(&bpf_object::iterate(&recorder.object, AT_START)?);
        }
        Ok(recorder)
    }

    /// Runs before any program does.
    fn configure(&self, options: &Options) -> Result<()> {
        for block in self.blocks.all() {
            block.late_timer_ns.store(u64::MAX, Relaxed);
        }
        for cpu in options.cpus.iter() {
            let hint = "this machine has no such CPU";
            let block = self.blocks.of(cpu);
            let block = block.ok_or_else(|| Error::refused("record", format!("CPU {cpu}"), hint))?;
            block.late_timer_ns.store(options.late_timer_stack.0, Relaxed);
            block.threshold_ns.store(options.peaks_threshold.map_or(u64::MAX, |ns| ns.0), Relaxed);
        }
        Ok(())
    }

    /// From now on the programs record; before, they returned at once.
    fn switch_on(&self) {
        for block in self.cpus.iter().filter_map(|cpu| self.blocks.of(cpu)) {
            block.buffer[0].begin_at.store(clock::mono().0, Relaxed);
            block.buffer[0].state.store(block::ACTIVE, Relaxed);
            block.on.store(1, Release);
        }
    }

    /// Measures `tid` too, if [`Options::tids`] restricts the threads. False: it is measured already.
    ///
    /// # Errors
    /// If there is no room for another thread.
    pub fn watch(&self, tid: Tid) -> Result<bool> {
        self.chosen.add(tid)
    }

    /// Passes to `see` the activations that ended since the last call, with [`Options::activations`], of all CPUs in the
    /// order of their ends. The first of a thread that slept when recording began, or that was not measured when it went to
    /// sleep, is preceded by one of length 0 that tells where. Returns how many were overwritten before they were read. Call it
    /// with [`Recorder::poll`]: the ring of a CPU holds 4096.
    pub fn activations(&mut self, mut see: impl FnMut(&Activation)) -> u64 {
        let (horizon, mut lost) = (clock::mono(), 0);
        for cpu in self.cpus.iter() {
            if let Some(block) = self.blocks.of(cpu) {
                let read = self.read.entry(cpu).or_default();
                lost += activations::take(block, read, &mut |activation| self.held.add(activation));
            }
        }
        self.held.show(horizon, &mut |activation| {
            if self.begun.keep(activation) {
                return;
            }
            self.begun.before(activation).iter().for_each(&mut see);
            see(activation);
        });
        lost
    }

    /// Where the thread of `first` slept when recording began, if `first` is its first activation and unfinished at the end:
    /// [`Recorder::activations`] passes on neither.
    pub(crate) fn begun_before(&mut self, first: &Activation) -> Option<Activation> {
        self.begun.before(first)
    }

    /// Where a program sleeps that is held before its first instruction tells nothing.
    pub(crate) fn forget_begun(&mut self) {
        self.begun = Begun::default();
    }

    /// Where those slept when recording began that have not been seen since, and still exist.
    pub(crate) fn never_woke(&self) -> Vec<Activation> {
        let sleeps = |begun: &&Activation| self.blocks_at_the_end(begun.thread.tid) == Some(begun.blocks);
        self.begun.unseen().filter(sleeps).copied().collect()
    }

    /// The handle by which a measuring thread on `cpu` preserves evidence.
    #[must_use]
    pub fn freezer(&self, cpu: Cpu) -> Freezer {
        Freezer { blocks: Arc::clone(&self.blocks), cpu }
    }

    /// From now on the kernel side freezes if a real-time task of `cpu` is this late; `Ns(u64::MAX)`: never.
    pub fn set_threshold(&self, cpu: Cpu, threshold: Ns) {
        if let Some(block) = self.blocks.of(cpu) {
            block.threshold_ns.store(threshold.0, Relaxed);
        }
    }

    /// From now on, a stack is taken on `cpu` when a timer is this late; `Ns(u64::MAX)`: never.
    pub fn set_late_timer_stack(&self, cpu: Cpu, lateness: Ns) {
        if let Some(block) = self.blocks.of(cpu) {
            block.late_timer_ns.store(lateness.0, Relaxed);
        }
    }

    /// The rings frozen since the last call, oldest first per CPU; the buffers are free again. Call every 20 to 50 ms: it
    /// also records the maxima of each second. A ring that starts where the previous one was frozen is preceded by that, so
    /// that a peak soon after another has its past.
    pub fn poll(&mut self) -> Vec<Frozen> {
        let mut frozen = Vec::new();
        self.poll_each(|one| frozen.push(one));
        frozen
    }

    /// As [`Recorder::poll`], but passes the rings to `see` one by one, because each has half a megabyte.
    pub fn poll_each(&mut self, mut see: impl FnMut(Frozen)) {
        self.harvest();
        for cpu in self.cpus.iter() {
            let Some(block) = self.blocks.of(cpu) else { continue };
            for (header, chunk) in frozen::take(cpu, block) {
                see(self.frozen.entry(cpu).or_default().joined(&header, chunk));
            }
            frozen::ask_again(block);
        }
    }

    /// The contents of the rings of all recorded CPUs since `from`, as far as they reach; the rings keep running. For cases
    /// that are known to matter only when they are over. Call it after [`Recorder::poll_each`].
    #[must_use]
    pub fn peek(&self, from: Mono) -> Frozen {
        let now = clock::mono();
        let cpus = self.cpus.iter().filter_map(|cpu| Some((cpu, self.blocks.of(cpu)?)));
        let chunks = cpus.map(|(cpu, block)| frozen::peek(cpu, block, from, now, self.frozen.get(&cpu)));
        Frozen::of_cpus(chunks.flatten().collect(), now)
    }

    /// `timer`, `wakeup`, `timer+wakeup`, `sharedprio` and `switch` of each recorded CPU, of every real-time task there. A
    /// loss whose CPU is unknown is counted in each.
    #[must_use]
    pub fn series(&self) -> Vec<Series> {
        let somewhere = self.missing_somewhere();
        let none = Vec::new();
        let cpus = self.cpus.iter().filter_map(|cpu| Some((cpu, self.blocks.of(cpu)?)));
        cpus.flat_map(|(cpu, block)| (0..figures::QUANTITIES.len()).map(move |which| (cpu, block, which)))
            .map(|(cpu, block, which)| {
                let seconds = self.seconds.get(&(cpu, which)).unwrap_or(&none);
                let series = figures::series(cpu, block, which, seconds);
                Series { lost: series.lost + somewhere, ..series }
            })
            .collect()
    }

    /// Wake-ups lost on the waker's CPU, which is not recorded, or in our own programs.
    fn missing_somewhere(&self) -> u64 {
        self.blocks.beside(&self.cpus).map(losses::missing).sum::<u64>()
            + bpf_object::recursions(&self.object, losses::measures)
    }

    /// Records the maxima since the last call for the present second.
    fn harvest(&mut self) {
        for cpu in self.cpus.iter() {
            let Some(block) = self.blocks.of(cpu) else { continue };
            for which in 0..figures::QUANTITIES.len() {
                let max = figures::take_recent(block, which);
                let first = self.origin.unwrap_or(Mono(block.hist[which].first_ns.load(Relaxed)));
                if max == Ns::ZERO || first == Mono(0) {
                    continue;
                }
                let second = (clock::mono().since(first).0 / 1_000_000_000) as u32;
                figures::file(max, second, self.seconds.entry((cpu, which)).or_default());
                let largest = self.largest.entry((cpu, which)).or_default();
                *largest = max.max(*largest);
            }
        }
    }

    /// The largest latency of each series since the last call.
    pub(crate) fn take_largest(&mut self) -> Vec<((Quantity, Cpu), Ns)> {
        self.harvest();
        let all = self.largest.drain();
        all.map(|((cpu, which), max)| ((figures::QUANTITIES[which], cpu), max)).collect()
    }

    /// Restarts the maxima of seconds, counted from `origin`.
    pub(crate) fn restart_seconds(&mut self, origin: Mono) {
        self.seconds.clear();
        self.origin = Some(origin);
    }

    /// Net time of every interrupt source of the recorded CPUs since the start.
    #[must_use]
    pub fn interference(&self) -> Vec<Interference> {
        let cpus = self.cpus.iter().filter_map(|cpu| Some((cpu, self.blocks.of(cpu)?)));
        cpus.flat_map(|(cpu, block)| figures::interference(cpu, block)).collect()
    }

    /// Losses so far, over all CPUs; empty: none.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        let sum = |which: usize| self.blocks.all().map(|block| losses::count(block, which)).sum::<u64>();
        let hidden =
            self.blocks.all().map(|block| Tid(block.hidden_tid.load(Relaxed))).filter(|tid| tid.0 > 0);
        let recursions = [true, false]
            .map(|measured| bpf_object::recursions(&self.object, |name| losses::measures(name) == measured));
        losses::of((0..block::LOSSES).map(sum), recursions, &hidden.collect())
    }

    /// What this kernel cannot record, and the consequence: one line each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Number of attached programs.
    #[must_use]
    pub fn programs(&self) -> usize {
        self.links.len()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for cpu in self.cpus.iter() {
            if let Some(block) = self.blocks.of(cpu) {
                block.on.store(0, Release);
            }
        }
    }
}

/// `tp_btf/NAME` → `NAME`; an iterator's whole section.
fn tracepoint(section: &str) -> String {
    match section.starts_with(plan::ITERATOR) {
        true => section.to_owned(),
        false => section.rsplit('/').next().unwrap_or(section).to_owned(),
    }
}
