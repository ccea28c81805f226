//! Changes to the runtime's kernel thread: timer slack, policy, affinity, RLIMIT_RTTIME. All are restored at the end.

use std::io;

use crate::config::{Config, StartError};
use crate::policy::Refusal;

/// The old values.
#[derive(Debug)]
pub struct Changed {
    slack: libc::c_int,
    policy: Option<(libc::c_int, libc::sched_param)>,
    cpus: Option<libc::cpu_set_t>,
    runaway: Option<libc::rlimit>,
}

/// Applies the configuration.
///
/// # Errors
/// What the kernel refuses, with what is needed.
pub fn change(config: &Config) -> Result<Changed, StartError> {
    let error = |doing| StartError::System { doing, source: io::Error::last_os_error() };
    let mut changed = Changed { slack: 0, policy: None, cpus: None, runaway: None };
    // SAFETY: plain values and structures that are initialised or written by the kernel; all for the calling thread.
    unsafe {
        changed.slack = libc::prctl(libc::PR_GET_TIMERSLACK);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        if let Some(cpu) = config.cpu {
            let mut old: libc::cpu_set_t = std::mem::zeroed();
            let mut new: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&old), &mut old);
            if cpu >= libc::CPU_SETSIZE as usize {
                return Err(StartError::Refused(Refusal::Invalid("no such CPU")));
            }
            libc::CPU_SET(cpu, &mut new);
            if libc::sched_setaffinity(0, size_of_val(&new), &new) != 0 {
                let failed = error("stay on the chosen CPU");
                changed.restore();
                return Err(failed);
            }
            changed.cpus = Some(old);
        }
        if let Some(priority) = config.kernel_priority {
            let mut old: libc::sched_param = std::mem::zeroed();
            let policy = libc::sched_getscheduler(0);
            libc::sched_getparam(0, &mut old);
            if config.runaway_seconds > 0 {
                let mut limit: libc::rlimit = std::mem::zeroed();
                libc::getrlimit(libc::RLIMIT_RTTIME, &mut limit);
                let new = config.runaway_seconds.saturating_mul(1_000_000).min(limit.rlim_max);
                libc::setrlimit(
                    libc::RLIMIT_RTTIME,
                    &libc::rlimit { rlim_cur: new, rlim_max: limit.rlim_max },
                );
                changed.runaway = Some(limit);
            }
            let new = libc::sched_param { sched_priority: priority };
            if !(1..=98).contains(&priority) || libc::sched_setscheduler(0, libc::SCHED_FIFO, &new) != 0 {
                let failed = error(
                    "become SCHED_FIFO (needs CAP_SYS_NICE or RLIMIT_RTPRIO; leave kernel_priority out)",
                );
                changed.restore();
                return Err(failed);
            }
            changed.policy = Some((policy, old));
        }
    }
    Ok(changed)
}

impl Changed {
    /// Restores the old values.
    pub fn restore(self) {
        // SAFETY: values that the kernel gave us.
        unsafe {
            if let Some((policy, parameters)) = self.policy {
                libc::sched_setscheduler(0, policy, &parameters);
            }
            if let Some(limit) = self.runaway {
                libc::setrlimit(libc::RLIMIT_RTTIME, &limit);
            }
            if let Some(cpus) = self.cpus {
                libc::sched_setaffinity(0, size_of_val(&cpus), &cpus);
            }
            if self.slack > 0 {
                libc::prctl(libc::PR_SET_TIMERSLACK, self.slack as libc::c_ulong);
            }
        }
    }
}
