//! Windows from a recording: the monitor's only user of it.
//!
//! What is recorded, and how the evidence of the worst is found, is decided by [`crate::recording`]. Here a window becomes
//! rows: one series per CPU and quantity, with the context of exactly its maximum; and one per task name, because thread ids
//! change with every restart of an application and its names do not. At most [`Settings::names`] names are admitted, so that
//! neither database nor label sets grow without bound, whatever programs call themselves.

mod names;

use std::collections::BTreeMap;

use lathunt_core::application::{Deadlines, State, Task, Unfinished};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::monitor::export::Interrupts;
use lathunt_core::monitor::window::{Held, SeriesKey, UnixMs, WindowSeries, QUANTITIES};
use lathunt_core::peak::Peak;
use lathunt_core::run::Loss;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_core::trace::event::SOFTIRQS;

use crate::error::Result;
use crate::recorder::Source as TakenBy;
use crate::recording::{self, Recording, Selection};
use names::Names;

/// Worst cases kept per CPU: the series of a CPU and its tasks take their evidence from these.
const PEAKS: usize = 16;
/// Evidence of latencies below this is never requested: it would cost more than it is worth.
const FLOOR: Ns = Ns::from_us(20);
/// Quantities kept of tasks. Their timer latencies are in the series of CPUs; responses only if there is a deadline.
const OF_TASKS: [Quantity; 4] =
    [Quantity::TimerWakeup, Quantity::Wakeup, Quantity::SharedPrio, Quantity::Response];

/// What a monitor records.
#[derive(Clone, Debug)]
pub struct Settings {
    /// CPUs to record; offline ones are recorded when they come online.
    pub cpus: CpuSet,
    /// Whose latencies.
    pub selection: Selection,
    /// Deadlines of tasks' jobs; empty: jobs are not tracked.
    pub deadlines: Deadlines,
    /// Number of task names with series of their own.
    pub names: usize,
    /// The kernel's preemption model, for the wording of causes.
    pub preemption: Option<String>,
    /// Cases to report at once.
    pub late: recording::LateAbove,
}

/// The running recording, as a monitor sees it.
pub struct Source {
    recording: Recording,
    names: Names,
    lost: BTreeMap<SeriesKey, u64>,
    overwritten: u64,
    has_ended: bool,
}

impl Source {
    /// Attaches the recorder. Also returns what cannot be recorded here, and what that costs, one line each.
    ///
    /// # Errors
    /// A kernel feature that is missing or refused, in one line.
    pub fn start(settings: Settings) -> Result<(Source, Vec<String>)> {
        let Settings { cpus, selection, deadlines, names, preemption, late } = settings;
        let settings = recording::Settings {
            selection,
            preemption,
            jobs: !deadlines.is_empty(),
            deadlines,
            peaks: PEAKS,
            flight: false,
            late,
            threshold: FLOOR,
            ..recording::Settings::on(cpus)
        };
        let recording = Recording::start(settings)?;
        let notes = recording.notes().to_vec();
        let names = Names::at_most(names);
        Ok((Source { recording, names, lost: BTreeMap::new(), overwritten: 0, has_ended: false }, notes))
    }

    /// Reads new data of the kernel side; call it some ten times a second. True: call again soon, there is evidence and more
    /// may follow.
    pub fn poll(&mut self) -> bool {
        self.recording.poll()
    }

    /// Late cases since the last call: their number, and the largest of them.
    pub fn take_late(&mut self, wanted: bool) -> (u64, Option<Peak>) {
        self.recording.take_late(wanted)
    }

    /// Also records threads that have come to match the selection. Call it once a second.
    pub fn look_again(&mut self) {
        self.recording.look_again();
    }

    /// The names of tasks that are waiting for a CPU, with the longest wait of each.
    #[must_use]
    pub fn waiting(&self) -> Vec<(String, Ns)> {
        let now = crate::clock::mono();
        let mut longest: BTreeMap<String, Ns> = BTreeMap::new();
        for starving in self.recording.starving() {
            let waits = longest.entry(self.names.known(&starving.thread.comm).text()).or_default();
            *waits = (*waits).max(now.since(starving.since));
        }
        longest.into_iter().collect()
    }

    /// Ends the recording, before the last window is closed: that includes unfinished waits so far.
    pub fn finish(&mut self) {
        self.recording.finish();
        self.has_ended = true;
    }

    /// Start of the window.
    #[must_use]
    pub fn since(&self) -> Mono {
        self.recording.since()
    }

    /// Closes the window: the counts of each series since the last call, with the context of its maximum. `wall_of` converts
    /// times.
    pub fn close(&mut self, wall_of: &dyn Fn(Mono) -> UnixMs) -> Vec<WindowSeries> {
        let mut snapshot = self.recording.close_window();
        let mut closed: Vec<WindowSeries> = Vec::new();
        for series in snapshot.series {
            let Some(cpu) = series.cpu.filter(|_| QUANTITIES.contains(&series.quantity)) else { continue };
            let key = SeriesKey::of_cpu(series.quantity, cpu);
            let mine = |peak: &&Peak| peak.quantity == series.quantity && peak.cpu == cpu;
            let peak = snapshot.maxima.iter().find(mine).cloned();
            closed.push(window_series(key, series.histogram, series.lost, peak));
        }
        count_lost(&mut self.lost, self.recording.recorder().series(), &mut closed);
        let mut of_tasks: BTreeMap<SeriesKey, WindowSeries> = BTreeMap::new();
        for task in &mut snapshot.tasks {
            count_unfinished(task, self.has_ended);
        }
        for task in &snapshot.tasks {
            let name = self.names.of(&task.thread.comm);
            let is_kept = |series: &&Series| match series.quantity {
                Quantity::Response => held(task).is_some(),
                quantity => OF_TASKS.contains(&quantity),
            };
            task.series.iter().filter(is_kept).for_each(|series| {
                let key = SeriesKey::of_task(series.quantity, name);
                add(
                    &mut of_tasks,
                    key,
                    task,
                    series,
                    [&snapshot.of_tasks, &snapshot.maxima, &snapshot.peaks],
                );
            });
        }
        closed.extend(of_tasks.into_values());
        closed.iter_mut().for_each(|series| {
            series.peak_at = series.peak.as_ref().map(|peak| wall_of(peak.begin + peak.total_ns))
        });
        closed
    }

    /// Every series of CPUs since the recorder started, for exporters of totals.
    #[must_use]
    pub fn totals(&self) -> Vec<(SeriesKey, Histogram, u64)> {
        let series = self.recording.recorder().series().into_iter();
        // A CPU whose wake-ups were all lost is reported too.
        let sampled = series.filter(|series| {
            (series.histogram.count() > 0 || series.lost > 0) && QUANTITIES.contains(&series.quantity)
        });
        sampled
            .filter_map(|series| {
                Some((SeriesKey::of_cpu(series.quantity, series.cpu?), series.histogram, series.lost))
            })
            .collect()
    }

    /// Time taken from threads since the recorder started, by class.
    #[must_use]
    pub fn interrupts(&self) -> Vec<Interrupts> {
        let mut classes: BTreeMap<(Cpu, String), (u64, Ns)> = BTreeMap::new();
        for taken in self.recording.recorder().interference() {
            let sum = classes.entry((taken.cpu, class(&taken.source))).or_default();
            *sum = (sum.0 + taken.count, sum.1 + taken.total_ns);
        }
        let one = |((cpu, class), (count, total))| Interrupts { cpu, class, count, total };
        classes.into_iter().map(one).collect()
    }

    /// Activations overwritten before they were read, since the last call: figures of tasks lack them.
    pub fn activations_lost(&mut self) -> u64 {
        let now = overwritten(&self.losses());
        now - std::mem::replace(&mut self.overwritten, now).min(now)
    }

    /// Loss counters above zero since the recorder started.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        self.recording.losses()
    }
}

/// Losses of each series since the last window: `now` has counts since the recorder started, `before` those of the last call.
/// A CPU whose wake-ups of the window were all lost has a row too.
fn count_lost(before: &mut BTreeMap<SeriesKey, u64>, now: Vec<Series>, closed: &mut Vec<WindowSeries>) {
    for series in now {
        let Some(cpu) = series.cpu.filter(|_| QUANTITIES.contains(&series.quantity)) else { continue };
        let key = SeriesKey::of_cpu(series.quantity, cpu);
        let lost = series.lost.saturating_sub(before.insert(key, series.lost).unwrap_or(0));
        match closed.iter_mut().find(|closed| closed.key == key) {
            Some(closed) => closed.lost = lost,
            None if lost > 0 => {
                closed.push(window_series(key, Histogram::new(series.histogram.layout()), lost, None));
            }
            None => {}
        }
    }
}

fn overwritten(losses: &[Loss]) -> u64 {
    losses.iter().filter(|loss| loss.counter == "activations_overwritten").map(|loss| loss.count).sum()
}

fn window_series(key: SeriesKey, histogram: Histogram, lost: u64, peak: Option<Peak>) -> WindowSeries {
    WindowSeries { key, histogram, lost, peak, peak_at: None, held: None }
}

/// Deadline or period of the jobs of a thread, if it has any.
fn held(task: &Task) -> Option<Held> {
    Some(Held { deadline: task.held_to?.deadline_ns?, misses: task.misses })
}

/// Counts the last job of a thread if it was unfinished and late when the recording or the thread ended: with its time so
/// far if it ran or waited for a CPU, else as lost, because the thread may have left its loop or wait for its release. A thread
/// that was stopped in its main wait for longer than its deadline may have been released: that is a lost job, too. A job
/// that goes on when only the window ends (`has_ended`: the recording did) counts in the window in which it ends.
fn count_unfinished(task: &mut Task, has_ended: bool) {
    let Some(held) = held(task) else { return };
    let last = task.late_end().filter(|last| has_ended || last.state == State::Ended).cloned();
    let was_stopped = has_ended && task.stopped_ns > Some(held.deadline);
    if last.is_none() && !was_stopped {
        return;
    }
    let is_certain = |last: &Unfinished| match last.state {
        State::Waits => true,
        _ => !last.may_have_left(held.deadline) && !task.is_release_in_doubt(held.deadline),
    };
    let miss = last.filter(is_certain);
    if task.of(Quantity::Response).is_none() {
        task.series.push(Series::new(Quantity::Response, None, Histogram::new(Layout::LATENCY)));
    }
    let Some(jobs) = task.series.iter_mut().find(|of| of.quantity == Quantity::Response) else { return };
    match miss {
        Some(last) => {
            jobs.histogram.record(last.after_ns);
            task.misses = task.misses.saturating_add(1);
        }
        None => jobs.lost = jobs.lost.saturating_add(1),
    }
}

/// Adds the figures of one thread to those of its name. The context of its maximum is in `cases`: those of tasks, of CPUs,
/// and jobs.
fn add(
    all: &mut BTreeMap<SeriesKey, WindowSeries>,
    key: SeriesKey,
    task: &Task,
    series: &Series,
    cases: [&[Peak]; 3],
) {
    let max = series.histogram.max();
    let is_maximum = |peak: &&Peak| {
        peak.quantity == key.quantity && peak.victim.tid == task.thread.tid && Some(peak.total_ns) == max
    };
    let known = cases.into_iter().flatten().find(is_maximum);
    let mut one = window_series(key, series.histogram.clone(), series.lost, known.cloned());
    one.held = held(task).filter(|_| key.quantity == Quantity::Response);
    let Some(known) = all.get_mut(&key) else {
        all.insert(key, one);
        return;
    };
    let larger = max > known.histogram.max();
    known.lost = known.lost.saturating_add(one.lost);
    // All have the same width, so that the sum fails only if it overflows.
    let _ = known.histogram.merge(&one.histogram);
    known.held = match (known.held, one.held) {
        (Some(known), Some(one)) => Some(known.and(one)),
        (known, one) => known.or(one),
    };
    if larger {
        known.peak = one.peak;
    }
}

/// A name from a bounded set: never that of an interrupt line or a driver.
fn class(source: &TakenBy) -> String {
    match source {
        TakenBy::Irq(..) => "io".to_owned(),
        TakenBy::Vector(vector) => vector.name().to_owned(),
        TakenBy::Softirq(number) => match SOFTIRQS.get(usize::from(*number)) {
            Some(name) => format!("softirq_{}", name.to_lowercase()),
            None => "softirq_other".to_owned(),
        },
        TakenBy::Nmi => "nmi".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathunt_core::application::AppliedDeadline;
    use lathunt_core::comm::Comm;
    use lathunt_core::series::Thread;
    use lathunt_core::time::{Prio, Tid};

    fn task(tid: i32, values: &[u64]) -> Task {
        let mut histogram = Histogram::new(Layout::LATENCY);
        values.iter().for_each(|&us| histogram.record(Ns::from_us(us)));
        let thread = Thread { tid: Tid(tid), comm: "motion".to_owned(), prio: None };
        let worst = Peak {
            quantity: Quantity::Wakeup,
            cpu: Cpu(0),
            begin: Mono(0),
            total_ns: histogram.max().unwrap(),
            victim: thread.clone(),
            culprit: Some(format!("who delayed {tid}")),
            explanation: None,
            no_evidence: None,
            context: None,
            during_action: false,
            counted_as: None,
        };
        let series = vec![Series { lost: 1, ..Series::new(Quantity::Wakeup, None, histogram) }];
        let task = Task { thread, series, ..serde_json::from_value(bare()).unwrap() };
        Task { worst: Some(Box::new(worst)), ..task }
    }

    fn bare() -> serde_json::Value {
        serde_json::json!({
            "thread": { "tid": 0, "comm": "", "prio": null }, "process": 1, "policy": "SCHED_FIFO", "waits_in": null,
            "timer_driven": false, "activations": 0, "period": null, "series": [], "execution": null, "preemptions": 0,
            "page_faults": 0, "deadline_ns": null, "misses": 0
        })
    }

    #[test]
    fn threads_of_one_name_are_one_series_with_the_culprit_of_the_largest() {
        let key = SeriesKey::of_task(Quantity::Wakeup, Comm::cut("motion"));
        let mut all = BTreeMap::new();
        for task in [task(1, &[5, 30]), task(2, &[900]), task(3, &[40])] {
            let worst = *task.worst.clone().unwrap();
            add(&mut all, key, &task, &task.series[0], [&[worst], &[], &[]]);
        }
        let merged = &all[&key];
        assert_eq!((merged.histogram.count(), merged.histogram.max()), (4, Some(Ns::from_us(900))));
        assert_eq!(merged.lost, 3);
        assert_eq!(merged.peak.as_ref().unwrap().culprit.as_deref(), Some("who delayed 2"));
    }

    #[test]
    fn the_maximum_of_a_thread_is_told_where_it_is_that_of_a_cpu() {
        let key = SeriesKey::of_task(Quantity::Wakeup, Comm::cut("motion"));
        let mut late = task(1, &[900]);
        let of_cpu = Peak { culprit: Some("hog".to_owned()), ..*late.worst.take().unwrap() };
        let longer = Peak { total_ns: Ns::from_us(950), quantity: Quantity::TimerWakeup, ..of_cpu.clone() };
        let other = Peak { victim: task(2, &[900]).thread, ..of_cpu.clone() };
        for (maxima, told) in
            [(vec![longer.clone(), other.clone()], None), (vec![other, of_cpu], Some("hog"))]
        {
            let mut all = BTreeMap::new();
            add(&mut all, key, &late, &late.series[0], [std::slice::from_ref(&longer), &maxima, &[]]);
            assert_eq!(all[&key].peak.as_ref().and_then(|peak| peak.culprit.as_deref()), told);
        }
    }

    #[test]
    fn a_late_job_in_progress_at_the_end_is_a_miss_or_lost_if_the_thread_may_have_left_its_loop() {
        let counted_if = |state, after_us, locked_ns: Option<Ns>, finished: &[u64]| {
            let mut task = task(1, finished);
            task.series[0].quantity = Quantity::Response;
            task.series.retain(|_| !finished.is_empty());
            task.thread.prio = Some(Prio::from_rt(80));
            (task.activations, task.deadline_ns) = (9, Some(Ns::from_us(500)));
            task.held_to =
                Some(AppliedDeadline { deadline_ns: task.deadline_ns, ..AppliedDeadline::default() });
            task.unfinished = Some(Unfinished {
                state,
                since: Mono(0),
                after_ns: Ns::from_us(after_us),
                place: None,
                out_of_quota: false,
                locked_ns,
            });
            let mut going_on = task.clone();
            count_unfinished(&mut going_on, false);
            assert!(state == State::Ended || going_on == task, "{state:?}: only the window ended");
            count_unfinished(&mut task, true);
            assert!(state != State::Ended || going_on == task);
            let of =
                task.of(Quantity::Response).map(|of| (of.histogram.count(), of.lost, of.histogram.max()));
            (task.misses, of)
        };
        let counted = |state, after_us, finished: &[u64]| counted_if(state, after_us, None, finished);
        for state in [State::Runs, State::Waits, State::Preempted] {
            assert_eq!(counted(state, 700, &[30, 40]), (1, Some((3, 1, Some(Ns::from_us(700))))));
            assert_eq!(counted(state, 500, &[30, 40]), (0, Some((2, 1, Some(Ns::from_us(40))))));
        }
        for state in [State::Blocked, State::Ended] {
            let locked = counted_if(state, 700, Some(Ns::from_us(501)), &[30, 40]);
            assert_eq!(locked, (1, Some((3, 1, Some(Ns::from_us(700))))), "in a mutex");
            assert_eq!(counted(state, 700, &[30, 40]), (0, Some((2, 2, Some(Ns::from_us(40))))));
        }
        let mut first = task(1, &[30]);
        first.series.clear();
        first.unfinished = None;
        count_unfinished(&mut first, true);
        assert!(first.series.is_empty());
    }

    #[test]
    fn a_thread_that_is_stopped_in_its_main_wait_at_the_end_lost_a_job_if_it_was_for_longer_than_its_deadline(
    ) {
        for (stopped_us, has_ended, lost) in [(700, true, 1), (500, true, 0), (700, false, 0)] {
            let mut task = task(1, &[30]);
            task.series.clear();
            let deadline_ns = Some(Ns::from_us(500));
            task.held_to = Some(AppliedDeadline { deadline_ns, ..AppliedDeadline::default() });
            task.stopped_ns = Some(Ns::from_us(stopped_us));
            count_unfinished(&mut task, has_ended);
            let told = task.of(Quantity::Response).map_or((0, 0), |of| (of.histogram.count(), of.lost));
            assert_eq!((task.misses, told), (0, (0, lost)), "{stopped_us} µs");
        }
    }

    #[test]
    fn each_window_has_what_it_lost_and_a_row_where_it_lost_everything() {
        let of = |cpu, lost| {
            let empty = Histogram::new(Layout::LATENCY);
            Series { lost, ..Series::new(Quantity::Wakeup, Some(Cpu(cpu)), empty) }
        };
        let mut before = BTreeMap::new();
        let mut window = |now: [Series; 2]| {
            let sampled = SeriesKey::of_cpu(Quantity::Wakeup, Cpu(0));
            let mut closed = vec![window_series(sampled, Histogram::new(Layout::LATENCY), 0, None)];
            count_lost(&mut before, now.to_vec(), &mut closed);
            closed.iter().map(|row| (row.key.whose.cpu().unwrap().0, row.lost)).collect::<Vec<_>>()
        };
        assert_eq!(window([of(0, 5), of(1, 0)]), [(0, 5)]);
        assert_eq!(window([of(0, 5), of(1, 7)]), [(0, 0), (1, 7)]);
        assert_eq!(window([of(0, 6), of(1, 7)]), [(0, 1)]);
    }
}
