//! Trace of the fiber scheduler as ftrace text, in which `lathunt explain` shows fibers as threads.
//!
//! The kernel does not know fibers, so their events have the names of the kernel's: `sched_switch`, `sched_waking`, and
//! for a mutex the futex call that a thread would make. `job_release` and `job_done` have the job in the field `job`:
//!
//! ```text
//! lathunt explain FILE --between event:job_release event:job_done --pair job
//! ```

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::program::Mutex;
use super::set::Protocol;
use crate::time::{Cpu, Mono, Tid};

/// First id of fibers, above all thread ids (PID_MAX_LIMIT).
pub const FIRST_FIBER: i32 = 1 << 22;

/// A recording.
#[derive(Clone, Debug)]
pub struct FiberTrace {
    /// The OS thread that ran the fibers.
    pub carrier: Tid,
    /// Its CPU.
    pub cpu: Cpu,
    /// Names of the fibers, in result order.
    pub fibers: Vec<String>,
    /// Mutexes of the set.
    pub mutexes: Vec<Mutex>,
    /// Events in order.
    pub events: Vec<FiberEvent>,
    /// Overwritten older events.
    pub overwritten: u64,
}

/// Subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A fiber, by index.
    Fiber(usize),
    /// The main fiber, which starts and ends the others.
    Main,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiberEvent {
    /// When.
    pub at: Mono,
    /// Its subject.
    pub who: Who,
    /// Its effective priority (with inheritance) at that time.
    pub priority: i32,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It became ready; `None`: by a timer or a device.
    Ready {
        /// Its waker.
        by: Option<Who>,
    },
    /// It starts to run.
    Runs,
    /// It blocks on a mutex of the set, by number.
    WaitsForMutex(usize),
    /// It waits for a signal, a post, or a barrier.
    WaitsForAnother,
    /// It waits for a timer or a device.
    Sleeps,
    /// It has ended.
    Ends,
    /// A job starts.
    JobBegins {
        /// Its nominal release.
        release: Mono,
    },
    /// A job has ended.
    JobEnds {
        /// Its nominal release.
        release: Mono,
    },
}

/// Pseudo addresses of mutexes and other wait objects.
const MUTEXES: u64 = 0x1000;
const OTHERS: u64 = 0x2000_0000;
/// Number of the futex system call on x86-64; its operations FUTEX_WAIT and FUTEX_LOCK_PI, private.
const FUTEX: u32 = 202;
const WAIT: u32 = 128;
const LOCK_PI: u32 = 6 | 128;

impl FiberTrace {
    /// The text. Jobs released before the first event have no `job_release`.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut writer = Writer {
            trace: self,
            lines: Vec::new(),
            runs: None,
            left: None,
            ready: BTreeSet::new(),
            history: Vec::new(),
        };
        let first = self.events.first().map_or(Mono(0), |event| event.at);
        for event in &self.events {
            writer.event(event, first);
        }
        let mut lines = writer.lines;
        lines.sort_by_key(|(at, _)| *at);
        let written = self.overwritten + lines.len() as u64;
        let mut text = format!(
            "# tracer: nop\n#\n# entries-in-buffer/entries-written: {}/{written}   #P:1\n#\n",
            lines.len()
        );
        text.push_str("# Fibers of one thread of the kernel. A wait for a mutex is written as the futex call that it stands for:\n");
        for (at, mutex) in self.mutexes.iter().enumerate() {
            let _ = writeln!(text, "# futex {:#x}: mutex {}", MUTEXES + at as u64, plain(&mutex.name));
        }
        for (_, line) in lines {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    fn name(&self, who: Option<Who>) -> String {
        match who {
            Some(Who::Fiber(at)) => self.fibers.get(at).map_or_else(|| "?".to_owned(), |name| plain(name)),
            Some(Who::Main) => "fibers-main".to_owned(),
            None => "<idle>".to_owned(),
        }
    }

    fn tid(&self, who: Option<Who>) -> i32 {
        match who {
            Some(Who::Fiber(at)) => FIRST_FIBER.saturating_add(i32::try_from(at).unwrap_or(i32::MAX)),
            Some(Who::Main) => self.carrier.0,
            None => 0,
        }
    }
}

/// A name of at most 15 characters without special ones.
fn plain(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || "_.".contains(c) { c } else { '_' };
    name.chars().take(15).map(letter).collect()
}

struct Writer<'t> {
    trace: &'t FiberTrace,
    lines: Vec<(Mono, String)>,
    /// The running fiber, with its priority.
    runs: Option<(Who, i32)>,
    /// The last one to run, now waiting, if another is ready: the switch is written when that one runs.
    left: Option<(Who, i32, char)>,
    ready: BTreeSet<Who>,
    /// What ran on the CPU, by start time.
    history: Vec<(Mono, Option<Who>)>,
}

impl Writer<'_> {
    fn event(&mut self, event: &FiberEvent, first: Mono) {
        let FiberEvent { at, who, priority, what } = *event;
        match what {
            What::Ready { by } => {
                self.ready.insert(who);
                let (name, tid) = (self.trace.name(Some(who)), self.trace.tid(Some(who)));
                let fields = format!(
                    "comm={name} pid={tid} prio={} target_cpu={:03}",
                    99 - priority,
                    self.trace.cpu.0
                );
                let (context, flags) = match by {
                    Some(by) => (Some(by), "d..."),
                    None => (self.on_cpu(), "d.h."),
                };
                self.line(at, context, flags, "sched_waking", &fields);
            }
            What::Runs => self.runs(at, who, priority),
            What::WaitsForMutex(mutex) => {
                let inherits = self.trace.mutexes.get(mutex).is_none_or(|one| one.protocol != Protocol::None);
                // 2: locked with waiters, as in glibc.
                let (operation, value) = if inherits { (LOCK_PI, 0) } else { (WAIT, 2) };
                self.asks(at, who, MUTEXES + mutex as u64, operation, value);
                self.leaves(at, who, priority, 'S');
            }
            What::WaitsForAnother => {
                self.asks(at, who, OTHERS, WAIT, 0);
                self.leaves(at, who, priority, 'S');
            }
            What::Sleeps => self.leaves(at, who, priority, 'S'),
            What::Ends => self.leaves(at, who, priority, 'X'),
            What::JobBegins { release } => {
                if release >= first {
                    let job = self.job(who, release);
                    let context = self.who_ran(release);
                    self.line(release, context, "d.h.", "job_release", &job);
                }
            }
            What::JobEnds { release } => {
                let job = self.job(who, release);
                self.line(at, Some(who), "....", "job_done", &job);
            }
        }
    }

    fn job(&self, who: Who, release: Mono) -> String {
        format!("job={}/{}", self.trace.name(Some(who)), release.0)
    }

    /// What ran on the CPU at an earlier time.
    fn who_ran(&self, at: Mono) -> Option<Who> {
        let known = self.history.partition_point(|(from, _)| *from <= at);
        known.checked_sub(1).and_then(|last| self.history[last].1)
    }

    fn on_cpu(&self) -> Option<Who> {
        self.runs.map(|(who, _)| who).or(self.left.map(|(who, ..)| who))
    }

    fn asks(&mut self, at: Mono, who: Who, address: u64, operation: u32, value: u32) {
        let fields = format!("NR {FUTEX} ({address:x}, {operation:x}, {value:x}, 0, 0, 0)");
        self.line(at, Some(who), "....", "sys_enter", &fields);
    }

    fn leaves(&mut self, at: Mono, who: Who, priority: i32, state: char) {
        self.runs = None;
        match self.ready.is_empty() {
            true => self.switch(at, Some((who, priority)), state, None),
            false => self.left = Some((who, priority, state)),
        }
    }

    fn runs(&mut self, at: Mono, who: Who, priority: i32) {
        self.ready.remove(&who);
        let before = self.runs.take();
        if let Some((preempted, _)) = before.filter(|(before, _)| *before != who) {
            self.ready.insert(preempted);
        }
        let (from, state) = match (before, self.left.take()) {
            (Some(before), _) => (Some(before), 'R'),
            (None, Some((left, priority, state))) => (Some((left, priority)), state),
            (None, None) => (None, 'R'),
        };
        if from.map(|(from, _)| from) != Some(who) {
            self.switch(at, from, state, Some((who, priority)));
        }
        self.runs = Some((who, priority));
    }

    fn switch(&mut self, at: Mono, from: Option<(Who, i32)>, state: char, to: Option<(Who, i32)>) {
        self.history.push((at, to.map(|(who, _)| who)));
        let side = |one: Option<(Who, i32)>| {
            let who = one.map(|(who, _)| who);
            let name =
                if who.is_none() { format!("swapper/{}", self.trace.cpu.0) } else { self.trace.name(who) };
            (name, self.trace.tid(who), one.map_or(120, |(_, priority)| 99 - priority))
        };
        let ((prev, prev_pid, prev_prio), (next, next_pid, next_prio)) = (side(from), side(to));
        let fields = format!(
            "prev_comm={prev} prev_pid={prev_pid} prev_prio={prev_prio} prev_state={state} ==> next_comm={next} \
             next_pid={next_pid} next_prio={next_prio}"
        );
        self.line(at, from.map(|(who, _)| who), "d...", "sched_switch", &fields);
    }

    fn line(&mut self, at: Mono, context: Option<Who>, flags: &str, name: &str, fields: &str) {
        let (comm, tid, cpu) = (self.trace.name(context), self.trace.tid(context), self.trace.cpu.0);
        let (seconds, rest) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
        self.lines.push((
            at,
            format!("{comm:>16}-{tid:<8} [{cpu:03}] {flags} {seconds}.{rest:09}: {name}: {fields}"),
        ));
    }
}

#[cfg(test)]
#[path = "fiber_trace_tests.rs"]
mod tests;
