//! Whether a thread works or spins after its main wait.
//!
//! A thread may wake early and busy-wait for its release: until a time, or until a flag is set. The kernel's events are the
//! same as for a long job. Time off the CPU (delays, preemptions, waits) is certainly not spinning. And a spin ends at a
//! fixed time, so it is shorter after a late start, while work takes the same CPU time: in a linear regression of the CPU time
//! of a job on the delay of its start, a spin has a slope of -1 and work a slope of 0.
//!
//! By default a job is work; only the slope shows a spin.

use super::slope::Slope;
use crate::time::Ns;

/// The jobs of one thread.
#[derive(Clone, Copy, Default)]
pub(super) struct Spinning {
    /// Of the CPU time on the delay.
    slope: Slope,
    longest: Ns,
}

impl Spinning {
    /// Resets the figures of the window. The slope is a property of the thread.
    pub fn begin_window(&mut self) {
        self.longest = Ns::ZERO;
    }

    /// A job ended: `delay` from its release until it ran.
    pub fn finished(&mut self, delay: Ns, response: Ns, execution: Ns) {
        self.longest = self.longest.max(response.saturating_sub(execution));
        self.slope.add(delay, execution);
    }

    /// The longest time of a job off the CPU, if the slope shows that its jobs spin.
    pub fn may_spin(&self) -> Option<Ns> {
        self.slope.ends_by_itself().then_some(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::slope::KNOWN;
    use super::*;

    const US: u64 = 1_000;

    /// Jobs with delays of 5 to 25 µs; `works`: CPU time after the start, given the delay and a random number.
    fn of(jobs: u64, works: impl Fn(u64, u64) -> u64) -> Option<Ns> {
        let (mut spinning, mut dice) = (Spinning::default(), 7_u64);
        let mut random = || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            dice >> 33
        };
        for _ in 0..jobs {
            let delay = 5 * US + random() % (20 * US);
            let execution = works(delay, random());
            spinning.finished(Ns(delay), Ns(delay + execution), Ns(execution));
        }
        spinning.may_spin()
    }

    #[test]
    fn work_takes_its_time_after_a_late_start_and_a_spin_ends_at_its_own() {
        let work = |_: u64, dice: u64| 51_000 * US + dice % (4 * US);
        assert_eq!(of(20, work), None);
        let spin = |delay: u64, dice: u64| 51_000 * US - delay + dice % (4 * US);
        assert!(of(20, spin).is_some());
        assert_eq!(of(KNOWN - 1, spin), None, "too few");
        assert_eq!(of(1_000, |_, dice| 30_000 * US + dice % (40_000 * US)), None, "the delays do not show");
        assert_eq!(of(1_000, |_, _| 51_000 * US), None, "all alike");
    }

    #[test]
    fn time_without_a_cpu_is_no_spin() {
        let mut spinning = Spinning::default();
        for delay in 1..20 {
            let preempted = if delay == 10 { 40_000 } else { 0 };
            spinning.finished(Ns(delay), Ns(50_000 + preempted), Ns(50_000 - delay));
        }
        assert_eq!(spinning.may_spin(), Some(Ns(40_010)));
        spinning.begin_window();
        assert_eq!(spinning.may_spin(), Some(Ns::ZERO));
    }
}
