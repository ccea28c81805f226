//! Missed releases, and upper limits of the response times of their jobs.

use super::sums::layout;
use crate::histogram::{Exact, Histogram};
use crate::time::Ns;

/// Missed releases of one thread.
#[derive(Clone, Default)]
pub(super) struct Missing {
    /// Those with an upper limit, at that response time.
    bounded: Option<Histogram>,
    unknown: u64,
    /// Before the current job: their number, and the time from the first one's due time to the release of that job.
    open: Option<(u64, Ns)>,
}

impl Missing {
    /// `count` releases are missing before the job that starts, the first due `before` it.
    pub fn before_turn(&mut self, count: u64, before: Ns) {
        self.end();
        self.open = (count > 0).then_some((count, before));
    }

    /// That job ended; `response`: its response time, if known.
    pub fn finished(&mut self, response: Option<Ns>) {
        let Some((count, before)) = self.open.take() else { return };
        let latency = response.and_then(|response| before.0.checked_add(response.0)).map(Ns);
        if !latency.is_some_and(|latency| self.add(count, latency)) {
            self.unknown = self.unknown.saturating_add(count);
        }
    }

    /// The end of that job was not recorded.
    pub fn end(&mut self) {
        self.finished(None);
    }

    fn add(&mut self, count: u64, latency: Ns) -> bool {
        let bounded = self.bounded.get_or_insert_with(|| Histogram::of_few(layout()));
        let sum_ns = latency.0.saturating_mul(count);
        let exact = Exact { min: latency, max: latency, sum_ns };
        bounded.add_counts(&[(bounded.layout().index(latency), count)], exact).is_ok()
    }

    /// Their number.
    pub fn count(&self) -> u64 {
        let bounded = self.bounded.as_ref().map_or(0, Histogram::count);
        bounded.saturating_add(self.unknown)
    }

    /// `responses` with the missing ones; `None`: none is missing, or some have no upper limit.
    pub fn with(&self, responses: &Histogram) -> Option<Histogram> {
        let bounded = self.bounded.as_ref().filter(|_| self.unknown == 0)?;
        let mut all = responses.clone();
        all.merge(bounded).ok()?;
        Some(all)
    }
}
