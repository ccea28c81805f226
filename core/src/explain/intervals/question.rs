//! What is asked for, and what was found.

use std::collections::BTreeSet;

use crate::explain::markers::Marker;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::Event;
use crate::trace::item::Loss;
use crate::trace::window::Mapping;

/// One interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundInterval {
    /// The thread whose life it is: the one that ended it.
    pub tid: Tid,
    /// Its name, where known.
    pub comm: String,
    /// The thread that began it, if another.
    pub begun_by: Option<Tid>,
    /// The paired value; for an interval by thread the first argument of a system call.
    pub key: Option<String>,
    /// Where it ended.
    pub cpu: Cpu,
    /// When it began.
    pub begin: Mono,
    /// When it ended.
    pub end: Mono,
    /// Events were lost on the way: begin and end may belong to different intervals.
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

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// From one marker to another, paired by thread or by the value of a field.
    Between {
        /// The begin.
        from: Marker,
        /// The end.
        to: Marker,
        /// The field that pairs them.
        pair: Option<String>,
    },
    /// From each waking to the switch-in.
    Wakeups,
    /// From the expiry of a timer to the text in which cyclictest reports that it came too late.
    Threshold,
    /// From the entry to the exit of a system call.
    Syscall(i32),
    /// From an interrupt line's handler to the switch-in of a thread that it leads to, through softirqs, work items and
    /// other threads.
    IrqToThread(u32, Tid),
    /// The turn on the CPU, or (of a named thread) the time off it, that holds this moment.
    At(Mono),
}

/// Whose intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// This thread's only.
    pub tid: Option<Tid>,
    /// Of threads whose name matches: `*` any characters, `?` one.
    pub comm: Option<String>,
}

impl Whose {
    /// Whether it is this thread.
    #[must_use]
    pub fn fits(&self, tid: Tid, comm: &str) -> bool {
        self.tid.is_none_or(|wanted| wanted == tid)
            && self.comm.as_ref().is_none_or(|glob| glob_fits(glob, comm))
    }
}

/// What a walk found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Worst first, equal ones in the order of time; those that span a loss after all others: they may be none.
    pub intervals: Vec<FoundInterval>,
    /// How many there were, also those not kept ([`MOST`](super::MOST)).
    pub count: u64,
    /// Of them, those with lost events between begin and end.
    pub spanning_losses: u64,
    /// Wake-ups begin at `sched_wakeup`, for want of `sched_waking`.
    pub from_wakeup: bool,
    /// Wake-ups that begin at `sched_wakeup` although others have `sched_waking`.
    pub without_waking: u64,
    /// Wake-ups that were not over when the trace ended.
    pub unfinished: u64,
    /// Threads that waited for a CPU when the trace began: how many, and of the longest the least that it took, its name
    /// and when it ended.
    pub waited_before: u64,
    /// Of the longest of them.
    pub longest_waited_before: Option<(Ns, String, Mono)>,
    /// No event class of the trace can answer: what would have to be recorded.
    pub unanswerable: Option<&'static str>,
    /// The interrupts are paired with what came next: nothing shows that they led there.
    pub only_in_order: bool,
    /// Begins without an end: a second begin came first, or the trace ended.
    pub unmatched_begins: u64,
    /// Ends without a begin.
    pub unmatched_ends: u64,
    /// Threads of unmatched begins and ends, to say why nothing paired.
    pub begin_threads: BTreeSet<String>,
    /// The same for ends.
    pub end_threads: BTreeSet<String>,
    /// Events whose effect lasts: calls of sched_setaffinity, and CPUs on their way offline or online.
    pub lasting: Vec<Event>,
    /// Files that were mapped.
    pub mappings: Vec<Mapping>,
    /// First and last time in the trace.
    pub reach: Option<(Mono, Mono)>,
    /// Events read.
    pub events: u64,
    /// Events that the recorder lost, where counted.
    pub lost: u64,
    /// Times that an unknown number was lost: packets, or what a file that was cut does not hold.
    pub lost_uncounted: u64,
    /// The file is damaged: not all that is missing was lost by the recorder.
    pub is_damaged: bool,
    /// Intervals whose begin was lost.
    pub begun_in_losses: u64,
    /// Of the one that took longest, the least that it took, and its end.
    pub longest_begun_in_loss: Option<(Ns, Mono)>,
    /// No event of the system call that was asked for is in the trace.
    pub is_call_unseen: bool,
    /// Wake-ups without a switch-in, which was lost, or which the kernel did not report.
    pub unseen_switch_ins: u64,
    /// Of the one that may have taken longest, the most that it took, and where it surely had ended.
    pub longest_unseen_switch_in: Option<(Ns, Mono)>,
    /// The first of the losses of which it is known after which moment they were.
    pub losses: Vec<Loss>,
    /// What was damaged on the way.
    pub damage: Vec<String>,
    /// CPUs whose events end before those of the others although they had something to do.
    pub silent: Vec<String>,
    /// Markers that no event class of the trace can be.
    pub impossible: Vec<String>,
}

impl Found {
    pub(super) fn count_loss(&mut self, count: Option<u64>) {
        match count {
            Some(count) => self.lost = self.lost.saturating_add(count),
            None => self.lost_uncounted += 1,
        }
    }
}

/// `*` stands for any characters, `?` for one.
fn glob_fits(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    let (mut g, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if g < glob.len() && glob[g] == '*' {
            star = Some((g, t));
            g += 1;
        } else if g < glob.len() && (glob[g] == '?' || glob[g] == text[t]) {
            g += 1;
            t += 1;
        } else if let Some((at, from)) = star {
            g = at + 1;
            t = from + 1;
            star = Some((at, from + 1));
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        assert!(glob_fits("kworker/*", "kworker/1:2") && glob_fits("*", "") && glob_fits("a?c*", "abcd"));
        assert!(!glob_fits("kworker", "kworker/1") && !glob_fits("a?", "a") && glob_fits("*b*b", "abab"));
    }
}
