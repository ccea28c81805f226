//! The releases and jobs of each thread, from the events of a trace.

use std::collections::{BTreeMap, HashMap};

use super::{median, periods_in, Job};
use crate::explain::lateness::SAME_CLOCK;
use crate::explain::turns::{Came, Turns};
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Event, Kind, LeftAs, TaskRef};
use crate::trace::item::{Item, Span};
use crate::trace::normalize::Normalizer;
use crate::trace::source::Source;

/// Maximum number of jobs and intervals kept per thread, for medians; more are only counted.
pub(super) const MOST_JOBS: usize = 1 << 20;

/// State of one thread.
#[derive(Default)]
pub(super) struct Task {
    pub(super) comm: String,
    pub(super) earlier: Vec<String>,
    pub(super) releases: u64,
    /// `None`: events were lost since then.
    last_release: Option<Mono>,
    /// Number of losses that it knows of.
    losses: u64,
    pub(super) distances: Vec<Ns>,
    pub(super) jobs: Vec<Job>,
    pub(super) ended: u64,
    /// Shortest and longest start, response and run of all jobs.
    pub(super) extremes: [Option<Range>; 3],
    pub(super) worst: Job,
    /// Jobs without a known start.
    pub(super) unseen_starts: u64,
    /// Jobs without a known end, and the maximum length of one of them.
    pub(super) unseen_ends: u64,
    pub(super) longest_unseen: Option<Ns>,
    pub(super) beyond: Beyond,
    open: Option<Open>,
}

/// The shortest and the longest.
type Range = (Ns, Ns);

/// Maximum number of damage reports.
const MOST_DAMAGE: usize = 20;
/// Maximum number of earlier names of one thread id.
const MOST_NAMES: usize = 64;

/// Counts of the jobs and intervals that are not kept, by the period of those kept.
#[derive(Default)]
pub(super) struct Beyond {
    period: Option<Ns>,
    pub(super) distances: u64,
    pub(super) fitting: u64,
    pub(super) missed: u64,
    pub(super) overruns: u64,
}

struct Open {
    release: Mono,
    start: Option<Mono>,
    running_since: Option<Mono>,
    run: Ns,
    /// A switch-in was not recorded: the first one if `start` is missing.
    is_run_unknown: bool,
    /// It may have ended: events were lost, or its switch-out was not recorded.
    is_end_unknown: bool,
}

/// The walk's state.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) tasks: BTreeMap<Tid, Task>,
    /// Due time of each timer.
    armed: HashMap<u64, Mono>,
    /// Due time of the timer whose function runs on each CPU.
    expiring: HashMap<Cpu, Mono>,
    turns: Turns,
    same_clock: bool,
    /// Number of losses so far.
    losses: u64,
}

/// The jobs of each thread of `source`, and the damage found.
pub(super) fn of_threads(source: &dyn Source) -> (BTreeMap<Tid, Task>, Vec<String>) {
    let mut normalizer = Normalizer::new(source);
    let mut reader = Reader { same_clock: source.info().clock.is_monotonic(), ..Reader::default() };
    let mut walk = source.events(Span::ALL);
    let mut damage: Vec<String> = source.info().damage.iter().map(ToString::to_string).collect();
    while let Some(item) = walk.next() {
        if let Item::Damage(met) = &item
            && damage.len() < MOST_DAMAGE
        {
            damage.push(met.to_string());
        }
        if let Some(event) = normalizer.item(&item) {
            reader.step(&event, &normalizer);
        }
    }
    damage.truncate(MOST_DAMAGE);
    reader.tasks.values_mut().for_each(|task| task.after_losses(reader.losses));
    (reader.tasks, damage)
}

impl Reader {
    pub(super) fn step(&mut self, event: &Event, normalizer: &Normalizer<'_>) {
        match event.kind {
            Kind::HrtimerStart { timer, expires, .. } => {
                self.armed.insert(timer, Mono(expires.0));
            }
            Kind::HrtimerCancel { timer } => {
                self.armed.remove(&timer);
            }
            Kind::TimerExpireEntry { timer, expires, .. } => {
                let armed = self.armed.remove(&timer).filter(|_| self.same_clock);
                let due = expires.or(armed);
                let due = due.filter(|due| *due <= event.at && event.at.since(*due) < SAME_CLOCK);
                self.expiring.insert(event.cpu, due.unwrap_or(event.at));
            }
            Kind::TimerExpireExit { .. } | Kind::Lost { .. } => {
                self.expiring.remove(&event.cpu);
                if matches!(event.kind, Kind::Lost { .. }) {
                    self.lost(event.cpu);
                }
            }
            Kind::Waking { task, .. } => {
                let Some(&due) = self.expiring.get(&event.cpu) else { return };
                let is_running = self.turns.has(task.tid);
                let known = self.tasks.entry(task.tid).or_default();
                known.after_losses(self.losses);
                known.is_named(task, normalizer);
                known.release(due, event.at, is_running);
            }
            Kind::Switch { prev, left_as, next } => self.switch(event, (prev, left_as), next, normalizer),
            _ => {}
        }
    }

    /// Each task learns of it at its next event ([`Task::after_losses`]): there may be thousands of both.
    fn lost(&mut self, cpu: Cpu) {
        self.turns.lost(cpu);
        self.losses += 1;
    }

    /// A known task, as it is now.
    fn task(&mut self, tid: Tid) -> Option<&mut Task> {
        let task = self.tasks.get_mut(&tid)?;
        task.after_losses(self.losses);
        Some(task)
    }

    fn switch(&mut self, event: &Event, prev: (TaskRef, LeftAs), next: TaskRef, names: &Normalizer<'_>) {
        let (prev, left_as) = prev;
        match self.turns.switch(event.cpu, prev.tid, next.tid, event.at) {
            Came::Again => return,
            Came::Unseen(tid) => {
                let is_running = self.turns.has(tid);
                let open = self.task(tid).and_then(|task| task.open.as_mut());
                if let Some(open) = open.filter(|open| open.running_since.is_some() && !is_running) {
                    open.running_since = None;
                    open.is_end_unknown = true;
                }
            }
            Came::Known | Came::First => {}
        }
        if let Some(task) = self.task(prev.tid) {
            task.is_named(prev, names);
            task.leave(event.at, left_as);
        }
        if let Some(task) = self.task(next.tid) {
            task.is_named(next, names);
            task.come(event.at);
        }
    }
}

impl Task {
    /// Jobs across a loss have no known end, and the interval across it is not known. `losses`: number of those so far.
    fn after_losses(&mut self, losses: u64) {
        if std::mem::replace(&mut self.losses, losses) != losses {
            self.last_release = None;
            if let Some(open) = &mut self.open {
                open.is_end_unknown = true;
            }
        }
    }

    fn is_named(&mut self, task: TaskRef, normalizer: &Normalizer<'_>) {
        if let Some(comm) = task.comm.map(|comm| normalizer.strings().get(comm)).filter(|c| *c != self.comm) {
            let earlier = std::mem::replace(&mut self.comm, comm.to_owned());
            if !earlier.is_empty() && self.earlier.len() < MOST_NAMES && !self.earlier.contains(&earlier) {
                self.earlier.push(earlier);
            }
        }
    }

    fn come(&mut self, at: Mono) {
        let Some(open) = &mut self.open else { return };
        if !open.is_run_unknown {
            open.start.get_or_insert(at);
        }
        // If it was still running, its switch-out on another CPU was not recorded.
        open.is_end_unknown |= open.running_since.replace(at).is_some();
    }

    fn leave(&mut self, at: Mono, left_as: LeftAs) {
        let Some(open) = &mut self.open else { return };
        match open.running_since.take() {
            Some(since) => open.run = open.run + at.since(since),
            None => open.is_run_unknown = true,
        }
        if left_as != LeftAs::Runnable {
            self.close(at);
        }
    }

    /// Closes the open job, which ended at `at` or earlier.
    fn close(&mut self, at: Mono) {
        let Some(Open { release, start, running_since, run, is_run_unknown, is_end_unknown }) =
            self.open.take()
        else {
            return;
        };
        let run = run + running_since.map_or(Ns::ZERO, |since| at.since(since));
        if is_end_unknown {
            self.unseen_ends += 1;
            self.longest_unseen = self.longest_unseen.max(Some(at.since(release)));
        } else {
            self.end(Job { release, start, end: at, run_ns: (!is_run_unknown).then_some(run) });
        }
    }

    /// A timer that was `due` wakes it at `at`. If the thread is on a CPU or preempted, it was about to sleep (else
    /// there would be no waking): its job was done.
    fn release(&mut self, due: Mono, at: Mono, is_running: bool) {
        if let Some(open) = &mut self.open {
            if open.release == due {
                return; // two buffers recorded it
            }
            // A thread that waits for a CPU is not woken: it must have run and blocked.
            open.is_end_unknown |= open.start.is_none();
        }
        self.close(at);
        let running_since = is_running.then_some(at);
        self.open = Some(Open {
            release: due,
            start: running_since,
            running_since,
            run: Ns::ZERO,
            is_run_unknown: false,
            is_end_unknown: false,
        });
        self.releases += 1;
        let Some(last) = self.last_release.replace(due) else { return };
        let distance = due.since(last);
        if self.distances.len() < MOST_JOBS {
            self.distances.push(distance);
            return;
        }
        let periods = periods_in(distance, self.period_kept());
        self.beyond.distances += 1;
        self.beyond.fitting += u64::from(periods.is_some());
        self.beyond.missed = self.beyond.missed.saturating_add(periods.map_or(0, |count| count - 1));
    }

    fn end(&mut self, job: Job) {
        if self.ended == 0 || job.response() >= self.worst.response() {
            self.worst = job;
        }
        self.ended += 1;
        self.unseen_starts += u64::from(job.start.is_none());
        for (range, one) in self.extremes.iter_mut().zip(job.quantities()) {
            let Some(one) = one else { continue };
            let (least, most) = range.unwrap_or((one, one));
            *range = Some((least.min(one), most.max(one)));
        }
        if self.jobs.len() < MOST_JOBS {
            self.jobs.push(job);
        } else {
            let period = self.period_kept();
            self.beyond.overruns += u64::from(job.response() > period);
        }
    }

    /// The period of the kept intervals, when the limit is reached.
    fn period_kept(&mut self) -> Ns {
        let Task { distances, beyond, .. } = self;
        *beyond.period.get_or_insert_with(|| median(distances.iter().copied()))
    }
}
