//! Rules that turn shares of time into a cause, a sentence and a line of advice. One file per cause.
//!
//! A share belongs to the first rule in `CAUSES` that matches it. Shares of one rule and one culprit are added up over
//! all phases, and the largest sum is the main cause. Unexplained time competes like a cause: if it is the largest, the
//! answer is "unexplained".
//!
//! To add a cause: a file here with a `pub const CAUSE`, its line in `CAUSES`, and a case in `tests/causes/`.

mod function_call;
mod hard_irq;
mod idle_exit;
mod irq_thread;
mod irqs_off;
mod nmi;
pub(super) mod not_preempted;
mod page_fault;
mod softirq;
mod softirq_thread;
mod stolen;
mod switching;
mod thread;
mod timer_interrupt;
mod vector;
mod victim;
pub(super) mod waited_for;

use super::caveats;
use super::record::Record;
use super::scene::CauseInput;
use super::segment::{Explanation, Gap, WORTH_A_REMARK};
use super::share::{Share, BEFORE_RECORDING};
use super::standstill::BOTH;
use crate::time::{Mono, Ns};

/// One kind of cause.
pub struct Cause {
    /// Its name, for grouping.
    pub name: &'static str,
    /// Whether a share is of this kind.
    pub matches: fn(&Share) -> bool,
    /// Short stable name for rankings.
    pub key: fn(&Blame) -> String,
    /// What it did, as a clause: `hog/99 (RT 98) held CPU 1`; the amount is appended.
    pub clause: fn(&Blame) -> String,
    /// What to do about it, in one line.
    pub advice: fn(&Blame) -> String,
}

/// All causes, in order of precedence.
const CAUSES: [&Cause; 17] = [
    &stolen::CAUSE,
    &irqs_off::CAUSE,
    &victim::CAUSE,
    &waited_for::CAUSE,
    &switching::CAUSE,
    &page_fault::CAUSE,
    &softirq_thread::CAUSE,
    &irq_thread::CAUSE,
    &not_preempted::CAUSE,
    &thread::CAUSE,
    &idle_exit::CAUSE,
    &timer_interrupt::CAUSE,
    &function_call::CAUSE,
    &vector::CAUSE,
    &hard_irq::CAUSE,
    &softirq::CAUSE,
    &nmi::CAUSE,
];

/// The shares of one cause and one culprit, over all phases.
pub struct Blame<'s> {
    cause: &'static Cause,
    /// Its largest share.
    pub share: &'s Share,
    /// Net time of all its shares.
    pub net: Ns,
    /// Occurrences.
    pub count: u32,
    /// Page faults.
    pub faults: u32,
    /// The active preemption model, if known.
    pub preemption: Option<&'s str>,
}

/// The cause of a wake-up whose timer was late, if nothing is known to have kept it back.
pub const TIMER_LATE: &str = "timer late";
/// Advice for a CPU that stood still although interrupts were on.
pub const MEASURE_THE_HARDWARE: &str =
    "measure the hardware and the host alone: `lathunt hwlat`; compare steal time and SMI counts";
/// Minimum share of the total for a clause on a second cause.
const WORTH_A_CLAUSE: f64 = 0.2;

/// The explanation of a scene: its tree with main cause, sentence, advice and limits.
#[must_use]
pub fn conclude(scene: CauseInput, begin: Mono, end: Mono) -> Explanation {
    let blames = blames(scene.record, &scene.shares);
    let gaps = scene.tree.all_gaps();
    let unexplained = scene.tree.total_unexplained();
    let main = blames.first().filter(|blame| blame.net >= unexplained && blame.net > Ns::ZERO);
    let (cause, what, advice) = match main {
        Some(blame) => ((blame.cause.key)(blame), told(blame, scene.total), (blame.cause.advice)(blame)),
        None => unexplained_cause(&scene, &gaps, unexplained),
    };
    let mut sentence = format!("waited {}: {what}", scene.total);
    let second = if main.is_some() { blames.get(1) } else { blames.first() };
    let second = second.filter(|blame| blame.net.share_of(scene.total) >= WORTH_A_CLAUSE);
    if let Some(blame) = second {
        sentence.push_str(&format!("; {}", told(blame, scene.total)));
    }
    let untold =
        blames.get(usize::from(main.is_some()) + usize::from(second.is_some())..).unwrap_or_default();
    let rest: Ns = untold.iter().map(|blame| blame.net).sum();
    let told_net: Ns = main.into_iter().chain(second).map(|blame| blame.net).sum();
    if untold.len() > 1 && rest > told_net.max(unexplained) {
        sentence.push_str(&format!("; {} more causes for {}", untold.len(), amount(rest, scene.total)));
    }
    if main.is_some() && unexplained.share_of(scene.total) > WORTH_A_REMARK {
        sentence.push_str(&format!("; {} unexplained", amount(unexplained, scene.total)));
    }
    let limits = caveats::of(&scene, begin, end);
    Explanation {
        sentence,
        advice,
        total_ns: scene.tree.duration_ns,
        unexplained_ns: unexplained,
        cause,
        limits,
        tree: scene.tree,
    }
}

fn told(blame: &Blame, total: Ns) -> String {
    format!("{} for {}", (blame.cause.clause)(blame), amount(blame.net, total))
}

/// `498 µs (97 %)`.
fn amount(net: Ns, total: Ns) -> String {
    format!("{net} ({:.0} %)", 100.0 * net.share_of(total))
}

/// What one culprit took of a time, in words.
pub struct Told {
    /// [`Explanation::cause`].
    pub cause: String,
    /// What it did, as a clause; the amount is appended.
    pub clause: String,
    /// What to do about it.
    pub advice: String,
    /// Net time.
    pub net: Ns,
}

/// What the culprits of `shares` took of `total`, largest first; without those that took too little to be named.
#[must_use]
pub fn tell(record: &Record, shares: &[Share], total: Ns) -> Vec<Told> {
    let is_worth = |blame: &Blame| blame.net.share_of(total) >= WORTH_A_CLAUSE;
    let told = |blame: Blame| {
        let Cause { key, clause, advice, .. } = blame.cause;
        Told { cause: key(&blame), clause: clause(&blame), advice: advice(&blame), net: blame.net }
    };
    blames(record, shares).into_iter().filter(is_worth).map(told).collect()
}

/// All shares by cause and culprit, largest first.
fn blames<'s>(record: &'s Record, shares: &'s [Share]) -> Vec<Blame<'s>> {
    let preemption = record.window.preemption.as_deref();
    let mut blames: Vec<Blame> = Vec::new();
    for share in shares {
        let Some(cause) = CAUSES.into_iter().find(|cause| (cause.matches)(share)) else { continue };
        let same = |blame: &&mut Blame| blame.cause.name == cause.name && blame.share.name == share.name;
        if let Some(blame) = blames.iter_mut().find(same) {
            blame.net = blame.net + share.net;
            blame.count = blame.count.saturating_add(share.count);
            blame.faults = blame.faults.saturating_add(share.faults);
            if share.net > blame.share.net {
                blame.share = share;
            }
        } else {
            let Share { net, count, faults, .. } = *share;
            blames.push(Blame { cause, share, net, count, faults, preemption });
        }
    }
    blames.sort_by_key(|blame| std::cmp::Reverse(blame.net));
    blames
}

/// Cause, clause and advice if the largest part is unexplained.
fn unexplained_cause(scene: &CauseInput, gaps: &[&Gap], unexplained: Ns) -> (String, String, String) {
    let Some(largest) = gaps.iter().max_by_key(|gap| gap.duration_ns) else {
        return ("nothing".to_owned(), "there is nothing to explain".to_owned(), String::new());
    };
    let late = largest.label.starts_with("timer late");
    let lost = largest.label.starts_with("events lost");
    let (key, advice) = if late {
        ("timer late, unexplained", MEASURE_THE_HARDWARE)
    } else if largest.label.ends_with(BOTH) {
        (
            BOTH,
            "measure the hardware and the host alone: `lathunt hwlat`; else find what turns interrupts off: `record --potential irqsoff`",
        )
    } else if largest.label.contains(" stalled: ") {
        ("the CPU stood still", MEASURE_THE_HARDWARE)
    } else if largest.label.starts_with(BEFORE_RECORDING) {
        (BEFORE_RECORDING, "begin to record earlier: the task on the CPU before that is not known")
    } else if lost {
        ("events lost", "events were lost: enlarge the flight ring, or record fewer events")
    } else if largest.label.starts_with("blocked") || largest.label.contains(" blocked") {
        (
            "blocked",
            "the thread was blocked: record it with `lathunt trace` and ask `lathunt explain` for the reason",
        )
    } else {
        ("unexplained", "the record does not show the cause: the limits below list what is missing")
    };
    let what = format!("{} unexplained, most of it: {}", amount(unexplained, scene.total), largest.label);
    (key.to_owned(), what, advice.to_owned())
}

/// ` 12 times`, or nothing for a single time.
fn times(count: u32) -> String {
    if count > 1 {
        format!(" {count} times")
    } else {
        String::new()
    }
}
