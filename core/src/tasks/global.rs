//! Global scheduling on several processors: a simple sufficient test. Not necessary: rejection proves nothing.

use super::edf;
use super::load::Load;

/// The verdict for threads that share several CPUs, under global EDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// Number of CPUs.
    pub cpus: usize,
    /// Proven to meet every deadline; false: not decided.
    pub schedulable: bool,
}

/// The verdict if all threads have the same affinity, of several CPUs; `None`: they do not, the demand of one is not known, or
/// they are not independent (mutexes, sleeps within a job, other blocking), which the test does not cover.
#[must_use]
pub fn of(threads: &[Load]) -> Option<Global> {
    let cpus = threads.first()?.cpus.as_ref().filter(|cpus| cpus.len() > 1)?;
    let independent = |load: &Load| {
        load.cpus.as_ref() == Some(cpus)
            && load.unknown.is_none()
            && load.not_fixed.is_none()
            && load.sections.is_empty()
            && load.suspensions == 0
            && load.blocking.0 == 0
    };
    let demand = |load: &Load| {
        let deadline = load.deadline?.saturating_sub(load.jitter);
        Some(edf::Thread { wcet: load.wcet, period: load.period?, deadline })
    };
    let all: Option<Vec<edf::Thread>> = threads.iter().map(demand).collect();
    let all = all.filter(|_| threads.iter().all(independent))?;
    let cpus = cpus.len();
    Some(Global { cpus, schedulable: gfb(&all, cpus) })
}

/// Goossens, Funk & Baruah 2003: U <= m − (m − 1) U_max, for implicit deadlines under global EDF.
///
/// Deadlines below periods count with densities (C / min(D, T)), which is sound.
fn gfb(threads: &[edf::Thread], processors: usize) -> bool {
    let density =
        |thread: &edf::Thread| thread.wcet.0 as f64 / thread.deadline.0.min(thread.period.0).max(1) as f64;
    let (sum, largest) =
        threads.iter().map(density).fold((0.0, 0.0f64), |(sum, most), one| (sum + one, most.max(one)));
    let m = processors as f64;
    sum <= m - (m - 1.0) * largest - 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Ns;

    #[test]
    fn the_utilisation_bound_is_that_of_the_largest_task() {
        let all = |shares: &[u64]| -> Vec<edf::Thread> {
            shares.iter().map(|c| edf::Thread { wcet: Ns(*c), period: Ns(10), deadline: Ns(10) }).collect()
        };
        assert!(gfb(&all(&[5, 5, 4]), 2), "1.4 <= 2 − 0.5");
        assert!(!gfb(&all(&[9, 3, 2]), 2), "1.4 > 2 − 0.9");
    }

    #[test]
    fn only_independent_threads_that_share_several_cpus_have_a_verdict() {
        let load = |wcet: u64, cpus: &str| Load {
            wcet: Ns(wcet),
            period: Some(Ns(10)),
            deadline: Some(Ns(10)),
            cpus: Some(cpus.parse().unwrap()),
            name: String::new(),
            jitter: Ns(0),
            blocking: Ns(0),
            level: 1,
            time_shares: false,
            suspensions: 0,
            sections: Vec::new(),
            unknown: None,
            locks: 0,
            not_fixed: None,
        };
        let two = || [load(5, "0-1"), load(5, "0-1"), load(4, "0-1")];
        assert_eq!(of(&two()), Some(Global { cpus: 2, schedulable: true }));
        let spoiled = |spoil: fn(&mut Load)| {
            let mut all = two();
            spoil(&mut all[2]);
            of(&all)
        };
        assert_eq!(spoiled(|load| load.wcet = Ns(9)).map(|all| all.schedulable), Some(false));
        assert_eq!(
            spoiled(|load| load.jitter = Ns(5)).map(|all| all.schedulable),
            Some(false),
            "1.8 > 2 − 0.8"
        );
        assert_eq!(spoiled(|load| load.cpus = "0-2".parse().ok()), None);
        assert_eq!(spoiled(|load| load.cpus = None), None);
        assert_eq!(spoiled(|load| load.suspensions = 1), None);
        assert_eq!(spoiled(|load| load.period = None), None);
        assert_eq!(of(&[load(5, "1")]), None);
    }
}
