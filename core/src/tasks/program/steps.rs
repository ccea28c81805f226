//! Events with numbers instead of names.

use std::collections::BTreeMap;

use super::{Barrier, Mutex, Program, SharedTimer};
use crate::tasks::set::{Event, TaskSet, Timer};
use crate::time::Ns;

/// A step of a thread; numbers are indices in the [`Program`].
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Loops that take this long on the calibrated CPU.
    Run(Ns),
    /// Busy until this much wall-clock time has passed.
    Runtime(Ns),
    /// Busy until the thread has used this much CPU time.
    CpuTime(Ns),
    /// Relative sleep.
    Sleep(Ns),
    /// Wait for the next release of a timer of the thread, by its number within the thread.
    OwnTimer {
        /// Its number.
        slot: usize,
        /// Its period.
        period: Ns,
        /// A late release does not shift later ones.
        absolute: bool,
    },
    /// The same for a shared timer.
    SharedTimer {
        /// Its number.
        timer: usize,
        /// The period of this use.
        period: Ns,
    },
    /// Lock a mutex.
    Lock(usize),
    /// Unlock it.
    Unlock(usize),
    /// Wait for a condition with a mutex.
    Wait(usize, usize),
    /// Signal a condition, then wait for it.
    Sync(usize, usize),
    /// Signal one waiter.
    Signal(usize),
    /// Signal all waiters; also for `resume`.
    Broadcast(usize),
    /// Wait to be resumed.
    Suspend(usize),
    /// Wait at a barrier.
    Barrier(usize),
    /// Count a semaphore up.
    SemPost(usize),
    /// Wait for a semaphore.
    SemWait(usize),
    /// Yield to threads of the same priority.
    Yield,
    /// Start a thread of this task.
    Fork(usize),
    /// Write this many bytes of the buffer.
    Mem(u64),
    /// Write this many bytes to the device.
    IoRun(u64),
    /// Walk through memory.
    MemRun(MemoryWalk),
}

/// Kind of memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Pointer chasing.
    Chase,
}

/// A walk through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryWalk {
    /// Kind of access.
    pub kind: MemoryKind,
    /// Bytes of the buffer.
    pub size: u64,
    /// Passes, or steps of a chase.
    pub count: u64,
    /// Bytes between two steps of a chase.
    pub stride: u64,
    /// Random order.
    pub random: bool,
}

/// Whether an event waits for another thread.
pub(super) fn waits_for_others(event: &Event) -> bool {
    matches!(
        event,
        Event::Wait(..) | Event::Sync(..) | Event::SemWait(_) | Event::Suspend(_) | Event::Barrier(_)
    )
}

/// Numbers of names, in order of first use.
pub(super) struct Names {
    mutexes: Numbers,
    barriers: Numbers,
    conditions: Numbers,
    semaphores: Numbers,
    timers: Numbers,
    own_timers: Numbers,
    absolute: Vec<String>,
    tasks: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Numbers(Vec<String>, BTreeMap<String, usize>);

impl Numbers {
    fn of(&mut self, name: &str) -> usize {
        if let Some(known) = self.1.get(name) {
            return *known;
        }
        self.0.push(name.to_owned());
        self.1.insert(name.to_owned(), self.0.len() - 1);
        self.0.len() - 1
    }
}

impl Names {
    pub fn of(set: &TaskSet) -> Names {
        let events = || set.tasks.iter().flat_map(|task| &task.phases).flat_map(|phase| &phase.events);
        // The mode belongs to the timer: one "absolute" applies to all its users.
        let absolute = events().filter_map(|event| match event {
            Event::Timer(timer) if timer.absolute && !is_own(timer) => Some(timer.reference.clone()),
            _ => None,
        });
        Names {
            mutexes: Numbers::default(),
            barriers: Numbers::default(),
            conditions: Numbers::default(),
            semaphores: Numbers::default(),
            timers: Numbers::default(),
            own_timers: Numbers::default(),
            absolute: absolute.collect(),
            tasks: set.tasks.iter().enumerate().map(|(at, task)| (task.name.clone(), at)).collect(),
        }
    }

    pub fn step(&mut self, event: &Event) -> Step {
        match event {
            Event::Run(time) => Step::Run(*time),
            Event::Runtime(time) => Step::Runtime(*time),
            Event::CpuTime(time) => Step::CpuTime(*time),
            Event::Sleep(time) => Step::Sleep(*time),
            Event::Timer(timer) if is_own(timer) => Step::OwnTimer {
                slot: self.own_timers.of(&timer.reference),
                period: timer.period,
                absolute: timer.absolute,
            },
            Event::Timer(timer) => {
                Step::SharedTimer { timer: self.timers.of(&timer.reference), period: timer.period }
            }
            Event::Lock(name) => Step::Lock(self.mutexes.of(name)),
            Event::Unlock(name) => Step::Unlock(self.mutexes.of(name)),
            Event::Wait(name, mutex) => Step::Wait(self.conditions.of(name), self.mutexes.of(mutex)),
            Event::Sync(name, mutex) => Step::Sync(self.conditions.of(name), self.mutexes.of(mutex)),
            Event::Signal(name) => Step::Signal(self.conditions.of(name)),
            Event::Broadcast(name) => Step::Broadcast(self.conditions.of(name)),
            // Separate conditions: a name with a line break cannot collide with one of the file.
            Event::Suspend(name) => Step::Suspend(self.conditions.of(&format!("suspend\n{name}"))),
            Event::Resume(name) => Step::Broadcast(self.conditions.of(&format!("suspend\n{name}"))),
            Event::Barrier(name) => Step::Barrier(self.barriers.of(name)),
            Event::SemPost(name) => Step::SemPost(self.semaphores.of(name)),
            Event::SemWait(name) => Step::SemWait(self.semaphores.of(name)),
            Event::Yield => Step::Yield,
            Event::Fork(name) => Step::Fork(self.tasks.get(name).copied().unwrap_or_default()),
            Event::Mem(bytes) => Step::Mem(*bytes),
            Event::IoRun(bytes) => Step::IoRun(*bytes),
            Event::MemRun(run) => Step::MemRun(MemoryWalk {
                kind: match run.kind.as_str() {
                    "read" => MemoryKind::Read,
                    "write" => MemoryKind::Write,
                    _ => MemoryKind::Chase,
                },
                size: run.size,
                count: run.count,
                stride: run.stride,
                random: run.random,
            }),
        }
    }

    /// Stores the named objects in `program`.
    pub fn finish(self, program: &mut Program, set: &TaskSet) {
        let mutex = |name: String| Mutex { protocol: set.protocol(&name), name, ceiling: 0, floor: None };
        program.mutexes = self.mutexes.0.into_iter().map(mutex).collect();
        program.conditions = self.conditions.0;
        program.semaphores = self.semaphores.0;
        let absolute = self.absolute;
        let timer = |name: String| SharedTimer { absolute: absolute.contains(&name), name };
        program.timers = self.timers.0.into_iter().map(timer).collect();
        let barriers = self.barriers.0.into_iter().map(|name| {
            let users = set.tasks.iter().map(|task| {
                let uses = task.phases.iter().flat_map(|phase| &phase.events);
                let uses = uses.filter(|event| matches!(event, Event::Barrier(of) if *of == name)).count();
                task.instances.saturating_mul(uses as u32)
            });
            Barrier { users: users.fold(0, u32::saturating_add), name }
        });
        program.barriers = barriers.collect();
    }
}

fn is_own(timer: &Timer) -> bool {
    timer.reference.starts_with("unique")
}
