//! The CPUs: which exist, which share a core, which are isolated, and which one stays free?

use std::collections::BTreeMap;
use std::path::Path;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Cpu;

use crate::error::{Error, Result};
use crate::tree::Tree;

/// The CPUs of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// In use by the scheduler.
    pub online: CpuSet,
    /// Could ever come online.
    pub possible: CpuSet,
    /// Excluded from load balancing by `isolcpus=`.
    pub isolated: CpuSet,
    /// Without a tick while busy, by `nohz_full=`.
    pub nohz_full: CpuSet,
    /// Hyperthreads of the same core, for each online CPU (itself included).
    pub siblings: BTreeMap<Cpu, CpuSet>,
}

impl Topology {
    /// Reads the CPUs of the system below `root`.
    ///
    /// # Errors
    /// If the list of online CPUs is not readable.
    pub fn read(root: &Path) -> Result<Topology> {
        const BASE: &str = "sys/devices/system/cpu";
        let tree = Tree::new(root);
        let list = |path: String| tree.text(&path).and_then(|text| text.parse::<CpuSet>().ok());
        let online = list(format!("{BASE}/online")).filter(|cpus| !cpus.is_empty()).ok_or_else(|| {
            Error::refused(
                "read",
                "the list of online CPUs",
                "/sys/devices/system/cpu/online must be readable",
            )
        })?;
        let siblings_of = |cpu: Cpu| {
            let alone = || CpuSet::from_iter([cpu]);
            (cpu, list(format!("{BASE}/cpu{cpu}/topology/thread_siblings_list")).unwrap_or_else(alone))
        };
        Ok(Topology {
            possible: list(format!("{BASE}/possible")).unwrap_or_else(|| online.clone()),
            isolated: list(format!("{BASE}/isolated")).unwrap_or_default(),
            nohz_full: list(format!("{BASE}/nohz_full")).unwrap_or_default(),
            siblings: online.iter().map(siblings_of).collect(),
            online,
        })
    }

    /// The CPUs to measure: those of `wanted`, else all online ones.
    ///
    /// # Errors
    /// Names the missing CPUs, and the existing ones.
    pub fn select(&self, wanted: Option<&CpuSet>) -> Result<CpuSet> {
        let Some(wanted) = wanted else { return Ok(self.online.clone()) };
        let absent = wanted.minus(&self.online);
        if wanted.is_empty() {
            return Err(Error::stated(format!("the list of CPUs is empty; online are {}", self.online)));
        }
        if !absent.is_empty() {
            return Err(Error::refused(
                "use",
                format!("CPU {absent}"),
                format!("online are {}", self.online),
            ));
        }
        Ok(wanted.clone())
    }

    /// The CPU that stays free while threads that never sleep hold `busy`: not isolated and not a hyperthread of a busy
    /// one if possible, the lowest of those. `None` if `busy` leaves no CPU: such a job must be refused.
    #[must_use]
    pub fn housekeeping(&self, busy: &CpuSet) -> Option<Cpu> {
        let free = self.online.minus(busy);
        let shares_core = |cpu: Cpu| {
            self.siblings
                .get(&cpu)
                .is_some_and(|siblings| siblings.iter().any(|sibling| busy.contains(sibling)))
        };
        free.iter().min_by_key(|&cpu| (self.isolated.contains(cpu), shares_core(cpu), cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four cores with two hyperthreads each: 0-4, 1-5, 2-6, 3-7; cores 2 and 3 isolated.
    fn machine() -> Topology {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let siblings = (0..8).map(|cpu| (Cpu(cpu), set(&format!("{},{}", cpu % 4, cpu % 4 + 4)))).collect();
        let isolated = set("2-3,6-7");
        Topology {
            online: set("0-7"),
            possible: set("0-7"),
            isolated,
            nohz_full: CpuSet::default(),
            siblings,
        }
    }

    #[test]
    fn the_free_cpu_is_neither_isolated_nor_a_hyperthread_of_a_busy_one() {
        let free = |busy: &str| machine().housekeeping(&busy.parse().unwrap());
        assert_eq!(free("2-3"), Some(Cpu(0)));
        assert_eq!(free("0"), Some(Cpu(1)), "CPU 4 shares the core of CPU 0");
        assert_eq!(free("0-1"), Some(Cpu(4)), "sharing a core is better than an isolated CPU");
        assert_eq!(free("0-1,4-5"), Some(Cpu(2)));
        assert_eq!(free("0-7"), None);
    }

    #[test]
    fn cpus_that_do_not_exist_are_named() {
        let error = machine().select(Some(&"1,9-10".parse().unwrap())).unwrap_err().to_string();
        assert_eq!(error, "cannot use CPU 9-10; online are 0-7");
        assert!(machine().select(Some(&CpuSet::default())).is_err());
        assert_eq!(machine().select(None).unwrap().to_string(), "0-7");
    }
}
