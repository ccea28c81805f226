//! Periodic threads: when each job was released, started and ended, and which came too late.
//!
//! A job begins with its release: the programmed expiry of the timer whose interrupt wakes the thread (where the trace
//! says when that should be and its clock is the timers'; else the expiry's event). It starts at the next switch-in and
//! ends where the thread blocks. A thread is periodic when most distances of its releases are one period or a multiple
//! of it; a release that is missing between two others is a missed period: the thread was still busy (clock_nanosleep
//! to a time that is over does not sleep), or its timer was not armed.
//!
//! Constant memory per thread: distances and jobs are kept up to a number. Beyond it counts, the shortest and the
//! longest go on; medians, and the period, are those of what is kept.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::passages::Whose;
use super::text::{cut, wrap};
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Event, Kind, LeftAs};
use crate::trace::normalize::Normalizer;
use crate::trace::source::{Source, Span};

/// Jobs and distances kept for each thread, for their medians; more are only counted and compared.
const MOST_JOBS: usize = 1 << 20;
/// Fewer releases say nothing of a period.
const FEWEST: usize = 4;
/// A distance fits a multiple of the period when it is off by at most this share of the period.
const FIT: f64 = 0.25;
/// Share of distances that must fit.
const MOSTLY: f64 = 0.8;
/// An expiry later than programmed by more than this belongs to another clock.
const SAME_CLOCK: Ns = Ns::from_ms(1_000);

/// All periodic threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Periods {
    /// `lathunt-periods`.
    pub format: String,
    /// Version of this format.
    pub version: u32,
    /// Shortest period first.
    pub threads: Vec<Periodic>,
}

/// One periodic thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Periodic {
    /// Which.
    pub tid: Tid,
    /// Its name.
    pub comm: String,
    /// Median distance of its releases.
    pub period_ns: Ns,
    /// Jobs that ended within the trace.
    pub jobs: u64,
    /// Periods without a release.
    pub missed: u64,
    /// Jobs that ended after the next release was due.
    pub overruns: u64,
    /// Release → switched in.
    pub start: Spread,
    /// Release → blocked.
    pub response: Spread,
    /// Time on a CPU, with what interrupted it there.
    pub run: Spread,
    /// The job with the longest response.
    pub worst: Job,
}

/// A quantity over all jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// The shortest.
    pub least_ns: Ns,
    /// The upper median; of more than 1048576 jobs that of the first ones.
    pub median_ns: Ns,
    /// The longest.
    pub worst_ns: Ns,
}

/// One job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Job {
    /// When it was due.
    pub release: Mono,
    /// When it was switched in.
    pub start: Mono,
    /// When it blocked.
    pub end: Mono,
    /// Time on a CPU.
    pub run_ns: Ns,
}

#[derive(Default)]
struct Task {
    comm: String,
    releases: u64,
    /// `None`: events were lost since.
    last_release: Option<Mono>,
    distances: Vec<Ns>,
    jobs: Vec<Job>,
    ended: u64,
    /// Of all jobs: with the shortest and longest start, response and run.
    extremes: Option<[Range; 3]>,
    worst: Job,
    beyond: Beyond,
    open: Option<Open>,
}

/// The shortest and the longest.
type Range = (Ns, Ns);

/// Counts of what is not kept, by the period of what is.
#[derive(Default)]
struct Beyond {
    period: Option<Ns>,
    distances: u64,
    fitting: u64,
    missed: u64,
    overruns: u64,
}

struct Open {
    release: Mono,
    start: Option<Mono>,
    running_since: Option<Mono>,
    run: Ns,
}

/// The periodic threads of `source` among `whose`.
#[must_use]
pub fn periods(source: &dyn Source, whose: &Whose) -> Periods {
    let mut normalizer = Normalizer::new(source);
    let mut reader = Reader { same_clock: source.info().clock.is_monotonic(), ..Reader::default() };
    let mut walk = source.events(Span::ALL);
    while let Some(item) = walk.next() {
        if let Some(event) = normalizer.item(&item) {
            reader.step(&event, &normalizer);
        }
    }
    drop(walk);
    let mut threads: Vec<Periodic> = reader
        .tasks
        .into_iter()
        .filter_map(|(tid, task)| {
            let comm = if task.comm.is_empty() { source.info().comms.get(&tid).cloned() } else { None };
            periodic(tid, comm.unwrap_or_else(|| task.comm.clone()), task)
        })
        .filter(|thread| whose.fits(thread.tid, &thread.comm))
        .collect();
    threads.sort_by_key(|thread| (thread.period_ns, thread.tid));
    Periods { format: "lathunt-periods".to_owned(), version: 1, threads }
}

#[derive(Default)]
struct Reader {
    tasks: BTreeMap<Tid, Task>,
    /// When each timer should expire.
    armed: HashMap<u64, Mono>,
    /// The timer whose function runs on each CPU, and when it was due.
    expiring: HashMap<Cpu, Mono>,
    same_clock: bool,
}

impl Reader {
    fn step(&mut self, event: &Event, normalizer: &Normalizer<'_>) {
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
                    // Jobs across a gap have no known end; their releases break the chain of distances as well.
                    self.tasks.values_mut().for_each(|task| (task.open, task.last_release) = (None, None));
                }
            }
            Kind::Waking { task, .. } => {
                let Some(&due) = self.expiring.get(&event.cpu) else { return };
                let known = self.tasks.entry(task.tid).or_default();
                known.release(due);
                known.open = Some(Open { release: due, start: None, running_since: None, run: Ns::ZERO });
                if let Some(comm) = task.comm.filter(|_| known.comm.is_empty()) {
                    normalizer.strings().get(comm).clone_into(&mut known.comm);
                }
            }
            Kind::Switch { prev, left_as, next } => {
                if let Some(task) = self.tasks.get_mut(&prev.tid) {
                    task.leave(event.at, left_as);
                }
                if let Some(open) = self.tasks.get_mut(&next.tid).and_then(|task| task.open.as_mut()) {
                    open.start.get_or_insert(event.at);
                    open.running_since = Some(event.at);
                }
            }
            _ => {}
        }
    }
}

impl Task {
    fn leave(&mut self, at: Mono, left_as: LeftAs) {
        let Some(open) = &mut self.open else { return };
        if let Some(since) = open.running_since.take() {
            open.run = open.run + at.since(since);
        }
        if left_as == LeftAs::Runnable {
            return;
        }
        let Open { release, start, run, .. } = *open;
        if let Some(start) = start {
            self.end(Job { release, start, end: at, run_ns: run });
            self.open = None;
        }
    }

    fn release(&mut self, due: Mono) {
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
        self.beyond.missed += periods.map_or(0, |count| count - 1);
    }

    fn end(&mut self, job: Job) {
        if self.ended == 0 || job.response() >= self.worst.response() {
            self.worst = job;
        }
        self.ended += 1;
        let extremes = self.extremes.get_or_insert(job.quantities().map(|one| (one, one)));
        for ((least, most), one) in extremes.iter_mut().zip(job.quantities()) {
            (*least, *most) = ((*least).min(one), (*most).max(one));
        }
        if self.jobs.len() < MOST_JOBS {
            self.jobs.push(job);
        } else {
            let period = self.period_kept();
            self.beyond.overruns += u64::from(job.response() > period);
        }
    }

    /// The period of the distances that are kept, once no more are.
    fn period_kept(&mut self) -> Ns {
        let Task { distances, beyond, .. } = self;
        *beyond.period.get_or_insert_with(|| median(distances.iter().copied()))
    }
}

impl Job {
    fn response(&self) -> Ns {
        self.end.since(self.release)
    }

    /// Start, response and run.
    fn quantities(&self) -> [Ns; 3] {
        [self.start.since(self.release), self.response(), self.run_ns]
    }
}

/// How many periods a distance is, where it is about a multiple.
fn periods_in(distance: Ns, period: Ns) -> Option<u64> {
    let count = (distance.0 as f64 / period.0 as f64).round();
    let off = (distance.0 as f64 - count * period.0 as f64).abs() / period.0 as f64;
    (count >= 1.0 && off <= FIT).then_some(count as u64)
}

/// `None`: not periodic, or too short to tell.
fn periodic(tid: Tid, comm: String, task: Task) -> Option<Periodic> {
    let Task { distances, jobs, beyond, worst, .. } = &task;
    let extremes = task.extremes?;
    if task.releases < FEWEST as u64 {
        return None;
    }
    let period = median(distances.iter().copied());
    if period == Ns::ZERO {
        return None;
    }
    let fitting: Vec<u64> = distances.iter().filter_map(|distance| periods_in(*distance, period)).collect();
    let fit = fitting.len() as u64 + beyond.fitting;
    if (fit as f64) < MOSTLY * (distances.len() as u64 + beyond.distances) as f64 {
        return None;
    }
    let spread = |of: usize| Spread {
        least_ns: extremes[of].0,
        median_ns: median(jobs.iter().map(|job| job.quantities()[of])),
        worst_ns: extremes[of].1,
    };
    let overruns = jobs.iter().filter(|job| job.response() > period).count() as u64;
    Some(Periodic {
        tid,
        comm,
        period_ns: period,
        jobs: task.ended,
        missed: fitting.iter().map(|count| count - 1).sum::<u64>() + beyond.missed,
        overruns: overruns + beyond.overruns,
        start: spread(0),
        response: spread(1),
        run: spread(2),
        worst: *worst,
    })
}

/// The upper median; 0 of nothing.
fn median(values: impl Iterator<Item = Ns>) -> Ns {
    let mut sorted: Vec<Ns> = values.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

impl Periods {
    /// The terminal text: a line for each thread.
    #[must_use]
    pub fn to_text(&self) -> String {
        if self.threads.is_empty() {
            return "no periodic thread: none was woken by timers at even distances\n".to_owned();
        }
        let mut text = format!(
            "{:<26} {:>11} {:>7} {:>6} {:>8} {:>11} {:>11} {:>11}\n",
            "thread", "period", "jobs", "missed", "overruns", "worst start", "worst resp.", "worst run"
        );
        for thread in &self.threads {
            let name: String = format!("{}/{}", thread.comm, thread.tid).chars().take(26).collect();
            text.push_str(&format!(
                "{name:<26} {:>11} {:>7} {:>6} {:>8} {:>11} {:>11} {:>11}\n",
                thread.period_ns.to_string(),
                thread.jobs,
                thread.missed,
                thread.overruns,
                thread.start.worst_ns.to_string(),
                thread.response.worst_ns.to_string(),
                thread.run.worst_ns.to_string()
            ));
        }
        for thread in &self.threads {
            let Job { release, start, end, .. } = thread.worst;
            let name = format!("{}/{}", thread.comm, thread.tid);
            let worst = format!("longest response released {release}, started {start}, ended {end}");
            wrap(&mut text, &format!("{}: ", cut(&name, 40)), &worst);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::event::{Level, TaskRef};
    use crate::trace::ftrace_text::FtraceText;

    /// A thread that a timer releases every ms and that computes for `run(job)` µs; the timer interrupt comes 3 µs late
    /// and the thread starts 5 µs after that. Where it computes past the next release, that one is missing.
    fn trace(jobs: u64, run: impl Fn(u64) -> u64) -> String {
        let mut text = "# tracer: nop\n#\n".to_owned();
        let (mut now_us, mut next) = (0, 1_000);
        for job in 0..jobs {
            while next < now_us {
                next += 1_000;
            }
            let at = |us: u64| format!("{}.{:06}", 10 + us / 1_000_000, us % 1_000_000);
            let line = |text: &mut String, us: u64, task: &str, event: &str| {
                text.push_str(&format!("{task} [001] d..2. {}: {event}\n", at(us)));
            };
            line(&mut text, next - 500, "          <idle>-0    ", &format!("hrtimer_start: hrtimer=00000000aa function=hrtimer_wakeup expires={} softexpires=0 mode=ABS", 10_000_000_000 + next * 1000));
            line(
                &mut text,
                next + 3,
                "          <idle>-0    ",
                &format!(
                    "hrtimer_expire_entry: hrtimer=00000000aa function=hrtimer_wakeup now={}",
                    10_000_000_000 + (next + 3) * 1000
                ),
            );
            line(
                &mut text,
                next + 4,
                "          <idle>-0    ",
                "sched_waking: comm=axis pid=77 prio=19 target_cpu=001",
            );
            line(&mut text, next + 5, "          <idle>-0    ", "hrtimer_expire_exit: hrtimer=00000000aa");
            line(&mut text, next + 8, "          <idle>-0    ", "sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=axis next_pid=77 next_prio=19");
            now_us = next + 8 + run(job);
            line(&mut text, now_us, "            axis-77   ", "sched_switch: prev_comm=axis prev_pid=77 prev_prio=19 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120");
            next += 1_000;
        }
        text
    }

    fn only(text: &str) -> Periodic {
        let source = FtraceText::open(text.as_bytes()).unwrap();
        let found = periods(&source, &Whose::default());
        assert_eq!(found.threads.len(), 1, "{found:?}");
        found.threads[0].clone()
    }

    #[test]
    fn a_thread_in_time_misses_nothing() {
        let axis = only(&trace(50, |_| 200));
        assert_eq!((axis.comm.as_str(), axis.tid, axis.jobs), ("axis", Tid(77), 50));
        assert_eq!((axis.period_ns, axis.missed, axis.overruns), (Ns::from_ms(1), 0, 0));
        assert_eq!(axis.run.worst_ns, Ns::from_us(200));
        assert_eq!(axis.start.worst_ns, axis.start.least_ns);
    }

    #[test]
    fn a_job_that_runs_into_the_next_period_is_an_overrun_and_costs_the_releases_it_covers() {
        let axis = only(&trace(50, |job| if job == 20 { 2_300 } else { 200 }));
        assert_eq!((axis.missed, axis.overruns), (2, 1));
        assert_eq!(axis.run.worst_ns, Ns::from_us(2_300));
        assert_eq!(axis.worst.end.since(axis.worst.start), Ns::from_us(2_300));
    }

    #[test]
    fn wakings_without_a_timer_and_uneven_ones_are_not_periodic() {
        let text = trace(50, |_| 200);
        let woken_by_hand: String =
            text.lines().filter(|line| !line.contains("hrtimer")).map(|line| format!("{line}\n")).collect();
        let source = FtraceText::open(woken_by_hand.as_bytes()).unwrap();
        assert_eq!(periods(&source, &Whose::default()).threads, vec![]);
        assert!(periods(&source, &Whose::default()).to_text().starts_with("no periodic thread"));
    }

    #[test]
    fn what_comes_behind_the_jobs_that_are_kept_still_counts() {
        let source = FtraceText::open(trace(4, |_| 200).as_bytes()).unwrap();
        let normalizer = Normalizer::new(&source);
        let mut reader = Reader::default();
        let (all, late) = (MOST_JOBS as u64 + 10, MOST_JOBS as u64 + 5);
        let task = |tid| TaskRef { tid: Tid(tid), ..TaskRef::default() };
        let (axis, idle) = (task(77), task(0));
        let mut step = |at: u64, kind| {
            let event =
                Event { at: Mono(at * 1_000), cpu: Cpu(1), current: None, level: Level::Unsaid, kind };
            reader.step(&event, &normalizer);
        };
        for job in 0..all {
            let at = job * 1_000;
            let end = at + if job == late { 1_500 } else { 200 };
            if job != late + 1 {
                step(at, Kind::TimerExpireEntry { timer: 1, function: None, expires: None });
                step(at, Kind::Waking { task: axis, target_cpu: None, new: false });
                step(at, Kind::TimerExpireExit { timer: 1 });
                step(at + 1, Kind::Switch { prev: idle, left_as: LeftAs::Runnable, next: axis });
                step(end, Kind::Switch { prev: axis, left_as: LeftAs::Blocked(1), next: idle });
            }
        }
        let axis = periodic(Tid(77), String::new(), reader.tasks.remove(&Tid(77)).unwrap()).unwrap();
        assert_eq!((axis.jobs, axis.missed, axis.overruns), (all - 1, 1, 1));
        assert_eq!((axis.response.worst_ns, axis.response.median_ns), (Ns::from_us(1_500), Ns::from_us(200)));
        assert_eq!(axis.worst.release, Mono(late * 1_000_000));
    }

    #[test]
    fn events_lost_in_place_of_jobs_are_no_missed_periods() {
        let text = trace(50, |_| 200);
        let is_lost = |line: &str| ["10.02", "10.03"].iter().any(|at| line.contains(&format!(" {at}")));
        let mut kept: Vec<&str> = text.lines().filter(|line| !is_lost(line)).collect();
        let first_behind = kept.iter().position(|line| line.contains(" 10.04")).unwrap();
        kept.insert(first_behind, "CPU:1 [LOST 120 EVENTS]");
        let axis = only(&kept.join("\n"));
        assert_eq!((axis.period_ns, axis.missed), (Ns::from_ms(1), 0));
    }
}
