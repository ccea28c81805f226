//! The policy of the calling thread, `SCHED_DEADLINE` included.

use std::mem;

use lathunt_core::application::policy_name;
use lathunt_core::tasks::outcome::scheduling;
use lathunt_core::tasks::program::Rule;
use lathunt_core::tasks::set::Policy;
use lathunt_core::time::Ns;

use crate::error::{Error, Result};
use crate::sched;

/// Sets the calling thread's rule.
///
/// # Errors
/// Names the obstacle, and for `SCHED_DEADLINE` the kernel's conditions.
pub fn set(rule: Rule) -> Result<()> {
    match rule {
        // Fibers are not kernel threads: their carrier has its policy already.
        Rule::FiberFixed(_) | Rule::FiberEdf(_) => Ok(()),
        Rule::Fifo(priority) => sched::set_policy(sched::Policy::Fifo, priority),
        Rule::RoundRobin(priority) => sched::set_policy(sched::Policy::RoundRobin, priority),
        Rule::Fair(policy, nice) => {
            let policy = match policy {
                Policy::Batch => sched::Policy::Batch,
                Policy::Idle => sched::Policy::Idle,
                _ => sched::Policy::Other,
            };
            sched::set_policy(policy, 0)?;
            match nice {
                0 => Ok(()),
                nice => sched::set_nice(nice),
            }
        }
        Rule::Deadline { runtime, deadline, period } => {
            // SAFETY: sched_attr is plain integers, for which zeros are valid.
            let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
            attributes.size = size_of::<libc::sched_attr>() as u32;
            attributes.sched_policy = libc::SCHED_DEADLINE as u32;
            (attributes.sched_runtime, attributes.sched_deadline, attributes.sched_period) =
                (runtime.0, deadline.0, period.0);
            // SAFETY: the attributes live through the call; 0 is the calling thread.
            match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attributes, 0) } {
                0 => Ok(()),
                _ => Err(refused(rule)),
            }
        }
    }
}

/// The scheduling of the calling thread now, if it is not the reservation of `rule` any more; `None` for other rules. One
/// system call.
pub(crate) fn changed_from(rule: Rule) -> Option<String> {
    let Rule::Deadline { runtime, deadline, period } = rule else { return None };
    // SAFETY: sched_attr is plain integers, for which zeros are valid.
    let mut now: libc::sched_attr = unsafe { mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes; 0 is the calling thread.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut now, size, 0) } != 0 {
        return None;
    }
    let name = |number: u32| policy_name(u8::try_from(number).unwrap_or(u8::MAX));
    if now.sched_policy != libc::SCHED_DEADLINE as u32 {
        return Some(format!("{} {} instead of SCHED_DEADLINE", name(now.sched_policy), now.sched_priority));
    }
    let times = (Ns(now.sched_runtime), Ns(now.sched_deadline), Ns(now.sched_period));
    (times != (runtime, deadline, period))
        .then(|| format!("SCHED_DEADLINE {} of {} instead of {runtime} of {period}", times.0, times.2))
}

fn refused(rule: Rule) -> Error {
    let error = std::io::Error::last_os_error();
    let hint = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "it needs CAP_SYS_NICE, and a thread that may run on all CPUs of its root domain (no \"cpus\", no -c)"
        }
        Some(libc::EBUSY) => {
            "the reservations exceed the kernel's limit: sched_rt_runtime_us of all CPUs (95 %), less its fair servers"
        }
        Some(libc::EINVAL) => {
            "the kernel demands 1024 ns <= runtime <= deadline <= period, and a period from 100 µs to 4.19 s \
             (sched_deadline_period_*_us)"
        }
        _ => "",
    };
    Error::new("set", format!("scheduling {}", scheduling(rule)), error).hint(hint)
}

/// Changes only the real-time priority of the calling thread, not its policy.
///
/// # Errors
/// The kernel's error.
pub fn set_priority(priority: i32) -> std::result::Result<(), i32> {
    // SAFETY: sched_param is plain integers, for which zeros are valid.
    let mut param: libc::sched_param = unsafe { mem::zeroed() };
    param.sched_priority = priority;
    // SAFETY: param lives through the call; 0 is the calling thread.
    match unsafe { libc::sched_setparam(0, &param) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)),
    }
}
