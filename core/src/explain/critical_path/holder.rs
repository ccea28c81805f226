//! The task that had the CPU while the thread waited for it: its rank, and why it was not preempted.

use super::blocked::{fair_advice, Inherits};
use super::classes::{by_deadline, is_deadline, LetIn};
use super::clauses::{Clause, Weight, AMOUNT, WHY};
use super::elsewhere::{Because, Elsewhere};
use super::moved::Moved;
use super::running::Hidden;
use super::throttled::Throttled;
use super::waiting::WORTH_MOVING;
use super::Walk;
use crate::explain::causes::not_preempted::preempts;
use crate::explain::share::{Role, Share};
use crate::explain::standstill;
use crate::explain::thread::Stretch;
use crate::series::Thread;
use crate::time::{Mono, Ns, Prio};
use crate::trace::event::{Kind as What, Vector};

/// A thread in a span in which it waits for a CPU with one priority.
pub(super) struct Waiter<'w> {
    pub thread: &'w Thread,
    pub stretch: &'w Stretch,
    pub prio: Option<Prio>,
    pub throttled: Option<&'w Throttled>,
    pub moved: Option<&'w Moved>,
    pub depth: usize,
}

/// What is said of the task that had the CPU.
struct Said {
    label: String,
    /// The clause, in which the reason is filled in later, once; empty: none.
    text: String,
    advice: String,
}

/// Where else the thread might have run, and what changed its priority.
struct Beside<'b> {
    elsewhere: Option<&'b Elsewhere>,
    /// For the label.
    label: String,
    /// For the clause: the same, without the reason.
    clause: String,
    /// ` (priority inversion: …)`, or empty.
    inversion: String,
}

impl Walk<'_, '_> {
    /// The label and clause of a thread that had the CPU.
    pub(super) fn held(
        &mut self,
        waiter: &Waiter,
        share: &Share,
        holder: &Thread,
        elsewhere: Option<&Elsewhere>,
    ) -> String {
        if let (Role::Keeps { .. } | Role::SharesFairly, Some(throttled)) = (share.role, waiter.throttled) {
            return self.held_throttled(waiter, share, holder, throttled);
        }
        let beside = self.beside(waiter, share, holder, elsewhere);
        let Said { label, text, advice } = self.by_rank(waiter, share, holder, &beside);
        if text.is_empty() {
            return label;
        }
        let text = match is_measuring(&holder.comm) && share.role == Role::Wins {
            true => text.replace(
                &format!("occupied by {holder}"),
                &format!("occupied by {holder}, a measuring thread"),
            ),
            false => text,
        };
        let (cause, advice) = self.moved_or_lowered(waiter, share, holder, (&beside, advice));
        let why = elsewhere.map_or(String::new(), |elsewhere| elsewhere.why.clone());
        let (weight, net, hidden) = (Weight::Blame, share.net, Hidden::default());
        self.clauses.push(Clause { weight, net, text, why, cause, advice, hidden });
        label
    }

    /// One clause for all tasks that ran while it was throttled: they are not the cause.
    fn held_throttled(
        &mut self,
        waiter: &Waiter,
        share: &Share,
        holder: &Thread,
        throttled: &Throttled,
    ) -> String {
        let Throttled { why, cause, advice, .. } = throttled;
        let text = format!("{} could not run for {AMOUNT}: {why}", self.subject(waiter.thread, waiter.depth));
        self.say(Weight::Blame, share.net, text, (*cause).to_owned(), *advice);
        let rank = if share.role == Role::SharesFairly { "" } else { ", lower in priority," };
        let short = why.split(';').next().unwrap_or_default();
        format!("{holder}{rank} runs: {short}")
    }

    fn beside<'b>(
        &self,
        waiter: &Waiter,
        share: &Share,
        holder: &Thread,
        elsewhere: Option<&'b Elsewhere>,
    ) -> Beside<'b> {
        let inversion = match share.net < WORTH_MOVING {
            true => String::new(),
            false => self.inversion(holder, waiter.depth),
        };
        let why = elsewhere.map_or("", |elsewhere| &elsewhere.why);
        let when = elsewhere.map_or(String::new(), |elsewhere| format!(", {}", elsewhere.when));
        let how = self.changed.as_ref().map_or("", |change| &change.how);
        let (label, clause) = (format!("{when}{why}{how}"), format!("{when}{WHY}{how}"));
        Beside { elsewhere, label, clause, inversion }
    }

    fn by_rank(&self, waiter: &Waiter, share: &Share, holder: &Thread, beside: &Beside) -> Said {
        let Waiter { thread, stretch, depth, .. } = *waiter;
        let Beside { label: elsewhere, clause: placed, inversion, .. } = beside;
        let cpu = share.cpu;
        let subject = self.subject(thread, depth);
        if share.role == Role::Unranked
            && let Some((call, by)) = self.set_in_run(holder, share)
        {
            return by_set_priority(&subject, share, holder, (&call, &by), placed);
        }
        match share.role {
            Role::Switching => Said {
                label: format!("switching away from {holder}"),
                text: String::new(),
                advice: String::new(),
            },
            Role::Keeps { .. } => {
                let (not_preempted, advice) = self.not_preempted(holder, share, stretch.begin);
                let short = not_preempted.split(';').next().unwrap_or_default();
                Said {
                    label: format!("{holder}, lower in priority, runs: {short}"),
                    text: format!("{subject} waited {AMOUNT} for CPU {cpu}, where {holder}, of lower priority, ran: {not_preempted}{placed}"),
                    advice,
                }
            }
            Role::SharesFairly => Said {
                label: format!("{holder}, by fair scheduling{inversion}{elsewhere}"),
                text: format!(
                    "{subject} shared CPU {cpu} with {holder} and waited {AMOUNT} for it{inversion}{placed}"
                ),
                advice: fair_advice(self.waits_for.last(), inversion, &thread.comm),
            },
            Role::Wins => {
                let let_in = self.let_in(thread, waiter.prio, holder, stretch);
                let rank = match let_in {
                    LetIn::Slice | LetIn::Turn => "of the same priority",
                    _ => "of equal or higher priority",
                };
                Said {
                    label: format!("{holder}, {rank}, occupies CPU {cpu}{let_in}{inversion}{elsewhere}"),
                    text: format!(
                        "{subject} waited {AMOUNT} for CPU {cpu}, occupied by {holder}{let_in}{inversion}{placed}"
                    ),
                    advice: self.advice_against(thread, share, holder, (beside, &let_in)),
                }
            }
            _ if self.changed.is_some() => Said {
                label: format!("{holder}{elsewhere}"),
                text: format!("{subject} waited {AMOUNT} for CPU {cpu}, where {holder} ran{placed}"),
                advice: format!("find the task that changes the priority of {} while it waits", thread.comm),
            },
            _ => Said {
                label: format!("{holder}, priority not recorded"),
                text: format!("{subject} waited {AMOUNT} for CPU {cpu}, where {holder} ran"),
                advice: "record priorities (sched_switch) to judge it".to_owned(),
            },
        }
    }

    /// Advice where `holder` was rightly first.
    fn advice_against(
        &self,
        thread: &Thread,
        share: &Share,
        holder: &Thread,
        (beside, let_in): (&Beside, &LetIn),
    ) -> String {
        let (cpu, comm) = (share.cpu, &holder.comm);
        if is_measuring(comm) {
            return "another measurement ran here: measure one after the other, or on different CPUs (-c)"
                .to_owned();
        }
        let raise = format!("raise {} above {comm}, or keep {comm} off CPU {cpu}", thread.comm);
        let is_offline = beside.elsewhere.is_some_and(|elsewhere| elsewhere.reason == Because::Offline);
        match (beside.inversion.is_empty(), self.waits_for.last()) {
            (true, _) if is_offline => {
                format!("take no CPU offline while {} has to run, or keep {comm} off CPU {cpu}", thread.comm)
            }
            (true, _) if is_deadline(holder) => by_deadline(thread, comm),
            (true, _) => let_in.advice(&thread.comm, comm),
            (false, Some(Inherits::Could)) => format!("priority inversion: use a priority-inheritance lock, or {raise}"),
            (false, Some(Inherits::IfMutex)) => format!("priority inversion: if it waits for a mutex, use one with priority inheritance, else {raise}"),
            (false, _) => format!("priority inversion that priority inheritance cannot fix: {raise}"),
        }
    }

    /// The cause, and the advice: against what lowered the priority of the thread or moved it there, else as it is.
    fn moved_or_lowered(
        &self,
        waiter: &Waiter,
        share: &Share,
        holder: &Thread,
        (beside, advice): (&Beside, String),
    ) -> (String, String) {
        let (comm, role) = (&holder.comm, share.role);
        let is_first = matches!(role, Role::Wins | Role::SharesFairly);
        let lowered_by = self.changed.as_ref().and_then(|change| change.lowered_by.as_ref());
        if let Some(by) = lowered_by.filter(|_| is_first || role == Role::Unranked) {
            return (by.cause(), by.advice(&waiter.thread.comm));
        }
        let moved = waiter.moved.filter(|_| is_first);
        let cause = moved.and_then(Moved::cause).or_else(|| {
            let inverts = !beside.inversion.is_empty();
            inverts.then(|| format!("priority inversion: {comm}"))
        });
        let moved = moved.filter(|moved| moved.cause().is_some());
        let advice = moved.map_or(advice, |moved| moved.advice(&waiter.thread.comm, comm));
        (cause.unwrap_or_else(|| format!("thread: {comm}")), advice)
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
        let doing = self.main_doing(holder.tid, share);
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
        let place = match (late, doing) {
            (Some(late), doing) => {
                let doing = doing.map_or(String::new(), |doing| format!(" (in {doing})"));
                format!("the reschedule interrupt (IPI) came only after {late}{doing}")
            }
            _ if unserved.is_some() => {
                "a timer was due and no interrupt came: interrupts off there, or the CPU stalled".to_owned()
            }
            (_, Some(doing)) => format!("in {doing}, {off}"),
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

/// Of a thread whose priority `by` had set in that run, with `call`.
fn by_set_priority(
    subject: &str,
    share: &Share,
    holder: &Thread,
    (call, by): (&str, &Thread),
    placed: &str,
) -> Said {
    let whose = if by.tid == holder.tid { "it".to_owned() } else { by.to_string() };
    let set = format!("with a priority that {whose} had set meanwhile ({call})");
    Said {
        label: format!("{holder} runs, {set}"),
        text: format!("{subject} waited {AMOUNT} for CPU {}, where {holder} ran {set}{placed}", share.cpu),
        advice: format!(
            "{} ran first with that priority (a mutex with a priority ceiling sets one, too): shorten what it does with it",
            holder.comm
        ),
    }
}

/// Whether it is a thread of lathunt's own instruments (`cyclic/0`, `npt/3`).
fn is_measuring(comm: &str) -> bool {
    let number = comm.strip_prefix("cyclic/").or_else(|| comm.strip_prefix("npt/"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
