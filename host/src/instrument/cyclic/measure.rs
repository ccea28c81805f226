//! The measuring thread: setup, wait for the start, then sleep, read the clock, count.

use std::sync::atomic::Ordering;
use std::sync::{mpsc, Arc};

use lathunt_core::tasks::program::Rule;
use lathunt_core::time::{Mono, Ns};

use super::clock::{Clock, Sleeper, Woken};
use super::shared::{Entry, Shared};
use super::{Alignment, Control, Hooks, Options, Reservation, ThreadSpec, WorstSample};
use crate::error::Result;
use crate::sched;
use crate::tasks::policy;

/// The moment from which aligned threads count; `None`: each from its own readiness.
pub(super) fn base(clock: Clock, alignment: Alignment) -> Option<u64> {
    const SECOND: u64 = 1_000_000_000;
    match alignment {
        Alignment::None => None,
        Alignment::Together(_) => Some(clock.now()),
        Alignment::At(at) => Some(at),
        // the next full second, or the one after when it is too close to be ready
        Alignment::FullSecond(_) => Some((clock.now() + SECOND / 10).next_multiple_of(SECOND)),
    }
}

/// Everything a measuring thread owns.
pub(super) struct Task {
    pub(super) index: usize,
    pub(super) spec: ThreadSpec,
    pub(super) options: Options,
    pub(super) control: Arc<Control>,
    pub(super) shared: Arc<Shared>,
    /// Until the end of the warm-up; then `None`.
    pub(super) warm_up: Option<Arc<Shared>>,
    pub(super) hooks: Hooks,
}

fn rule(Reservation { runtime, period }: Reservation) -> Rule {
    Rule::Deadline { runtime, deadline: period, period }
}

impl Task {
    /// Runs in the new thread. Returns the reason if it had to end early.
    pub(super) fn run(
        mut self,
        ready: &mpsc::SyncSender<Result<()>>,
        started: &mpsc::Receiver<Option<u64>>,
    ) -> Option<String> {
        let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
        for shared in self.warm_up.iter().chain([&self.shared]) {
            shared.introduce(sched::tid(), comm.trim_end().to_owned());
        }
        let set_up = self.set_up();
        let failed = set_up.is_err();
        let _ = ready.send(set_up); // the starter is gone: the channel below is closed too
        let Ok(base) = started.recv() else { return None };
        if failed {
            return None;
        }
        let failure = self.measure(base);
        self.shared.own_cpu.look_at_affinity();
        match self.options.reservation {
            Some(reservation) => self.shared.own_cpu.look_at_rule(rule(reservation)),
            None => self.shared.own_cpu.look_at_policy(self.options.policy, self.spec.priority),
        }
        let _ = sched::set_policy(sched::Policy::Other, 0); // lowering needs no privilege
        self.shared.end();
        failure
    }

    fn set_up(&self) -> Result<()> {
        if let Some(cpu) = self.spec.cpu {
            sched::pin(cpu)?;
        }
        sched::prefault_stack();
        if let Some(reservation) = self.options.reservation {
            return policy::set(rule(reservation));
        }
        sched::set_policy(self.options.policy, self.spec.priority)
    }

    fn measure(&mut self, base: Option<u64>) -> Option<String> {
        let clock = self.options.clock;
        let interval = self.spec.interval.0;
        let begin = match (base, self.options.alignment) {
            (Some(base), Alignment::Together(offset)) => base + offset.0 * self.index as u64,
            (Some(base), Alignment::FullSecond(offset)) => base + offset.0,
            // spread over one interval: threads that wake at the same moment would measure each other
            (Some(base), Alignment::At(_)) => base + self.offset(),
            // A thread that waited for its CPU since it was released is late for activations of that time.
            _ => self.shared.released().map_or(clock.now(), |at| at.min(clock.now())) + self.offset(),
        };
        let mut expected = begin + interval;
        let sleeper = match Sleeper::new(clock, self.options.wait, self.spec.interval, expected) {
            Ok(sleeper) => sleeper,
            Err(error) => return Some(error.to_string()),
        };
        expected = sleeper.first(expected);
        let ahead = begin.wrapping_sub(clock.now()) as i64;
        let now = Mono(crate::clock::mono().0.saturating_add_signed(ahead));
        self.warm_up.iter().chain([&self.shared]).for_each(|shared| shared.begin_at(now));
        let mut state = State::new(begin, &self.options);
        // Allocated in advance, because the measuring loop must not allocate.
        let (mut begin, mut next) = (begin, self.warm_up.as_ref().map(|_| State::new(begin, &self.options)));
        let mut warm_until = self.options.warm_up.map_or(0, |length| begin + length.0);
        loop {
            // The end may come between a sample and the wait for the next activation, which may be late by then.
            let woken = match self.control.stop.load(Ordering::Relaxed) {
                false => sleeper.wait(expected),
                true if sleeper.has_grid() && self.is_latest_yet(expected) => Woken::Interrupted { expected },
                true => break,
            };
            let (due, overrun) = match woken {
                Woken::At { expected, overrun } => (expected, overrun),
                Woken::Interrupted { expected } if self.is_latest_yet(expected) => (expected, 0),
                Woken::Interrupted { .. } => continue,
                Woken::Failed(error) => {
                    return Some(format!("waiting for the next activation failed: {error}"))
                }
            };
            let now = clock.now();
            self.shared.own_cpu.look(1);
            if now >= warm_until
                && let Some(measured) = next.take()
            {
                self.warm_up = None; // a reference count drops, no memory is freed: the measurement has its own
                self.shared.begin_at(crate::clock::mono());
                (begin, warm_until) = (warm_until, 0);
                state = measured.from(begin);
            }
            let latency = Ns(now.saturating_sub(due));
            let worst = state.is_worst(latency).then(|| self.peak(&mut state, now, latency));
            let broke = self.options.break_at.is_some_and(|limit| latency > limit);
            if broke {
                self.break_off(worst.is_some(), now, latency);
            }
            expected = due + interval * (1 + overrun);
            let missed = (sleeper.has_grid() && now > due + interval).then(|| {
                expected = expected.max(due + interval * (now - due).div_ceil(interval));
                (latency.saturating_sub(self.spec.interval), self.spec.interval)
            });
            if let Some(hook) = &mut self.hooks.sample {
                hook.sample(state.cycles, Mono(now), latency);
            }
            let second = state.second(now);
            self.warm_up.as_ref().unwrap_or(&self.shared).enter(&Entry { latency, second, missed, worst });
            state.cycles += 1;
            let warming = self.warm_up.is_some();
            let over = !warming && self.options.duration.is_some_and(|length| now >= begin + length.0);
            if broke || over {
                self.control.stop.store(true, Ordering::Relaxed);
            }
            if !warming && self.options.loops == Some(state.cycles) {
                break;
            }
        }
        None
    }

    /// Whether the activation due at `expected`, whose wait a signal ended, is later than every sample so far: its timer is
    /// late, and the measurement may end before that expires. Other activations that a signal ended are no samples.
    fn is_latest_yet(&self, expected: u64) -> bool {
        let late = self.options.clock.now().saturating_sub(expected);
        Some(Ns(late)) > self.shared.live().max.max(Some(Ns::ZERO))
    }

    /// Offset of its activations within an interval.
    fn offset(&self) -> u64 {
        self.spec.interval.0 * self.index as u64 / self.options.threads.len() as u64
    }

    /// The times on the tool's clock, whatever the clock of the activations.
    fn on_mono(&self, now: u64, latency: Ns) -> (Mono, Mono) {
        let woken = match self.options.clock {
            Clock::Monotonic => Mono(now),
            Clock::Realtime => crate::clock::mono(),
        };
        (Mono(woken.0.saturating_sub(latency.0)), woken)
    }

    #[inline(never)]
    fn peak(&mut self, state: &mut State, now: u64, latency: Ns) -> (usize, WorstSample) {
        let (expected, woken) = self.on_mono(now, latency);
        let freeze = self.hooks.peak.as_mut().and_then(|hook| hook.peak(expected, woken, latency));
        (
            state.take_slot(latency),
            WorstSample { expected, woken, latency, freeze, cpu: sched::current_cpu() },
        )
    }

    #[inline(never)]
    fn break_off(&mut self, already_seen: bool, now: u64, latency: Ns) {
        let (expected, woken) = self.on_mono(now, latency);
        let first = self.control.broke_thread.compare_exchange(
            -1,
            self.index as i64,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if first.is_err() {
            return;
        }
        self.control.broke_ns.store(latency.0, Ordering::Release);
        self.control.broke_at.store(woken.0, Ordering::Release);
        if let Some(hook) = &mut self.hooks.peak {
            if !already_seen {
                hook.peak(expected, woken, latency);
            }
            hook.broke(latency);
        }
    }
}

/// The loop's private state.
struct State {
    cycles: u64,
    second: u32,
    second_end: u64,
    begin: u64,
    /// Latencies in the slots of the worst list; a latency must reach `need` to enter it.
    slots: Vec<u64>,
    capacity: usize,
    floor: u64,
    need: u64,
}

impl State {
    fn new(begin: u64, options: &Options) -> State {
        let need = if options.peaks == 0 { u64::MAX } else { options.peak_floor.0 };
        State {
            cycles: 0,
            second: 0,
            second_end: begin + 1_000_000_000,
            begin,
            slots: Vec::with_capacity(options.peaks),
            capacity: options.peaks,
            floor: options.peak_floor.0,
            need,
        }
    }

    /// The same, of what begins at `begin`.
    fn from(self, begin: u64) -> State {
        State { begin, second_end: begin + 1_000_000_000, ..self }
    }

    #[inline]
    fn is_worst(&self, latency: Ns) -> bool {
        latency.0 >= self.need && self.capacity > 0
    }

    /// The slot for one of the worst latencies: a free one, or that of the smallest.
    fn take_slot(&mut self, latency: Ns) -> usize {
        let at = if self.slots.len() < self.capacity {
            self.slots.push(latency.0); // within the capacity: no allocation
            self.slots.len() - 1
        } else {
            let least = (0..self.slots.len()).min_by_key(|&at| self.slots[at]).unwrap_or(0);
            self.slots[least] = latency.0;
            least
        };
        if self.slots.len() == self.capacity {
            let least = self.slots.iter().min().copied().unwrap_or(0);
            self.need = self.floor.max(least.saturating_add(1));
        }
        at
    }

    /// The second of the measurement that contains `now`; divides only when a new one begins.
    #[inline]
    fn second(&mut self, now: u64) -> u32 {
        if now >= self.second_end {
            let second = now.saturating_sub(self.begin) / 1_000_000_000;
            self.second = second as u32;
            self.second_end = self.begin + (second + 1) * 1_000_000_000;
        }
        self.second
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

    use lathunt_core::time::Cpu;

    use super::super::Wait;
    use super::*;

    #[test]
    fn the_slots_hold_the_worst_and_the_floor_is_kept() {
        let mut options = Options::on([Cpu(0)]);
        options.peaks = 3;
        options.peak_floor = Ns(10);
        let mut state = State::new(0, &options);
        let entered: Vec<u64> = [5, 10, 50, 20, 20, 15, 30, 9, 51]
            .into_iter()
            .filter(|&value| {
                let enters = state.is_worst(Ns(value));
                if enters {
                    state.take_slot(Ns(value));
                }
                enters
            })
            .collect();
        assert_eq!(entered, [10, 50, 20, 20, 30, 51]);
        state.slots.sort_unstable();
        assert_eq!(state.slots, [30, 50, 51]);
    }

    #[test]
    fn seconds_advance_also_over_a_long_stall() {
        let mut state = State::new(500, &Options::on([Cpu(0)]));
        let seconds = [600, 1_000_000_499, 1_000_000_500, 7_999_000_000].map(|now| state.second(now));
        assert_eq!(seconds, [0, 0, 1, 7]);
    }

    fn task(options: Options) -> Task {
        let shared = Arc::new(Shared::new(&options, None));
        let control = Arc::new(Control {
            stop: AtomicBool::new(false),
            broke_thread: AtomicI64::new(-1),
            broke_ns: AtomicU64::new(0),
            broke_at: AtomicU64::new(0),
        });
        let (spec, hooks) = (options.threads[0], Hooks::default());
        Task { index: 0, spec, options, control, shared, warm_up: None, hooks }
    }

    #[test]
    fn an_activation_whose_wait_a_signal_ends_is_a_sample_if_it_is_the_latest() {
        let task = task(Options::on([Cpu(0)]));
        let due = |before: Ns| task.options.clock.now() - before.0;
        assert!(!task.is_latest_yet(due(Ns::ZERO) + 60_000_000_000), "it is not due");
        assert!(task.is_latest_yet(due(Ns::from_us(3))), "the first");
        let entry = Entry { latency: Ns::from_ms(60_000), second: 0, missed: None, worst: None };
        task.shared.enter(&entry);
        assert!(!task.is_latest_yet(due(Ns::from_us(3))), "a signal ended its wait in time");
        assert!(task.is_latest_yet(due(Ns::from_ms(60_001))));
    }

    #[test]
    fn an_activation_that_is_late_when_the_measurement_ends_before_the_wait_for_it_is_a_sample() {
        for wait in [Wait::Absolute, Wait::PosixTimer { absolute: true }] {
            let mut task = task(Options { wait, ..Options::on([Cpu(0)]) });
            task.options.alignment = Alignment::At(0);
            task.control.stop.store(true, Ordering::Relaxed);
            let begun = task.options.clock.now() - Ns::from_ms(60).0;
            assert_eq!(task.measure(Some(begun)), None);
            let found = task.shared.live();
            assert!(found.max >= Some(Ns::from_ms(59)) && found.missed >= 58, "{wait:?} {found:?}");
            assert_eq!(found.count, 1);
        }
    }

    #[test]
    fn a_thread_that_waited_for_its_cpu_since_its_release_is_late() {
        let mut task = task(Options { loops: Some(1), ..Options::on([Cpu(0)]) });
        let released = task.options.clock.now() - Ns::from_ms(60).0;
        task.shared.release_at(released);
        assert_eq!(task.measure(None), None);
        let found = task.shared.live();
        assert!(found.max >= Some(Ns::from_ms(59)) && found.missed >= 58, "{found:?}");
        let series = task.shared.result(&task.options, 0).series;
        assert!(
            series.begin.is_some_and(|begin| begin.0.abs_diff(released) < 50_000_000),
            "{:?}",
            series.begin
        );
    }
}
