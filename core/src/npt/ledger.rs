//! Gap time by source: a table whose entries add up to the time of all gaps.
//!
//! An interruption costs time outside its handler: entry and exit code, and in a guest the host's part. This cost is
//! estimated from the run: the remainder per entry in the cheapest tenth of its first gaps. Up to `TOLERANCE` times
//! this cost is "entering and leaving the kernel"; more is judged by `hwlat::classify` like a gap without software.

use std::collections::BTreeMap;

use super::gap::{Gap, Part, Shares};
use crate::explain::Explanation;
use crate::hwlat::classify::{classify, Cause, Evidence, Judgement};
use crate::run::Interference;
use crate::time::{Cpu, Ns};

/// Gaps from which the cost of an entry is estimated.
const LEARNT_FROM: usize = 64;
/// An entry may cost this many times the cheapest ones: caches are cold after a long handler.
const TOLERANCE: u64 = 2;
/// Gaps from this length have a separate sum: for shorter ones, tracing overhead is of the order of the gap.
pub const LARGE: Ns = Ns::from_us(5);

/// Entry and exit code of interrupts and switches.
pub const ENTRY: &str = "entering and leaving the kernel";
/// Unexplained.
pub const UNEXPLAINED: &str = "hardware or host, unexplained";
/// Unexplained if the loop itself calls the kernel.
pub const UNEXPLAINED_PROBE: &str = "the probe, hardware or host, unexplained";
/// Unexplained if each iteration does work besides reading the clock.
pub const UNEXPLAINED_WORK: &str = "slow memory, hardware or host, unexplained";
/// That work, as long as it usually takes.
pub const WORK: &str = "the work of the iteration";
/// Steal time.
pub const HOST: &str = "host (steal)";
/// Unexplained, in a gap without any interrupt, fault or switch in the trace.
pub const OUTSIDE: &str = "hardware or host, without any kernel event";
/// Without trace data.
pub const UNRECORDED: &str = "not recorded";
/// The loop was moved away from its CPU.
pub const ELSEWHERE: &str = "the loop was on another CPU";

/// An explained gap.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedGap {
    /// The gap.
    pub gap: Gap,
    /// Times by source, largest first; they add up to the gap.
    pub parts: Vec<Part>,
    /// The cause of the time not explained by software.
    pub judgement: Judgement,
}

impl ExplainedGap {
    /// The explanation of an interval attributes all time of the loop's thread to it. If this part is significant, the
    /// text uses the parts of the gap, because the loop did not run.
    pub fn retell(&self, explanation: &mut Explanation) {
        const OWN: [&str; 8] =
            [ENTRY, HOST, OUTSIDE, UNEXPLAINED, UNEXPLAINED_PROBE, UNEXPLAINED_WORK, WORK, UNRECORDED];
        let named = |name: &str| OWN.contains(&name);
        let own: Ns = self.parts.iter().filter(|part| named(&part.name)).map(|part| part.net).sum();
        let length = self.gap.length();
        if own.0.saturating_mul(5) < length.0 {
            return;
        }
        let share = |part: &Part| 100.0 * part.net.0 as f64 / length.0.max(1) as f64;
        let parts = self.parts.iter().take(4);
        let told: Vec<String> =
            parts.map(|part| format!("{} {} ({:.0} %)", part.name, part.net, share(part))).collect();
        explanation.sentence = format!("{length}: {}", told.join("; "));
        let reason = self.judgement.reasons.last().filter(|_| self.judgement.cause != Cause::Software);
        if let Some(reason) = reason {
            explanation.sentence.push_str(&format!("; {reason}"));
        }
        explanation.cause = self.parts.first().map_or_else(String::new, |part| part.name.clone());
    }
}

/// Time of one source over all gaps of one CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    gaps: u64,
    total: Ns,
    max: Ns,
}

/// Sums over all gaps.
#[derive(Clone, Debug)]
pub struct Ledger {
    threshold: Ns,
    hypervisor: Option<String>,
    unexplained: &'static str,
    work: Option<Ns>,
    entry_ns: Option<Ns>, // of the cheapest entries
    waiting: Vec<(Gap, Option<Shares>)>,
    sums: BTreeMap<(Cpu, String), Sum>,
    total: [Ns; 2],      // all gaps, and the large ones
    attributed: [Ns; 2], // the same
}

impl Ledger {
    /// `probe_calls_kernel`: the loop makes system calls, which may be its own time in a gap. `work`: usual length of
    /// the work of an iteration.
    #[must_use]
    pub fn new(
        threshold: Ns,
        hypervisor: Option<String>,
        probe_calls_kernel: bool,
        work: Option<Ns>,
    ) -> Ledger {
        let unexplained = match (probe_calls_kernel, work) {
            (true, _) => UNEXPLAINED_PROBE,
            (false, Some(_)) => UNEXPLAINED_WORK,
            (false, None) => UNEXPLAINED,
        };
        Ledger {
            threshold,
            hypervisor,
            unexplained,
            work,
            entry_ns: None,
            waiting: Vec::new(),
            sums: BTreeMap::new(),
            total: [Ns::ZERO; 2],
            attributed: [Ns::ZERO; 2],
        }
    }

    /// Adds a gap; `None`: no trace of it. Returns explained gaps, possibly earlier ones.
    pub fn add(&mut self, gap: Gap, shares: Option<Shares>) -> Vec<ExplainedGap> {
        self.waiting.push((gap, shares));
        match self.entry_ns {
            None if self.waiting.len() < LEARNT_FROM => Vec::new(),
            _ => self.settle(),
        }
    }

    /// Explains all pending gaps.
    pub fn settle(&mut self) -> Vec<ExplainedGap> {
        if self.entry_ns.is_none() {
            self.entry_ns = cheapest_entry(&self.waiting);
        }
        std::mem::take(&mut self.waiting).into_iter().map(|(gap, shares)| self.tell(gap, shares)).collect()
    }

    fn tell(&mut self, gap: Gap, shares: Option<Shares>) -> ExplainedGap {
        let length = gap.length();
        let mut parts = Vec::new();
        let mut rest = length;
        let mut take = |name: &str, net: Ns| {
            let net = net.min(rest);
            rest = rest.saturating_sub(net);
            if net > Ns::ZERO {
                parts.push(Part { name: name.to_owned(), net });
            }
        };
        let recorded = shares.is_some();
        let Shares { parts: others, own, entries, unrecorded } = shares.unwrap_or_default();
        others.iter().for_each(|part| take(&part.name, part.net));
        let stolen = gap.stolen().min(own); // steal time during others' parts is theirs: its times are unknown
        take(HOST, stolen);
        let own = own.saturating_sub(stolen);
        let allowed = Ns(self.entry_ns.unwrap_or_default().0 * TOLERANCE * u64::from(entries));
        take(ENTRY, own.min(allowed));
        take(UNRECORDED, unrecorded);
        let own = own.saturating_sub(allowed);
        let work = self.work.unwrap_or_default().min(own);
        take(WORK, work);
        if gap.faults > 0 {
            take("page fault", own.saturating_sub(work));
        }
        let alone = recorded && entries == 0 && gap.faults == 0 && others.is_empty();
        let software = parts.iter().filter(|part| ![HOST, WORK].contains(&part.name.as_str()));
        let mut judgement = classify(&Evidence {
            gap_ns: length.saturating_sub(stolen).saturating_sub(work),
            threshold_ns: self.threshold,
            software: recorded.then(|| software.map(|part| (part.name.clone(), part.net)).collect()),
            smi: gap.smi,
            steal_ns: gap.steal_ns.filter(|_| !gap.steal_is_exact),
            unrecorded: gap.elsewhere.then_some(ELSEWHERE),
            hypervisor: self.hypervisor.clone(),
            ..Evidence::default()
        });
        if stolen.0 > length.0 / 2 {
            judgement.cause = Cause::Host;
            judgement.reasons.push(format!("the host stole {stolen}"));
        }
        if rest > Ns::ZERO {
            let name = match (judgement.cause, recorded) {
                (Cause::Smi, _) => "firmware (SMI)",
                (Cause::Host, _) if !gap.steal_is_exact => HOST,
                (_, true) if alone && self.work.is_none() => OUTSIDE,
                (_, true) => self.unexplained,
                (_, false) if gap.elsewhere => ELSEWHERE,
                (_, false) => UNRECORDED,
            };
            parts.push(Part { name: name.to_owned(), net: rest });
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.net));
        self.book(&gap, &parts);
        ExplainedGap { gap, parts, judgement }
    }

    fn book(&mut self, gap: &Gap, parts: &[Part]) {
        let length = gap.length();
        let open = [self.unexplained, OUTSIDE, UNRECORDED, ELSEWHERE];
        let known = |part: &&Part| !open.contains(&part.name.as_str());
        let attributed: Ns = parts.iter().filter(known).map(|part| part.net).sum();
        for class in 0..=usize::from(length > LARGE) {
            self.total[class] = self.total[class] + length;
            self.attributed[class] = self.attributed[class] + attributed;
        }
        for part in parts {
            let sum = self.sums.entry((gap.cpu, part.name.clone())).or_default();
            sum.gaps += 1;
            sum.total = sum.total + part.net;
            sum.max = sum.max.max(part.net);
        }
    }

    /// One row per CPU and source, the largest total first. They add up to [`Ledger::total`].
    #[must_use]
    pub fn rows(&self) -> Vec<Interference> {
        let row = |((cpu, source), sum): (&(Cpu, String), &Sum)| Interference {
            cpu: *cpu,
            source: source.clone(),
            count: sum.gaps,
            total_ns: sum.total,
            max_ns: sum.max,
        };
        let mut rows: Vec<Interference> = self.sums.iter().map(row).collect();
        rows.sort_by_key(|row| (row.cpu, std::cmp::Reverse(row.total_ns)));
        rows
    }

    /// Time of all explained gaps.
    #[must_use]
    pub fn total(&self) -> Ns {
        self.total[0]
    }

    /// Share of the time of gaps above [`LARGE`] with a known source; `None`: no such gap.
    #[must_use]
    pub fn attributed_of_large(&self) -> Option<f64> {
        let [_, total] = self.total;
        (total > Ns::ZERO).then(|| self.attributed[1].0 as f64 / total.0 as f64)
    }

    /// Cost of the cheapest entries, once known.
    #[must_use]
    pub fn entry_ns(&self) -> Option<Ns> {
        self.entry_ns
    }
}

/// The remainder per entry, in the cheapest tenth of the gaps with entries.
fn cheapest_entry(gaps: &[(Gap, Option<Shares>)]) -> Option<Ns> {
    let shares = gaps.iter().filter_map(|(gap, shares)| Some((gap, shares.as_ref()?)));
    let mut costs: Vec<u64> = shares
        .filter(|(_, shares)| shares.entries > 0 && shares.unrecorded == Ns::ZERO)
        .map(|(gap, shares)| shares.own.saturating_sub(gap.stolen()).0 / u64::from(shares.entries))
        .collect();
    costs.sort_unstable();
    costs.get(costs.len() / 10).copied().map(Ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Mono;

    fn gap(us: u64) -> Gap {
        Gap { begin: Mono(1_000), end: Mono(1_000 + us * 1_000), ..Gap::default() }
    }

    fn by(name: &str, us: u64, own_us: u64) -> Option<Shares> {
        let part = Part { name: name.to_owned(), net: Ns::from_us(us) };
        Some(Shares { parts: vec![part], own: Ns::from_us(own_us), entries: 1, unrecorded: Ns::ZERO })
    }

    fn told(ledger: &mut Ledger) -> Vec<ExplainedGap> {
        let told = ledger.settle();
        for one in &told {
            let sum: Ns = one.parts.iter().map(|part| part.net).sum();
            assert_eq!(sum, one.gap.length(), "{one:?}");
        }
        let sum: Ns = ledger.rows().iter().map(|row| row.total_ns).sum();
        assert_eq!(sum, ledger.total());
        told
    }

    #[test]
    fn what_an_entry_costs_is_learnt_and_more_than_that_is_unexplained() {
        let mut ledger = Ledger::new(Ns::from_us(1), Some("none".to_owned()), false, None);
        for _ in 0..20 {
            assert!(ledger.add(gap(5), by("vector local_timer", 3, 2)).is_empty());
        }
        ledger.add(gap(503), by("vector local_timer", 3, 500));
        let told = told(&mut ledger);
        assert_eq!(ledger.entry_ns(), Some(Ns::from_us(2)));
        assert_eq!(told[0].parts.len(), 2, "{:?}", told[0]);
        let last = &told[20].parts;
        assert_eq!((last[0].name.as_str(), last[0].net), (UNEXPLAINED, Ns::from_us(496)));
        assert_eq!(told[20].judgement.cause, Cause::CannotTell);
        assert!(ledger.attributed_of_large().unwrap() < 0.05);
    }

    #[test]
    fn the_work_of_an_iteration_is_its_own_part_and_what_is_beyond_it_is_not_said_to_be_hardware() {
        let mut ledger = Ledger::new(Ns::from_us(1), Some("none".to_owned()), false, Some(Ns::from_us(10)));
        let nobody = |us| Some(Shares { own: Ns::from_us(us), ..Shares::default() });
        ledger.add(gap(15), nobody(15));
        ledger.add(Gap { faults: 1, ..gap(30) }, nobody(30));
        ledger.add(gap(40), by("vector local_timer", 32, 8));
        let told = told(&mut ledger);
        let parts = |told: &ExplainedGap| {
            told.parts.iter().map(|p| (p.name.clone(), p.net.0 / 1_000)).collect::<Vec<_>>()
        };
        assert_eq!(parts(&told[0]), [(WORK.to_owned(), 10), (UNEXPLAINED_WORK.to_owned(), 5)]);
        assert_eq!(parts(&told[1]), [("page fault".to_owned(), 20), (WORK.to_owned(), 10)]);
        assert_eq!(parts(&told[2])[0], ("vector local_timer".to_owned(), 32));
    }

    #[test]
    fn counters_name_what_no_event_shows() {
        let mut ledger = Ledger::new(Ns::from_us(1), Some("KVM".to_owned()), false, None);
        let nobody = |us| Some(Shares { own: Ns::from_us(us), ..Shares::default() });
        ledger.add(Gap { smi: Some(1), ..gap(300) }, nobody(300));
        ledger.add(Gap { steal_ns: Some(Ns::from_ms(10)), ..gap(3_000) }, nobody(3_000));
        ledger.add(Gap { faults: 1, ..gap(300) }, nobody(300));
        ledger.add(gap(300), nobody(300));
        ledger.add(gap(300), None);
        let names: Vec<_> = told(&mut ledger).iter().map(|one| one.parts[0].name.clone()).collect();
        assert_eq!(names, ["firmware (SMI)", HOST, "page fault", OUTSIDE, UNRECORDED]);
    }

    #[test]
    fn what_the_host_took_to_the_ns_is_its_own_and_no_more() {
        let mut ledger = Ledger::new(Ns::from_us(1), Some("KVM".to_owned()), false, None);
        let stole = |us: u64| Gap { steal_ns: Some(Ns::from_us(us)), steal_is_exact: true, ..gap(300) };
        let nobody = || Some(Shares { own: Ns::from_us(300), ..Shares::default() });
        ledger.add(stole(200), nobody());
        ledger.add(stole(0), nobody());
        ledger.add(stole(900), by("vector local_timer", 100, 200));
        let told = told(&mut ledger);
        let parts = |told: &ExplainedGap| {
            told.parts.iter().map(|p| (p.name.clone(), p.net.0 / 1_000)).collect::<Vec<_>>()
        };
        assert_eq!(parts(&told[0]), [(HOST.to_owned(), 200), (OUTSIDE.to_owned(), 100)]);
        assert_eq!(parts(&told[1]), [(OUTSIDE.to_owned(), 300)]);
        assert_eq!(parts(&told[2]), [(HOST.to_owned(), 200), ("vector local_timer".to_owned(), 100)]);
        assert_eq!((told[0].judgement.cause, told[1].judgement.cause), (Cause::Host, Cause::CannotTell));
    }

    #[test]
    fn the_host_is_not_the_cause_of_what_others_had_meanwhile() {
        let mut ledger = Ledger::new(Ns::from_us(1), Some("KVM".to_owned()), false, None);
        let stole = Gap { steal_ns: Some(Ns::from_us(900)), steal_is_exact: true, ..gap(300) };
        ledger.add(stole, by("vector local_timer", 250, 50));
        let told = told(&mut ledger).remove(0);
        assert_eq!(
            (told.parts[0].name.as_str(), told.judgement.cause),
            ("vector local_timer", Cause::Software)
        );
    }

    #[test]
    fn each_entry_may_cost_what_the_cheapest_tenth_does_and_the_longest_of_a_source_is_told() {
        let mut ledger = Ledger::new(Ns::from_us(1), Some("none".to_owned()), false, None);
        for cost in [[2; 5], [9; 5], [9; 5], [9; 5]].concat() {
            ledger.add(gap(3 + cost), by("vector local_timer", 3, cost));
        }
        let thrice = by("vector local_timer", 30, 12).map(|shares| Shares { entries: 3, ..shares });
        ledger.add(gap(42), thrice);
        ledger.add(gap(13), by("vector local_timer", 4, 9));
        ledger.add(gap(1_000), None);
        let told = told(&mut ledger);
        assert_eq!(ledger.entry_ns(), Some(Ns::from_us(2)));
        let names: Vec<&str> = told[20].parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["vector local_timer", ENTRY], "twice the cheapest, three times");
        let rows = ledger.rows();
        let timer = rows.iter().find(|row| row.source == "vector local_timer").unwrap();
        assert_eq!((timer.max_ns, timer.count), (Ns::from_us(30), 22));
        assert!(ledger.attributed_of_large().unwrap() < 0.3, "nobody is named for what was not recorded");
    }

    #[test]
    fn a_record_that_claims_more_than_the_gap_does_not_break_the_sum() {
        let mut ledger = Ledger::new(Ns::from_us(1), None, true, None);
        ledger.add(gap(10), by("hog/1 (RT 98)", 11, 5));
        ledger.add(gap(10), by("hog/1 (RT 98)", 2, 1));
        let told = told(&mut ledger);
        assert_eq!(told[0].parts.len(), 1);
        assert!(told[1].parts.iter().any(|part| part.name == UNEXPLAINED_PROBE));
    }
}
