//! The thread of one CPU: it loops, and passes each gap to the follower through shared memory.
//!
//! It makes no system call while it measures, except in the pauses between bursts and, if SMIs can be counted, at a gap. It
//! ends itself if the follower has been silent for [`PATIENCE`]: then this machine has no CPU left that could stop it.

use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{fence, AtomicU64};
use std::time::Duration;

use lathunt_core::npt::turns::Turns;
use lathunt_core::time::{Cpu, Ns, Tid};

use super::super::own_cpu::OwnCpu;
use super::probe::{self, Armed};
use super::turn::{turns, Handling, OnGap, Probe, Read};
use super::work::Buffers;
use super::Options;
use crate::error::Result;
use crate::facts::counters;
use crate::recorder::Freezer;
use crate::sched::{self, Policy};
use crate::tree::{Tree, LIVE};

/// Iterations between two checks of anything else.
const CHUNK: u64 = 4_096;
/// Iterations before the measurement: warm caches, branches and the first pages.
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
    /// Steal time in ns since boot, as of the last timer interrupt; 0: unknown.
    pub stolen: u64,
    /// The loop was on another CPU, at its start or end.
    pub elsewhere: bool,
}

/// Shared by thread and follower. Each word has one writer.
pub(super) struct Shared {
    pub tid: AtomicU64,
    /// Checked in each chunk of iterations and at each gap.
    pub own_cpu: OwnCpu,
    /// Ticks when the measurement began; 0: not yet.
    pub begun: AtomicU64,
    pub done: AtomicU64,
    pub gaps: AtomicU64,
    pub longest: AtomicU64,
    /// Gaps that found no room.
    pub dropped: AtomicU64,
    /// The follower's clock, by which the lane sees that it is alive; all ones: stop.
    pub follower: AtomicU64,
    /// The largest gap of each of the newest seconds: none of them is lost when the queue is full.
    seconds: [SecondSlot; SECONDS],
    slots: Box<[[AtomicU64; 6]]>,
    put: AtomicU64,
    taken: AtomicU64,
}

/// Seconds whose largest gaps wait for the follower: more than [`PATIENCE`].
const SECONDS: usize = 16;

/// Bits that distinguish one write of a second's gap from the next, so that halves of two are never combined.
const WRITES: u32 = 24;

/// The largest gap of a second, in ticks. The follower takes it before the same slot is used again.
#[derive(Default)]
struct SecondSlot {
    /// Seconds since the measurement began, + 1, above [`WRITES`] bits that change with each write; 0: none.
    second: AtomicU64,
    begin: AtomicU64,
    end: AtomicU64,
}

/// Value of [`Shared::follower`] that ends the loop.
pub(super) const STOP: u64 = u64::MAX;

impl Shared {
    pub fn new(cpu: Cpu) -> Shared {
        Shared {
            own_cpu: OwnCpu::new(Some(cpu)),
            tid: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            follower: AtomicU64::new(0),
            seconds: Default::default(),
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
        let elsewhere = u64::from(raw.elsewhere);
        let words = [raw.begin, raw.end, raw.faults, raw.smi, raw.stolen, elsewhere];
        for (word, value) in slot.iter().zip(words) {
            word.store(value, Relaxed);
        }
        self.put.store(put + 1, Release);
    }

    /// Keeps the gap if it is the largest of its second.
    fn keep_of_second(&self, second: u64, begin: u64, end: u64) {
        let slot = &self.seconds[second as usize % SECONDS];
        let before = slot.second.load(Relaxed);
        let same = before >> WRITES == second + 1;
        let largest = slot.end.load(Relaxed).wrapping_sub(slot.begin.load(Relaxed));
        if same && end.wrapping_sub(begin) <= largest {
            return;
        }
        slot.second.store(0, Relaxed); // being written
        fence(Release);
        slot.begin.store(begin, Relaxed);
        slot.end.store(end, Relaxed);
        let writes = (before + 1) & ((1 << WRITES) - 1);
        slot.second.store((second + 1) << WRITES | writes, Release);
    }

    /// The largest gap of each of the newest seconds so far: second, start and end. One that is being written is left for the
    /// next call.
    pub fn of_seconds(&self) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        self.seconds.iter().filter_map(|slot| {
            let second = slot.second.load(Acquire);
            let (begin, end) = (slot.begin.load(Relaxed), slot.end.load(Relaxed));
            fence(Acquire);
            let whole = second > 0 && slot.second.load(Relaxed) == second;
            whole.then(|| ((second >> WRITES).saturating_sub(1) as u32, begin, end))
        })
    }

    /// The oldest queued gap.
    pub fn take(&self) -> Option<Raw> {
        let taken = self.taken.load(Relaxed);
        if taken == self.put.load(Acquire) {
            return None;
        }
        let [begin, end, faults, smi, stolen, elsewhere] =
            std::array::from_fn(|word| self.slots[taken as usize % WAITING][word].load(Relaxed));
        self.taken.store(taken + 1, Release);
        Some(Raw { begin, end, faults, smi, stolen, elsewhere: elsewhere != 0 })
    }

    pub fn tid(&self) -> Tid {
        Tid(self.tid.load(Relaxed) as i32)
    }
}

/// Handles a gap in the measuring thread.
struct Gaps<'a> {
    shared: &'a Shared,
    /// Ticks per second.
    second: u64,
    recorder: Option<Freezer>,
    faults: u64,
    smi: Option<(std::fs::File, u64)>,
}

impl OnGap for Gaps<'_> {
    fn gap(&mut self, begin: u64, end: u64) {
        let elsewhere = self.shared.own_cpu.look(1);
        let faults = self.new_faults();
        let smi = self.smi.as_mut().and_then(|(device, before)| {
            let now = read_smi(device)?;
            Some(counters::grown(Some(std::mem::replace(before, now)), Some(now))? + 1)
        });
        let stolen = self.recorder.as_ref().map_or(0, Freezer::host_stole_ns);
        self.shared.offer(Raw { begin, end, faults, smi: smi.unwrap_or(0), stolen, elsewhere });
        self.shared.gaps.store(self.shared.gaps.load(Relaxed) + 1, Relaxed);
        let second = begin.saturating_sub(self.shared.begun.load(Relaxed)) / self.second;
        self.shared.keep_of_second(second, begin, end);
        let longest = self.shared.longest.load(Relaxed).max(end.wrapping_sub(begin));
        self.shared.longest.store(longest, Relaxed);
    }
}

impl Gaps<'_> {
    /// Page faults and SMIs so far, as before the measurement and in a pause, belong to no gap.
    fn begin_again(&mut self) {
        self.new_faults();
        if let Some((device, before)) = &mut self.smi {
            *before = read_smi(device).unwrap_or(*before);
        }
    }

    /// Page faults since the last call; a context switch begins a new count.
    fn new_faults(&mut self) -> u64 {
        let now = self.recorder.as_ref().map_or(0, Freezer::faults);
        let before = std::mem::replace(&mut self.faults, now);
        now.checked_sub(before).unwrap_or(now)
    }
}

/// Intel's SMI counter (SDM volume 4), read on the CPU itself so that no other CPU is interrupted.
fn smi_device(cpu: Cpu) -> Option<(std::fs::File, u64)> {
    let tree = Tree::new(std::path::Path::new(LIVE));
    counters::smi_count(&tree, cpu)?; // the counter exists and has this meaning
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
/// If the CPU or the priority is refused, or the probe cannot be armed in this thread.
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
    armed.enter()?; // allocates: before the priority is raised
    if options.priority > 0 {
        sched::set_policy(Policy::Fifo, options.priority)?;
    }
    sched::prefault_stack();
    let second = ((1e9 / tick_ns) as u64).max(1);
    let gaps = Gaps { shared, second, recorder, faults: 0, smi: smi_device(cpu) };
    lane.through(armed, gaps);
    shared.own_cpu.look_at_affinity();
    if options.priority > 0 {
        shared.own_cpu.look_at_policy(Policy::Fifo, options.priority);
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
    /// One loop per probe and way to read the clock.
    fn through(&mut self, armed: Armed, gaps: Gaps<'_>) {
        match armed {
            Armed::Nothing => match self.options.work {
                Some(work) => self.by(Buffers::new(work.bytes), gaps),
                None => self.by(probe::Nothing, gaps),
            },
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
        let at_most = |most, length| self.options.work.map_or(most, |work| work.at_most(most, length));
        let (warm_up, step) = (at_most(WARM_UP, Ns::from_ms(200)), at_most(CHUNK, Ns::from_ms(20)));
        turns(read, &mut probe, &mut self.table, &mut Warm, &mut handling, warm_up, from);
        handling = Handling::default();
        self.table.clear();
        gaps.begin_again();
        let mut last = read.ticks();
        let mut burst_begun = last;
        self.shared.begun.store(last, Release);
        let mut done = 0;
        while done < self.options.loops {
            let chunk = step.min(self.options.loops - done);
            last = turns(read, &mut probe, &mut self.table, &mut gaps, &mut handling, chunk, last);
            done += chunk;
            self.shared.done.store(done, Relaxed);
            self.shared.own_cpu.look(chunk);
            let follower = self.shared.follower.load(Relaxed);
            if follower == STOP || last.saturating_sub(follower) > patience {
                // What came after the last reading, and perhaps delayed this check until the end, is a gap, too.
                let left = 1.min(self.options.loops - done);
                turns(read, &mut probe, &mut self.table, &mut gaps, &mut handling, left, last);
                break;
            }
            if last.wrapping_sub(burst_begun) >= burst {
                std::thread::sleep(Duration::from_nanos(pause.0));
                gaps.begin_again();
                last = read.ticks();
                burst_begun = last;
            }
        }
    }
}

/// Gaps of the warm-up are discarded.
struct Warm;

impl OnGap for Warm {
    fn gap(&mut self, _: u64, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_smi_in_a_pause_belongs_to_no_gap() {
        let shared = Shared::new(Cpu(0));
        let device = tempfile::tempfile().unwrap();
        let count = |smis: u64| device.write_all_at(&smis.to_le_bytes(), 0x34).unwrap();
        count(7);
        let smi = Some((device.try_clone().unwrap(), 7));
        let mut gaps = Gaps { shared: &shared, second: 1_000, recorder: None, faults: 0, smi };
        count(9);
        gaps.gap(10, 20);
        count(12);
        gaps.begin_again();
        gaps.gap(30, 40);
        count(13);
        gaps.gap(50, 60);
        let smis: Vec<u64> = std::iter::from_fn(|| shared.take()).map(|raw| raw.smi).collect();
        assert_eq!(smis, [2 + 1, 1, 1 + 1], "counts + 1");
    }

    #[test]
    fn the_largest_gap_of_a_second_is_kept_though_the_queue_is_full() {
        let shared = Shared::new(Cpu(0));
        let mut gaps = Gaps { shared: &shared, second: 1_000, recorder: None, faults: 0, smi: None };
        for turn in 0..WAITING as u64 + 10 {
            gaps.gap(turn % 900, turn % 900 + 5);
        }
        gaps.gap(500, 900); // of second 0, finds no room
        gaps.gap(1_200, 1_210);
        gaps.gap(1_300, 1_301);
        assert_eq!(shared.dropped.load(Relaxed), 13);
        let mut kept: Vec<_> = shared.of_seconds().collect();
        kept.sort_unstable();
        assert_eq!(kept, [(0, 500, 900), (1, 1_200, 1_210)]);
        gaps.gap(SECONDS as u64 * 1_000 + 7, SECONDS as u64 * 1_000 + 8);
        assert!(shared.of_seconds().any(|kept| kept.0 == SECONDS as u32), "the slot is used again");
    }
}
