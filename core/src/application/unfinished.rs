//! A job without a response time: it was in progress when the recording or its thread ended. It may be the worst.

use serde::{Deserialize, Serialize};

use crate::time::{Mono, Ns};

/// State of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Woken, waiting for a CPU.
    Waits,
    /// Running.
    Runs,
    /// Preempted.
    Preempted,
    /// Blocked in [`Unfinished::place`].
    Blocked,
    /// The thread has ended.
    Ended,
}

/// The unfinished last job of a thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unfinished {
    /// State of the thread at the end.
    pub state: State,
    /// Release of the job.
    pub since: Mono,
    /// Time from its release to the end.
    pub after_ns: Ns,
    /// Where it is blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// It waits for a CPU, and its control group had used up its CPU quota, at least once since its last wake-up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub out_of_quota: bool,
    /// Its longest wait for a mutex: a thread that waits for one has not left its loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_ns: Option<Ns>,
}

impl Unfinished {
    /// Whether the thread may have left its loop: no job of it needs to be later than `deadline`. Not if it waited longer for
    /// a mutex.
    #[must_use]
    pub fn may_have_left(&self, deadline: Ns) -> bool {
        matches!(self.state, State::Blocked | State::Ended) && self.locked_ns <= Some(deadline)
    }
}

impl std::fmt::Display for Unfinished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let after = self.after_ns;
        let what = match self.state {
            State::Ended => {
                let locked = self.locked_ns.map(|ns| format!("; it waited for a mutex for {ns}"));
                let locked = locked.unwrap_or_default();
                return write!(f, "its last job ended with the thread, after {after}{locked}");
            }
            State::Waits if self.out_of_quota => {
                "it waited for a CPU, or for the next period of its cgroup's CPU quota".to_owned()
            }
            State::Waits => "it waited for a CPU".to_owned(),
            State::Runs => "it had a CPU".to_owned(),
            State::Preempted if self.out_of_quota => {
                "it was preempted, or its cgroup had used up its CPU quota".to_owned()
            }
            State::Preempted => "it was preempted".to_owned(),
            State::Blocked if self.locked_ns.is_some() => {
                format!("it waited for the mutex {}", self.place.as_deref().unwrap_or("in another place"))
            }
            State::Blocked => format!("it waited in {}", self.place.as_deref().unwrap_or("another place")),
        };
        write!(f, "its last job was not finished after {after}, when recording ended: {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{activation, name, LOCK, SLEEP};
    use super::super::{Task, Tasks};
    use super::*;
    use crate::series::Quantity;
    use crate::trace::activation::{Activation, Point, Via};

    const PERIOD: u64 = 1_000_000;

    /// A thread of 1 kHz, and then `last`; the recording ends 500 ms later, when the thread has blocked `blocks` times more.
    fn with(last: impl FnOnce(&mut Tasks, Activation), blocks: u16) -> Task {
        let mut tasks = Tasks::new(16, Some(Ns::from_ms(1)), name);
        let mut known = 0;
        for turn in 1..=100 {
            let one = activation(turn * PERIOD, Via::Timer, SLEEP);
            known = one.blocks;
            tasks.add(&one);
        }
        let next = activation(101 * PERIOD, Via::Timer, SLEEP);
        last(&mut tasks, next);
        tasks.end(Mono(601 * PERIOD), |_| Some(known + blocks));
        tasks.report().remove(0)
    }

    #[test]
    fn a_turn_that_is_not_over_when_the_recording_ends_is_told_and_in_no_response_time() {
        for state in [State::Waits, State::Runs, State::Preempted] {
            let task = with(
                |tasks, next| tasks.goes_on(&Activation { blocked: Mono(601 * PERIOD), ..next }, state),
                0,
            );
            let end = task.late_end().unwrap();
            assert_eq!((end.state, end.since), (state, Mono(101 * PERIOD - 2_000)));
            assert_eq!(end.after_ns, Ns(500 * PERIOD + 2_000));
            let response = task.of(Quantity::Response).unwrap();
            assert!(response.histogram.max() < Some(Ns::from_ms(1)) && response.histogram.count() == 99);
            assert_eq!((task.misses, task.of(Quantity::Wakeup).unwrap().histogram.count()), (0, 101));
        }
        let missing = |tasks: &mut Tasks, next: Activation| {
            let next = Activation { blocked: Mono(601 * PERIOD), blocks: next.blocks + 1, ..next };
            tasks.goes_on(&next, State::Runs);
        };
        let task = with(missing, 1);
        assert_eq!((task.unfinished, task.not_recorded), (None, 1), "a turn between was not recorded");
    }

    #[test]
    fn a_turn_that_waits_elsewhere_is_not_over_unless_it_may_have_gone_on_unseen() {
        let locked = |tasks: &mut Tasks, next: Activation| {
            tasks.add(&Activation { point: LOCK, ..next });
        };
        let end = with(locked, 1).unfinished.unwrap();
        assert_eq!((end.state, end.place.as_deref()), (State::Blocked, Some("futex FUTEX_LOCK_PI 0x1000")));
        assert_eq!(end.after_ns, Ns(500 * PERIOD + 2_000));
        assert_eq!(with(locked, 2).unfinished, None);
        assert_eq!(with(|_, _| (), 0).unfinished, None, "it waits for its next turn");
    }

    #[test]
    fn a_thread_that_waits_for_a_mutex_at_the_end_has_not_left_its_loop() {
        let futex = Point { operation: 128, ..LOCK };
        let of = |point, contended, deadline_ms| {
            let last = |tasks: &mut Tasks, next: Activation| {
                tasks.add(&Activation { point, contended, ..next });
            };
            let end = with(last, 1).unfinished.unwrap();
            (end.locked_ns.is_some(), end.may_have_left(Ns::from_ms(deadline_ms)))
        };
        assert_eq!(of(LOCK, false, 1), (true, false), "with priority inheritance");
        assert_eq!(of(futex, true, 1), (true, false));
        assert_eq!(of(futex, true, 499), (true, false));
        assert_eq!(of(futex, true, 500), (true, true), "the wait was no longer");
        assert_eq!(of(futex, false, 1), (false, true), "perhaps the end of another thread");
    }

    #[test]
    fn a_job_that_waits_for_a_mutex_or_runs_when_a_window_ends_is_told_in_each_of_them() {
        let lock = |next| Activation { point: LOCK, ..next };
        let mut tasks = Tasks::new(16, Some(Ns::from_ms(1)), name);
        (1..=100).for_each(|turn| _ = tasks.add(&activation(turn * PERIOD, Via::Timer, SLEEP)));
        let last = lock(activation(101 * PERIOD, Via::Timer, SLEEP));
        tasks.add(&last);
        for end in [201, 301] {
            tasks.ends_window();
            tasks.goes_on_at(Mono(end * PERIOD), &[], |_| Some(last.blocks));
            let task = tasks.report().remove(0);
            let told = task.late_end().unwrap();
            assert_eq!((told.state, told.after_ns), (State::Blocked, Ns((end - 101) * PERIOD + 2_000)));
            assert!(!told.may_have_left(Ns::from_ms(1)));
            tasks.begin_window();
        }
        // It goes on, and ends its job in this window.
        let freed = activation(350 * PERIOD, Via::Thread, SLEEP);
        tasks.add(&Activation { blocks: last.blocks + 1, timer: None, ..freed });
        tasks.goes_on_at(Mono(351 * PERIOD), &[], |_| Some(last.blocks + 1));
        let task = tasks.report().remove(0);
        assert_eq!((task.unfinished.clone(), task.activations), (None, 1));
        let longest = task.of(Quantity::Response).unwrap().histogram.max().unwrap();
        assert!(longest > Ns::from_ms(248), "{longest}");
        let hangs = Activation { blocks: last.blocks + 2, ..activation(360 * PERIOD, Via::Timer, SLEEP) };
        let hangs = Activation { blocked: Mono(460 * PERIOD), ..hangs };
        tasks.goes_on_at(hangs.blocked, &[(hangs, State::Runs)], |_| Some(last.blocks + 1));
        let told = tasks.report().remove(0).unfinished.unwrap();
        assert_eq!((told.state, told.after_ns), (State::Runs, Ns(100 * PERIOD + 2_000)));
    }

    #[test]
    fn a_thread_that_is_out_of_cpu_quota_at_the_end_may_not_have_been_preempted() {
        for (out_of_quota, told) in
            [(true, "or its cgroup had used up its CPU quota"), (false, "it was preempted")]
        {
            let goes_on = |tasks: &mut Tasks, next: Activation| {
                tasks.goes_on(&Activation { out_of_quota, ..next }, State::Preempted);
            };
            let last = with(goes_on, 0).unfinished.unwrap();
            assert!(last.out_of_quota == out_of_quota && last.to_string().ends_with(told), "{last}");
        }
    }

    #[test]
    fn a_thread_that_is_stopped_in_its_main_wait_at_the_end_may_have_been_released() {
        let stops = |stopped| {
            move |tasks: &mut Tasks, next: Activation| {
                tasks.add(&Activation { via: Via::Thread, timer: None, stopped, ..next });
            }
        };
        let stopped = with(stops(true), 1);
        assert_eq!(stopped.outside_ns, Some(Ns(500 * PERIOD - 53_000)));
        assert_eq!(stopped.stopped_ns, stopped.outside_ns);
        let waits = with(stops(false), 1);
        assert!(
            waits.outside_ns < Some(Ns::from_ms(1)),
            "it waits for its next turn: {:?}",
            waits.outside_ns
        );
        assert_eq!(waits.stopped_ns, None);
    }

    #[test]
    fn a_turn_in_which_the_thread_ends_lasted_until_then() {
        let exits = Point { syscall: Point::EXITS, argument: 0, operation: 0, compat: false, site: 0 };
        let late = |tasks: &mut Tasks, next: Activation| {
            tasks.add(&Activation { point: exits, blocked: Mono(151 * PERIOD), ..next });
        };
        let task = with(late, 1);
        assert_eq!(
            task.late_end().unwrap().to_string(),
            "its last job ended with the thread, after 50.002 ms"
        );
        let in_time = |tasks: &mut Tasks, next: Activation| {
            tasks.add(&Activation { point: exits, ..next });
        };
        assert_eq!(with(in_time, 1).late_end(), None);
    }

    #[test]
    fn a_job_in_which_the_thread_ends_is_unfinished_in_that_window_alone() {
        let exits = Point { syscall: Point::EXITS, argument: 0, operation: 0, compat: false, site: 0 };
        let mut tasks = Tasks::new(16, Some(Ns::from_ms(1)), name);
        (1..=100).for_each(|turn| _ = tasks.add(&activation(turn * PERIOD, Via::Timer, SLEEP)));
        tasks.ends_window();
        assert_eq!(tasks.report().remove(0).late_end(), None);
        tasks.begin_window();
        (101..=110).for_each(|turn| _ = tasks.add(&activation(turn * PERIOD, Via::Timer, SLEEP)));
        let last = activation(111 * PERIOD, Via::Timer, SLEEP);
        tasks.add(&Activation { point: exits, blocked: Mono(161 * PERIOD), ..last });
        tasks.ends_window();
        let told = tasks.report().remove(0).late_end().map(ToString::to_string);
        assert_eq!(told.as_deref(), Some("its last job ended with the thread, after 50.002 ms"));
        tasks.begin_window();
        tasks.ends_window();
        assert!(tasks.report().iter().all(|task| task.unfinished.is_none()));
        tasks.end(Mono(700 * PERIOD), |_| None);
        assert!(tasks.report().iter().all(|task| task.unfinished.is_none()));
    }
}
