//! The bound from the path analyses of runs, or the reason for a missing one.

use std::collections::BTreeMap;

use super::answer::{Characterisation, OfCpu, PathBound, Term};
use crate::numbers::counted;
use crate::path_analysis::executions::HORIZON;
use crate::path_analysis::latency::{Interference, Latency, NoBound};
use crate::path_analysis::{Longest, PathAnalysis};
use crate::run::Run;
use crate::time::{Cpu, Ns};

/// The characterisation of interrupts of the printed bound, as rtsl's.
const PRINTED: Interference = Interference::SlidingWindow;

/// The bound of `cpus` (all if `None`) over all `runs` that have a path analysis; `None`: none has.
#[must_use]
pub fn path_bound(runs: &[&Run], cpus: Option<&[Cpu]>) -> Option<PathBound> {
    let analysed: Vec<&&Run> = runs.iter().filter(|run| !run.path_analysis.is_empty()).collect();
    let first = analysed.first()?;
    if analysed.iter().any(|run| run.conditions.kernel.realtime != Some(true)) {
        let release = first.conditions.kernel.release.as_deref().unwrap_or("the kernel");
        let why = format!(
            "no bound: the theorem is valid for PREEMPT_RT only, and {release} is not known to be that"
        );
        return Some(PathBound::none(&why));
    }
    let mut parts: BTreeMap<Cpu, PathAnalysis> = BTreeMap::new();
    let wanted = |part: &&PathAnalysis| cpus.is_none_or(|cpus| cpus.contains(&part.cpu));
    for part in analysed.iter().flat_map(|run| &run.path_analysis).filter(wanted) {
        match parts.get_mut(&part.cpu) {
            Some(sum) => sum.merge(part),
            None => drop(parts.insert(part.cpu, part.clone())),
        }
    }
    if let Some(cpu) = cpus.unwrap_or_default().iter().find(|cpu| !parts.contains_key(cpu)) {
        return Some(PathBound::none(&format!("no bound: the path analysis does not include CPU {cpu}")));
    }
    let seconds: f64 = analysed.iter().filter_map(|run| run.conditions.duration_s).sum();
    let each: Vec<OfCpu> = parts.values().map(of_cpu).collect();
    // The latency of a CPU without a bound may be the largest.
    let worst = each.iter().find(|one| one.value_ns.is_none());
    let worst = worst.or_else(|| each.iter().max_by_key(|one| one.value_ns))?;
    let executions = parts[&worst.cpu].interrupts.iter().map(|one| one.count).fold(0u64, u64::saturating_add);
    let reason = match worst.value_ns {
        None => format!("no bound: CPU {}: {}", worst.cpu, worst.reason),
        Some(_) => format!(
            "of the scheduling latency of the highest priority on CPU {}: max(POID, DST) + PAIE + PSD + interrupts ({}); over the maxima of {seconds:.0} s with {}; longer sections may occur later",
            worst.cpu,
            PRINTED.name(),
            counted(executions, "interrupt")
        ),
    };
    Some(PathBound {
        value_ns: worst.value_ns.map(|ns| ns as f64),
        reason,
        terms: worst.terms.clone(),
        cpus: each,
    })
}

fn of_cpu(path: &PathAnalysis) -> OfCpu {
    let found = path.latency(PRINTED);
    let others = Interference::ALL.map(|how| {
        let latency = path.latency(how);
        let reason = latency.as_ref().err().map(ToString::to_string).unwrap_or_default();
        Characterisation { name: how.name().to_owned(), value_ns: latency.ok().map(|it| it.total.0), reason }
    });
    let mut terms: Vec<Term> =
        [("POID", &path.poid), ("DST", &path.dst), ("PAIE", &path.paie), ("PSD", &path.psd)]
            .into_iter()
            .map(|(name, longest)| term(name, longest.as_ref()))
            .collect();
    if let Ok(Latency { interrupts, .. }) = &found {
        let of = path.interrupts.iter().zip(interrupts).filter(|(_, (ns, _))| *ns > Ns::ZERO);
        terms.extend(of.map(|(source, (ns, executions))| Term {
            name: source.source.clone(),
            value_ns: ns.0,
            detail: Some(format!("{} of {}", counted(*executions, "execution"), source.count)),
        }));
    }
    OfCpu {
        cpu: path.cpu,
        value_ns: found.as_ref().ok().map(|latency| latency.total.0),
        reason: found.as_ref().err().map(why).unwrap_or_default(),
        terms,
        characterisations: others.to_vec(),
    }
}

fn why(none: &NoBound) -> String {
    match none {
        NoBound::NoTerms => format!("{none} during the recording; record longer"),
        NoBound::Lost(_) => format!("{none}, and any of them may be the longest"),
        NoBound::TooLong(_) | NoBound::TooFrequent(..) => none.to_string(),
        NoBound::DoesNotConverge => {
            format!("{none} within {HORIZON}: interrupts take too much of the CPU time")
        }
    }
}

fn term(name: &str, longest: Option<&Longest>) -> Term {
    let detail = |longest: &Longest| format!("{}: {}", longest.thread, longest.place);
    Term {
        name: name.to_owned(),
        value_ns: longest.map_or(0, |longest| longest.ns.0),
        detail: Some(longest.map_or("none recorded".to_owned(), detail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::path_analysis::executions::Collector;
    use crate::series::Thread;
    use crate::time::Mono;

    fn longest(ns: u64) -> Option<Longest> {
        let place = "begins in lock+0x1; ends in unlock+0x2".to_owned();
        Some(Longest { ns: Ns(ns), end: Mono(9), thread: Thread::default(), place })
    }

    fn path(cpu: u32, poid: u64, executions: &[(u64, u64)]) -> PathAnalysis {
        let mut collector = Collector::new("vector local_timer".to_owned());
        executions.iter().for_each(|&(at, took)| collector.add(Mono(at), Ns(took)));
        PathAnalysis {
            cpu: Cpu(cpu),
            poid: longest(poid),
            paie: None,
            psd: longest(20_000),
            dst: longest(9_000),
            interrupts: vec![collector.executions().clone()],
            lost: 0,
        }
    }

    fn run(paths: &[PathAnalysis]) -> Run {
        let mut run = Run::new(Conditions::default());
        run.conditions.kernel.realtime = Some(true);
        run.conditions.duration_s = Some(60.0);
        run.path_analysis = paths.to_vec();
        run
    }

    const TIMER: [(u64, u64); 2] = [(0, 5_000), (1_000_000, 4_000)];

    #[test]
    fn the_bound_is_that_of_the_worst_cpu_and_its_terms_add_up() {
        let one = run(&[path(0, 30_000, &TIMER), path(1, 40_000, &TIMER)]);
        let bound = path_bound(&[&one], None).unwrap();
        assert_eq!(bound.value_ns, Some(65_000.0));
        assert!(
            bound.reason.contains("on CPU 1") && bound.reason.contains("60 s with 2 interrupts"),
            "{}",
            bound.reason
        );
        let of = |name: &str| bound.terms.iter().find(|term| term.name == name).unwrap().value_ns;
        assert_eq!(of("POID").max(of("DST")) + of("PAIE") + of("PSD") + of("vector local_timer"), 65_000);
        assert_eq!(
            bound.cpus.iter().map(|one| one.value_ns).collect::<Vec<_>>(),
            [Some(55_000), Some(65_000)]
        );
        assert_eq!(path_bound(&[&one], Some(&[Cpu(0)])).unwrap().value_ns, Some(55_000.0));
        // The longest parts of several runs belong together, as they may come together.
        let other = run(&[path(0, 10_000, &[(0, 50_000)]), path(1, 10_000, &[])]);
        assert_eq!(path_bound(&[&one, &other], None).unwrap().value_ns, Some(100_000.0));
    }

    #[test]
    fn without_a_basis_there_is_no_number() {
        let reason = |run: &Run, cpus: Option<&[Cpu]>| {
            let bound = path_bound(&[run], cpus).unwrap();
            assert_eq!(bound.value_ns, None);
            bound.reason
        };
        assert_eq!(path_bound(&[&run(&[])], None), None);
        let mut other = run(&[path(0, 1, &TIMER)]);
        assert!(reason(&other, Some(&[Cpu(0), Cpu(3)])).contains("does not include CPU 3"));
        other.conditions.kernel.realtime = None;
        assert!(reason(&other, None).contains("PREEMPT_RT"));
        let mut never = path(1, 1, &TIMER);
        never.psd = None;
        let said = reason(&run(&[path(0, 1, &TIMER), never]), None);
        assert!(said.contains("CPU 1: the scheduler did not run"), "{said}");
        let lost = PathAnalysis { lost: 2, ..path(0, 1, &TIMER) };
        assert!(reason(&run(&[lost]), None).contains("2 executions or sections were lost"));
        let always: Vec<(u64, u64)> = (0..300).map(|n| (n * 1_000_000, 1_000_000)).collect();
        let diverges = run(&[path(0, 1, &always)]);
        assert!(reason(&diverges, None).contains("does not converge"));
        let bound = path_bound(&[&diverges], None).unwrap();
        assert_eq!(bound.terms.len(), 4, "without the interrupts");
        let single = bound.cpus[0].characterisations.iter().find(|one| one.name == "worst single interrupt");
        assert_eq!(single.unwrap().value_ns, Some(1_029_000));
        let sporadic = bound.cpus[0].characterisations.iter().find(|one| one.name == "sporadic").unwrap();
        assert_eq!((sporadic.value_ns, sporadic.reason.as_str()), (None, "does not converge"));
    }
}
