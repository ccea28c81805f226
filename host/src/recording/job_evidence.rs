//! Explains a job from the rings of all CPUs together with its activations: only these contain the system call in
//! which its thread blocked.

use lathunt_core::application::{self, Job, StartDelay};
use lathunt_core::explain::{self, Explanation, Interval, JobInterval};
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_core::trace::activation::{Activation, Point};
use lathunt_core::trace::event::{Event, Kind, Level};
use lathunt_core::trace::syscall_names::SyscallTable;
use lathunt_core::trace::window::Window;

use super::evidence::{add_waking, note_overdue, Evidence};
use crate::recorder::{self, Frozen};

/// Third argument of a futex call if unknown.
const NOT_KNOWN: u64 = u64::MAX;

/// If more than one in this many parts of a job is unexplained by the rings, its activations may help.
const UNEXPLAINED: u64 = 20;

/// Where the time of `job` went: by the rings, or if they do not cover it, by its activations. `None`: it has none.
pub(super) fn explain(job: &Job, frozen: Option<Frozen>, evidence: &Evidence) -> Option<Explanation> {
    let sums = |why: &str| application::explanation(job, recorder::syscall_name, why);
    let Some(mut frozen) = frozen else { return sums("its flight record was not kept") };
    frozen.note_code(&evidence.symbols);
    let Ok(mut window) = frozen.decode(&evidence.symbols) else {
        return sums("its flight record is damaged");
    };
    let is_whole = is_whole(job, &window);
    window.preemption.clone_from(&evidence.preemption);
    window.from_arming = true; // as for late wake-ups
    window.only_blocking_calls = true; // see `add_call`
    window.syscalls = SyscallTable::of_machine(std::env::consts::ARCH);
    let pages = job.steps.iter().filter(|a| a.faults > 0);
    let pages = pages.filter_map(|a| evidence.memory.page(a.tgid, a.fault_address));
    window.mappings.extend(pages.cloned());
    job.steps.iter().for_each(|a| faults_before(&mut window, a));
    job.steps.iter().for_each(|a| add_waking(&mut window, a));
    job.steps.iter().for_each(|a| note_overdue(&mut window, a));
    job.steps.iter().for_each(|a| add_call(&mut window, a));
    let last = job.steps.last()?;
    let of = Interval { tid: last.thread.tid, cpu: last.cpu, begin: job.begin, end: job.end };
    let follow = |told: &mut Explanation| {
        if job.more.is_empty() {
            explain::follow_waits(told, &window, &of);
        }
    };
    if !is_whole {
        let mut told = sums("the flight rings do not cover all of it")?;
        follow(&mut told);
        return Some(told);
    }
    // What ran before its thread slept for the first time did not make it late.
    if job.is_behind(recorder::syscall_name) {
        return sums("its release had passed before its previous job started");
    }
    // No thread ran or waited for it until then.
    if job.is_armed_late() {
        return sums("no event shows that its release was due");
    }
    // The rings show only who thawed it.
    if job.is_thawed(recorder::syscall_name) {
        return sums("its sleep ended without a wake-up");
    }
    let backlog = job.backlog.as_ref().filter(|backlog| backlog.why != StartDelay::Stopped);
    let backlog_until = backlog.map(|backlog| backlog.until);
    let told = explain::explain_job(&window, &JobInterval { of, backlog_until, usual: job.usual });
    let is_of_all = told.total_ns == job.total();
    // The sums count a stall as time of the thread, or of its timer.
    let gaps = told.tree.all_gaps();
    let stalls: Ns = gaps.iter().filter(|gap| gap.is_stall()).map(|gap| gap.duration_ns).sum();
    let unknown = told.unexplained_ns.saturating_sub(stalls);
    if is_of_all && unknown.0 * UNEXPLAINED <= told.total_ns.0 {
        return Some(told);
    }
    let mut by_sums = sums("the flight rings show less of it")?;
    if is_of_all && told.unexplained_ns <= by_sums.unexplained_ns {
        return Some(told);
    }
    by_sums.limits.push(format!("what the flight rings show: {}", told.sentence));
    by_sums.limits.extend(told.limits);
    follow(&mut by_sums);
    Some(by_sums)
}

/// Whether each CPU of its thread was recorded from its release on.
fn is_whole(job: &Job, window: &Window) -> bool {
    let covers = |cpu: Cpu| window.complete_from.get(&cpu).is_some_and(|from| *from <= job.begin);
    job.more.is_empty() && job.steps.iter().all(|step| covers(step.cpu))
}

/// Page faults are recorded with the switch at the end of `a`, and happened before it. One in which it blocked is an event of
/// its own.
fn faults_before(window: &mut Window, a: &Activation) {
    let in_fault = a.point.syscall == Point::EXCEPTION && a.faults > 0;
    let first = window.events.partition_point(|event| event.at < a.blocked);
    let at_the_end = window.events[first..].iter_mut().take_while(|event| event.at == a.blocked);
    let mut cpu = None;
    for event in at_the_end.filter(|event| event.current == Some(a.thread.tid)) {
        cpu = cpu.or(Some(event.cpu));
        if let Kind::PageFault { count, .. } = &mut event.kind {
            event.at = Mono(a.blocked.0.saturating_sub(1));
            *count = count.saturating_sub(u32::from(in_fault));
        }
    }
    let cpu = cpu.filter(|_| in_fault);
    window.in_faults.extend(cpu.map(|_| (a.thread.tid, a.blocked)));
    window.events.extend(cpu.map(|cpu| {
        let kind = Kind::UserFault { address: a.fault_address, ip: 0, error_code: 0 };
        let (at, current) = (Mono(a.blocked.0.saturating_sub(1)), Some(a.thread.tid));
        Event { at, cpu, current, level: Level::Unsaid, kind }
    }));
    window.events.sort_by_key(|event| event.at); // stable sort
}

/// Adds the system call in which `a` blocked, between its last switch-in and the next one.
fn add_call(window: &mut Window, a: &Activation) {
    if a.point.syscall < 0 || a.point.compat {
        return;
    }
    let (tid, id) = (a.thread.tid, i32::from(a.point.syscall));
    let leaves = |event: &Event| matches!(event.kind, Kind::Switch { prev, .. } if prev.tid == tid);
    let comes = |event: &Event| matches!(event.kind, Kind::Switch { next, .. } if next.tid == tid);
    let first = window.events.partition_point(|event| event.at < a.blocked);
    let mut later = window.events.iter().enumerate().skip(first);
    let Some((at, out)) = later
        .next()
        .filter(|(_, event)| event.at == a.blocked)
        .into_iter()
        .chain(later.by_ref().take_while(|(_, event)| event.at == a.blocked))
        .find(|(_, event)| leaves(event))
    else {
        return;
    };
    let third = if a.contended { 2 } else { NOT_KNOWN };
    let args = [a.point.argument, u64::from(a.point.operation), third, 0, 0, 0];
    let event = |at, cpu, kind| Event { at, cpu, current: Some(tid), level: Level::Unsaid, kind };
    let enter = event(out.at, out.cpu, Kind::SysEnter { id, args });
    let back = window.events[at + 1..].iter().position(comes).map(|after| at + 1 + after);
    if let Some(back) = back {
        let came = &window.events[back];
        let exit = event(came.at, came.cpu, Kind::SysExit { id, ret: 0 });
        window.events.insert(back + 1, exit);
    }
    window.events.insert(at, enter);
}
