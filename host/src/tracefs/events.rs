//! Tracepoints of a recording.
//!
//! `min` records switches and interruptions; `rt` answers the questions of `explain` and is the default; `full` adds
//! every system call and the context of I/O, at several times the cost. A tracepoint that this kernel lacks is left out
//! and named, except sched_switch, without which nothing can be explained.

/// A choice of tracepoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventSet {
    /// Switches, wake-ups, interrupts, softirqs.
    Min,
    /// What an explanation needs.
    #[default]
    Rt,
    /// That, every system call, and the context of I/O, memory and network.
    Full,
}

/// One entry: `system/event`, or `system` for all of its events, and a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub path: &'static str,
    pub filter: Option<&'static str>,
}

const MIN: &[&str] = &[
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup_new",
    "sched/sched_migrate_task",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
];

const RT: &[&str] = &[
    "sched/sched_wakeup",
    "sched/sched_pi_setprio",
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "task/task_rename",
    "irq/softirq_raise",
    "irq_vectors",
    "ipi",
    "csd",
    "nmi/nmi_handler",
    "timer/hrtimer_setup",
    "timer/hrtimer_init",
    "timer/hrtimer_start",
    "timer/hrtimer_cancel",
    "timer/hrtimer_expire_entry",
    "timer/hrtimer_expire_exit",
    "timer/timer_expire_entry",
    "timer/timer_expire_exit",
    "workqueue",
    "exceptions/page_fault_user",
    "filemap/mm_filemap_fault",
    "block/block_rq_issue",
    "block/block_rq_complete",
    "lock",
    "power/cpu_idle",
    "cpuhp",
    "signal/signal_generate",
];

const FULL: &[&str] = &[
    "exceptions/page_fault_kernel",
    "block/block_rq_insert",
    "net/net_dev_queue",
    "net/netif_receive_skb",
    "napi/napi_poll",
    "signal/signal_deliver",
    "timer/timer_start",
    "timer/timer_cancel",
];

/// Numbers of futex, futex_waitv, futex_wake, futex_wait, futex_requeue, sched_setaffinity and of those that set
/// priorities (setpriority, sched_setparam, sched_setscheduler, sched_setattr), and invalid numbers (markers). x32's
/// range from 512 to 547.
#[cfg(target_arch = "x86_64")]
const MARKERS: &str = "id == 202 || id == 203 || (id >= 141 && id <= 142) || id == 144 || id == 314 || id == 449 || (id >= 454 && id <= 456) || id > 547";
#[cfg(not(target_arch = "x86_64"))]
const MARKERS: &str = "id == 98 || id == 122 || (id >= 118 && id <= 119) || id == 140 || id == 274 || id == 449 || (id >= 454 && id <= 456) || id > 500";

impl EventSet {
    /// Its tracepoints.
    pub(super) fn wanted(self) -> Vec<Wanted> {
        let lists: &[&[&'static str]] = match self {
            EventSet::Min => &[MIN],
            EventSet::Rt => &[MIN, RT],
            EventSet::Full => &[MIN, RT, FULL],
        };
        let plain = lists.iter().copied().flatten().map(|path| Wanted { path, filter: None });
        let filter = match self {
            EventSet::Min | EventSet::Rt => Some(MARKERS),
            EventSet::Full => None,
        };
        let calls: &[&'static str] = match self {
            EventSet::Min => &[],
            _ => &["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"],
        };
        plain.chain(calls.iter().map(|path| Wanted { path, filter })).collect()
    }
}

impl std::str::FromStr for EventSet {
    type Err = String;

    fn from_str(text: &str) -> Result<EventSet, String> {
        match text {
            "min" => Ok(EventSet::Min),
            "rt" => Ok(EventSet::Rt),
            "full" => Ok(EventSet::Full),
            _ => Err(format!("'{text}' is not an event set: min, rt or full")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_holds_the_smaller_one_and_full_filters_nothing() {
        let paths = |set: EventSet| set.wanted().iter().map(|wanted| wanted.path).collect::<Vec<_>>();
        assert!(paths(EventSet::Min).iter().all(|path| paths(EventSet::Rt).contains(path)));
        assert!(paths(EventSet::Rt).iter().all(|path| paths(EventSet::Full).contains(path)));
        assert!(EventSet::Rt.wanted().iter().any(|wanted| wanted.filter == Some(MARKERS)));
        assert!(EventSet::Full.wanted().iter().all(|wanted| wanted.filter.is_none()));
    }
}
