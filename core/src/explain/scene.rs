//! The interval to explain, and the input of rules and sentences.

use super::record::Record;
use super::segment::Segment;
use super::share::Share;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Tid};

/// A programmed wake-up that came late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The victim.
    pub tid: Tid,
    /// CPU of the measurement.
    pub cpu: Cpu,
    /// The programmed expiry.
    pub begin: Mono,
    /// The first instruction in user space, or the switch-in for [`super::explain_timer_wakeup`].
    pub end: Mono,
}

/// A wake-up without a timer: waking → switched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeInterval {
    /// The victim.
    pub tid: Tid,
    /// CPU of the switch-in.
    pub cpu: Cpu,
    /// The waking.
    pub begin: Mono,
    /// The switch-in.
    pub end: Mono,
}

/// Input of the rules and the sentence.
pub struct CauseInput<'r, 'w> {
    /// The events.
    pub record: &'r Record<'w>,
    /// The victim.
    pub victim: Thread,
    /// CPU of the measurement.
    pub cpu: Cpu,
    /// Length of the interval.
    pub total: Ns,
    /// Every share of every phase.
    pub shares: Vec<Share>,
    /// The tree.
    pub tree: Segment,
}
