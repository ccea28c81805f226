//! For how long a thread usually runs in a job.
//!
//! What each of its jobs runs, and what fits in the deadline, does not make one of them late: only what one runs beyond that
//! competes with other causes.

use crate::time::Ns;

/// Jobs from which it is known.
const LEAST: usize = 5;
/// Jobs that count.
const LAST: usize = 32;

/// The last jobs of a thread.
#[derive(Clone, Default)]
pub(super) struct Usual {
    ran: Vec<Ns>, // at most `LAST`, the oldest at `next` once it is full
    next: usize,
}

impl Usual {
    /// A job ran for `ran`.
    pub fn add(&mut self, ran: Ns) {
        if self.ran.len() < LAST {
            self.ran.push(ran);
        } else {
            self.ran[self.next % LAST] = ran;
            self.next += 1;
        }
    }

    /// The median; zero if it is not known, or leaves little of `deadline` for anything else: then all of its running makes a
    /// job late.
    pub fn within(&self, deadline: Ns) -> Ns {
        if self.ran.len() < LEAST {
            return Ns::ZERO;
        }
        let mut sorted = self.ran.clone();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2];
        if median.0 > deadline.0 / 10 * 9 {
            Ns::ZERO
        } else {
            median
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_median_of_the_last_jobs_if_that_fits_in_the_deadline() {
        let mut usual = Usual::default();
        let ms = Ns::from_ms;
        for nth in 0..4 {
            usual.add(ms(12 + nth % 2));
            assert_eq!(usual.within(ms(20)), Ns::ZERO, "after {} jobs", nth + 1);
        }
        usual.add(ms(90));
        assert_eq!(usual.within(ms(20)), ms(13));
        assert_eq!([15, 14].map(|deadline| usual.within(ms(deadline))), [ms(13), Ns::ZERO]);
        (0..32).for_each(|_| usual.add(ms(5)));
        assert_eq!((usual.within(ms(20)), usual.ran.len()), (ms(5), 32));
    }
}
