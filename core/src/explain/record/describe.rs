//! Evidence as text: the events beyond scheduler and interrupts, under the kernel's names.

use super::Record;
use crate::trace::event::{Kind, Sym};

/// `major:minor` of a device number as tracepoints give it.
#[must_use]
pub fn device(dev: u32) -> String {
    format!("{}:{}", dev >> 20, dev & 0xf_ffff)
}

/// Threads of the kernel that do softirqs as their work; `irq/` only where handlers are forced into threads.
const DOERS: [&str; 7] =
    ["ksoftirqd/", "ktimers/", "ktimersd/", "ktimersoftd/", "irq/", "backlog_napi/", "napi/"];

/// Whether softirqs that run in this thread are its own work.
#[must_use]
pub fn does_softirqs(comm: &str) -> bool {
    DOERS.iter().any(|doer| comm.starts_with(doer))
}

/// The kernel's name of the event with the fields that matter.
pub(super) fn more(record: &Record, kind: &Kind) -> String {
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
            format!("ipi_send_cpumask {targets:#x} {}", name(callback))
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
        Kind::Hotplug { cpu, down } => {
            format!("cpuhp_enter cpu={cpu}, on its way {}", if down { "offline" } else { "online" })
        }
        Kind::SoftirqRaise { vec } => format!("softirq_raise vec={}", super::softirq_name(vec)),
        Kind::Marker { text } => format!("mark: {}", record.text(text)),
        Kind::Exec { filename, .. } => format!("sched_process_exec {}", name(filename)),
        Kind::Fork { child, .. } => format!("sched_process_fork {}", record.task_text(child)),
        Kind::TaskExit { task } => format!("sched_process_exit {}", record.task_text(task)),
        ref other => other.name().to_owned(),
    }
}
