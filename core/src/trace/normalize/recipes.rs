//! The events and field names of each kind.
//!
//! To add a kind: a variant in [`Kind`], one line in [`RECIPES`], and a function in `build` if it does not fit in the line.

mod build;

use super::{Fields, Texts};
use crate::time::{Cpu, Mono, Ns};
use crate::trace::catalogue::{EventClass, FieldRef};
use crate::trace::event::{Kind, Vector};
use crate::trace::flight;
use build::{
    cpu_idle, exec, exit, filemap_fault, flight_expire, flight_fault, flight_switch, fork, function, hotplug,
    hrtimer_expire, hrtimer_start, ipi_send_mask, irq_entry, irq_exit, marker, migrate, pi_setprio, printk,
    rename, rwbs, signal_generate, switch, sys_enter, sys_enter_named, sys_exit_named, text, wakeup, waking,
    wheel_start, work_queue,
};

/// Maximum number of fields of a kind.
pub(super) const MOST_FIELDS: usize = 7;

/// Builds a kind from its fields; `None` if a required one is missing.
pub(super) type Build = fn(&mut Texts<'_>, &Fields<'_, '_>) -> Option<Kind>;

/// Names of the event, aliases of each field, and the function that builds the kind.
type Row = (&'static [&'static str], &'static [&'static [&'static str]], Build);

const PID: &[&str] = &["pid", "tid"];

#[rustfmt::skip]
const RECIPES: &[Row] = &[
    (&["sched_switch"], &[&["prev_pid", "prev_tid"], &["prev_prio"], &["prev_comm"], &["next_pid", "next_tid"], &["next_prio"], &["next_comm"], &["prev_state"]], switch),
    (&["sched_waking"], &[PID, &["prio"], &["comm"], &["target_cpu"]], |n, f| waking(n, f, false)),
    (&["sched_wakeup_new"], &[PID, &["prio"], &["comm"], &["target_cpu"]], |n, f| waking(n, f, true)),
    (&["sched_wakeup"], &[PID, &["prio"], &["comm"], &["target_cpu"], &["success"]], wakeup),
    (&["sched_migrate_task"], &[PID, &["prio"], &["comm"], &["orig_cpu"], &["dest_cpu"]], migrate),
    (&["sched_pi_setprio"], &[PID, &[], &["comm"], &["oldprio"], &["newprio"]], pi_setprio),
    (&["sched_process_fork"], &[&["child_pid_thread", "child_tid", "child_pid"], &[], &["child_comm"], &["parent_tid", "parent_pid"]], fork),
    (&["sched_process_exec"], &[&["old_pid", "old_tid"], &["filename"]], exec),
    (&["sched_process_exit"], &[PID, &["prio"], &["comm"]], exit),
    (&["task_rename"], &[PID, &["newcomm"]], rename),
    (&["irq_handler_entry"], &[&["irq"], &["name"]], irq_entry),
    (&["irq_handler_exit"], &[&["irq"]], irq_exit),
    (&["softirq_entry", "irq_softirq_entry"], &[&["vec"]], |_, f| Some(Kind::SoftirqEntry { vec: f.int(0)? as u8 })),
    (&["softirq_exit", "irq_softirq_exit"], &[&["vec"]], |_, f| Some(Kind::SoftirqExit { vec: f.int(0)? as u8 })),
    (&["softirq_raise", "irq_softirq_raise"], &[&["vec"]], |_, f| Some(Kind::SoftirqRaise { vec: f.int(0)? as u8 })),
    (&["nmi_handler"], &[&["delta_ns"]], |_, f| Some(Kind::Nmi { duration: Ns(f.bits(0)?) })),
    (&["hrtimer_setup", "hrtimer_init", "timer_hrtimer_init", "timer_hrtimer_setup"], &[&["hrtimer"], &["clockid"]], |_, f| Some(Kind::HrtimerSetup { timer: f.bits(0)?, clock: f.int(1)? })),
    (&["hrtimer_start", "timer_hrtimer_start"], &[&["hrtimer"], &["function"], &["expires"], &["softexpires"]], hrtimer_start),
    (&["hrtimer_cancel", "timer_hrtimer_cancel"], &[&["hrtimer"]], |_, f| Some(Kind::HrtimerCancel { timer: f.bits(0)? })),
    (&["hrtimer_expire_entry", "timer_hrtimer_expire_entry"], &[&["hrtimer"], &["function"], &["now"]], hrtimer_expire),
    (&["hrtimer_expire_exit", "timer_hrtimer_expire_exit"], &[&["hrtimer"]], |_, f| Some(Kind::TimerExpireExit { timer: f.bits(0)? })),
    (&["timer_start"], &[&["timer"], &["function"], &["expires"], &["now"]], wheel_start),
    (&["timer_cancel"], &[&["timer"]], |_, f| Some(Kind::WheelTimerCancel { timer: f.bits(0)? })),
    (&["timer_expire_entry"], &[&["timer"], &["function"]], |n, f| Some(Kind::WheelExpireEntry { timer: f.bits(0)?, function: function(n, f, 1) })),
    (&["timer_expire_exit"], &[&["timer"]], |_, f| Some(Kind::WheelExpireExit { timer: f.bits(0)? })),
    (&["cpu_idle", "power_cpu_idle"], &[&["state"]], cpu_idle),
    (&["cpuhp_enter", "cpuhp_multi_enter"], &[&["cpu"], &["target"], &["idx"]], hotplug),
    (&["csd_queue_cpu"], &[&["cpu"], &["func"], &["csd"]], |n, f| Some(Kind::CsdQueue { target_cpu: Cpu(f.int(0)? as u32), function: function(n, f, 1), csd: f.bits(2)? })),
    (&["csd_function_entry"], &[&["func"], &["csd"]], |n, f| Some(Kind::CsdEntry { function: function(n, f, 0), csd: f.bits(1)? })),
    (&["csd_function_exit"], &[&["csd"]], |_, f| Some(Kind::CsdExit { csd: f.bits(0)? })),
    (&["ipi_send_cpu"], &[&["cpu"], &["callback"]], |n, f| Some(Kind::IpiSend { target_cpu: Cpu(f.int(0)? as u32), callback: function(n, f, 1) })),
    (&["ipi_send_cpumask"], &[&["cpumask"], &["callback"]], ipi_send_mask),
    (&["ipi_entry"], &[&["reason"]], |n, f| Some(Kind::IpiEntry { reason: text(n, f, 0) })),
    (&["ipi_exit"], &[&["reason"]], |n, f| Some(Kind::IpiExit { reason: text(n, f, 0) })),
    (&["sys_enter"], &[&["id"], &["args[0]"], &["args[1]"], &["args[2]"], &["args[3]"], &["args[4]"], &["args[5]"]], sys_enter),
    (&["sys_exit"], &[&["id"], &["ret"]], |_, f| Some(Kind::SysExit { id: f.int(0)?, ret: f.bits(1)? as i64 })),
    (&["workqueue_queue_work"], &[&["work"], &["function"], &["cpu", "req_cpu"]], work_queue),
    (&["workqueue_activate_work"], &[&["work"]], |_, f| Some(Kind::WorkActivate { work: f.bits(0)? })),
    (&["workqueue_execute_start"], &[&["work"], &["function"]], |n, f| Some(Kind::WorkStart { work: f.bits(0)?, function: function(n, f, 1) })),
    (&["workqueue_execute_end"], &[&["work"], &["function"]], |n, f| Some(Kind::WorkEnd { work: f.bits(0)?, function: function(n, f, 1) })),
    (&["page_fault_user", "x86_exceptions_page_fault_user"], &[&["address"], &["ip"], &["error_code"]], |_, f| Some(Kind::UserFault { address: f.bits(0)?, ip: f.bits(1)?, error_code: f.int(2)? as u32 })),
    (&["page_fault_kernel", "x86_exceptions_page_fault_kernel"], &[&["address"], &["ip"], &["error_code"]], |_, f| Some(Kind::KernelFault { address: f.bits(0)?, ip: f.bits(1)?, error_code: f.int(2)? as u32 })),
    (&["mm_filemap_fault"], &[&["s_dev"], &["i_ino"], &["index"]], filemap_fault),
    (&["block_rq_insert"], &[&["dev"], &["sector"], &["nr_sector"], &["rwbs"]], |n, f| Some(Kind::BlockInsert { dev: f.int(0)? as u32, sector: f.bits(1)?, nr_sector: f.int(2)? as u32, rwbs: rwbs(n, f, 3) })),
    (&["block_rq_issue"], &[&["dev"], &["sector"], &["nr_sector"], &["rwbs"]], |n, f| Some(Kind::BlockIssue { dev: f.int(0)? as u32, sector: f.bits(1)?, nr_sector: f.int(2)? as u32, rwbs: rwbs(n, f, 3) })),
    (&["block_rq_complete"], &[&["dev"], &["sector"], &["nr_sector"], &["error", "errors"]], |_, f| Some(Kind::BlockComplete { dev: f.int(0)? as u32, sector: f.bits(1)?, nr_sector: f.int(2)? as u32, error: f.int(3)? })),
    (&["net_dev_queue"], &[&["skbaddr"], &["len"], &["name"]], |n, f| Some(Kind::NetQueue { skb: f.bits(0)?, len: f.int(1)? as u32, device: text(n, f, 2) })),
    (&["netif_receive_skb", "net_if_receive_skb"], &[&["skbaddr"], &["len"], &["name"]], |n, f| Some(Kind::NetReceive { skb: f.bits(0)?, len: f.int(1)? as u32, device: text(n, f, 2) })),
    (&["napi_poll"], &[&["dev_name"], &["work"], &["budget"]], |n, f| Some(Kind::NapiPoll { device: text(n, f, 0), work: f.int(1).unwrap_or(0), budget: f.int(2).unwrap_or(0) })),
    (&["contention_begin"], &[&["lock_addr"], &["flags"]], |_, f| Some(Kind::ContentionBegin { lock: f.bits(0)?, flags: f.int(1)? as u32 })),
    (&["contention_end"], &[&["lock_addr"], &["ret"]], |_, f| Some(Kind::ContentionEnd { lock: f.bits(0)?, ret: f.int(1)? })),
    (&["signal_generate"], &[PID, &[], &["comm"], &["sig"], &["code"], &["result", "res"]], signal_generate),
    (&["signal_deliver"], &[&["sig"], &["code"]], |_, f| Some(Kind::SignalDeliver { sig: f.int(0)?, code: f.int(1).unwrap_or(0) })),
    (&["print"], &[&["buf"]], marker),
    (&["lttng_logger"], &[&["msg"]], marker),
    (&["bputs"], &[&["str"]], printk),
    (&["bprint"], &[&["fmt"]], printk),
    (&["function"], &[&["ip"], &["parent_ip"]], |_, f| Some(Kind::Function { ip: f.bits(0)?, parent_ip: f.bits(1)? })),
];

/// Events of the flight recorder that differ from the kernel events of the same name.
#[rustfmt::skip]
const FLIGHT: &[Row] = &[
    (&["sched_switch"], &[&["prev_pid"], &["prev_prio"], &["preempted"], &["next_pid"], &["next_prio"], &["next_comm"], &["prev_state"]], flight_switch),
    (&["hrtimer_expire_entry"], &[&["hrtimer"], &["function"], &["expires"], &["slack"]], flight_expire),
    (&["host_steal"], &[&["taken"], &["since"]], |_, f| Some(Kind::HostSteal { taken: Ns(f.bits(0)?), since: Mono(f.bits(1)?) })),
    (&["interrupted_call"], &[&["id"]], |_, f| f.int(0).map(Kind::found_in)),
    (&["page_fault"], &[&["address"], &["count"], &["read"], &["written"], &["copied"]], flight_fault),
];

const VECTORS: [(&str, Vector); 11] = [
    ("local_timer", Vector::LocalTimer),
    ("reschedule", Vector::Reschedule),
    ("call_function", Vector::CallFunction),
    ("call_function_single", Vector::CallFunctionSingle),
    ("irq_work", Vector::IrqWork),
    ("thermal_apic", Vector::ThermalApic),
    ("deferred_error_apic", Vector::DeferredError),
    ("threshold_apic", Vector::ThresholdApic),
    ("error_apic", Vector::ErrorApic),
    ("spurious_apic", Vector::SpuriousApic),
    ("x86_platform_ipi", Vector::PlatformIpi),
];

/// The function that builds the kind of `class`, and its fields.
pub(super) fn find(class: &EventClass) -> Option<(Build, &'static [&'static [&'static str]])> {
    if let Some(build) = vector_build(&class.name) {
        return Some((build, &[&["vector"]]));
    }
    if is_text_of_lttng(class) {
        return Some((marker, &[&["msg"]]));
    }
    let own: &[Row] = if class.system == flight::source::SYSTEM { FLIGHT } else { &[] };
    let (_, fields, build) =
        own.iter().chain(RECIPES).find(|(names, ..)| names.contains(&class.name.as_str()))?;
    Some((*build, fields))
}

/// `tracef` and `tracelog` of LTTng's user space.
pub(super) fn is_text_of_lttng(class: &EventClass) -> bool {
    class.system == "lttng_ust_tracef" || class.system.starts_with("lttng_ust_tracelog")
}

fn vector_build(name: &str) -> Option<Build> {
    let name = name.strip_prefix("x86_irq_vectors_").unwrap_or(name);
    macro_rules! builds {
        ($($index:literal)*) => {
            $(
                if name.strip_suffix("_entry") == Some(VECTORS[$index].0) {
                    return Some(|_, _| Some(Kind::VectorEntry(VECTORS[$index].1)));
                }
                if name.strip_suffix("_exit") == Some(VECTORS[$index].0) {
                    return Some(|_, _| Some(Kind::VectorExit(VECTORS[$index].1)));
                }
            )*
        };
    }
    builds!(0 1 2 3 4 5 6 7 8 9 10);
    None
}

/// The system call in the name of an event, as in LTTng: (is an entry, `futex`). `exit_syscall` and `sys_futex` are
/// names of LTTng 2.0 to 2.5.
pub(super) fn syscall_in_name(name: &str) -> Option<(bool, &str)> {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    if let Some(call) = name.strip_prefix("syscall_entry_") {
        return Some((true, call));
    }
    if let Some(call) = name.strip_prefix("syscall_exit_") {
        return Some((false, call));
    }
    match name {
        "exit_syscall" => Some((false, "")),
        "sys_enter" | "sys_exit" | "sys_unknown" => None,
        _ => name.strip_prefix("sys_").map(|call| (true, call)),
    }
}

/// Fields of an event with the system call in its name: number (if it is a field), then arguments or result.
pub(super) fn syscall_recipe(class: &EventClass, entry: bool) -> (Build, [Option<FieldRef>; MOST_FIELDS]) {
    let mut fields = [None; MOST_FIELDS];
    fields[0] = class.field("id").filter(|_| class.name.ends_with("_unknown"));
    if !entry {
        fields[1] = class.field("ret");
        return (sys_exit_named, fields);
    }
    if fields[0].is_some() {
        let arguments = ["args[0]", "args[1]", "args[2]", "args[3]", "args[4]", "args[5]"];
        for (slot, name) in fields[1..].iter_mut().zip(arguments) {
            *slot = class.field(name);
        }
    } else {
        for (slot, field) in fields[1..].iter_mut().zip(class.payload()) {
            *slot = Some(field);
        }
    }
    (sys_enter_named, fields)
}
