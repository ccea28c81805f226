//! Unfinished work when recording ends: threads that are running, preempted, or still waiting for a CPU.
//!
//! A wake-up is counted when its thread gets the CPU, an activation when it blocks. A thread that hangs, or that another
//! one keeps from running, does neither: its case would be the worst, and missing. So open activations are read at the
//! end, and an unfinished wait counts with its length so far. Reading takes milliseconds, so the kernel side keeps what
//! waited at the end as it was (src/bpf/over.h). Not here: what that means for the thread's job.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use lathunt_core::application::State;
use lathunt_core::comm::Comm;
use lathunt_core::time::{Cpu, Mono, Ns, Prio, Tid};
use lathunt_core::trace::activation::{Activation, Point, Via, Who, WORDS};
use lathunt_core::trace::flight::Victim;

use super::block::CpuBlock;
use super::chosen::Waking;
use super::{figures, frozen, losses, Frozen, Recorder};
use crate::clock;

/// How long a requested freeze may still take.
const FREEZES: u32 = 20;
/// A shorter wait is reported only if it is the longest.
pub(super) const SHORT: Ns = Ns::from_ms(1);
/// Two ticks of the slowest rate: a running thread is charged CPU time in between.
const LOOK: Duration = Duration::from_millis(21);
const DEADLINE: u8 = 6;
/// `enum preempted` of src/bpf/activation.h: `PREEMPTED`.
const PREEMPTED: u8 = 1;
/// `SWITCHED_IN_LATER`.
const LATER: u8 = 3;
/// `WAITED_BEFORE`.
const BEFORE: u8 = 4;
/// As in src/bpf/over.h.
const AT_THE_END: u64 = 1 << 63;

/// A thread as /proc shows it.
pub(super) struct Seen {
    pub who: Who,
    tgid: Tid,
    pub runnable: bool,
    pub cpu: Cpu,
    policy: u8,
    blocks: u16,
}

impl Recorder {
    /// Ends the recording; its data can still be read. Returns the unfinished activations.
    pub(crate) fn stop(&mut self) -> (Mono, Vec<(Activation, State)>) {
        let blocks = || self.cpus.iter().filter_map(|cpu| Some((cpu, self.blocks.of(cpu)?)));
        for _ in 0..FREEZES {
            if blocks().all(|(_, block)| block.request.load(Acquire) == 0) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.over.all().for_each(|over| over.0.store(1, Release));
        blocks().for_each(|(_, block)| block.on.store(0, Release));
        let end = clock::mono();
        std::thread::sleep(Duration::from_millis(1)); // programs that began before end until then
        let mut open: Vec<(Activation, State)> =
            blocks().filter_map(|(_, block)| Some((self.running(block, end)?, State::Runs))).collect();
        let lost_it = |slot: &&Waking| slot.is_preempted() || slot.waits_since_before();
        let preempted = self.chosen.slots().iter().filter(lost_it);
        open.extend(preempted.filter_map(|slot| Some((self.lost_its_cpu(slot, end)?, State::Preempted))));
        open.extend(self.waiting(end).into_iter().map(|waiting| (waiting, State::Waits)));
        self.waiting_since_before(end);
        (end, open)
    }

    /// Activations of threads that have a CPU at `now` or were preempted, while the recording goes on: those that have not changed
    /// while they were read.
    pub(crate) fn going_on(&self, now: Mono) -> Vec<(Activation, State)> {
        let steady = |read: &dyn Fn() -> Option<Activation>| {
            let (first, again) = (read()?, read()?);
            (first == again).then_some(first)
        };
        let blocks = self.cpus.iter().filter_map(|cpu| self.blocks.of(cpu));
        let running = blocks.filter_map(|block| Some((steady(&|| self.running(block, now))?, State::Runs)));
        let mut open: Vec<(Activation, State)> = running.collect();
        for slot in self.chosen.slots().iter().filter(|slot| slot.is_preempted()) {
            let read = || self.lost_its_cpu(slot, now).filter(|_| slot.is_preempted());
            open.extend(steady(&read).map(|activation| (activation, State::Preempted)));
        }
        open
    }

    /// Number of blocks of `tid` when recording ended, modulo 2^16; `None`: it has ended. It may have blocked more often since.
    pub(crate) fn blocks_at_the_end(&self, tid: Tid) -> Option<u16> {
        let now = blocks(tid); // first: it is also that of the end, unless the kernel side has noted another one
        self.chosen.of(tid).and_then(Waking::blocks_at_the_end).or(now)
    }

    /// Threads that were waiting when recording began and got no CPU since.
    fn waiting_since_before(&self, end: Mono) {
        for slot in self.chosen.slots().iter().filter(|slot| slot.waits_since_before()) {
            let seen = look(Tid(slot.tid.load(Acquire))).filter(|seen| seen.runnable);
            if let Some(block) = seen.and_then(|seen| self.blocks.of(seen.cpu)) {
                let since = Mono(slot.saved[3].load(Relaxed));
                block.before_ns.fetch_max(end.since(since).0, Relaxed);
            }
        }
    }

    /// The measured threads that still exist, with the CPU time of each so far.
    pub(crate) fn measured(&self) -> Vec<(Who, Tid, u8, Ns)> {
        let tids = self.chosen.slots().iter().map(|slot| Tid(slot.tid.load(Acquire)));
        let seen = tids.filter(|tid| tid.0 > 0).filter_map(|tid| Some((look(tid)?, cpu_time(tid)?)));
        seen.map(|(seen, ran)| (seen.who, seen.tgid, seen.policy, ran)).collect()
    }

    /// The ring of its CPU for a thread that still waited when recording ended (see [`Recorder::stop`]), if it was read.
    pub(crate) fn evidence_of_wait(&self, a: &Activation) -> Option<Frozen> {
        let Who { tid, prio, comm } = a.thread;
        let victim =
            Victim { total: a.latency(), switched_in: a.switched_in, tid, prio, comm: comm.padded() };
        frozen::of_waiting(a.cpu, self.blocks.of(a.cpu)?, victim, self.frozen.get(&a.cpu))
    }

    /// Threads that waited for a CPU at the end; their waits until then are counted.
    fn waiting(&self, end: Mono) -> Vec<Activation> {
        let pending = |slot: &&Waking| (1..end.0).contains(&slot.at.load(Acquire));
        let slots: Vec<&Waking> = self.chosen.slots().iter().filter(pending).collect();
        if slots.is_empty() {
            return Vec::new();
        }
        // A thread that got its CPU already, by an unreported switch, is running with its waking still set.
        let ran = |slot: &&Waking| cpu_time(Tid(slot.tid.load(Acquire)));
        let before: Vec<Option<Ns>> = slots.iter().map(ran).collect();
        std::thread::sleep(LOOK);
        let mut waiting = Vec::new();
        for (slot, before) in slots.into_iter().zip(before) {
            let Some(a) = self.got_its_cpu_later(slot, end).or_else(|| self.wait(slot, end)) else {
                continue;
            };
            let Some(block) = self.blocks.of(a.cpu).filter(|_| self.cpus.contains(a.cpu)) else { continue };
            if !slot.is_switched_in_later() && cpu_time(a.thread.tid) != before {
                block.lost[losses::UNSEEN].fetch_add(1, Relaxed);
            } else if a.latency() >= SHORT || a.latency() > figures::largest(block) {
                figures::add_wait(block, &a);
                waiting.push(a);
            }
        }
        waiting
    }

    /// It waited at the end, and the kernel side saw it get its CPU since.
    fn got_its_cpu_later(&self, slot: &Waking, end: Mono) -> Option<Activation> {
        let seen = slot.is_switched_in_later();
        let mut words = slot.saved.each_ref().map(|word| word.load(Acquire));
        // Before `end` if this thread was preempted between the two.
        let end = words[4].min(end.0);
        (words[0], words[4], words[5]) = (1, end, end);
        let a = Activation::parse(&words, 0).filter(|_| seen)?;
        // Others may have had that CPU since the end.
        let holder =
            self.blocks.of(a.cpu).map(holder).filter(|&holder| holder != a.before.tid && holder.0 >= 0);
        let before = holder.map_or(a.before, who);
        let jobs = slot.jobs_of(a.policy);
        Some(Activation {
            blocks: a.blocks.wrapping_add(1).wrapping_add(jobs),
            late_sleeps: None,
            before,
            ..a
        })
    }

    /// The activation that has the CPU.
    fn running(&self, block: &CpuBlock, end: Mono) -> Option<Activation> {
        let tid = Tid(block.run_tid.load(Acquire));
        let ran = end.since(Mono(block.run_since.load(Relaxed)));
        let slot = &block.activation[block.activations.load(Acquire) as usize % super::block::ACTIVATIONS];
        let jobs = 0; // a deadline task that is on a CPU is compared without
        let words = slot.each_ref().map(|word| word.load(Relaxed));
        let a = self.as_if_blocked(words, end, jobs).filter(|a| tid.0 > 0 && a.thread.tid == tid)?;
        Some(Activation { execution: a.execution + ran, ..a })
    }

    fn lost_its_cpu(&self, slot: &Waking, end: Mono) -> Option<Activation> {
        let words = slot.saved.each_ref().map(|word| word.load(Relaxed));
        self.as_if_blocked(words, end, slot.jobs_of(DEADLINE))
    }

    fn as_if_blocked(&self, mut words: [u64; WORDS], end: Mono, jobs: u16) -> Option<Activation> {
        (words[0], words[5]) = (1, end.0);
        let a = Activation::parse(&words, 0)?;
        // Its blocks as of its switch-in, if it has ended since.
        let blocks = self.blocks_at_the_end(a.thread.tid).unwrap_or(a.blocks);
        let jobs = if a.policy == DEADLINE { jobs } else { 0 };
        Some(Activation { blocks: blocks.wrapping_add(1).wrapping_add(jobs), late_sleeps: None, ..a })
    }

    /// `None`: it is not waiting here.
    fn wait(&self, slot: &Waking, end: Mono) -> Option<Activation> {
        let tid = Tid(slot.tid.load(Acquire));
        let (at, expires, entry) =
            (slot.at.load(Acquire), slot.expires.load(Relaxed), slot.entry.load(Relaxed));
        let seen = look(tid).filter(|seen| seen.runnable && self.cpus.contains(seen.cpu))?;
        let block = self.blocks.of(seen.cpu)?;
        if at == 0 || holder(block) == tid || slot.at.load(Acquire) != at {
            return None;
        }
        let before = who(holder(block));
        let came = usize::try_from(seen.who.prio.0).ok().and_then(|prio| block.seen.get(prio));
        let came = came.is_some_and(|of| of.at.load(Relaxed) >= at && of.tid.load(Relaxed) != tid.0);
        Some(Activation {
            sources: Default::default(),
            by_timerfd: Via::is_by_timerfd(slot.via()),
            thread: seen.who,
            tgid: seen.tgid,
            policy: seen.policy,
            cpu: seen.cpu,
            waking: Mono(at),
            timer: (expires > 0).then_some((Mono(expires), Mono(entry))),
            switched_in: end,
            blocked: end,
            execution: Ns::ZERO,
            preemptions: 0,
            faults: 0,
            fault_address: 0,
            point: Point::default(),
            site: 0,
            stack: 0,
            source: 0,
            via: Via::of_byte(slot.via()),
            waker: slot.waker(),
            waker_cpu: slot.waker_cpu(),
            before,
            shared: seen.who.prio.is_realtime() && (came || before.prio == seen.who.prio),
            armed_late: false,
            armed_after: Ns::ZERO,
            contended: false,
            awake: false,
            stayed: false,
            after_unseen: false,
            at_once: false,
            was_reserved: false,
            out_of_quota: false,
            stopped: false,
            woken_out_of_quota: false,
            after_several: false,
            slack: Ns::ZERO,
            rounded: Ns::ZERO,
            blocks: seen.blocks.wrapping_add(1).wrapping_add(slot.jobs_of(seen.policy)),
            late_sleeps: None,
        })
    }
}

/// The thread that had the CPU when recording ended.
fn holder(block: &CpuBlock) -> Tid {
    Tid(block.running.load(Relaxed) - 1)
}

fn who(tid: Tid) -> Who {
    look(tid).map_or(Who { tid, prio: Prio(120), comm: Comm::new([0; 16]) }, |seen| seen.who)
}

/// Number of blocks of `tid` so far, modulo 2^16; `None`: it has ended.
fn blocks(tid: Tid) -> Option<u16> {
    look(tid).map(|seen| seen.blocks)
}

/// CPU time since the thread began, from /proc/TID/schedstat; it advances at each tick and switch.
pub(crate) fn cpu_time(tid: Tid) -> Option<Ns> {
    let line = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    line.split_whitespace().next()?.parse().ok().map(Ns)
}

pub(super) fn look(tid: Tid) -> Option<Seen> {
    let bytes = |file: &str| std::fs::read(format!("/proc/{tid}/{file}")).ok();
    let text = |file: &str| Some(String::from_utf8_lossy(&bytes(file)?).into_owned()); // a name may be any bytes
    let mut comm = bytes("comm").filter(|_| tid.0 > 0)?;
    comm.pop();
    comm.resize(16, 0);
    let stat = text("stat")?;
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let number = |nth: usize| fields.get(nth - 3)?.parse::<i64>().ok();
    let status = text("status")?;
    let of = |key: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        value.trim().parse::<u64>().ok()
    };
    Some(Seen {
        who: Who { tid, prio: Prio(number(18)? as i32 + 100), comm: Comm::new(comm.try_into().ok()?) },
        tgid: Tid(of("Tgid")? as i32),
        runnable: fields.first() == Some(&"R"),
        cpu: Cpu(number(39)? as u32),
        policy: number(41)? as u8,
        blocks: of("voluntary_ctxt_switches")? as u16,
    })
}

impl Waking {
    /// `None`: its thread has not left a CPU since recording ended.
    fn blocks_at_the_end(&self) -> Option<u16> {
        let noted = self.armed.load(Acquire);
        (noted & AT_THE_END != 0).then_some(noted as u16)
    }

    /// `enum preempted`.
    fn preempted(&self) -> u8 {
        self.circumstances.load(Acquire).to_le_bytes()[5]
    }

    fn is_switched_in_later(&self) -> bool {
        self.saved[0].load(Acquire) == 1 && self.preempted() == LATER
    }

    fn waits_since_before(&self) -> bool {
        self.tid.load(Acquire) > 0 && self.preempted() == BEFORE
    }

    fn is_preempted(&self) -> bool {
        self.tid.load(Acquire) > 0 && self.preempted() == PREEMPTED
    }

    fn waker(&self) -> Who {
        let name = self.waker_comm.each_ref().map(|word| word.load(Relaxed));
        let name = u128::from(name[0]) | u128::from(name[1]) << 64;
        let prio = self.circumstances.load(Relaxed) as i16;
        Who {
            tid: Tid(self.waker_tid.load(Relaxed)),
            prio: Prio(i32::from(prio)),
            comm: Comm::new(name.to_le_bytes()),
        }
    }

    fn waker_cpu(&self) -> Cpu {
        Cpu(u32::from((self.circumstances.load(Relaxed) >> 16) as u16))
    }

    fn via(&self) -> u8 {
        self.circumstances.load(Relaxed).to_le_bytes()[4]
    }

    /// Ended by yielding, which the kernel does not count as blocking.
    fn jobs_of(&self, policy: u8) -> u16 {
        let jobs = (self.last.load(Relaxed) >> 32) as u16;
        if policy == DEADLINE {
            jobs
        } else {
            0
        }
    }
}
