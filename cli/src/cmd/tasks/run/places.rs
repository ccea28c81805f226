//! Assigns CPUs to the threads of a set, and leaves one to everything else.

use std::path::Path;

use anyhow::{bail, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::tasks::set::TaskSet;
use lathunt_core::time::Cpu;
use lathunt_host::sched;
use lathunt_host::topology::Topology;
use lathunt_host::tree::LIVE;

/// CPUs of a run.
#[derive(Debug)]
pub struct Places {
    /// CPUs that threads may name.
    pub within: CpuSet,
    /// CPUs of threads that name none.
    pub default: CpuSet,
    /// All CPUs that any thread may use.
    pub used: CpuSet,
    /// CPUs that no thread uses; `None`: there are none.
    pub housekeeping: Option<CpuSet>,
    chosen: bool,
    is_reserved: bool,
}

impl Places {
    /// `wanted`: the CPUs of the command line.
    ///
    /// # Errors
    /// If one of these does not exist.
    pub fn of(set: &TaskSet, wanted: Option<&CpuSet>) -> Result<Places> {
        let allowed = match wanted {
            // A named CPU need not be in the inherited affinity: with isolcpus= a shell has only the other
            // CPUs.
            Some(wanted) => Topology::read(Path::new(LIVE))?.select(Some(wanted))?,
            None => sched::affinity()?,
        };
        let all = sched::affinity()?;
        let phases = set.tasks.iter().flat_map(|task| task.phases.iter().map(|phase| &phase.sched));
        let scheds = set.tasks.iter().map(|task| &task.sched).chain(phases);
        let named: CpuSet = scheds.filter_map(|sched| sched.cpus.as_ref()).flat_map(CpuSet::iter).collect();
        let default = match wanted {
            Some(_) => allowed.clone(),
            None => left_free(&allowed, &named),
        };
        let used: CpuSet = default.iter().chain(named.within(&allowed).iter()).collect();
        let rest = all.minus(&used);
        let housekeeping = Some(rest).filter(|rest| !rest.is_empty());
        Ok(Places {
            within: allowed,
            default,
            used,
            housekeeping,
            chosen: wanted.is_some(),
            is_reserved: false,
        })
    }

    /// The kernel accepts reservations (`SCHED_DEADLINE`) only for all CPUs of a root domain.
    ///
    /// # Errors
    /// If some were selected.
    pub fn for_reservations(mut self, any: bool) -> Result<Places> {
        if !any {
            return Ok(self);
        }
        let all = sched::affinity()?;
        if self.chosen && self.default != all {
            bail!(
                "cannot run SCHED_DEADLINE threads on CPU {} alone: the kernel takes them for all CPUs of a root domain; leave \
                 -c out, or run within a cpuset partition (lathunt isolate)",
                self.default
            );
        }
        // None is free, but the kernel admits at most 95 % of their time.
        (self.default, self.used, self.housekeeping, self.is_reserved) = (all.clone(), all, None, true);
        Ok(self)
    }

    /// Fibers share one CPU.
    ///
    /// # Errors
    /// If the CPUs of this process cannot be read.
    pub fn for_fibers(mut self, cpu: Cpu) -> Result<Places> {
        let one = CpuSet::from_iter([cpu]);
        let rest = sched::affinity()?.minus(&one);
        self.housekeeping = Some(rest).filter(|rest| !rest.is_empty());
        (self.default, self.used) = (one.clone(), one);
        Ok(self)
    }

    /// No CPU is left free.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.housekeeping.is_none() && !self.is_reserved
    }

    /// The consequence for real-time threads.
    #[must_use]
    pub fn crowded(&self, realtime: bool) -> Option<String> {
        (realtime && self.is_crowded()).then(|| {
            format!(
                "the set uses CPU {}, which leaves none to everything else: the machine may not react while its threads are \
                 busy; a run in which one does not sleep for 5 s is ended",
                self.used
            )
        })
    }
}

/// All but the first that no thread names; all if there is only one.
fn left_free(allowed: &CpuSet, named: &CpuSet) -> CpuSet {
    let free: Option<Cpu> = allowed.iter().find(|cpu| !named.contains(*cpu)).filter(|_| allowed.len() > 1);
    allowed.iter().filter(|cpu| Some(*cpu) != free).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cpu_is_left_free_that_no_thread_names() {
        let cpus = |list: &str| list.parse::<CpuSet>().unwrap();
        assert_eq!(left_free(&cpus("0-3"), &CpuSet::default()), cpus("1-3"));
        assert_eq!(left_free(&cpus("0-3"), &cpus("0,2")), cpus("0,2-3"));
        assert_eq!(left_free(&cpus("0-1"), &cpus("0-1")), cpus("0-1"));
        assert_eq!(left_free(&cpus("5"), &CpuSet::default()), cpus("5"));
    }
}
