//! From options to threads: CPU, priority and interval of each.

use super::cpu_spec::CpuSpec;
use super::options::{Options, Policy, Threads};
use crate::cpuset::CpuSet;
use crate::time::Cpu;

/// One measuring thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPlan {
    /// Its CPU.
    pub cpu: Cpu,
    /// Real-time priority; 0 means `SCHED_OTHER`, whatever the policy.
    pub priority: i32,
    /// Interval, µs.
    pub interval_us: u64,
}

/// All threads, and derived settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In the order of their numbers.
    pub threads: Vec<ThreadPlan>,
    /// The policy shown on the screen.
    pub policy: Policy,
    /// Some threads are `SCHED_OTHER` instead.
    pub other: bool,
    /// The CPUs of `-a`, if given.
    pub named_cpus: Option<CpuSet>,
    /// Remarks for stderr, without the word WARN.
    pub remarks: Vec<String>,
}

/// Plans the threads of `options` on a machine with the CPUs `online`, for a process with the affinity `allowed`.
///
/// # Errors
/// A CPU that is not online, or a `--distance` that makes an interval 0 or less.
pub fn plan(options: &Options, allowed: &CpuSet, online: &CpuSet) -> Result<Plan, String> {
    let named_cpus = match &options.affinity {
        None | Some(CpuSpec::Usable) => None,
        Some(spec) => Some(spec.resolve(allowed, online)?),
    };
    let cpus: Vec<Cpu> = named_cpus.as_ref().unwrap_or(allowed).iter().collect();
    if cpus.is_empty() {
        return Err("no CPU may be used by this process".to_owned());
    }
    let number = match options.threads {
        Threads::Count(number) => number as usize,
        Threads::PerCpu => cpus.len(),
    };
    let mut remarks = Vec::new();
    let (mut priority, mut policy) = (options.priority, options.policy);
    let mut default_priority = |priority: &mut i32| {
        *priority = (number as i32 + 1).min(99);
        remarks.push(format!("defaulting realtime priority to {}", *priority));
    };
    if options.priospread && priority == 0 {
        default_priority(&mut priority);
    }
    let realtime = |policy| matches!(policy, Policy::Fifo | Policy::RoundRobin);
    if realtime(policy) && priority == 0 {
        default_priority(&mut priority);
    }
    if priority > 0 && !realtime(policy) {
        remarks.push("policy and priority don't match: setting policy to SCHED_FIFO".to_owned());
        policy = Policy::Fifo;
    }
    let distance = if options.histogram.is_some() { 0 } else { options.distance_us.unwrap_or(500) };
    let mut threads = Vec::with_capacity(number);
    for index in 0..number {
        let interval = options.interval_us as i64 + distance * index as i64;
        let interval_us = u64::try_from(interval).ok().filter(|&us| us > 0).ok_or_else(|| {
            format!("distance {distance} leaves thread {index} an interval of {interval} µs; it must be at least 1")
        })?;
        let spread = if options.priospread { index as i32 } else { 0 };
        threads.push(ThreadPlan {
            cpu: cpus[index % cpus.len()],
            priority: (priority - spread).max(0),
            interval_us,
        });
    }
    let other = threads.iter().any(|thread| thread.priority == 0);
    Ok(Plan { threads, policy, other, named_cpus, remarks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(line: &str) -> Result<Plan, String> {
        planned_on(line, "0-1")
    }

    fn planned_on(line: &str, allowed: &str) -> Result<Plan, String> {
        let words: Vec<Vec<u8>> = line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
        let options = super::super::options::parse(&words).unwrap();
        plan(&options, &allowed.parse().unwrap(), &"0-1".parse().unwrap())
    }

    fn rows(line: &str) -> Vec<(u32, i32, u64)> {
        let threads = planned(line).unwrap().threads;
        threads.iter().map(|t| (t.cpu.0, t.priority, t.interval_us)).collect()
    }

    #[test]
    fn threads_are_spread_as_cyclictest_spreads_them() {
        assert_eq!(rows("-S -p90 -i 200"), [(0, 90, 200), (1, 90, 700)]);
        assert_eq!(rows("-Sp90 -i 500 -h 9"), [(0, 90, 500), (1, 90, 500)]);
        assert_eq!(rows("-t 3 -a 1"), [(1, 0, 1000), (1, 0, 1500), (1, 0, 2000)]);
        assert_eq!(rows("-p 3 --priospread -t4").iter().map(|t| t.1).collect::<Vec<_>>(), [3, 2, 1, 0]);
        assert_eq!(rows("-t2 -d -500"), [(0, 0, 1000), (1, 0, 500)]);
    }

    #[test]
    fn a_named_cpu_is_measured_also_when_it_was_not_inherited() {
        let cpus = |line: &str| -> Vec<u32> {
            planned_on(line, "1").unwrap().threads.iter().map(|thread| thread.cpu.0).collect()
        };
        assert_eq!(cpus("-a 0 -t 2"), [0, 0]);
        assert_eq!((cpus("-a 0-1 -t"), cpus("-a all -t")), (vec![0, 1], vec![0, 1]));
        for inherited in ["-a -t", "-S", "-t", "-a !0 -t", "-a +0-1 -t"] {
            assert_eq!(cpus(inherited), [1], "{inherited}");
        }
        assert!(planned_on("-a !1", "1").unwrap_err().contains("leaves none"));
        assert!(planned_on("-a 0-2", "1").unwrap_err().contains("cpu argument 2"));
    }

    #[test]
    fn defaults_and_contradictions_are_remarked_on() {
        let plan = planned("--policy=fifo").unwrap();
        assert_eq!((plan.threads[0].priority, plan.remarks.len()), (2, 1));
        let plan = planned("-p 5 --policy=batch").unwrap();
        assert_eq!((plan.policy, plan.remarks.len()), (Policy::Fifo, 1));
        assert!(planned("-t3 -d -500").unwrap_err().contains("thread 2"));
        assert!(planned("-a 7").unwrap_err().contains("out of range"));
    }
}
