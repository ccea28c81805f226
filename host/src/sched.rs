//! Scheduling of the calling thread: policy, priority, CPUs, locked memory, and a limit on real-time CPU time.
//!
//! Every call acts on the calling thread (memory locking and the CPU-time limit on the process), because a measuring
//! thread sets itself up before it measures. If the kernel refuses, the error names *which* of the possible reasons it
//! is (see [`denied`]): "operation not permitted" alone is misleading.

use std::fs;
use std::mem;
use std::os::unix::fs::MetadataExt;

use lathunt_core::application::policy_name;
use lathunt_core::cpuset::{CpuSet, CPU_LIMIT};
use lathunt_core::time::{Cpu, Ns, Tid};

use crate::error::{Error, Result};

pub mod denied;

/// Scheduling policy of a measuring thread (`sched(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`.
    Other,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    RoundRobin,
}

impl Policy {
    /// The short name that cyclictest and `chrt` use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::Other => "other",
            Policy::Batch => "batch",
            Policy::Idle => "idle",
            Policy::Fifo => "fifo",
            Policy::RoundRobin => "rr",
        }
    }

    /// Whether the policy takes a real-time priority (1 to 99).
    #[must_use]
    pub fn is_realtime(self) -> bool {
        matches!(self, Policy::Fifo | Policy::RoundRobin)
    }

    fn number(self) -> libc::c_int {
        match self {
            Policy::Other => libc::SCHED_OTHER,
            Policy::Batch => libc::SCHED_BATCH,
            Policy::Idle => libc::SCHED_IDLE,
            Policy::Fifo => libc::SCHED_FIFO,
            Policy::RoundRobin => libc::SCHED_RR,
        }
    }
}

/// Thread id of the caller.
#[must_use]
pub fn tid() -> Tid {
    // SAFETY: gettid has no preconditions and cannot fail.
    Tid(unsafe { libc::gettid() })
}

/// Whether thread ids here are those of the kernel's own events: not in a PID namespace (a container), whose ids are its own.
#[must_use]
pub fn ids_are_the_kernels() -> bool {
    /// Inode of the first PID namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO, since 3.8).
    const FIRST: u64 = 0xEFFF_FFFC;
    fs::metadata("/proc/self/ns/pid").is_ok_and(|space| space.ino() == FIRST)
}

/// Sets the policy of the calling thread; `priority` counts for real-time policies only.
///
/// # Errors
/// Names the obstacle: a missing capability, a resource limit, a cgroup, or a seccomp filter.
pub fn set_policy(policy: Policy, priority: i32) -> Result<()> {
    let priority = if policy.is_realtime() { priority } else { 0 };
    // SAFETY: sched_param is plain integers, for which zeros are valid.
    let mut param: libc::sched_param = unsafe { mem::zeroed() };
    param.sched_priority = priority;
    // SAFETY: param lives through the call; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, policy.number(), &param) } == 0 {
        return Ok(());
    }
    let what = format!("scheduling policy {} with priority {priority}", policy.name());
    let error = std::io::Error::last_os_error();
    let hint = match error.raw_os_error() {
        Some(libc::EPERM) => denied::why_no_realtime(priority).to_string(),
        Some(libc::EINVAL) => "real-time priorities go from 1 to 99".to_owned(),
        _ => String::new(),
    };
    Err(Error::new("set", what, error).hint(hint))
}

/// The CPU that the calling thread runs on at this moment. A few ns (vDSO).
#[must_use]
pub fn current_cpu() -> Cpu {
    // SAFETY: sched_getcpu has no preconditions; it fails only where the system call does not exist.
    Cpu(u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or_default())
}

/// Sets the nice value of the calling thread (-20 to 19); only ordinary policies use it.
///
/// # Errors
/// If a smaller value than the present one is not allowed (CAP_SYS_NICE, RLIMIT_NICE).
pub fn set_nice(nice: i32) -> Result<()> {
    // SAFETY: no pointers; 0 is the calling thread, because Linux keeps niceness per thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } {
        0 => Ok(()),
        _ => Err(Error::last_os("set", format!("nice value {nice}"))),
    }
}

/// Whether a thread of this process may run at SCHED_FIFO `priority`: a temporary thread tries.
///
/// # Errors
/// As [`set_policy`].
pub fn may_be_realtime(priority: i32) -> Result<()> {
    let attempt = crate::threads::spawn(move || set_policy(Policy::Fifo, priority))?;
    attempt
        .join()
        .unwrap_or_else(|_| Err(Error::refused("try", "a real-time priority", "the attempt ended early")))
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// If the CPU does not exist, is offline, or is outside the cpuset of this process.
pub fn pin(cpu: Cpu) -> Result<()> {
    set_affinity(&CpuSet::from_iter([cpu]))
}

/// Binds the calling thread to a set of CPUs.
///
/// # Errors
/// If none of them may be used; the hint lists those that may.
pub fn set_affinity(cpus: &CpuSet) -> Result<()> {
    let Err(error) = set_affinity_of(Tid(0), cpus) else { return Ok(()) };
    let error = Error::new("run on CPU", cpus.to_string(), error);
    Err(match affinity() {
        Ok(allowed) => error.hint(format!("this process may use CPU {allowed}{}", by_cpuset())),
        Err(_) => error,
    })
}

/// ` (cpuset /NAME)` if the process is in one other than the root's, which may be what limits its CPUs.
fn by_cpuset() -> String {
    let text = fs::read_to_string("/proc/self/cpuset").unwrap_or_default();
    match text.trim() {
        "" | "/" => String::new(),
        name => format!(" (cpuset {name})"),
    }
}

/// Binds any thread to a set of CPUs.
///
/// # Errors
/// The kernel's error: ESRCH if it has ended, EINVAL if none of the CPUs may be used or it is a bound kernel thread.
pub fn set_affinity_of(thread: Tid, cpus: &CpuSet) -> std::io::Result<()> {
    let mask = mask(cpus);
    // SAFETY: the kernel reads exactly the bytes of `mask`, which outlives the call.
    match unsafe { libc::sched_setaffinity(thread.0, size_of_val(&mask), mask.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn mask(cpus: &CpuSet) -> [u64; MASK_WORDS] {
    let mut mask = [0u64; MASK_WORDS];
    for cpu in cpus.iter().filter(|cpu| cpu.0 < CPU_LIMIT) {
        mask[cpu.0 as usize / 64] |= 1 << (cpu.0 % 64);
    }
    mask
}

/// The scheduling of the calling thread now, if it differs from `policy` and `priority` because another process changed
/// it. Two system calls.
#[must_use]
pub fn changed_from(policy: Policy, priority: i32) -> Option<String> {
    let priority = if policy.is_realtime() { priority } else { 0 };
    // SAFETY: no preconditions; 0 is the calling thread.
    let now = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    // SAFETY: sched_param is plain integers, for which zeros are valid.
    let mut param: libc::sched_param = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes at most the bytes of `param`.
    if now < 0 || unsafe { libc::sched_getparam(0, &mut param) } != 0 {
        return None;
    }
    let name = |number: libc::c_int| policy_name(u8::try_from(number).unwrap_or(u8::MAX));
    (now != policy.number() || param.sched_priority != priority).then(|| {
        format!("{} {} instead of {} {priority}", name(now), param.sched_priority, name(policy.number()))
    })
}

/// CPUs that the calling thread may use.
///
/// # Errors
/// If the kernel has more CPUs than the mask.
pub fn affinity() -> Result<CpuSet> {
    let mut mask = [0u64; MASK_WORDS];
    // SAFETY: the kernel writes at most the bytes of `mask`.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) } < 0 {
        return Err(Error::last_os("read", "the CPU affinity of this process"));
    }
    Ok((0..CPU_LIMIT).filter(|cpu| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1).map(Cpu).collect())
}

const MASK_WORDS: usize = CPU_LIMIT as usize / 64;

/// Locks all memory of the process, present and future, so that no page fault delays a measuring thread.
///
/// # Errors
/// Usually `RLIMIT_MEMLOCK` without CAP_IPC_LOCK; the hint says so.
pub fn lock_memory() -> Result<()> {
    // SAFETY: mlockall changes no memory contents.
    if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } == 0 {
        return Ok(());
    }
    let error = Error::last_os("lock", "memory (mlockall)");
    Err(error.hint("raise RLIMIT_MEMLOCK (`ulimit -l unlimited`) or give CAP_IPC_LOCK"))
}

/// Touches the next 64 KiB of the calling thread's stack, so that the measuring loop faults none of them in.
#[inline(never)]
pub fn prefault_stack() {
    let mut below = [0u8; 64 * 1024];
    for page in below.chunks_mut(1024) {
        page[0] = 1;
    }
    std::hint::black_box(&mut below);
}

/// Whether a thread of this process ran longer than [`limit_rt_time`] allows without sleeping.
#[must_use]
pub fn rt_time_exceeded() -> bool {
    crate::signals::rt_time_exceeded()
}

/// Bounds how long a real-time thread of this process may run without blocking (`RLIMIT_RTTIME`).
///
/// After `warn` the flag [`rt_time_exceeded`] is set (SIGXCPU is caught for it); after ten times `warn` the kernel kills
/// the process. A stricter existing limit stays.
///
/// # Errors
/// If the limit or the signal cannot be set.
pub fn limit_rt_time(warn: Ns) -> Result<()> {
    crate::signals::watch_rt_limit()?;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: limit is a valid rlimit to write to.
    if unsafe { libc::getrlimit(libc::RLIMIT_RTTIME, &mut limit) } != 0 {
        return Err(Error::last_os("read", "RLIMIT_RTTIME"));
    }
    let soft_us = (warn.0 / 1_000).max(1);
    limit.rlim_max = limit.rlim_max.min(soft_us.saturating_mul(10));
    limit.rlim_cur = limit.rlim_cur.min(soft_us).min(limit.rlim_max);
    // SAFETY: limit is initialised.
    if unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &limit) } != 0 {
        return Err(Error::last_os("set", "RLIMIT_RTTIME"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_it_was_pinned_and_nowhere_else() {
        std::thread::spawn(|| {
            let before = affinity().unwrap();
            let last = before.iter().last().unwrap();
            pin(last).unwrap();
            assert_eq!(affinity().unwrap(), CpuSet::from_iter([last]));
            let absent = Cpu(CPU_LIMIT - 1);
            let error = pin(absent).unwrap_err().to_string();
            assert!(error.contains("CPU 8191") && error.contains(&format!("may use CPU {last}")), "{error}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_priority_out_of_range_is_named_as_such() {
        let error = set_policy(Policy::Fifo, 100).unwrap_err().to_string();
        assert!(error.contains("fifo with priority 100") && error.contains("1 to 99"), "{error}");
    }
}
