//! Time on the CPU: the thread's own, interrupts, and spinning for another CPU.

use std::collections::BTreeMap;

use super::clauses::{Weight, AMOUNT};
use super::faults::Faults;
use super::spins::Spin;
use super::Walk;
use crate::explain::cpu::Context;
use crate::explain::pieces::{both, length, without};
use crate::explain::record::describe::does_softirqs;
use crate::explain::segment::{Kind, Segment};
use crate::explain::share::{tally, Phase, Role, Share};
use crate::explain::thread::Stretch;
use crate::series::Thread;
use crate::time::{Mono, Ns};
use crate::trace::event::Vector;

/// Minimum cost of an interrupt outside its own events (far more on virtual CPUs, which exit to the hypervisor).
const HIDDEN: Ns = Ns(1_500);
/// Minimum number to mention.
const MANY: u32 = 20;

/// Minimum number of wakings to mention.
pub(super) const MANY_WOKEN: usize = 10;

/// Counts of events whose cost is part of the thread's own time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Hidden {
    /// Interrupts: their entry and exit.
    pub interrupts: u32,
    /// Page faults.
    pub faults: Faults,
    /// Own time in system calls that took most of a span, by name.
    pub calls: BTreeMap<String, Ns>,
    /// Wakings in those calls.
    pub wakings: usize,
}

impl Hidden {
    /// `, 65 ms of it in exit_group`: the system call in which it spent most of `own` time.
    pub(super) fn in_call(&self, own: Ns) -> String {
        let longest = self.calls.iter().max_by_key(|(_, net)| **net);
        let most = longest.filter(|(_, net)| net.0 * 2 >= own.0);
        let woke = match self.wakings {
            MANY_WOKEN.. => format!(" (waking {} threads)", self.wakings),
            _ => String::new(),
        };
        most.map_or(String::new(), |(call, net)| format!(", {net} of it in the system call {call}{woke}"))
    }
}

/// Text, cause (of faults) and advice for interrupts or faults that took a large part of `own` time: events show their
/// number, not their cost.
pub(super) fn hidden(hidden: &Hidden, own: Ns) -> Option<(String, Option<&'static str>, &'static str)> {
    let Hidden { interrupts, faults, .. } = hidden;
    let much = |count: u32| count >= MANY && HIDDEN.0 * u64::from(count) * 20 > own.0;
    if faults.are_much_of(own) && faults.outweigh(*interrupts) {
        let (kind, cause, advice) = faults.said();
        return Some((
            format!(", with {} page faults (counted here){kind}", faults.count),
            Some(cause),
            advice,
        ));
    }
    much(*interrupts).then(|| {
        let advice = "keep these interrupts away from this CPU (the tree shows their source): interrupt entry and exit count as the thread's own time";
        (format!(", interrupted {interrupts} times (entry and exit code counted here)"), None, advice)
    })
}

impl Walk<'_, '_> {
    /// The parts of a span in which `thread` ran.
    pub(super) fn running(&mut self, thread: &Thread, stretch: &Stretch, depth: usize) -> Vec<Segment> {
        let Some(cpu) = stretch.cpu else { return Vec::new() };
        let (a, b) = (stretch.begin, stretch.end);
        let counted =
            tally(self.record, Self::phase(depth, Phase::Running), cpu, &self.record.slices(cpu, a, b));
        let mut parts = counted.gaps;
        let interrupts: u32 =
            counted.shares.iter().filter(|share| share.context.is_hard()).map(|share| share.count).sum();
        for mut share in counted.shares {
            if share.context == Context::Thread(thread.tid) {
                share.role = if depth == 0 { Role::Victim } else { Role::Awaited };
                share.kind = Kind::Running;
                parts.extend(self.own_time(thread, stretch, &mut share, interrupts, depth));
            } else if let (Context::Thread(_), Some(holder)) = (share.context, &share.thread) {
                // It may have been preempted, have slept, or have been stopped: its switch-out would show that.
                let label =
                    format!("{holder} had CPU {cpu}, and no switch of {thread} away from it is recorded");
                parts.push(Segment::unexplained(Kind::Lost, label, share.begin, share.net));
                continue;
            } else if let Context::Idle(_) = share.context {
                let label = format!("CPU {cpu} was idle, and no switch of {thread} away from it is recorded");
                parts.push(Segment::unexplained(Kind::Lost, label, share.begin, share.net));
                continue;
            } else if self.lossy && share.is_outside_functions() {
                // Its end may be missing.
                parts.push(self.unsure(&share.label(), share.begin, share.begin + share.net));
                continue;
            } else {
                let label = self.source(&share, a, b);
                if matches!(share.context, Context::Softirq(_)) && does_softirqs(&thread.comm) {
                    let text = format!("{thread} did {label} for {AMOUNT}");
                    self.say(Weight::Blame, share.net, text, share.name.clone(), interrupt_advice(&share));
                } else {
                    let text = format!("{label} interrupted {} for {AMOUNT}", self.subject(thread, depth));
                    self.say(Weight::Blame, share.net, text, share.name.clone(), interrupt_advice(&share));
                }
                parts.push(share.leaf(label));
            }
            self.shares.push(share);
        }
        parts
    }

    /// The part of a time in which `thread` spun for the answer of another CPU; `None`: it is in other parts.
    fn spun_for_a_cpu(&mut self, thread: &Thread, spin: &Spin, depth: usize) -> Option<Segment> {
        let net = length(&spin.pieces);
        let (begin, _) = *spin.pieces.first()?;
        let what =
            format!("CPU {} to answer {} function-call IPI(s) ({})", spin.cpu, spin.calls, spin.function);
        let call = self.in_what(thread, spin.begin);
        let (inside, meanwhile, holder) = self.unanswered(spin);
        let label = format!("{thread} spins in the kernel{call} for {what}");
        let covered: Ns = inside.iter().map(|part| part.duration_ns).sum();
        let mut part = match covered == net {
            true => Segment::group(Kind::Vector, label, begin, net, inside),
            false => Segment::leaf(Kind::Vector, label, begin, net),
        };
        part.count = spin.calls;
        part.pieces.clone_from(&spin.pieces);
        part.evidence = vec![self.record.evidence(spin.proof)];
        part.inferred = true;
        let subject = self.subject(thread, depth);
        let text = format!("{subject} spun {AMOUNT} in the kernel{call}, waiting for {what}{meanwhile}");
        let advice = match holder {
            Some(holder) => format!("{} did not let CPU {} answer: keep it off that CPU, or shorten what it does there; or avoid the call at run time", holder.comm, spin.cpu),
            None => format!("keep threads of this process off CPU {} (each munmap, mprotect or exit has to notify all its CPUs), or avoid the call at run time", spin.cpu),
        };
        self.say(Weight::Blame, net, text, format!("IPI: {}", spin.function), advice);
        Some(part)
    }

    fn own_time(
        &mut self,
        thread: &Thread,
        stretch: &Stretch,
        share: &mut Share,
        interrupts: u32,
        depth: usize,
    ) -> Vec<Segment> {
        let mut parts = Vec::new();
        // The pieces of its own time that are in no part yet.
        let mut free = share.pieces.clone();
        let mut entered = stretch.begin;
        if let Some(entering) = self.entering(thread, stretch) {
            let (begin, end) = entering.piece;
            let label = format!("context switch to {thread}");
            let mut part = self.leaf(Kind::Scheduler, label, begin, end, &[Some(entering.proof)]);
            put(&mut part, take(&mut free, &[entering.piece]));
            self.say_entering(&entering, thread, part.duration_ns);
            parts.push(part);
            entered = end;
        }
        let stretch = &Stretch { begin: entered, ..*stretch };
        self.spun(thread, stretch, depth, &mut free, &mut parts);
        let rest = length(&free);
        share.begin = free.first().map_or(share.begin, |(begin, _)| *begin);
        (share.net, share.pieces) = (rest, free);
        let doing = self.doing(thread, stretch, interrupts);
        let label = format!("{thread} itself{doing}");
        let ran = Ran {
            subject: self.subject(thread, depth),
            net: rest,
            moved: match (self.moved.take(), stretch.cpu) {
                (Some(from), Some(to)) => format!(" on CPU {to}, migrated there from CPU {from}"),
                _ => String::new(),
            },
        };
        let faults = share.faults + self.faults(thread, stretch);
        let (calls, wakings) = match depth {
            0 => {
                self.say_own(thread, stretch, &ran);
                (BTreeMap::new(), 0)
            }
            _ => self.say_awaited(thread, stretch, &ran),
        };
        let faults = self.faults_of(thread, stretch, faults);
        self.clauses.came_within(Hidden { interrupts, faults, calls, wakings });
        parts.push(share.leaf(label));
        parts
    }

    /// Moves the time in which it spun from `free` to `parts`: for another CPU, a mutex's owner, a lock of the kernel.
    fn spun(
        &mut self,
        thread: &Thread,
        stretch: &Stretch,
        depth: usize,
        free: &mut Pieces,
        parts: &mut Vec<Segment>,
    ) {
        for mut spin in self.spins(thread, stretch) {
            spin.pieces = take(free, &spin.pieces);
            parts.extend(self.spun_for_a_cpu(thread, &spin, depth));
        }
        for mut spin in self.spins_on_mutexes(thread, stretch) {
            let pieces = take(free, &spin.pieces);
            put(&mut spin, pieces);
            let of = spin.label.split_once(" while ").map_or("its owner runs", |(_, of)| of);
            let text = format!(
                "{} spun {AMOUNT} on the CPU for a priority-inheritance (PI) mutex while {of}",
                self.subject(thread, depth)
            );
            let advice = "the cost of another thread's critical section: shorten it";
            self.say(Weight::Blame, spin.duration_ns, text, "PI mutex".to_owned(), advice);
            parts.push(spin);
        }
        for (what, mut spin) in self.spins_on_locks(thread, stretch) {
            let pieces = take(free, &spin.pieces);
            put(&mut spin, pieces);
            let text = format!("{} spun {AMOUNT} on the CPU for {what}", self.subject(thread, depth));
            let advice = "another CPU holds this lock of the kernel: keep what it does there (the same file, pipe, memory or device) away from the interval";
            self.say(Weight::Blame, spin.duration_ns, text, "lock of the kernel".to_owned(), advice);
            parts.push(spin);
        }
    }

    /// Says what the thread of the interval itself did.
    fn say_own(&mut self, thread: &Thread, stretch: &Stretch, ran: &Ran) {
        let Ran { subject, net, moved } = ran;
        let handler = self.handler(thread, stretch, *net);
        let unreturned = self.unreturned_handler(thread, stretch, *net).filter(|_| handler.is_none());
        let fault = self.long_fault(thread, stretch, *net);
        let call = self.main_call(thread, stretch, *net);
        if call.is_some() || self.may_have_spun(thread, stretch) {
            self.clauses.may_spin();
        }
        let found = self.interrupted(thread, stretch).filter(|_| call.is_none());
        let is_in_faults = found.as_ref().is_some_and(|found| found.call.is_none());
        let (cause, advice) = match (&handler, &fault) {
            _ if unreturned.is_some() => ("signal handler or its own code".to_owned(), "shorten the handler, or block its signal here (pthread_sigmask) and let another thread take it; the end of a handler is not recorded, so the rest may be the thread's own code".to_owned()),
            (None, Some(_)) => ("page fault or its own code".to_owned(), "touch the memory before it is needed (mlockall and a first write, MAP_POPULATE), and do not fork after that; the end of a fault is not recorded, so the rest may be the thread's own code".to_owned()),
            (Some(_), _) => ("its own signal handler".to_owned(), "shorten the handler, or block its signal here (pthread_sigmask) and let another thread take it".to_owned()),
            (None, None) if is_in_faults => ("page faults or its own code".to_owned(), "lock and touch the memory before it is needed (mlockall and a first write, MAP_POPULATE), and do not fork after that; how long the faults took is not recorded".to_owned()),
            (None, None) => self.own_doing(call.as_ref(), found.as_ref().and_then(|found| found.call.as_deref())),
        };
        let in_call = call.map(|(call, of_it)| {
            let other = self.changes_mappings_too(thread, stretch, &call);
            let other = other.map_or(String::new(), |(other, theirs)| {
                format!(", while {other} was in {theirs}: if it is of the same process, it spun for the lock of its mappings (mmap_lock), which no event shows")
            });
            format!(", {} of it in the system call {call}{other}", of_it.min(*net))
        });
        let found = found.map(|found| found.said);
        let doing = handler.or(unreturned).or(fault).or(in_call).or(found).unwrap_or_default();
        let text = format!("{subject} ran {AMOUNT} itself{moved}{doing}");
        self.say(Weight::Own, *net, text, cause, advice);
    }

    /// Says that a thread ran that the one of the interval waited for. Returns its main system call, with the time in it,
    /// and the number of wakings there.
    fn say_awaited(
        &mut self,
        thread: &Thread,
        stretch: &Stretch,
        ran: &Ran,
    ) -> (BTreeMap<String, Ns>, usize) {
        let Ran { subject, net, moved } = ran;
        let (root, other) = self.apart(thread);
        let advice = format!(
            "{root} depends on {other}: shorten the work of that thread before it hands over, or raise its priority"
        );
        let (mut calls, mut wakings) = (BTreeMap::new(), 0);
        if let (Some((call, of_it)), Some(cpu)) = (self.main_call(thread, stretch, *net), stretch.cpu) {
            calls.insert(call, of_it.min(*net));
            wakings = self.wakings(thread, cpu, stretch.begin, stretch.end);
        }
        let text = format!("{subject} ran for {AMOUNT}{moved}");
        self.say(Weight::Blame, *net, text, format!("waited for: {}", thread.comm), advice);
        (calls, wakings)
    }
}

/// Times on the CPU, in order, without overlap.
type Pieces = Vec<(Mono, Mono)>;

/// The time of a thread on the CPU that is in no other part.
struct Ran {
    subject: String,
    net: Ns,
    /// ` on CPU 1, migrated there from CPU 0`, or empty.
    moved: String,
}

/// Moves the time of `pieces` out of `free`.
fn take(free: &mut Pieces, pieces: &[(Mono, Mono)]) -> Pieces {
    let taken = both(free, pieces);
    *free = without(free, &taken);
    taken
}

/// Restricts a part to these pieces of it.
fn put(part: &mut Segment, pieces: Vec<(Mono, Mono)>) {
    part.begin = pieces.first().map_or(part.begin, |(begin, _)| *begin);
    (part.duration_ns, part.pieces) = (length(&pieces), pieces);
}

/// Advice for an interrupt that took time.
pub(super) fn interrupt_advice(share: &Share) -> &'static str {
    match share.context {
        Context::Softirq(2 | 3) => "move the network interrupts and RPS away from this CPU, or limit the sender; PREEMPT_RT makes softirqs preemptible",
        Context::Softirq(_) => "move what raises this softirq to another CPU; PREEMPT_RT makes softirqs preemptible",
        Context::Vector(Vector::LocalTimer) => "timers and the tick of this CPU: nohz_full, and keep the tasks that arm timers here on other CPUs",
        Context::Vector(Vector::Reschedule) => "wake-ups sent to this CPU: keep the threads that it wakes on other CPUs",
        Context::Vector(_) => "keep the sender's process off this CPU: its changes to memory mappings or the kernel are sent to each CPU that it ran on",
        Context::HardIrq(_) => "move the interrupt to another CPU: /proc/irq/N/smp_affinity",
        _ => "the firmware or the watchdog: see the NMI counters",
    }
}
