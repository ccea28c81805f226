//! The share of a CPU that the kernel keeps from real-time threads (real-time throttling, or the fair server that replaces it):
//! no analysis of fixed priorities includes it.

use std::collections::BTreeMap;

use super::program::{Program, Rule};
use crate::conditions::Knobs;
use crate::cpuset::CpuSet;

/// A warning if the threads of a CPU need more of it than the kernel leaves to real-time threads. `all`: CPUs of threads without
/// their own; `carried`: fibers run in a real-time thread. `None`: enough is left, or the limit or the demand is not known.
#[must_use]
pub fn warning(program: &Program, all: &CpuSet, carried: bool, knobs: &Knobs) -> Option<String> {
    let runtime = knobs.rt_runtime_us.filter(|us| *us >= 0)?;
    let period = knobs.rt_period_us.filter(|us| *us > 0)?;
    let mut needs = BTreeMap::new();
    for thread in &program.threads {
        let realtime = match thread.rule {
            Rule::Fifo(_) | Rule::RoundRobin(_) => true,
            Rule::Deadline { .. } | Rule::Fair(..) => false,
            _ => carried,
        };
        let cpus = thread.cpus.as_ref().unwrap_or(all);
        let cpu = cpus.iter().next().filter(|_| realtime && cpus.len() == 1);
        if let (Some(cpu), Some(work), Some(apart)) = (cpu, thread.budget, thread.period) {
            *needs.entry(cpu).or_insert(0.0) += work.0 as f64 / apart.0.max(1) as f64;
        }
    }
    let (cpu, need) = needs.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let left = runtime as f64 / period as f64;
    (need > left + 1e-9).then(|| {
        format!(
            "the real-time threads of CPU {cpu} need up to {:.1} % of it, and the kernel leaves them {:.1} % if other threads are ready (sched_rt_runtime_us {runtime} of {period}): the analysis does not count with the rest",
            need * 100.0,
            left * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::program::Scheduler;
    use super::super::set::TaskSet;
    use super::*;

    #[test]
    fn a_set_that_needs_more_than_the_kernel_leaves_is_told_so() {
        let text = |work: u64| {
            format!(
                "{{\"tasks\": {{\"a\": {{\"policy\": \"SCHED_FIFO\", \"priority\": 5, \"wcet\": {work}, \"period\": 1000}}, \
                 \"b\": {{\"policy\": \"SCHED_FIFO\", \"priority\": 4, \"wcet\": 450, \"period\": 1000}}}}}}"
            )
        };
        let one: CpuSet = "1".parse().unwrap();
        let of = |work: u64, scheduler: Scheduler, runtime: i64, carried: bool, cpus: &CpuSet| {
            let set = TaskSet::from_json(&text(work)).unwrap();
            let program = Program::new(&set, scheduler, cpus).unwrap().0;
            let knobs =
                Knobs { rt_runtime_us: Some(runtime), rt_period_us: Some(1_000_000), ..Knobs::default() };
            warning(&program, cpus, carried, &knobs)
        };
        let said = of(510, Scheduler::Fifo, 950_000, false, &one).unwrap();
        assert!(said.contains("CPU 1 need up to 96.0 % of it, and the kernel leaves them 95.0 %"), "{said}");
        assert!(of(510, Scheduler::FiberFixed, 950_000, true, &one).is_some());
        for none in [
            of(500, Scheduler::Fifo, 950_000, false, &one),
            of(510, Scheduler::Fifo, -1, false, &one),
            of(510, Scheduler::Other, 950_000, false, &one),
            of(510, Scheduler::FiberFixed, 950_000, false, &one),
            of(510, Scheduler::Fifo, 950_000, false, &"0-1".parse().unwrap()),
        ] {
            assert_eq!(none, None);
        }
    }
}
