//! Releases that fell out, and how late a job that was due then can have been.

use super::sums::layout;
use crate::histogram::{Exact, Histogram};
use crate::time::Ns;

/// Of one thread.
#[derive(Clone, Default)]
pub(super) struct Missing {
    /// Of which it is known, at the largest latency that is possible.
    bounded: Option<Histogram>,
    unknown: u64,
    /// Before the turn that goes on: how many, and from when the first was due to the release of that turn.
    open: Option<(u64, Ns)>,
}

impl Missing {
    /// `count` releases fell out before the turn that begins, the first of them due `before` it.
    pub fn before_turn(&mut self, count: u64, before: Ns) {
        self.end();
        self.open = (count > 0).then_some((count, before));
    }

    /// That turn is over; `response`: how long it took, if that is known.
    pub fn finished(&mut self, response: Option<Ns>) {
        let Some((count, before)) = self.open.take() else { return };
        let latency = response.and_then(|response| before.0.checked_add(response.0)).map(Ns);
        if !latency.is_some_and(|latency| self.add(count, latency)) {
            self.unknown = self.unknown.saturating_add(count);
        }
    }

    /// No end of that turn was seen.
    pub fn end(&mut self) {
        self.finished(None);
    }

    fn add(&mut self, count: u64, latency: Ns) -> bool {
        let bounded = self.bounded.get_or_insert_with(|| Histogram::new(layout()));
        let sum_ns = latency.0.saturating_mul(count);
        let exact = Exact { min: latency, max: latency, sum_ns };
        bounded.add_counts(&[(bounded.layout().index(latency), count)], exact).is_ok()
    }

    /// How many.
    pub fn count(&self) -> u64 {
        let bounded = self.bounded.as_ref().map_or(0, Histogram::count);
        bounded.saturating_add(self.unknown)
    }

    /// `responses` with the missing ones; `None`: none is missing, or of some it is not known how late they were.
    pub fn with(&self, responses: &Histogram) -> Option<Histogram> {
        let bounded = self.bounded.as_ref().filter(|_| self.unknown == 0)?;
        let mut all = responses.clone();
        all.merge(bounded).ok()?;
        Some(all)
    }
}
