//! Runnable but not running: the tasks on the CPU and their priorities, and why no other CPU ran the thread.

use super::blocked::{fair_advice, Inherits};
use super::classes::{by_deadline, is_deadline, LetIn};
use super::clauses::{Clause, Weight, AMOUNT, WHY};
use super::elsewhere::{Because, Elsewhere};
use super::moved::Moved;
use super::running::{interrupt_advice, Hidden};
use super::throttled::Throttled;
use super::Walk;
use crate::explain::causes::not_preempted::preempts;
use crate::explain::cpu::Context;
use crate::explain::segment::{Kind, Segment};
use crate::explain::share::{tally, Phase, Role, Share};
use crate::explain::standstill;
use crate::explain::thread::Stretch;
use crate::explain::wait::{is_after_idle, is_stopper, SWITCHING};
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Prio};
use crate::trace::event::{Kind as What, LeftAs, Vector};

/// Minimum wait to report why no other CPU ran the thread.
pub(super) const WORTH_MOVING: Ns = Ns::from_us(50);

/// A thread in a span in which it waits for a CPU with one priority.
struct Waiter<'w> {
    thread: &'w Thread,
    stretch: &'w Stretch,
    prio: Option<Prio>,
    throttled: Option<&'w Throttled>,
    moved: Option<&'w Moved>,
    depth: usize,
}

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
            } else if change.at.is_none() {
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

    /// The label and clause of a thread that had the CPU.
    fn held(
        &mut self,
        waiter: &Waiter,
        share: &Share,
        holder: &Thread,
        elsewhere: Option<&Elsewhere>,
    ) -> String {
        let Waiter { thread, stretch, prio, throttled, moved, depth } = *waiter;
        let (cpu, waiting_since) = (share.cpu, stretch.begin);
        let subject = self.subject(thread, depth);
        let inversion = if share.net < WORTH_MOVING { String::new() } else { self.inversion(holder, depth) };
        let is_offline = elsewhere.is_some_and(|elsewhere| elsewhere.reason == Because::Offline);
        let why = elsewhere.map_or(String::new(), |elsewhere| elsewhere.why.clone());
        let when = elsewhere.map_or(String::new(), |elsewhere| format!(", {}", elsewhere.when));
        // In the sentence the reason is filled in later, once.
        let (mut elsewhere, mut placed) = (format!("{when}{why}"), format!("{when}{WHY}"));
        let lowered_by = self.changed.as_ref().and_then(|change| change.lowered_by.clone());
        for text in [&mut elsewhere, &mut placed] {
            text.extend(self.changed.as_ref().map(|change| change.how.as_str()));
        }
        let comm = &holder.comm;
        if let (Role::Keeps { .. } | Role::SharesFairly, Some(throttled)) = (share.role, throttled) {
            // One clause for all tasks that ran in between: they are not the cause.
            let Throttled { why, cause, advice, .. } = throttled;
            let text = format!("{subject} could not run for {AMOUNT}: {why}");
            self.say(Weight::Blame, share.net, text, (*cause).to_owned(), *advice);
            let rank = if share.role == Role::SharesFairly { "" } else { ", lower in priority," };
            let short = why.split(';').next().unwrap_or_default();
            return format!("{holder}{rank} runs: {short}");
        }
        let (label, text, advice) = match share.role {
            Role::Switching => (format!("switching away from {holder}"), String::new(), String::new()),
            Role::Keeps { .. } => {
                let (not_preempted, advice) = self.not_preempted(holder, share, waiting_since);
                let short = not_preempted.split(';').next().unwrap_or_default();
                let label = format!("{holder}, lower in priority, runs: {short}");
                (label, format!("{subject} waited {AMOUNT} for CPU {cpu}, where {holder}, of lower priority, ran: {not_preempted}{placed}"), advice)
            }
            Role::SharesFairly => {
                let label = format!("{holder}, by fair scheduling{inversion}{elsewhere}");
                let text = format!(
                    "{subject} shared CPU {cpu} with {holder} and waited {AMOUNT} for it{inversion}{placed}"
                );
                let advice = fair_advice(self.waits_for.last(), &inversion, &thread.comm);
                (label, text, advice)
            }
            Role::Wins => {
                let let_in = self.let_in(thread, prio, holder, stretch);
                let rank = match let_in {
                    LetIn::Slice | LetIn::Turn => "of the same priority",
                    _ => "of equal or higher priority",
                };
                let label = format!("{holder}, {rank}, occupies CPU {cpu}{let_in}{inversion}{elsewhere}");
                let text = format!(
                    "{subject} waited {AMOUNT} for CPU {cpu}, occupied by {holder}{let_in}{inversion}{placed}"
                );
                let raise = format!("raise {} above {comm}, or keep {comm} off CPU {cpu}", thread.comm);
                let advice = match (inversion.is_empty(), self.waits_for.last()) {
                    (true, _) if is_offline => {
                        format!("take no CPU offline while {} has to run, or keep {comm} off CPU {cpu}", thread.comm)
                    }
                    (true, _) if is_deadline(holder) => by_deadline(thread, comm),
                    (true, _) => let_in.advice(&thread.comm, comm),
                    (false, Some(Inherits::Could)) => format!("priority inversion: use a priority-inheritance lock, or {raise}"),
                    (false, Some(Inherits::IfMutex)) => format!("priority inversion: if it waits for a mutex, use one with priority inheritance, else {raise}"),
                    (false, _) => format!("priority inversion that priority inheritance cannot fix: {raise}"),
                };
                (label, text, advice)
            }
            _ if self.changed.is_some() => (
                format!("{holder}{elsewhere}"),
                format!("{subject} waited {AMOUNT} for CPU {cpu}, where {holder} ran{placed}"),
                format!("find the task that changes the priority of {} while it waits", thread.comm),
            ),
            _ => (
                format!("{holder}, priority not recorded"),
                format!("{subject} waited {AMOUNT} for CPU {cpu}, where {holder} ran"),
                "record priorities (sched_switch) to judge it".to_owned(),
            ),
        };
        let (text, advice) = match is_measuring(comm) && share.role == Role::Wins {
            true => (
                text.replace(
                    &format!("occupied by {holder}"),
                    &format!("occupied by {holder}, a measuring thread"),
                ),
                "another measurement ran here: measure one after the other, or on different CPUs (-c)"
                    .to_owned(),
            ),
            false => (text, advice),
        };
        let advice = match (&lowered_by, share.role) {
            (Some(by), Role::Wins | Role::SharesFairly | Role::Unranked) => by.advice(&thread.comm),
            (None, Role::Wins | Role::SharesFairly) => match moved.filter(|moved| moved.cause().is_some()) {
                Some(moved) => moved.advice(&thread.comm, comm),
                None => advice,
            },
            _ => advice,
        };
        if !text.is_empty() {
            let moved = moved
                .and_then(Moved::cause)
                .filter(|_| matches!(share.role, Role::Wins | Role::SharesFairly));
            let is_why = matches!(share.role, Role::Wins | Role::SharesFairly | Role::Unranked);
            let cause = match lowered_by.filter(|_| is_why) {
                Some(by) => by.cause(),
                None if moved.is_some() => moved.unwrap_or_default(),
                None if inversion.is_empty() => format!("thread: {comm}"),
                None => format!("priority inversion: {comm}"),
            };
            let (weight, net, hidden) = (Weight::Blame, share.net, Hidden::default());
            self.clauses.push(Clause { weight, net, text, why, cause, advice, hidden });
        }
        label
    }

    /// Set where `holder` is below the thread whose interval this is, which waits for the one that it holds up.
    fn inversion(&self, holder: &Thread, depth: usize) -> String {
        match (self.root.prio, holder.prio) {
            (Some(root), Some(prio)) if depth > 0 && root.is_realtime() && prio > root => {
                format!(" (priority inversion: {holder} is below {})", self.root)
            }
            _ => String::new(),
        }
    }

    fn not_preempted(&self, holder: &Thread, share: &Share, since: Mono) -> (String, String) {
        let work = self.linked.executing(holder.tid, share.begin).and_then(|(_, _, function)| function);
        let call = self.linked.in_call(holder.tid, share.begin);
        let until = share.begin + share.net + Ns::from_us(100);
        let asked = self.record.events_on(share.cpu, since, until).find(|(_, event)| {
            matches!(event.kind, What::VectorEntry(Vector::Reschedule | Vector::CallFunctionSingle))
        });
        let late = asked.map(|(_, event)| event.at.since(since)).filter(|late| late.0 * 2 > share.net.0);
        let slices = self.record.slices(share.cpu, since, until);
        let unserved = standstill::of_thread(self.record, share.cpu, holder.tid, &slices, until)
            .filter(|(_, length)| length.0 * 2 > share.net.0);
        let preempts = self.record.window.preemption.as_deref().is_some_and(preempts);
        let off = if preempts { "with preemption off" } else { "kernel not preemptible there" };
        let place = match (late, work, call) {
            (Some(late), _, call) => {
                let call =
                    call.map_or(String::new(), |(_, id, _)| format!(" (in {})", self.record.call_name(id)));
                format!("the reschedule interrupt (IPI) came only after {late}{call}")
            }
            _ if unserved.is_some() => {
                "a timer was due and no interrupt came: interrupts off there, or the CPU stalled".to_owned()
            }
            (_, Some(function), _) => {
                format!("in work item {}, {off}", self.record.text(function))
            }
            (_, None, Some((_, id, _))) => {
                format!("in {}, {off}", self.record.call_name(id))
            }
            _ => "not preempted (preemption off, or the interrupt that asks for it came late)".to_owned(),
        };
        let advice = match late {
            None if unserved.is_some() => {
                "measure the host and the hardware alone: `lathunt hwlat`; preemptirq:irq_disable would show where interrupts are off".to_owned()
            }
            Some(_) => "the interrupt between the CPUs was late: interrupts off there, or the host did not run that virtual CPU".to_owned(),
            None if preempts => format!("find where {} has preemption off (preemptirq:preempt_disable would show it), or keep it off this CPU", holder.comm),
            None => format!("a kernel with full preemption (preempt=full, PREEMPT_RT), or keep {} off this CPU", holder.comm),
        };
        (place, advice)
    }
}

/// Whether it is a thread of lathunt's own instruments (`cyclic/0`, `npt/3`).
fn is_measuring(comm: &str) -> bool {
    let number = comm.strip_prefix("cyclic/").or_else(|| comm.strip_prefix("npt/"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
