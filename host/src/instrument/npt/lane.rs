//! The thread of one CPU: it loops, and hands each gap to the follower through memory that both see.
//!
//! It makes no system call while it measures, but in the pauses between bursts and, where SMIs can be counted, at a gap. It ends itself when the follower has not shown itself for [`PATIENCE`]: then this machine has
//! no CPU left that could stop it.

use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use lathunt_core::npt::turns::Turns;
use lathunt_core::time::{Cpu, Ns, Tid};

use super::probe::{self, Armed};
use super::turn::{turns, Handling, OnGap, Probe, Read};
use super::Options;
use crate::error::Result;
use crate::recorder::Freezer;
use crate::sched::{self, Policy};

/// Turns between two looks at anything else.
const CHUNK: u64 = 4_096;
/// Turns before the measurement: caches, branches, the first pages.
const WARM_UP: u64 = 20_000;
/// Gaps that may wait for the follower.
const WAITING: usize = 1 << 14;
/// How long the follower may be silent.
const PATIENCE: Ns = Ns(10_000_000_000);

/// A gap in ticks of the lane's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Raw {
    pub begin: u64,
    pub end: u64,
    pub faults: u64,
    /// SMIs + 1; 0: not countable.
    pub smi: u64,
    /// ns that the host has taken since boot, as of the last timer interrupt; 0: not known.
    pub stolen: u64,
}

/// What thread and follower share. Each word has one writer.
pub(super) struct Shared {
    pub tid: AtomicU64,
    /// Ticks when the measurement began; 0: not yet.
    pub begun: AtomicU64,
    pub done: AtomicU64,
    pub gaps: AtomicU64,
    pub longest: AtomicU64,
    /// Gaps that found no room.
    pub dropped: AtomicU64,
    /// The follower's clock, by which the lane sees that it lives; all ones: stop.
    pub follower: AtomicU64,
    slots: Box<[[AtomicU64; 5]]>,
    put: AtomicU64,
    taken: AtomicU64,
}

/// Value of [`Shared::follower`] that ends the loop.
pub(super) const STOP: u64 = u64::MAX;

impl Shared {
    pub fn new() -> Shared {
        Shared {
            tid: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            follower: AtomicU64::new(0),
            slots: (0..WAITING).map(|_| Default::default()).collect(),
            put: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn offer(&self, raw: Raw) {
        let put = self.put.load(Relaxed);
        if put - self.taken.load(Acquire) == WAITING as u64 {
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        let slot = &self.slots[put as usize % WAITING];
        for (word, value) in slot.iter().zip([raw.begin, raw.end, raw.faults, raw.smi, raw.stolen]) {
            word.store(value, Relaxed);
        }
        self.put.store(put + 1, Release);
    }

    /// The oldest gap that waits.
    pub fn take(&self) -> Option<Raw> {
        let taken = self.taken.load(Relaxed);
        if taken == self.put.load(Acquire) {
            return None;
        }
        let [begin, end, faults, smi, stolen] =
            std::array::from_fn(|word| self.slots[taken as usize % WAITING][word].load(Relaxed));
        self.taken.store(taken + 1, Release);
        Some(Raw { begin, end, faults, smi, stolen })
    }

    pub fn tid(&self) -> Tid {
        Tid(self.tid.load(Relaxed) as i32)
    }
}

/// What the thread does at a gap.
struct Gaps<'a> {
    shared: &'a Shared,
    recorder: Option<Freezer>,
    faults: u64,
    smi: Option<(std::fs::File, u64)>,
}

impl OnGap for Gaps<'_> {
    fn gap(&mut self, begin: u64, end: u64) {
        let faults = self.new_faults();
        let smi = self.smi.as_mut().and_then(|(device, before)| {
            let now = read_smi(device)?;
            Some(now.wrapping_sub(std::mem::replace(before, now)) + 1)
        });
        let stolen = self.recorder.as_ref().map_or(0, Freezer::host_stole_ns);
        self.shared.offer(Raw { begin, end, faults, smi: smi.unwrap_or(0), stolen });
        self.shared.gaps.store(self.shared.gaps.load(Relaxed) + 1, Relaxed);
        let longest = self.shared.longest.load(Relaxed).max(end.wrapping_sub(begin));
        self.shared.longest.store(longest, Relaxed);
    }
}

impl Gaps<'_> {
    /// Page faults since the last call; a context switch begins a new count.
    fn new_faults(&mut self) -> u64 {
        let now = self.recorder.as_ref().map_or(0, Freezer::faults);
        let before = std::mem::replace(&mut self.faults, now);
        now.checked_sub(before).unwrap_or(now)
    }
}

/// Intel's count of SMIs (SDM volume 4), read on the CPU itself so that no other CPU is interrupted.
fn smi_device(cpu: Cpu) -> Option<(std::fs::File, u64)> {
    let tree = crate::facts::Tree::new(std::path::Path::new(crate::facts::LIVE));
    crate::facts::counters::smi_count(&tree, cpu)?; // there is one, and it means that
    let device = std::fs::File::open(format!("/dev/cpu/{cpu}/msr")).ok()?;
    let now = read_smi(&device)?;
    Some((device, now))
}

fn read_smi(device: &std::fs::File) -> Option<u64> {
    let mut value = [0; 8];
    device.read_exact_at(&mut value, 0x34).ok()?;
    Some(u64::from_le_bytes(value) & 0xffff_ffff)
}

/// The thread's body.
///
/// # Errors
/// When the CPU or the priority cannot be had, or the probe cannot be armed in this thread.
pub(super) fn run(
    cpu: Cpu,
    options: &Options,
    tick_ns: f64,
    armed: Armed,
    recorder: Option<Freezer>,
    shared: &Shared,
) -> Result<Turns> {
    sched::pin(cpu)?;
    shared.tid.store(sched::tid().0 as u64, Relaxed);
    let table = Turns::new(tick_ns, options.threshold);
    let mut lane = Lane { options, tick_ns, shared, table };
    armed.enter()?; // takes memory: before the priority
    if options.priority > 0 {
        sched::set_policy(Policy::Fifo, options.priority)?;
    }
    sched::prefault_stack();
    let gaps = Gaps { shared, recorder, faults: 0, smi: smi_device(cpu) };
    lane.through(armed, gaps);
    if options.priority > 0 {
        sched::set_policy(Policy::Other, 0)?;
    }
    Ok(lane.table)
}

struct Lane<'a> {
    options: &'a Options,
    tick_ns: f64,
    shared: &'a Shared,
    table: Turns,
}

impl Lane<'_> {
    /// One loop a probe and a way to read the clock.
    fn through(&mut self, armed: Armed, gaps: Gaps<'_>) {
        match armed {
            Armed::Nothing => self.by(probe::Nothing, gaps),
            Armed::Lathunt => self.by(probe::lathunt::Event, gaps),
            Armed::Marker(file) => self.by(probe::marker::Write(file), gaps),
            Armed::Uprobe => self.by(probe::uprobe::Call, gaps),
            Armed::Lttng(call) => self.by(call, gaps),
        }
    }

    fn by(&mut self, probe: impl Probe, gaps: Gaps<'_>) {
        match self.options.read {
            Read::Plain => self.measure(Read::Plain, probe, gaps),
            Read::Ordered => self.measure(Read::Ordered, probe, gaps),
            Read::Fenced => self.measure(Read::Fenced, probe, gaps),
            Read::Gettime => self.measure(Read::Gettime, probe, gaps),
        }
    }

    #[inline(always)]
    fn measure(&mut self, read: Read, mut probe: impl Probe, mut gaps: Gaps<'_>) {
        let ticks = |ns: Ns| (ns.0 as f64 / self.tick_ns) as u64;
        let patience = ticks(PATIENCE);
        let (burst, pause) = self.options.burst.map_or((u64::MAX, Ns::ZERO), |(on, off)| (ticks(on), off));
        let (from, mut handling) = (read.ticks(), Handling::default());
        turns(read, &mut probe, &mut self.table, &mut Warm, &mut handling, WARM_UP, from);
        handling = Handling::default();
        self.table.clear();
        gaps.new_faults();
        let mut last = read.ticks();
        let mut burst_begun = last;
        self.shared.begun.store(last, Release);
        let mut done = 0;
        while done < self.options.loops {
            let chunk = CHUNK.min(self.options.loops - done);
            last = turns(read, &mut probe, &mut self.table, &mut gaps, &mut handling, chunk, last);
            done += chunk;
            self.shared.done.store(done, Relaxed);
            let follower = self.shared.follower.load(Relaxed);
            if follower == STOP || last.saturating_sub(follower) > patience {
                break;
            }
            if last.wrapping_sub(burst_begun) >= burst {
                std::thread::sleep(Duration::from_nanos(pause.0));
                gaps.new_faults();
                last = read.ticks();
                burst_begun = last;
            }
        }
    }
}

/// Gaps of the warm-up are nobody's.
struct Warm;

impl OnGap for Warm {
    fn gap(&mut self, _: u64, _: u64) {}
}
