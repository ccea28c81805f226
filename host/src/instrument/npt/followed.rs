//! State of one measured CPU: its gaps, their attribution, the worst of them.

use std::sync::atomic::Ordering::Acquire;
use std::sync::Arc;
use std::thread::JoinHandle;

use lathunt_core::explain::Explanation;
use lathunt_core::npt::gap::Gap;
use lathunt_core::npt::ledger::ELSEWHERE;
use lathunt_core::npt::turns::Turns;
use lathunt_core::peak::{Peak, Worst};
use lathunt_core::series::{Quantity, Series, Thread};
use lathunt_core::time::{Cpu, Mono, Ns, Prio};

use super::anchors::Anchors;
use super::lane::{self, Shared};
use super::largest::Largest;
use super::record::{Pieces, Seen};
use super::steal::share_steal;
use super::Options;
use crate::error::Result;
use crate::recorder::Freezer;

/// One CPU under measurement.
pub(super) struct Lane {
    pub(super) cpu: Cpu,
    pub(super) shared: Arc<Shared>,
    pub(super) thread: Option<JoinHandle<Result<Turns>>>,
    pub(super) freezer: Option<Freezer>,
    pub(super) pieces: Pieces,
    pub(super) largest: Largest,
    pub(super) begun: Option<Mono>,
    pub(super) stolen: Option<Ns>,
    pub(super) stolen_exactly: Option<u64>, // the kernel's count at the last gap
    pub(super) worst: Worst<Peak>,
}

impl Lane {
    pub(super) fn take(&mut self, raws: Vec<lane::Raw>, clock: &Anchors, steal: Option<Ns>) {
        let largest = raws.iter().map(|raw| raw.end.wrapping_sub(raw.begin)).max();
        let exact =
            share_steal(&raws, &mut self.stolen_exactly, |from, to| clock.mono(to).since(clock.mono(from)));
        for (raw, exact) in raws.into_iter().zip(exact) {
            let length = raw.end.wrapping_sub(raw.begin);
            self.begun.get_or_insert_with(|| clock.mono(self.shared.begun.load(Acquire)));
            let (begin, end) = (clock.mono(raw.begin), clock.mono(raw.end));
            // Steal time since the last check is attributed to the largest gap, the best available guess.
            let steal_ns = steal.map(|steal| if Some(length) == largest { steal } else { Ns::ZERO });
            // SMIs and steal time are counted of the lane's CPU.
            let here = |counted: Option<_>| counted.filter(|_| !raw.elsewhere);
            let exact = here(exact);
            let smi = raw.smi.checked_sub(1).filter(|_| !raw.elsewhere);
            let steal_is_exact = exact.is_some();
            let steal_ns = here(exact.or(steal_ns));
            self.pieces.wait(Gap {
                cpu: self.cpu,
                begin,
                end,
                faults: raw.faults,
                smi,
                steal_ns,
                steal_is_exact,
                elsewhere: raw.elsewhere,
            });
        }
    }

    /// The largest gap of a second is one of the worst even if it found no room in the queue.
    pub(super) fn keep_dropped(&mut self, priority: i32) {
        for (begin, length) in self.largest.gaps() {
            // Gaps of one CPU do not overlap: if two do, they are the same.
            let same = |peak: &Peak| begin < peak.begin + peak.total_ns && peak.begin < begin + length;
            if self.worst.iter().any(|(_, peak)| same(peak)) || !self.worst.would_keep(length) {
                continue;
            }
            let reason = "the queue of gaps was full: the cause is unknown";
            let peak = self.peak(begin, length, Err(reason), priority);
            self.worst.offer(length, peak);
        }
    }

    /// Keeps one of the worst, with its explanation.
    pub(super) fn keep(&mut self, seen: &Seen, priority: i32) {
        let total_ns = seen.gap.length();
        if !self.worst.would_keep(total_ns) {
            return;
        }
        let unseen = match seen.gap.elsewhere {
            true => ELSEWHERE,
            false => "the kernel's record does not cover this gap",
        };
        let peak = self.peak(seen.gap.begin, total_ns, seen.explanation.clone().ok_or(unseen), priority);
        self.worst.offer(total_ns, peak);
    }

    /// The gap, if it is above [`Options::late`].
    pub(super) fn late(&self, seen: &Seen, options: &Options) -> Option<Peak> {
        let length = seen.gap.length();
        options.late.filter(|&late| length > late)?;
        let unseen = match seen.gap.elsewhere {
            true => ELSEWHERE,
            false => "it is not one of the worst gaps, or it is not in the kernel's record",
        };
        let told = seen.explanation.clone().ok_or(unseen);
        let mut peak = self.peak(seen.gap.begin, length, told, options.priority);
        peak.culprit = peak.explanation.as_ref().map(|told| told.cause.clone());
        Some(peak)
    }

    /// A gap with its explanation, or the reason why there is none.
    fn peak(
        &self,
        begin: Mono,
        total_ns: Ns,
        told: std::result::Result<Explanation, &str>,
        priority: i32,
    ) -> Peak {
        Peak {
            quantity: Quantity::Npt,
            cpu: self.cpu,
            begin,
            total_ns,
            victim: self.thread_shown(priority),
            culprit: None,
            context: None,
            no_evidence: told.as_ref().err().map(|reason| (*reason).to_owned()),
            explanation: told.ok(),
            during_action: false,
            counted_as: None,
        }
    }

    fn thread_shown(&self, priority: i32) -> Thread {
        let prio = if priority > 0 { Prio::from_rt(priority) } else { Prio(120) };
        Thread { tid: self.shared.tid(), comm: format!("npt/{}", self.cpu), prio: Some(prio) }
    }

    pub(super) fn series(&self, turns: &Turns, options: &Options) -> Series {
        let mut series = Series::new(Quantity::Npt, Some(self.cpu), turns.histogram());
        series.thread = Some(self.thread_shown(options.priority));
        series.begin = self.begun;
        series.variance_ns2 = turns.figures().map(|figures| figures.variance_ns2);
        series
    }
}
