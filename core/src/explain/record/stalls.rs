//! Stalls of the whole machine: no CPU recorded an event, and busy CPUs served their due ticks only afterwards.
//!
//! A paused virtual machine, firmware (SMI), or a section with interrupts off on all CPUs at once. No thread is the
//! cause because it ran at that time. One CPU alone proves nothing: its thread may have disabled interrupts. Not here:
//! stalls of one CPU (`standstill`), and stop_machine, whose threads show themselves.

use std::collections::BTreeSet;

use super::Record;
use crate::explain::cpu::Context;
use crate::time::{Cpu, Mono, Ns};
use crate::trace::event::{Event, Kind};

/// Minimum time without an event on any CPU.
const QUIET: Ns = Ns::from_us(300);
/// Minimum delay of a tick.
const LATE: Ns = Ns::from_us(100);
/// Maximum time from the first event after the stall to the late ticks.
const TOGETHER: Ns = Ns::from_us(500);
/// A delay this close to a multiple of the period is a tick in time, whose predecessors were not recorded.
const IN_TIME: Ns = Ns::from_us(40);
/// Maximum period of the tick (HZ=50).
const LONGEST_TICK: Ns = Ns::from_ms(20);
/// Time before a stall in which the previous tick is searched.
const TICKS_BEFORE: Ns = Ns::from_ms(1_000);
/// Maximum number of events of a CPU in which they are searched.
const MOST_BEFORE: usize = 20_000;
/// Maximum number of stalls.
const MOST: usize = 256;

impl Record<'_> {
    /// Marks the stalls in the timelines of all CPUs. `order`: all events, ascending in time. Cost: linear in the events,
    /// and up to [`MOST_BEFORE`] of them per late tick.
    pub(super) fn mark_stalls(&mut self, order: &[u32]) {
        let mut found = Vec::new();
        let mut last: Option<Mono> = None;
        for (place, event) in order.iter().map(|&index| self.event(index)).enumerate() {
            if matches!(event.kind, Kind::Lost { .. }) {
                continue;
            }
            let before = last.replace(event.at).filter(|&before| event.at.since(before) >= QUIET);
            let begin = before.and_then(|before| self.stalled_since(before, event.at, &order[place..]));
            found.extend(begin.map(|begin| (begin, event.at)));
            if found.len() == MOST {
                break;
            }
        }
        for timeline in self.timelines.values_mut() {
            for &(begin, end) in &found {
                timeline.stall(begin, end);
            }
        }
    }

    /// Latest possible start of a stall of all CPUs between two successive events at `a` and `b`; `after`: those from `b`.
    fn stalled_since(&self, a: Mono, b: Mono, after: &[u32]) -> Option<Mono> {
        let mut seen = BTreeSet::new();
        let mut due = Vec::new();
        for event in after.iter().map(|&index| self.event(index)).take_while(|of| of.at <= b + TOGETHER) {
            match event.kind {
                // A CPU that does something else first has no late tick, or had interrupts off.
                Kind::Switch { .. } | Kind::SysEnter { .. } | Kind::SysExit { .. } => {
                    seen.insert(event.cpu);
                }
                Kind::TimerExpireEntry { function: Some(name), .. }
                    if self.text(name).starts_with("tick_") && seen.insert(event.cpu) =>
                {
                    due.extend(self.tick_unserved(event, a, b));
                }
                _ => {}
            }
        }
        let is_lossy = || self.cpus().any(|cpu| self.lost_until(cpu, a, b).is_some());
        due.iter().min().copied().filter(|_| due.len() >= 2 && !is_lossy())
    }

    /// When the tick that is served by `event` was due, if that was in `[a, b)` and its CPU was busy.
    fn tick_unserved(&self, event: &Event, a: Mono, b: Mono) -> Option<Mono> {
        let Kind::TimerExpireEntry { timer, expires, now, .. } = event.kind else { return None };
        let Context::Thread(tid) = self.slice_before(event.cpu, b)?.context else { return None };
        if self.thread_by_id(tid, b).comm.starts_with("migration/") {
            return None;
        }
        let mut dues = self.tick_dues(event.cpu, timer, a);
        let due = expires.or_else(|| dues.next())?;
        let late = match now {
            Some(now) => Ns(now.0.saturating_sub(due.0)),
            None if self.window.other_clock => return None,
            None => event.at.since(due),
        };
        let begin = Mono(event.at.0.saturating_sub(late.0)).max(a);
        let period = due.since(dues.next()?);
        let is_late = b.since(begin) >= LATE && period > Ns::ZERO && period <= LONGEST_TICK;
        (is_late && !is_in_time(late, period)).then_some(begin)
    }

    /// Due times of the tick of `cpu` before `a`, the latest first: as armed, or from a recorder that adds them to the
    /// expiry.
    fn tick_dues(&self, cpu: Cpu, tick: u64, a: Mono) -> impl Iterator<Item = Mono> + '_ {
        let from = Mono(a.0.saturating_sub(TICKS_BEFORE.0));
        self.events_on(cpu, from, a).rev().take(MOST_BEFORE).filter_map(move |(_, event)| match event.kind {
            Kind::TimerExpireEntry { timer, expires, .. } if timer == tick => expires,
            Kind::HrtimerStart { timer, expires, .. } if timer == tick => Some(Mono(expires.0)),
            _ => None,
        })
    }
}

/// Whether the recorder was off instead: then the tick is in time, and its delay only seems to be some periods.
fn is_in_time(late: Ns, period: Ns) -> bool {
    let after = late.0 % period.0;
    late >= period && after.min(period.0 - after) < IN_TIME.0
}
