//! Whether a trace has the events that a query needs, for its intervals and for their explanation.

use super::Question;
use crate::trace::normalize::is_text;
use crate::trace::source::Source;

/// Queries for wake-ups.
pub(super) const NO_SWITCH: &str =
    "sched_switch is not recorded: the times at which threads got a CPU are unknown";
const ONLY_IRQS_OFF: &str =
    "sched_switch is not recorded: the times at which threads got a CPU are unknown; the times with \
    interrupts off: --between event:irq_disable event:irq_enable";
const ONLY_PREEMPT_OFF: &str =
    "sched_switch is not recorded: the times at which threads got a CPU are unknown; the times with \
    preemption off: --between event:preempt_disable event:preempt_enable";
pub(super) const NO_WAKE_UP: &str =
    "no wake-up is recorded (sched_waking): only the times at which threads got a CPU are known";

/// The events that the trace would need for `question`, if it lacks them: those that start and end the intervals, and
/// the switches, without which no interval can be explained.
pub(super) fn unanswerable(source: &dyn Source, question: &Question) -> Option<&'static str> {
    let classes = source.catalogue().classes();
    let has = |is: &dyn Fn(&str) -> bool| classes.iter().any(|class| is(&class.name));
    let has_switches = has(&|name| name == "sched_switch");
    match question {
        // Markers that no event can match are reported by their names.
        Question::Between { .. } if !has_switches => {
            Some("sched_switch is not recorded: what the threads did from one marker to the other is unknown")
        }
        Question::Between { .. } => None,
        Question::Wakeups if !has_switches => Some(match () {
            () if has(&|name| name == "irq_disable") && has(&|name| name == "irq_enable") => ONLY_IRQS_OFF,
            () if has(&|name| name == "preempt_disable") && has(&|name| name == "preempt_enable") => {
                ONLY_PREEMPT_OFF
            }
            () => NO_SWITCH,
        }),
        Question::Wakeups if !has(&|name| WAKINGS.contains(&name)) => Some(NO_WAKE_UP),
        Question::Wakeups => None,
        Question::Threshold if !classes.iter().any(is_text) => {
            Some("no text is recorded (trace_marker): when cyclictest exceeded its threshold is unknown")
        }
        Question::Threshold if !has_switches => {
            Some("sched_switch is not recorded: what delayed the measuring thread is unknown")
        }
        Question::Threshold => None,
        Question::Syscall(_) if !has(&is_call) => {
            Some("no system call is recorded (raw_syscalls:sys_enter and sys_exit)")
        }
        Question::Syscall(_) if !has(&is_entry) => {
            Some("no start of a system call is recorded (raw_syscalls:sys_enter)")
        }
        Question::Syscall(_) if !has(&is_exit) => {
            Some("no end of a system call is recorded (raw_syscalls:sys_exit)")
        }
        Question::Syscall(_) if !has_switches => {
            Some("sched_switch is not recorded: what the threads did in the system call is unknown")
        }
        Question::Syscall(_) => None,
        Question::At(_) if !has_switches => {
            Some("sched_switch is not recorded: the task on the CPU is unknown")
        }
        Question::At(_) => None,
        Question::IrqToThread(..) if !has(&|name| name == "irq_handler_entry") => {
            Some("irq_handler_entry is not recorded: the times of interrupts are unknown")
        }
        Question::IrqToThread(..) if !has_switches => {
            Some("sched_switch is not recorded: the times at which the thread got a CPU are unknown")
        }
        Question::IrqToThread(..) => None,
    }
}

const WAKINGS: [&str; 3] = ["sched_waking", "sched_wakeup", "sched_wakeup_new"];

/// Whether it is the name of an event of system calls.
pub(super) fn is_call(name: &str) -> bool {
    is_entry(name) || is_exit(name)
}

fn is_exit(name: &str) -> bool {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    name.starts_with("sys_exit") && name != "sys_exit_group"
        || name.starts_with("syscall_exit_")
        || name == "exit_syscall"
}

fn is_entry(name: &str) -> bool {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    name.starts_with("syscall_entry_") || name.starts_with("sys_") && !is_exit(name)
}
