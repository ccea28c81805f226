//! The digest of a stream: the events that a summary needs, in a few words each.
//!
//! Decoding is most of the work and needs neither other streams nor the earlier part of the same one: streams are
//! digested piece by piece, in batches, by any number of threads. Everything that depends on the order uses the digest
//! ([`super::in_order`]).

use std::ops::ControlFlow;

use crate::explain::waking;
use crate::time::{Cpu, Mono, Tid};
use crate::trace::event::{Event, Kind, LeftAs, Strings, Sym, Vector};
use crate::trace::item::{Damage, Item};
use crate::trace::merge::Stream;
use crate::trace::normalize::{Normalizer, Running};
use crate::trace::source::Source;

/// Total number of steps of one batch per stream: 8 MiB. A batch is some ms of work, so that waking a thread (up to 0.3
/// ms on a virtual CPU) is negligible.
const STEPS: usize = 1 << 18;
/// Maximum number of CPUs; the kernel has at most 8192.
pub(super) const MOST_CPUS: usize = 1 << 14;

/// One event in the digest. Symbols are those of its batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub at: Mono,
    pub cpu: Cpu,
    pub what: What,
}

/// A thread's name is the empty symbol if the event does not have it; `current` is the interrupted thread according to
/// the event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    /// The first event of this CPU in the batch.
    First,
    Switch {
        prev: Tid,
        prev_comm: Sym,
        left_as: Left,
        next: Tid,
        next_comm: Sym,
    },
    Waking(Tid),
    Migrate(Tid, Cpu),
    IrqEntry {
        irq: u32,
        name: Sym,
    },
    IrqExit {
        irq: u32,
        current: Option<Tid>,
    },
    VectorEntry(Vector),
    VectorExit {
        vector: Vector,
        current: Option<Tid>,
    },
    SoftirqEntry(u8),
    SoftirqExit {
        vec: u8,
        current: Option<Tid>,
    },
    /// Lost events: index in [`Batch::losses`].
    Lost(u32),
    /// Index in [`Batch::damage`].
    Damage(u32),
}

/// How a thread is switched out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Left {
    Runnable,
    Blocked,
    Dead,
}

/// Some steps of one stream, and counts of the other events.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) steps: Vec<Step>,
    /// Events by CPU.
    pub(super) counts: Vec<(Cpu, u64)>,
    pub(super) reach: Option<(Mono, Mono)>,
    pub(super) losses: Vec<Option<u64>>,
    pub(super) damage: Vec<Damage>,
    /// Texts of the batch's symbols.
    pub(super) texts: Vec<String>,
    /// Empty, and nothing follows.
    pub(super) is_last: bool,
}

/// A stream, or a piece of one, to be read into batches.
pub struct Walk<'s> {
    stream: Box<dyn Stream + 's>,
    running: Running,
}

impl<'s> Walk<'s> {
    /// From the start of `stream`.
    #[must_use]
    pub fn begin(stream: Box<dyn Stream + 's>) -> Self {
        Walk { stream, running: Running::default() }
    }
}

/// Reads walks into batches, in any order.
pub struct Digester<'s> {
    normalizer: Normalizer<'s>,
    /// Classes in the digest; all others are only counted.
    needed: Vec<bool>,
    /// Wake-ups start at `sched_wakeup`, because the trace has no `sched_waking`.
    from_wakeup: bool,
    symbols: BatchSymbols,
    most: usize,
}

/// Maps symbols of the normalizer to those of a batch.
#[derive(Default)]
struct BatchSymbols {
    batch: u64,
    /// By number; valid if they are of this batch.
    known: Vec<(u64, Sym)>,
}

impl BatchSymbols {
    #[inline]
    fn sym(&mut self, sym: Option<Sym>, strings: &Strings, texts: &mut Vec<String>) -> Sym {
        let Some(sym) = sym.filter(|sym| *sym != Sym(0)) else { return Sym(0) };
        let index = sym.0 as usize;
        if index >= self.known.len() {
            self.known.resize(index + 1, (0, Sym(0)));
        }
        if self.known[index].0 != self.batch {
            self.known[index] = (self.batch, Sym(texts.len() as u32));
            texts.push(strings.get(sym).to_owned());
        }
        self.known[index].1
    }
}

/// Whether events of this name are in the digest.
fn is_needed(name: &str) -> bool {
    const NEEDED: [&str; 4] = ["sched_switch", "sched_waking", "sched_wakeup_new", "sched_migrate_task"];
    let edge = name.strip_suffix("_entry").or(name.strip_suffix("_exit"));
    NEEDED.contains(&name)
        || edge.is_some_and(|of| {
            let other = ["hrtimer_expire", "timer_expire", "timer_hrtimer_expire", "csd_function", "ipi"];
            !other.contains(&of) && !of.starts_with("syscall")
        })
}

impl<'s> Digester<'s> {
    /// Reads `streams` streams of `source`.
    #[must_use]
    pub fn new(source: &'s dyn Source, streams: usize) -> Self {
        let from_wakeup = waking::is_missing(source);
        let needed = |name: &str| is_needed(name) || (from_wakeup && name == "sched_wakeup");
        Digester {
            normalizer: Normalizer::new(source),
            needed: source.catalogue().classes().iter().map(|class| needed(&class.name)).collect(),
            from_wakeup,
            symbols: BatchSymbols::default(),
            most: (STEPS / streams.max(1)).clamp(256, 1 << 15),
        }
    }

    /// Fills `batch` with the next steps; returns whether more may follow.
    pub fn fill(&mut self, walk: &mut Walk<'_>, batch: &mut Batch) -> bool {
        let Digester { normalizer, needed, symbols, most, from_wakeup } = self;
        let Walk { stream, running } = walk;
        batch.clear();
        symbols.batch += 1;
        normalizer.swap_running(running);
        let mut count = Count::default();
        let mut goes_on = false;
        stream.each(&mut |item| {
            match item {
                Item::Event(record) => {
                    if count.of != Some(record.cpu) {
                        count.change(record.cpu, &mut batch.counts);
                        batch.steps.push(Step { at: record.at, cpu: record.cpu, what: What::First });
                    }
                    count.add(record.at);
                    // Most events are not in the digest: they are only counted.
                    if needed.get(record.class as usize).copied().unwrap_or(false) {
                        let event = normalizer.event(record);
                        let strings = normalizer.strings();
                        let event = if *from_wakeup { as_waking(event) } else { event };
                        if let Some(what) = what_of(&event, |sym| symbols.sym(sym, strings, &mut batch.texts))
                        {
                            batch.steps.push(Step { at: event.at, cpu: event.cpu, what });
                        }
                    }
                }
                Item::Lost(loss) => {
                    let _ = normalizer.item(item); // the running thread is unknown now
                    let what = What::Lost(batch.losses.len() as u32);
                    batch.losses.push(loss.count);
                    batch.steps.push(Step { at: loss.before, cpu: loss.cpu, what });
                }
                Item::Damage(damage) => {
                    let what = What::Damage(batch.damage.len() as u32);
                    batch.damage.push(damage.clone());
                    let at = batch.steps.last().map_or(count.last, |step| step.at);
                    batch.steps.push(Step { at, cpu: Cpu(0), what });
                }
            }
            goes_on = batch.steps.len() >= *most;
            if goes_on {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        count.finish(batch);
        normalizer.swap_running(running);
        goes_on
    }
}

/// Number of events of the last CPU, and time span of all.
struct Count {
    of: Option<Cpu>,
    events: u64,
    first: Mono,
    last: Mono,
}

impl Default for Count {
    fn default() -> Self {
        Count { of: None, events: 0, first: Mono(u64::MAX), last: Mono(0) }
    }
}

impl Count {
    #[inline]
    fn add(&mut self, at: Mono) {
        self.events += 1;
        self.first = self.first.min(at);
        self.last = self.last.max(at);
    }

    fn change(&mut self, cpu: Cpu, counts: &mut Vec<(Cpu, u64)>) {
        if let Some(before) = self.of.replace(cpu) {
            counts.push((before, std::mem::take(&mut self.events)));
        }
    }

    fn finish(self, batch: &mut Batch) {
        if let Some(cpu) = self.of {
            batch.counts.push((cpu, self.events));
            batch.reach = Some((self.first, self.last));
        }
    }
}

impl Batch {
    /// An empty batch after which nothing follows.
    #[must_use]
    pub fn last() -> Batch {
        Batch { is_last: true, ..Batch::default() }
    }

    fn clear(&mut self) {
        let Batch { steps, counts, reach, losses, damage, texts, is_last } = self;
        steps.clear();
        counts.clear();
        losses.clear();
        damage.clear();
        texts.clear();
        texts.push(String::new());
        (*reach, *is_last) = (None, false);
    }
}

/// A `sched_wakeup` as a `sched_waking`.
fn as_waking(event: Event) -> Event {
    match event.kind {
        Kind::Wakeup { task, target_cpu } => {
            Event { kind: Kind::Waking { task, target_cpu, new: false, waker_prio: None }, ..event }
        }
        _ => event,
    }
}

fn what_of(event: &Event, mut own: impl FnMut(Option<Sym>) -> Sym) -> Option<What> {
    let current = event.current;
    Some(match event.kind {
        Kind::Switch { prev, left_as, next } => What::Switch {
            prev: prev.tid,
            prev_comm: own(prev.comm),
            left_as: match left_as {
                LeftAs::Runnable => Left::Runnable,
                LeftAs::Blocked(_) => Left::Blocked,
                LeftAs::Dead => Left::Dead,
            },
            next: next.tid,
            next_comm: own(next.comm),
        },
        Kind::Waking { task, .. } => What::Waking(task.tid),
        Kind::Migrate { task, to, .. } => What::Migrate(task.tid, to),
        Kind::IrqEntry { irq, name } => What::IrqEntry { irq, name: own(name) },
        Kind::IrqExit { irq } => What::IrqExit { irq, current },
        Kind::VectorEntry(vector) => What::VectorEntry(vector),
        Kind::VectorExit(vector) => What::VectorExit { vector, current },
        Kind::SoftirqEntry { vec } => What::SoftirqEntry(vec),
        Kind::SoftirqExit { vec } => What::SoftirqExit { vec, current },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_stays_small() {
        assert!(size_of::<Step>() <= 32, "{}", size_of::<Step>());
    }
}
