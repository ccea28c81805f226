//! A processor in virtual time: each thread works off a list of acts in each job, and everything that happens is checked
//! against the rules, which are computed anew from the table each time.

use crate::policy::thread::{Account, State};
use crate::policy::{Params, Refusal, Scheduler, Step, ThreadId, Urgency, NEVER, NONE};

/// What a thread does in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// CPU time in ns.
    Run(u64),
    Lock(u32),
    Unlock(u32),
    Sleep(u64),
}

/// A thread of the simulation.
pub struct Actor {
    pub id: ThreadId,
    script: Vec<Act>,
    at: usize,
    left: u64,
    aperiodic: bool,
    ended: bool,
    /// Sections that it has begun: tells one from the next.
    pub sections: u64,
}

/// A stretch of time in which nothing changed.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub from: u64,
    pub to: u64,
    /// Index of the actor; `None`: idle.
    pub runs: Option<usize>,
    pub urgency: Urgency,
}

pub struct World {
    pub sched: Scheduler,
    pub now: u64,
    pub actors: Vec<Actor>,
    pub stretches: Vec<Stretch>,
}

impl World {
    pub fn new() -> World {
        World { sched: Scheduler::new(16, 0), now: 0, actors: Vec::new(), stretches: Vec::new() }
    }

    pub fn add(&mut self, params: Params, script: &[Act]) -> usize {
        let id = self.sched.spawn(self.now, &params).unwrap();
        let aperiodic = params.release == crate::policy::Release::Aperiodic;
        let script = script.to_vec();
        self.actors.push(Actor { id, script, at: 0, left: 0, aperiodic, ended: false, sections: 0 });
        self.actors.len() - 1
    }

    pub fn account(&self, actor: usize) -> Account {
        self.sched.account(self.actors[actor].id)
    }

    fn running(&self) -> Option<usize> {
        let current = self.sched.current()?;
        self.actors.iter().position(|actor| actor.id == current && !actor.ended)
    }

    /// Lets time pass until `horizon`, calling `check` before each stretch.
    pub fn run(&mut self, horizon: u64, mut check: impl FnMut(&World)) {
        self.sched.tick(self.now);
        while self.now < horizon {
            self.settle();
            self.check_rules();
            check(self);
            let runs = self.running();
            let work = runs.map_or(NEVER, |actor| self.actors[actor].left);
            let next = self.sched.next_event(self.now).min(self.now.saturating_add(work)).min(horizon);
            assert!(next >= self.now, "the next event is in the past");
            let urgency = runs
                .map_or(Urgency { priority: 0, deadline: NEVER }, |a| self.sched.urgency(self.actors[a].id));
            self.stretches.push(Stretch { from: self.now, to: next, runs, urgency });
            if let Some(actor) = runs {
                self.actors[actor].left -= next - self.now;
            }
            self.now = next;
            // Work that ends at an instant has ended when the releases of that instant come.
            if let Some(actor) = runs {
                while self.running() == runs && self.actors[actor].left == 0 && !self.sched.must_switch() {
                    self.act(actor);
                }
            }
            self.sched.tick(next);
        }
    }

    /// Actions without duration, until the running thread works or no thread is ready.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.sched.reschedule(self.now);
            let Some(actor) = self.running() else { return };
            if self.actors[actor].left > 0 {
                return;
            }
            self.act(actor);
        }
        panic!("acts without time never end");
    }

    fn act(&mut self, index: usize) {
        let now = self.now;
        let actor = &mut self.actors[index];
        let Some(&act) = actor.script.get(actor.at) else {
            actor.at = 0;
            if actor.aperiodic {
                actor.ended = true;
                self.sched.exit(now);
            } else {
                self.sched.next_job(now).unwrap();
            }
            return;
        };
        actor.at += 1;
        match act {
            Act::Run(ns) => actor.left = ns,
            Act::Lock(mutex) => {
                actor.sections += 1;
                match self.sched.lock(mutex, NEVER, now) {
                    Ok(Step::Go | Step::Wait) => {}
                    Err(Refusal::Deadlock) => actor.at += 1, // the section and its end are left out below
                    Err(other) => panic!("{other}"),
                }
            }
            Act::Unlock(mutex) => {
                let _ = self.sched.unlock(mutex, now);
            }
            Act::Sleep(ns) => {
                self.sched.sleep_until(now + ns, now);
            }
        }
    }

    /// The rules of every policy and protocol, computed from the table.
    pub fn check_rules(&self) {
        check_table(&self.sched, self.now);
        assert!(
            self.sched.current().is_some() || self.sched.ready.top().is_none(),
            "idle, though one is ready"
        );
    }
}

/// No ready thread has a higher priority than the running one; each has the urgency that its policy and the mutexes it
/// holds give it; the lists hold exactly the threads that belong there.
pub fn check_table(sched: &Scheduler, now: u64) {
    let threads = &sched.threads;
    for (id, thread) in threads.iter().enumerate() {
        if !thread.is_live() {
            continue;
        }
        let expected = reference_urgency(sched, id as u32, now, 0);
        assert_eq!(thread.urgency, expected, "urgency of thread {id}: {thread:?}");
        if thread.state == State::Running {
            assert_eq!(sched.current, id as u32);
        }
        if thread.state == State::Ready && sched.current != NONE {
            let running = threads[sched.current as usize].urgency;
            assert!(!thread.urgency.before(running), "{id} is ready and more urgent than {}", sched.current);
        }
    }
    let ready = threads.iter().filter(|thread| thread.state == State::Ready).count();
    assert_eq!(drain(sched), ready, "the ready queue holds other threads than those that are ready");
}

/// Takes a copy of the ready queue apart: the order must be that of urgency.
fn drain(sched: &Scheduler) -> usize {
    let mut threads = sched.threads.clone();
    let mut count = 0;
    let mut queue = sched.ready.clone();
    let mut last = Urgency { priority: u8::MAX, deadline: 0 };
    while let Some(top) = queue.top() {
        let urgency = threads[top as usize].urgency;
        assert!(!urgency.before(last), "the ready queue is out of order");
        last = urgency;
        queue.remove(&mut threads, top);
        count += 1;
    }
    count
}

/// Urgency by definition, recursively over owners and waiters; knows nothing of how it is kept up to date.
fn reference_urgency(sched: &Scheduler, id: u32, now: u64, depth: usize) -> Urgency {
    assert!(depth < 20, "a circle of owners");
    let thread = &sched.threads[id as usize];
    let mut urgency = thread.own(now);
    for mutex in 0..sched.mutexes.len() as u32 {
        if sched.owner(mutex) != Some(ThreadId(id)) {
            continue;
        }
        urgency = match sched.protocol(mutex) {
            crate::policy::Protocol::None => urgency,
            crate::policy::Protocol::Ceiling(priority) => urgency.most(Urgency { priority, deadline: 0 }),
            crate::policy::Protocol::Floor(_) => {
                urgency.most(Urgency { priority: thread.base, deadline: sched.floor_at(mutex) })
            }
            crate::policy::Protocol::Inherit => sched
                .threads
                .iter()
                .enumerate()
                .filter(|(_, other)| other.state == State::Blocked(crate::policy::thread::Wait::Mutex(mutex)))
                .map(|(other, _)| reference_urgency(sched, other as u32, now, depth + 1))
                .fold(urgency, Urgency::most),
        };
    }
    urgency
}
