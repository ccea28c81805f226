//! Evidence as text: events with the kernel's names and the relevant fields.

use super::Record;
use crate::series::Thread;
use crate::time::Tid;
use crate::trace::event::{Kind, Sym, TaskRef, Vector, SOFTIRQS};

/// `major:minor` of a device number in tracepoints.
#[must_use]
pub fn device(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}

/// Kernel threads that execute softirqs; `irq/` only with forced interrupt threading.
const DOERS: [&str; 7] =
    ["ksoftirqd/", "ktimers/", "ktimersd/", "ktimersoftd/", "irq/", "backlog_napi/", "napi/"];

/// Whether softirqs in this thread are its own work.
#[must_use]
pub fn does_softirqs(comm: &str) -> bool {
    DOERS.iter().any(|doer| comm.starts_with(doer))
}

impl Record<'_> {
    fn task_text(&self, task: TaskRef) -> String {
        if task.tid == Tid::IDLE {
            return "idle".to_owned();
        }
        // An event has the name that it was recorded with.
        let thread = self.thread(task, self.until);
        let comm = task.comm.map_or(thread.comm, |comm| self.text(comm).to_owned());
        Thread { comm, ..thread }.to_string()
    }

    /// The kernel's name of the event, with the relevant fields.
    #[must_use]
    pub fn describe(&self, kind: &Kind) -> String {
        let name = |sym: Option<Sym>| sym.map_or("?", |sym| self.text(sym));
        match *kind {
            Kind::Switch { prev, left_as, next } => {
                format!("sched_switch {} ({left_as}) => {}", self.task_text(prev), self.task_text(next))
            }
            Kind::Waking { task, .. } => format!("{} {}", kind.name(), self.task_text(task)),
            Kind::Wakeup { task, .. } => format!("sched_wakeup {}", self.task_text(task)),
            Kind::Migrate { task, from, to } => {
                format!("sched_migrate_task {} {from} => {to}", self.task_text(task))
            }
            Kind::PiSetprio { task, old, new } => {
                format!("sched_pi_setprio {} {old} => {new}", self.task_text(task))
            }
            Kind::IrqEntry { irq, .. } => format!("irq_handler_entry irq={irq}"),
            Kind::IrqExit { irq } => format!("irq_handler_exit irq={irq}"),
            Kind::VectorEntry(vector) => format!("{}_entry", vector.name()),
            Kind::VectorExit(vector) => format!("{}_exit", vector.name()),
            Kind::SoftirqEntry { vec } => format!("softirq_entry vec={}", softirq_name(vec)),
            Kind::SoftirqExit { vec } => format!("softirq_exit vec={}", softirq_name(vec)),
            Kind::Nmi { duration } => format!("nmi_handler delta={duration}"),
            Kind::HostSteal { taken, since } => format!("steal_clock +{taken} since {since}"),
            Kind::HrtimerStart { function, .. } => format!("hrtimer_start {}", name(function)),
            Kind::TimerExpireEntry { function, .. } => format!("hrtimer_expire_entry {}", name(function)),
            Kind::TimerExpireExit { .. } => "hrtimer_expire_exit".to_owned(),
            Kind::IdleEnter { state } => format!("cpu_idle state={state}"),
            Kind::IdleExit => "cpu_idle exit".to_owned(),
            Kind::CsdEntry { function, .. } => format!("csd_function_entry {}", name(function)),
            Kind::CsdExit { .. } => "csd_function_exit".to_owned(),
            Kind::PageFault { count, .. } => format!("page_fault count={count}"),
            Kind::Lost { count: Some(0), .. } => "switches not recorded".to_owned(),
            Kind::Lost { count: Some(count), .. } => format!("{count} events lost"),
            Kind::Lost { count: None, .. } => "events lost".to_owned(),
            Kind::Other { name } => self.text(name).to_owned(),
            ref other => more(self, other),
        }
    }
}

/// `NET_RX`, or the number if it is unknown.
#[must_use]
pub fn softirq_name(vec: u8) -> String {
    SOFTIRQS.get(usize::from(vec)).map_or_else(|| vec.to_string(), |name| (*name).to_owned())
}

/// `vector local_timer`.
#[must_use]
pub fn vector_name(vector: Vector) -> String {
    match vector {
        Vector::Other(number) => format!("vector {number:#x}"),
        named => format!("vector {}", named.name()),
    }
}

/// Events beyond scheduler and interrupts.
fn more(record: &Record, kind: &Kind) -> String {
    let name = |sym: Option<Sym>| sym.map_or("?", |sym| record.text(sym));
    match *kind {
        Kind::SysEnter { id, args } => {
            format!("sys_enter NR {id} ({:x}, {:x}, {:x}, {:x})", args[0], args[1], args[2], args[3])
        }
        Kind::SysExit { id, ret } => format!("sys_exit NR {id} = {ret}"),
        Kind::WorkQueue { work, function, .. } => {
            format!("workqueue_queue_work {work:#x} {}", name(function))
        }
        Kind::WorkActivate { work } => format!("workqueue_activate_work {work:#x}"),
        Kind::WorkStart { work, function } => {
            format!("workqueue_execute_start {work:#x} {}", name(function))
        }
        Kind::WorkEnd { work, .. } => format!("workqueue_execute_end {work:#x}"),
        Kind::UserFault { address, ip, .. } => format!("page_fault_user address={address:#x} ip={ip:#x}"),
        Kind::KernelFault { address, ip, .. } => format!("page_fault_kernel address={address:#x} ip={ip:#x}"),
        Kind::FilemapFault { dev, ino, offset } => {
            format!("mm_filemap_fault dev {} ino {ino} ofs={offset}", device(dev))
        }
        Kind::BlockInsert { dev, sector, nr_sector, .. } => {
            format!("block_rq_insert {} sector {sector} + {nr_sector}", device(dev))
        }
        Kind::BlockIssue { dev, sector, nr_sector, rwbs } => {
            format!("block_rq_issue {} {} sector {sector} + {nr_sector}", device(dev), name(rwbs))
        }
        Kind::BlockComplete { dev, sector, nr_sector, error } => {
            format!("block_rq_complete {} sector {sector} + {nr_sector} [{error}]", device(dev))
        }
        Kind::NetQueue { skb, device, .. } => format!("net_dev_queue dev={} skb={skb:#x}", name(device)),
        Kind::NetReceive { skb, device, .. } => {
            format!("netif_receive_skb dev={} skb={skb:#x}", name(device))
        }
        Kind::NapiPoll { device, work, .. } => format!("napi_poll {} work {work}", name(device)),
        Kind::IpiSend { target_cpu, callback } => {
            format!("ipi_send_cpu cpu={target_cpu} {}", name(callback))
        }
        Kind::IpiSendMask { targets, callback } => {
            format!("ipi_send_cpumask cpus={} {}", record.text(targets), name(callback))
        }
        Kind::CsdQueue { target_cpu, function, csd } => {
            format!("csd_queue_cpu cpu={target_cpu} {} csd={csd:#x}", name(function))
        }
        Kind::ContentionBegin { lock, flags } => format!("contention_begin {lock:#x} flags={flags}"),
        Kind::ContentionEnd { lock, .. } => format!("contention_end {lock:#x}"),
        Kind::HrtimerSetup { timer, .. } => format!("hrtimer_setup {timer:#x}"),
        Kind::HrtimerCancel { timer } => format!("hrtimer_cancel {timer:#x}"),
        Kind::WheelTimerStart { timer, function, .. } => format!("timer_start {timer:#x} {}", name(function)),
        Kind::WheelExpireEntry { timer, function } => {
            format!("timer_expire_entry {timer:#x} {}", name(function))
        }
        Kind::SignalGenerate { sig, task, .. } => {
            format!("signal_generate sig={sig} {}", record.task_text(task))
        }
        Kind::SignalDeliver { sig, .. } => format!("signal_deliver sig={sig}"),
        Kind::InCall { call: Some(call), .. } => format!("interrupted in {}", record.call_name(call)),
        Kind::InCall { at_fault: true, .. } => {
            "interrupted at an instruction that caused a page fault".to_owned()
        }
        Kind::InCall { .. } => "interrupted outside system calls".to_owned(),
        Kind::Hotplug { cpu, down } => {
            format!("cpuhp_enter cpu={cpu}, on its way {}", if down { "offline" } else { "online" })
        }
        Kind::SoftirqRaise { vec } => format!("softirq_raise vec={}", softirq_name(vec)),
        Kind::Marker { text } => format!("mark: {}", record.text(text)),
        Kind::Exec { filename, .. } => format!("sched_process_exec {}", name(filename)),
        Kind::Fork { child, .. } => format!("sched_process_fork {}", record.task_text(child)),
        Kind::TaskExit { task } => format!("sched_process_exit {}", record.task_text(task)),
        ref other => other.name().to_owned(),
    }
}
