//! The tree of an explanation.

use serde::{Deserialize, Serialize};

use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns};

/// Kind of a part of an interval. Stable names in files; the label is for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// The whole interval (the root), or a group of successive parts.
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
    /// The victim is blocked.
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
    /// A thread was on the CPU while the interrupt could not be taken: interrupts off, according to the evidence.
    IrqsOff,
    /// The CPU was idle or leaving idle.
    Idle,
    /// The scheduler itself (waking, picking, switching).
    Scheduler,
    /// Steal time: the hypervisor ran something else on the CPU.
    Stolen,
    /// A page fault.
    PageFault,
    /// Events were lost: nothing is known.
    Lost,
}

/// An event that proves a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Name of the event (`sched_switch`), with the relevant fields.
    pub event: String,
    /// CPU of the event.
    pub cpu: Cpu,
    /// Time of the event.
    pub at: Mono,
}

/// A time span without evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gap {
    /// Part of the interval: `timer late`.
    pub label: String,
    /// Its start.
    pub begin: Mono,
    /// Its length.
    pub duration_ns: Ns,
    /// A timer was due and interrupts were on, but none came: the hypervisor or the hardware stopped the CPU or its
    /// timer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stood_still: bool,
}

impl Gap {
    /// Whether the CPU, its timer or the whole machine stalled then: no record of any thread shows more.
    #[must_use]
    pub fn is_stall(&self) -> bool {
        self.stood_still || self.label.contains(" stalled: ")
    }
}

/// One node. Invariants: durations of the children plus gaps equal `duration_ns`; a leaf has no gaps, so that *the sum
/// of the leaves plus the sum of all gaps is the total*. (Only the root may be a leaf with a gap.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Segment {
    /// Kind of the part.
    pub kind: Kind,
    /// Text for display: `hard IRQ 25 (virtio0)`.
    pub label: String,
    /// Its start (of the first occurrence if several are added up).
    pub begin: Mono,
    /// Net time: interrupts are segments of their own.
    pub duration_ns: Ns,
    /// Number of occurrences added up.
    pub count: u32,
    /// Number of page faults; not in the label, which is the key for adding up.
    #[serde(default, skip_serializing_if = "is_none")]
    pub faults: u32,
    /// Its pieces (start, end), ascending; empty if it is one piece, in files also if it is many.
    #[serde(default, skip_serializing_if = "not_to_be_kept")]
    pub pieces: Vec<(Mono, Mono)>,
    /// Its thread, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Thread>,
    /// Kernel stack, innermost first, if recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
    /// The events that prove it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Inferred, not recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// Time of this node that no child covers: its unexplained time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Parts, in time order or, if added up, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Segment>,
}

/// Maximum number of pieces in a file, for drawing.
const KEPT_PIECES: usize = 32;

fn not_to_be_kept(pieces: &[(Mono, Mono)]) -> bool {
    pieces.is_empty() || pieces.len() > KEPT_PIECES
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// `label` with the number of page faults.
#[must_use]
pub fn with_faults(label: &str, faults: u32) -> String {
    match faults {
        0 => label.to_owned(),
        1 => format!("{label}, with 1 page fault"),
        more => format!("{label}, with {more} page faults"),
    }
}

/// Minimum unexplained share of the total that a sentence mentions.
pub(super) const WORTH_A_REMARK: f64 = 0.05;

impl Segment {
    /// All gaps, its own and those of its parts.
    #[must_use]
    pub fn all_gaps(&self) -> Vec<&Gap> {
        let of_parts = self.children.iter().flat_map(Segment::all_gaps);
        self.gaps.iter().chain(of_parts).collect()
    }

    /// An explained leaf.
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

    /// An unexplained part; [`Segment::group`] turns it into a [`Gap`] of its parent.
    #[must_use]
    pub fn unexplained(kind: Kind, label: impl Into<String>, begin: Mono, duration: Ns) -> Segment {
        let mut node = Segment::leaf(kind, label, begin, duration);
        node.gaps.push(Gap { label: node.label.clone(), begin, duration_ns: duration, stood_still: false });
        node
    }

    /// An unexplained part in which a timer was due and interrupts were on, but none came.
    #[must_use]
    pub fn stood_still(kind: Kind, label: impl Into<String>, begin: Mono, duration: Ns) -> Segment {
        let mut node = Segment::unexplained(kind, label, begin, duration);
        node.gaps[0].stood_still = true;
        node
    }

    /// A node of `duration` made of `parts`, which must not overlap. Parts without any explained time become gaps, and
    /// so does uncovered time. Parts of length 0 are dropped.
    ///
    /// If the parts are longer than `duration`, the node grows: the invariant holds, and the caller sees another total.
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

    /// Whether the parts of every node add up to it.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        self.total_explained() + self.total_unexplained() == self.duration_ns
            && self.children.iter().all(Segment::adds_up)
    }
}

/// Explanation of one interval. `total_ns` is the explained leaves plus `unexplained_ns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The answer in one sentence.
    pub sentence: String,
    /// How to fix it, in one line.
    pub advice: String,
    /// The parts.
    pub tree: Segment,
    /// Length of the interval.
    pub total_ns: Ns,
    /// Unexplained time of the whole tree.
    pub unexplained_ns: Ns,
    /// Short name of the main cause, for rankings: `irqs off: vnd/812`, `thread: hog/99`.
    pub cause: String,
    /// Caveats: lost events, evidence that starts too late, missing tracepoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}
