//! The tree of an explanation.

use serde::{Deserialize, Serialize};

use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns};

/// What a stretch of time was spent on. Stable names in files; the label beside it is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// The whole interval (the root), or a group of what follows one another.
    Passage,
    /// Expiry of the timer → its handler.
    TimerLate,
    /// The timer interrupt itself, up to the waking.
    TimerInterrupt,
    /// Waking → switched in.
    WakeupWait,
    /// Switched in → first instruction in user space.
    ReturnToUser,
    /// The victim itself runs.
    Running,
    /// The victim waits for something it asked for.
    Blocked,
    /// A hard interrupt with its handler.
    HardIrq,
    /// A system vector (local timer, reschedule, function call, …).
    Vector,
    /// A softirq.
    Softirq,
    /// A non-maskable interrupt.
    Nmi,
    /// Another thread held the CPU.
    Thread,
    /// A thread held the CPU while the interrupt could not be taken: interrupts off, as far as the evidence shows.
    IrqsOff,
    /// The CPU was idle or leaving idle.
    Idle,
    /// The scheduler itself (waking, picking, switching).
    Scheduler,
    /// The host of this virtual machine ran something else on the CPU.
    Stolen,
    /// A page fault.
    PageFault,
    /// Nothing is known of this stretch, because events were lost.
    Lost,
}

/// An event that proves a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Name of the event (`sched_switch`), with the fields that matter.
    pub event: String,
    /// Where it was recorded.
    pub cpu: Cpu,
    /// When.
    pub at: Mono,
}

/// A stretch that no evidence explains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gap {
    /// Which part of the interval it is: `timer late`.
    pub label: String,
    /// When it began.
    pub begin: Mono,
    /// How long.
    pub duration_ns: Ns,
    /// A timer was due, interrupts were on, and none came: a host or the hardware stopped the CPU or its timer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stood_still: bool,
}

/// One node. Invariants: children's durations plus gaps equal `duration_ns`; a leaf has no gaps, so that
/// *the sum of the leaves plus the sum of all gaps is the total*. (The root alone may be a leaf that is all gap.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Segment {
    /// What the time was spent on.
    pub kind: Kind,
    /// The same for people: `hard IRQ 25 (virtio0)`.
    pub label: String,
    /// When it began (the first occurrence where several are added up).
    pub begin: Mono,
    /// Net time: what interrupted it is a segment of its own.
    pub duration_ns: Ns,
    /// How many occurrences were added up.
    pub count: u32,
    /// Page faults meanwhile: no part of the label, which stands for what is added up.
    #[serde(default, skip_serializing_if = "is_none")]
    pub faults: u32,
    /// Where its time lies, begins and ends, ascending; empty where it is one piece, in files also where it is many.
    #[serde(default, skip_serializing_if = "not_to_be_kept")]
    pub pieces: Vec<(Mono, Mono)>,
    /// The thread that is meant, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Thread>,
    /// Kernel stack, innermost first, where recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// The events that prove it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// An inference rather than an observation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// Time of this node that no child covers: its own unexplained time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Parts, in the order of time or, where added up, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Segment>,
}

/// Pieces that a file keeps; for drawing.
const KEPT_PIECES: usize = 32;

fn not_to_be_kept(pieces: &[(Mono, Mono)]) -> bool {
    pieces.is_empty() || pieces.len() > KEPT_PIECES
}

// serde hands over a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// `label`, of something in which there were so many page faults.
#[must_use]
pub fn with_faults(label: &str, faults: u32) -> String {
    match faults {
        0 => label.to_owned(),
        1 => format!("{label}, with 1 page fault"),
        more => format!("{label}, with {more} page faults"),
    }
}

/// Above this share of the total a sentence says what is unexplained.
pub(super) const WORTH_A_REMARK: f64 = 0.05;

impl Segment {
    /// All gaps, its own and those of its parts.
    #[must_use]
    pub fn all_gaps(&self) -> Vec<&Gap> {
        let of_parts = self.children.iter().flat_map(Segment::all_gaps);
        self.gaps.iter().chain(of_parts).collect()
    }

    /// A leaf that is explained by itself.
    #[must_use]
    pub fn leaf(kind: Kind, label: impl Into<String>, begin: Mono, duration: Ns) -> Segment {
        Segment {
            kind,
            label: label.into(),
            begin,
            duration_ns: duration,
            count: 1,
            faults: 0,
            pieces: Vec::new(),
            thread: None,
            stack: Vec::new(),
            evidence: Vec::new(),
            inferred: false,
            gaps: Vec::new(),
            children: Vec::new(),
        }
    }

    /// A stretch that is not explained; [`Segment::group`] turns it into a [`Gap`] of its parent.
    #[must_use]
    pub fn unexplained(kind: Kind, label: impl Into<String>, begin: Mono, duration: Ns) -> Segment {
        let mut node = Segment::leaf(kind, label, begin, duration);
        node.gaps.push(Gap { label: node.label.clone(), begin, duration_ns: duration, stood_still: false });
        node
    }

    /// The same where a timer was due, interrupts were on, and none came.
    #[must_use]
    pub fn stood_still(kind: Kind, label: impl Into<String>, begin: Mono, duration: Ns) -> Segment {
        let mut node = Segment::unexplained(kind, label, begin, duration);
        node.gaps[0].stood_still = true;
        node
    }

    /// A node of `duration` made of `parts`, which must not overlap. Parts without any explained time become gaps,
    /// and what no part covers becomes one more. Parts of no length are dropped.
    ///
    /// Should the parts not fit, the node grows to hold them: the identity holds, and the caller sees another total.
    #[must_use]
    pub fn group(
        kind: Kind,
        label: impl Into<String>,
        begin: Mono,
        duration: Ns,
        parts: Vec<Segment>,
    ) -> Segment {
        let covered: Ns = parts.iter().map(|part| part.duration_ns).sum();
        let mut node = Segment::leaf(kind, label, begin, duration.max(covered));
        for part in parts.into_iter().filter(|part| part.duration_ns > Ns::ZERO) {
            if part.total_explained() == Ns::ZERO {
                node.gaps.extend(part.gaps);
            } else {
                node.children.push(part);
            }
        }
        let rest = node.duration_ns.saturating_sub(covered);
        if rest > Ns::ZERO {
            node.gaps.push(Gap { label: node.label.clone(), begin, duration_ns: rest, stood_still: false });
        }
        node
    }

    /// Unexplained time of this node and all below it.
    #[must_use]
    pub fn total_unexplained(&self) -> Ns {
        let own: Ns = self.gaps.iter().map(|gap| gap.duration_ns).sum();
        own + self.children.iter().map(Segment::total_unexplained).sum()
    }

    /// Explained time of all leaves.
    #[must_use]
    pub fn total_explained(&self) -> Ns {
        match (self.children.is_empty(), self.gaps.is_empty()) {
            (true, true) => self.duration_ns,
            _ => self.children.iter().map(Segment::total_explained).sum(),
        }
    }

    /// All explained nodes without children, in order. Their durations and all gaps add up to the total.
    #[must_use]
    pub fn leaves(&self) -> Vec<&Segment> {
        if self.children.is_empty() {
            if self.gaps.is_empty() {
                vec![self]
            } else {
                Vec::new()
            }
        } else {
            self.children.iter().flat_map(Segment::leaves).collect()
        }
    }

    /// Whether every node's parts add up to it.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        self.total_explained() + self.total_unexplained() == self.duration_ns
            && self.children.iter().all(Segment::adds_up)
    }
}

/// Where the time of one interval went. `total_ns` is the explained leaves plus `unexplained_ns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The answer in one sentence.
    pub sentence: String,
    /// What to do about it, in one line.
    pub advice: String,
    /// The parts.
    pub tree: Segment,
    /// The whole.
    pub total_ns: Ns,
    /// What the evidence does not show, of the whole tree.
    pub unexplained_ns: Ns,
    /// Short name of the main cause, for rankings: `irqs off: vnd/812`, `thread: hog/99`.
    pub cause: String,
    /// What limits this explanation: lost events, evidence that begins too late, tracepoints that are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}
