//! What an interrupt interrupted: user mode, or which code of the kernel, and whether that had interrupts on.

use crate::trace::flight::is_interrupt_entry;
use crate::trace::window::StackSample;

/// What an interrupt interrupted.
pub(super) enum Code<'s> {
    /// Code in user mode.
    User,
    /// Code in the kernel, innermost function first.
    Kernel {
        /// Without the frames of the interrupt itself.
        frames: &'s [String],
    },
    /// The sample does not say.
    Unknown,
}

/// What the timer interrupted, from a stack taken in its handler or with the handler's frames already removed.
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

/// The place in the kernel that was interrupted, where the machine code says that interrupts had been on before.
pub(super) fn where_interrupts_are_on(sample: &StackSample) -> Option<&str> {
    let Code::Kernel { frames } = interrupted_code(sample) else { return None };
    let on = sample.enabled_there == Some(false) && !reenabled_interrupts(sample);
    on.then(|| frames.first().map_or("", String::as_str))
}

/// Whether interrupts came back on where the timer's came: by the machine code there, or because the function is one
/// that turns them on.
pub(super) fn reenabled_interrupts(sample: &StackSample) -> bool {
    let Code::Kernel { frames } = interrupted_code(sample) else { return false };
    sample.enabled_there == Some(true) || frames.first().is_some_and(|frame| enables_interrupts(frame))
}

/// Functions at whose end interrupts come back on, by parts of their names.
pub(super) fn enables_interrupts(frame: &str) -> bool {
    ["irqrestore", "unlock_irq", "irq_enable", "irq_restore", "finish_task_switch", "exec_single"]
        .iter()
        .any(|name| frame.contains(name))
}
