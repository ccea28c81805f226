//! The code that an interrupt interrupted: user mode, or kernel code, and whether interrupts were on there.

use crate::trace::flight::is_interrupt_entry;
use crate::trace::window::StackSample;

/// The interrupted code.
pub(super) enum Code<'s> {
    /// Code in user mode.
    User,
    /// Code in the kernel, innermost function first.
    Kernel {
        /// Without the frames of the interrupt itself.
        frames: &'s [String],
    },
    /// Unknown.
    Unknown,
}

/// The code interrupted by the timer, from a stack taken in its handler, with or without the frames of the handler.
pub(super) fn interrupted_code(sample: &StackSample) -> Code<'_> {
    let entry = sample.frames.iter().position(|frame| is_interrupt_entry(frame));
    let frames = &sample.frames[entry.map_or(0, |entry| entry + 1)..];
    match (sample.in_user, frames.is_empty()) {
        (Some(true), _) => Code::User,
        (None, true) if entry.is_some() => Code::User,
        (_, true) => Code::Unknown,
        (_, false) => Code::Kernel { frames },
    }
}

/// The interrupted kernel function, if interrupts were on before according to the machine code.
pub(super) fn where_interrupts_are_on(sample: &StackSample) -> Option<&str> {
    let Code::Kernel { frames } = interrupted_code(sample) else { return None };
    let on = sample.enabled_there == Some(false) && !reenabled_interrupts(sample);
    on.then(|| frames.first().map_or("", String::as_str))
}

/// Whether interrupts were re-enabled where the timer interrupted: by the machine code, or because the function enables
/// them.
pub(super) fn reenabled_interrupts(sample: &StackSample) -> bool {
    let Code::Kernel { frames } = interrupted_code(sample) else { return false };
    sample.enabled_there == Some(true) || frames.first().is_some_and(|frame| enables_interrupts(frame))
}

/// Whether the function enables interrupts at its end, by parts of its name.
pub(super) fn enables_interrupts(frame: &str) -> bool {
    ["irqrestore", "unlock_irq", "irq_enable", "irq_restore", "finish_task_switch", "exec_single"]
        .iter()
        .any(|name| frame.contains(name))
}
