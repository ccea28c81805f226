//! Facts from a printed kernel stack: the interrupted function, the system call, where the CPU was given up.

use crate::trace::flight::is_interrupt_entry;

/// A frame without `+0x12/0x40` and without its address.
pub(super) fn name(frame: &str) -> &str {
    let frame = frame.trim();
    let end = frame.find(['+', ' ', '(']).unwrap_or(frame.len());
    &frame[..end]
}

/// Whether it is a valid frame: not the end of a stack, or memory after it.
pub(super) fn is_frame(name: &str) -> bool {
    let is_kernels =
        |address: u64| (0x8000_0000..=0xffff_ffff).contains(&address) || address >= 0xffff_0000_0000_0000;
    match name.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).is_ok_and(is_kernels),
        None => !matches!(name, "" | "0"),
    }
}

/// The code that the interrupt at the top of `frames` interrupted.
pub(super) fn interrupted(frames: &[String]) -> &[String] {
    let entry = frames.iter().position(|frame| is_interrupt_entry(frame) || is_other_entry(frame));
    entry.map_or(&[], |entry| &frames[entry + 1..])
}

/// Interrupt entries of other architectures and older kernels.
fn is_other_entry(frame: &str) -> bool {
    let entries =
        ["apic_timer_interrupt", "ret_from_intr", "common_interrupt", "do_irq", "el1_irq", "__irq_svc"];
    entries.contains(&frame)
}

/// The system call that a stack is in.
pub(super) fn call(frames: &[String]) -> Option<&str> {
    let starts = [
        "__x64_sys_",
        "__arm64_sys_",
        "__riscv_sys_",
        "__ia32_sys_",
        "__do_sys_",
        "__se_sys_",
        "SyS_",
        "sys_",
    ];
    frames.iter().rev().find_map(|frame| starts.iter().find_map(|start| frame.strip_prefix(start)))
}

/// The function of a kernel thread at the end of a stack: `kswapd`.
pub(super) fn kernel_thread(frames: &[String]) -> Option<&str> {
    let at = frames.iter().position(|frame| frame == "kthread")?;
    frames.get(at.checked_sub(1)?).map(String::as_str)
}

/// End of the sentence on how the CPU was given up, for a stack taken in the scheduler.
pub(super) fn gave_up(frames: &[String]) -> Option<String> {
    let at = frames.iter().position(|frame| frame.starts_with("__schedule"))?;
    let by = frames.get(at + 1)?;
    let rest = frames.get(at + 2..).unwrap_or_default();
    let place: Vec<&str> = rest.iter().take(3).map(String::as_str).collect();
    let within = call(frames).map_or(String::new(), |call| format!(" in system call {call}"));
    let place = if place.is_empty() { String::new() } else { format!(" {}", place.join(" ← ")) };
    Some(match by.as_str() {
        by if by.starts_with("preempt_schedule_irq") || by.contains("irqentry_exit") => {
            format!("the switch came on return from an interrupt{place}{within}")
        }
        by if by.starts_with("preempt_schedule") => {
            format!("the switch came when preemption was enabled again in{place}{within}")
        }
        by if by.contains("cond_resched") => {
            format!("the switch came at a voluntary preemption point in{place}{within}")
        }
        "schedule" | "schedule_user" if rest.first().is_some_and(|frame| is_return_to_user(frame)) => {
            format!("the switch came on the return to user space{place}{within}")
        }
        "schedule_idle" => "the switch came from the idle loop".to_owned(),
        "schedule" | "schedule_timeout" => {
            format!("the switch came when it gave up the CPU itself in{place}{within}")
        }
        by => format!("the switch came in {by}{place}{within}"),
    })
}

/// Whether it is a place where a thread is preempted in user space or on return from a system call.
fn is_return_to_user(frame: &str) -> bool {
    let places = [
        "exit_to_user_mode",
        "prepare_exit_to_usermode",
        "exit_to_usermode_loop",
        "do_notify_resume",
        "do_work_pending",
        "retint_",
        "irqentry_exit_to_user_mode",
        "syscall_exit_to_user_mode",
        "work_resched",
        "ret_fast_syscall",
        "work_pending",
        "sysret_careful",
        "retint_careful",
        "int_careful",
    ];
    places.iter().any(|place| frame.starts_with(place))
}
