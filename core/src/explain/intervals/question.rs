//! The query, and its result.

use std::collections::BTreeSet;

use crate::explain::markers::Marker;
use crate::glob;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::Event;
use crate::trace::item::Loss;
use crate::trace::window::Mapping;

/// One interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundInterval {
    /// Its thread: the one that ended it.
    pub tid: Tid,
    /// Its name, if known.
    pub comm: String,
    /// The thread that started it, if another.
    pub begun_by: Option<Tid>,
    /// The value that paired the markers; if paired by thread, the first argument of a system call.
    pub key: Option<String>,
    /// CPU of its end.
    pub cpu: Cpu,
    /// Its start.
    pub begin: Mono,
    /// Its end.
    pub end: Mono,
    /// Events were lost in between: start and end may belong to different intervals.
    pub spans_loss: bool,
    /// The trace ended first: it took at least this long.
    pub unfinished: bool,
}

impl FoundInterval {
    /// Its length.
    #[must_use]
    pub fn total(&self) -> Ns {
        self.end.since(self.begin)
    }
}

/// A query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// From one marker to another, paired by thread or by the value of a field.
    Between {
        /// The start.
        from: Marker,
        /// The end.
        to: Marker,
        /// The field that pairs them.
        pair: Option<String>,
    },
    /// From each waking to the switch-in.
    Wakeups,
    /// From the expiry of a timer to the marker in which cyclictest reports the exceeded threshold.
    Threshold,
    /// From the entry to the exit of a system call.
    Syscall(i32),
    /// From the handler of an interrupt line to the switch-in of a thread that it leads to, through softirqs, work
    /// items and other threads.
    IrqToThread(u32, Tid),
    /// The run on the CPU, or (for a given thread) the time off it, at this time.
    At(Mono),
}

/// Selects threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// Only this thread.
    pub tid: Option<Tid>,
    /// Only threads whose name matches this shell pattern, see [`glob`].
    pub comm: Option<String>,
}

impl Whose {
    /// Whether the thread is selected.
    #[must_use]
    pub fn fits(&self, tid: Tid, comm: &str) -> bool {
        self.tid.is_none_or(|wanted| wanted == tid)
            && self.comm.as_ref().is_none_or(|glob| glob::fits(glob, comm))
    }
}

/// Result of a walk.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Worst first, equal ones in time order; those that span a loss come last: they may not be intervals.
    pub intervals: Vec<FoundInterval>,
    /// Number of all, including those not kept ([`MOST`](super::MOST)).
    pub count: u64,
    /// Number of those with lost events between start and end.
    pub spanning_losses: u64,
    /// Wake-ups start at `sched_wakeup`, because the trace has no `sched_waking`.
    pub from_wakeup: bool,
    /// Wake-ups that start at `sched_wakeup` although others have `sched_waking`.
    pub without_waking: u64,
    /// Wake-ups not finished at the end of the trace.
    pub unfinished: u64,
    /// Number of threads that waited for a CPU when the trace started.
    pub waited_before: u64,
    /// The longest of them: its minimum length, its thread and its end.
    pub longest_waited_before: Option<(Ns, String, Mono)>,
    /// The start of no thread is recorded: those threads may be new instead.
    pub may_be_new: bool,
    /// The longest of them, of a real-time thread: its minimum length.
    pub longest_realtime_before: Option<Ns>,
    /// Number of switch-ins of threads that slept, without the wake-up in between.
    pub unseen_wakings: u64,
    /// The longest of them: its maximum length, from the start of the sleep on, its thread and its end.
    pub longest_unseen_waking: Option<(Ns, String, Mono)>,
    /// Number of intervals between markers in the idle task, which are not listed.
    pub of_idle: u64,
    /// The longest of them: its length, its CPU and its end.
    pub longest_of_idle: Option<(Ns, Cpu, Mono)>,
    /// The trace lacks the events for the query: those to record.
    pub unanswerable: Option<&'static str>,
    /// The interrupts are paired with the next switch-in: no event links them.
    pub only_in_order: bool,
    /// Starts without an end: another start came first, or the trace ended.
    pub unmatched_begins: u64,
    /// Ends without a start.
    pub unmatched_ends: u64,
    /// The longest start of them, between markers or in a system call: its length if it ended there, its thread and its start.
    pub longest_unended: Option<(Ns, String, Mono)>,
    /// The longest interval that began before the trace, if its end is the first of its thread: its minimum length, its thread
    /// and its end.
    pub longest_begun_before: Option<(Ns, String, Mono)>,
    /// The longest of those whose thread exited: from its start to the exit, and its start. No result of it is late.
    pub longest_cut_by_exit: Option<(Ns, Mono)>,
    /// Threads of unmatched starts, to explain why nothing was paired.
    pub begin_threads: BTreeSet<String>,
    /// Threads of unmatched ends.
    pub end_threads: BTreeSet<String>,
    /// Events with a lasting effect: calls of sched_setaffinity, and CPUs going offline or online.
    pub lasting: Vec<Event>,
    /// Mapped files.
    pub mappings: Vec<Mapping>,
    /// First and last time in the trace.
    pub reach: Option<(Mono, Mono)>,
    /// Events read.
    pub events: u64,
    /// Events that the recorder counted as lost.
    pub lost: u64,
    /// Number of losses of unknown size: packets, or the end of a truncated file.
    pub lost_uncounted: u64,
    /// Number of those that are not the recorder's: lines left out of a text, the time between two recordings in it.
    pub left_out: u64,
    /// The file is damaged: not all missing events were lost by the recorder.
    pub is_damaged: bool,
    /// Intervals whose start was lost.
    pub begun_in_losses: u64,
    /// The longest of them: its minimum length and its end.
    pub longest_begun_in_loss: Option<(Ns, Mono)>,
    /// The trace has no event of the requested system call.
    pub is_call_unseen: bool,
    /// Wake-ups whose switch-in was lost or not reported by the kernel.
    pub unseen_switch_ins: u64,
    /// The longest of them: its maximum length, and the time by which it had certainly ended.
    pub longest_unseen_switch_in: Option<(Ns, Mono)>,
    /// The losses with a known start, up to a limit.
    pub losses: Vec<Loss>,
    /// Damage found.
    pub damage: Vec<String>,
    /// CPUs whose events end before those of the others although they had work.
    pub silent: Vec<String>,
    /// Markers that no event class of the trace can match.
    pub impossible: Vec<String>,
}

impl Found {
    /// Whether an interval over lost events, or without a start or an end, may be longer than all others: the worst is
    /// not known.
    #[must_use]
    pub fn may_hide_worse(&self) -> bool {
        let longest = |spans_loss: bool| {
            let of_kind = self.intervals.iter().filter(|interval| interval.spans_loss == spans_loss);
            of_kind.map(FoundInterval::total).max()
        };
        let begun_in_loss = self.longest_begun_in_loss.map(|(least, _)| least);
        let unseen_waking = self.longest_unseen_waking.as_ref().map(|(most, ..)| *most);
        let without_start = begun_in_loss.max(unseen_waking).max(self.longest_realtime_before);
        let of_idle = self.longest_of_idle.map(|(length, ..)| length);
        longest(true).max(without_start).max(self.cut()).max(of_idle) > longest(false)
    }

    /// Whether the only intervals are wake-ups of which one end is not recorded.
    #[must_use]
    pub fn has_only_halves(&self) -> bool {
        let has_half = self.longest_unseen_switch_in.is_some()
            || self.longest_waited_before.is_some()
            || self.longest_unseen_waking.is_some();
        self.count == 0 && has_half
    }

    /// Length of the longest interval without a start or without an end, if others have both.
    fn cut(&self) -> Option<Ns> {
        let both = [&self.longest_unended, &self.longest_begun_before];
        both.into_iter().flatten().filter(|_| self.count > 0).map(|(length, ..)| *length).max()
    }

    pub(super) fn count_loss(&mut self, count: Option<u64>) {
        match count {
            Some(count) => self.lost = self.lost.saturating_add(count),
            None => self.lost_uncounted += 1,
        }
    }
}
