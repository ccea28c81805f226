//! What of a stream's events is summed up, in a few words each.
//!
//! Decoding is most of the work and needs no other stream: each stream is digested by itself, a batch at a time, if
//! one likes by a thread of its own. What depends on the order across CPUs is done with the digest
//! ([`super::in_order`]).

use std::ops::ControlFlow;

use crate::time::{Cpu, Mono, Tid};
use crate::trace::event::{Event, Kind, LeftAs, Sym, Vector};
use crate::trace::merge::Stream;
use crate::trace::normalize::Normalizer;
use crate::trace::source::{Item, Record, Source, Span};

/// Steps of all streams' batches together: 8 MiB. A batch is worth some ms of work, so that what it costs to wake a
/// thread (up to 0.3 ms on a virtual CPU) does not count.
const STEPS: usize = 1 << 18;
/// CPUs that are summed up; the kernel has 8192 at most.
pub(super) const MOST_CPUS: usize = 1 << 14;

/// One event, as far as it is summed up. Symbols are those of its stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub at: Mono,
    pub cpu: Cpu,
    pub what: What,
}

/// A thread's name is the empty symbol where the event does not say it; `current` is the thread that the event
/// itself names as interrupted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    /// The first event of this CPU.
    First,
    Switch {
        prev: Tid,
        prev_comm: Sym,
        still_runnable: bool,
        next: Tid,
        next_comm: Sym,
    },
    Waking(Tid),
    Migrate(Tid),
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
    /// So many events, in [`Batch::losses`].
    Lost(u32),
    /// In [`Batch::damage`].
    Damage(u32),
}

/// Some steps of one stream, and what was counted on the way.
#[derive(Debug, Default)]
pub struct Batch {
    pub(super) steps: Vec<Step>,
    /// Events by CPU.
    pub(super) counts: Vec<(Cpu, u64)>,
    pub(super) reach: Option<(Mono, Mono)>,
    pub(super) losses: Vec<u64>,
    pub(super) damage: Vec<String>,
    /// Texts of the stream's symbols that no batch before had.
    pub(super) texts: Vec<String>,
    /// Nothing follows.
    pub(super) is_last: bool,
}

/// Reads one stream into batches.
pub struct Digester<'s> {
    stream: Box<dyn Stream + 's>,
    normalizer: Normalizer<'s>,
    /// Classes that are summed up; all others are only counted.
    needed: Vec<bool>,
    seen: Vec<bool>,
    /// Symbols whose texts were given away.
    told: usize,
    most: usize,
}

/// One digester for each stream of `source`.
#[must_use]
pub fn digesters(source: &dyn Source) -> Vec<Digester<'_>> {
    let streams = source.streams(Span::ALL);
    let most = (STEPS / streams.len().max(1)).clamp(256, 1 << 15);
    let needed: Vec<bool> = source.catalogue().classes().iter().map(|class| is_needed(&class.name)).collect();
    let of = |stream| Digester {
        stream,
        normalizer: Normalizer::new(source),
        needed: needed.clone(),
        seen: Vec::new(),
        told: 0,
        most,
    };
    streams.into_iter().map(of).collect()
}

/// Whether events of this name are summed up.
fn is_needed(name: &str) -> bool {
    const NEEDED: [&str; 4] = ["sched_switch", "sched_waking", "sched_wakeup_new", "sched_migrate_task"];
    let edge = name.strip_suffix("_entry").or(name.strip_suffix("_exit"));
    NEEDED.contains(&name)
        || edge.is_some_and(|of| {
            let other = ["hrtimer_expire", "timer_expire", "timer_hrtimer_expire", "csd_function", "ipi"];
            !other.contains(&of) && !of.starts_with("syscall")
        })
}

impl Digester<'_> {
    /// Fills `batch` with what comes next.
    pub fn fill(&mut self, batch: &mut Batch) {
        let Digester { stream, normalizer, needed, seen, told, most } = self;
        batch.clear();
        batch.is_last = true;
        let mut count = Count::default();
        stream.each(&mut |item| {
            match item {
                Item::Event(record) => {
                    if count.of != Some(record.cpu) {
                        count.change(record.cpu, &mut batch.counts);
                        batch.first_of(record, seen);
                    }
                    count.add(record.at);
                    // Most events say nothing that is summed up: they are counted and not looked into.
                    if needed.get(record.class as usize).copied().unwrap_or(false) {
                        let event = normalizer.event(record);
                        if let Some(what) = what_of(&event) {
                            batch.steps.push(Step { at: event.at, cpu: event.cpu, what });
                        }
                    }
                }
                Item::Lost(loss) => {
                    let _ = normalizer.item(item); // who runs there is unknown now
                    let what = What::Lost(batch.losses.len() as u32);
                    batch.losses.push(loss.count.unwrap_or(1));
                    batch.steps.push(Step { at: loss.before, cpu: loss.cpu, what });
                }
                Item::Damage(damage) => {
                    let what = What::Damage(batch.damage.len() as u32);
                    batch.damage.push(damage.to_string());
                    let at = batch.steps.last().map_or(count.last, |step| step.at);
                    batch.steps.push(Step { at, cpu: Cpu(0), what });
                }
            }
            if batch.steps.len() < *most {
                return ControlFlow::Continue(());
            }
            batch.is_last = false;
            ControlFlow::Break(())
        });
        count.finish(batch);
        while let Some(text) = normalizer.strings().nth(*told) {
            batch.texts.push(text.to_owned());
            *told += 1;
        }
    }
}

/// Events of the CPU that was seen last, and the reach of all.
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
    /// Without anything, and nothing follows.
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
        (*reach, *is_last) = (None, false);
    }

    /// Marks a CPU's first event.
    fn first_of(&mut self, record: &Record<'_>, seen: &mut Vec<bool>) {
        let index = record.cpu.0 as usize;
        if index >= seen.len() && index < MOST_CPUS {
            seen.resize(index + 1, false);
        }
        if let Some(seen) = seen.get_mut(index).filter(|seen| !**seen) {
            *seen = true;
            self.steps.push(Step { at: record.at, cpu: record.cpu, what: What::First });
        }
    }
}

fn what_of(event: &Event) -> Option<What> {
    let current = event.current;
    Some(match event.kind {
        Kind::Switch { prev, left_as, next } => What::Switch {
            prev: prev.tid,
            prev_comm: prev.comm.unwrap_or_default(),
            still_runnable: left_as == LeftAs::Runnable,
            next: next.tid,
            next_comm: next.comm.unwrap_or_default(),
        },
        Kind::Waking { task, .. } => What::Waking(task.tid),
        Kind::Migrate { task, .. } => What::Migrate(task.tid),
        Kind::IrqEntry { irq, name } => What::IrqEntry { irq, name: name.unwrap_or_default() },
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
