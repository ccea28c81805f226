//! Runnable but not running: the tasks on the CPU and their priorities, and why no other CPU ran the thread.

use super::clauses::{Weight, AMOUNT};
use super::elsewhere::Elsewhere;
use super::holder::Waiter;
use super::running::interrupt_advice;
use super::Walk;
use crate::explain::cpu::Context;
use crate::explain::segment::{Kind, Segment};
use crate::explain::share::{tally, Phase, Role, Share};
use crate::explain::thread::Stretch;
use crate::explain::wait::{is_after_idle, is_stopper, SWITCHING};
use crate::series::Thread;
use crate::time::{Cpu, Ns, Prio};
use crate::trace::event::{Kind as What, LeftAs};

/// Minimum wait to report why no other CPU ran the thread.
pub(super) const WORTH_MOVING: Ns = Ns::from_us(50);

impl Walk<'_, '_> {
    /// The parts of a span in which `thread` waited for a CPU.
    pub(super) fn waiting(&mut self, thread: &Thread, stretch: &Stretch, depth: usize) -> Vec<Segment> {
        let Some(cpu) = stretch.cpu else {
            let label = format!("the CPU on which {thread} waited is not recorded");
            return vec![Segment::unexplained(Kind::WakeupWait, label, stretch.begin, stretch.length())];
        };
        let mut prio = self.prio_then(thread, stretch);
        let changes = self.changes(thread, stretch, prio);
        let mut parts = Vec::new();
        let mut now = *stretch;
        let mut unsure = None;
        for change in changes {
            if let Some(at) = change.at.filter(|at| *at > now.begin) {
                let before = Stretch { end: at, ..now };
                parts.extend(self.waiting_with((prio, None), thread, &before, cpu, depth));
                (now.begin, prio) = (at, Some(change.new));
            } else if change.at.is_some() {
                prio = Some(change.new);
            } else {
                unsure = Some(change.new);
            }
            self.changed = Some(change);
        }
        if let Some(again) = self.in_quota_again(thread, prio, &now) {
            let before = Stretch { end: again, ..now };
            parts.extend(self.waiting_with((prio, unsure), thread, &before, cpu, depth));
            now.begin = again;
        }
        parts.extend(self.waiting_with((prio, unsure), thread, &now, cpu, depth));
        self.changed = None;
        parts
    }

    /// As `waiting`, with one priority throughout, or changed to `other` at an unknown time.
    fn waiting_with(
        &mut self,
        (prio, other): (Option<Prio>, Option<Prio>),
        thread: &Thread,
        stretch: &Stretch,
        cpu: Cpu,
        depth: usize,
    ) -> Vec<Segment> {
        let (a, b) = (stretch.begin, stretch.end);
        let counted =
            tally(self.record, Self::phase(depth, Phase::Waiting), cpu, &self.record.slices(cpu, a, b));
        let mut parts = counted.gaps;
        let throttled = self.throttled(thread, prio, stretch, cpu);
        let moved = self.moved_there(thread, prio, stretch, cpu);
        let (throttled, moved) = (throttled.as_ref(), moved.as_ref());
        let waiter = Waiter { thread, stretch, prio, throttled, moved, depth };
        let mut said_elsewhere = false;
        for mut share in counted.shares {
            let label = match share.context {
                Context::Thread(tid) if tid == thread.tid => {
                    share.role = Role::Victim;
                    share.kind = Kind::Running;
                    format!("{thread} itself, still leaving the CPU")
                }
                Context::Thread(_) => {
                    let holder = share.thread.clone().unwrap_or_else(|| thread.clone());
                    self.judge(&mut share, prio, &holder, stretch, throttled.is_some());
                    let as_told = share.role;
                    self.judge(&mut share, other.or(prio), &holder, stretch, throttled.is_some());
                    if std::mem::discriminant(&share.role) != std::mem::discriminant(&as_told) {
                        (share.role, share.kind) = (Role::Unranked, Kind::Thread);
                    }
                    if self.lossy && matches!(share.role, Role::Keeps { .. }) {
                        let what = format!("{holder}, lower in priority, seems to have CPU {cpu}");
                        parts.push(self.unsure(&what, share.begin, share.begin + share.net));
                        continue;
                    }
                    // It stays for a task of lower priority, about to preempt it: that does not depend on its affinity.
                    if let (Role::Wins | Role::SharesFairly, false) =
                        (share.role, said_elsewhere || share.net < WORTH_MOVING)
                    {
                        let elsewhere = self.elsewhere(thread, prio, stretch, cpu);
                        said_elsewhere = elsewhere.is_some();
                        let elsewhere = Elsewhere::after(moved, elsewhere);
                        self.held(&waiter, &share, &holder, elsewhere.as_ref())
                    } else {
                        self.held(&waiter, &share, &holder, None)
                    }
                }
                Context::Idle(_) => {
                    if let Some(gap) = self.awake(&mut share, thread, stretch).filter(|_| throttled.is_none())
                    {
                        parts.push(gap);
                        if share.net == Ns::ZERO {
                            continue;
                        }
                    }
                    let is_throttled = throttled.is_some_and(|held| held.explains_idle(share.net));
                    if let Some(gap) = self.kept_off(&share, thread, stretch).filter(|_| !is_throttled) {
                        parts.push(gap);
                        continue;
                    }
                    if !is_throttled && is_after_idle(self.record, &share, stretch) {
                        parts.push(self.after_idle(&mut share, thread));
                        continue;
                    }
                    self.idle(thread, &share, stretch, throttled, depth)
                }
                // Its end may be missing.
                _ if self.lossy && share.is_outside_functions() => {
                    parts.push(self.unsure(&share.label(), share.begin, share.begin + share.net));
                    continue;
                }
                _ => {
                    let label = self.source(&share, a, b);
                    let text = format!("{label} kept {} waiting for {AMOUNT}", self.subject(thread, depth));
                    self.say(Weight::Blame, share.net, text, share.name.clone(), interrupt_advice(&share));
                    label
                }
            };
            parts.push(share.leaf(label));
            self.shares.push(share);
        }
        parts
    }

    /// The priority of `thread` at the start of the span: inheritance may have changed it.
    fn prio_then(&self, thread: &Thread, stretch: &Stretch) -> Option<Prio> {
        let shown = match self.began(stretch) {
            Some(What::Waking { task, .. } | What::Wakeup { task, .. } | What::Migrate { task, .. }) => {
                Some(task)
            }
            Some(What::Switch { prev, .. }) if prev.tid == thread.tid => Some(prev),
            _ => None,
        };
        // The span may be the rest of a longer wait.
        let since = stretch.began_by.map_or(stretch.begin, |index| self.record.event(index).at);
        let shown = shown.filter(|task| task.tid == thread.tid).and_then(|task| task.prio);
        let shown = shown.or_else(|| self.first_prio(thread, since, stretch.end)).or(thread.prio);
        let before = self.record.events_of(thread.tid, since, stretch.begin).rev();
        let lent =
            before.skip_while(|(_, event)| event.at >= stretch.begin).find_map(|(_, event)| {
                match event.kind {
                    What::PiSetprio { task, new, .. } if task.tid == thread.tid => Some(new),
                    _ => None,
                }
            });
        lent.or(shown)
    }

    fn judge(
        &self,
        share: &mut Share,
        prio: Option<Prio>,
        holder: &Thread,
        stretch: &Stretch,
        throttled: bool,
    ) {
        share.role = match (prio, holder.prio) {
            _ if is_stopper(&holder.comm) => Role::Wins,
            (Some(wanting), Some(having)) if !wanting.is_realtime() && !having.is_realtime() => {
                Role::SharesFairly
            }
            (Some(wanting), Some(having)) if having <= wanting => Role::Wins,
            (Some(_), Some(_)) if share.net <= SWITCHING && !throttled => Role::Switching,
            (Some(_), Some(_)) if self.set_in_run(holder, share).is_some() => Role::Unranked,
            (Some(_), Some(_)) => {
                Role::Keeps { in_user: None, left: self.left(holder, share.cpu, stretch), unserved: false }
            }
            _ => Role::Unranked,
        };
        if share.role == Role::Switching {
            share.kind = Kind::Scheduler;
        }
        if let Some(index) = self.departure(holder, share.cpu, stretch) {
            share.evidence.push(self.record.evidence(index));
        }
    }

    fn departure(&self, holder: &Thread, cpu: Cpu, stretch: &Stretch) -> Option<u32> {
        let mut events = self.record.events_on(cpu, stretch.begin, stretch.end).rev();
        events.find_map(|(index, event)| match event.kind {
            What::Switch { prev, .. } if prev.tid == holder.tid => Some(index),
            _ => None,
        })
    }

    fn left(&self, holder: &Thread, cpu: Cpu, stretch: &Stretch) -> Option<LeftAs> {
        match self.record.event(self.departure(holder, cpu, stretch)?).kind {
            What::Switch { left_as, .. } => Some(left_as),
            _ => None,
        }
    }
}
