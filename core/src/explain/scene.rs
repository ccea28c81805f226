//! What is to be explained, and what rules and sentences look at.

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
    /// Where it was measured.
    pub cpu: Cpu,
    /// The programmed expiry.
    pub begin: Mono,
    /// The first instruction in user space, or the switch-in where that is what was measured ([`super::explain_timer_wakeup`]).
    pub end: Mono,
}

/// A wake-up without a timer: waking → switched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeInterval {
    /// The victim.
    pub tid: Tid,
    /// Where it was switched in.
    pub cpu: Cpu,
    /// The waking.
    pub begin: Mono,
    /// The switch-in.
    pub end: Mono,
}

/// What the rules and the sentence look at.
pub struct Scene<'r, 'w> {
    /// The events.
    pub record: &'r Record<'w>,
    /// Who suffered.
    pub victim: Thread,
    /// Where it was measured.
    pub cpu: Cpu,
    /// The whole.
    pub total: Ns,
    /// Every share of every phase.
    pub shares: Vec<Share>,
    /// The tree.
    pub tree: Segment,
}
