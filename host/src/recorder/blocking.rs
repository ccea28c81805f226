//! The observed-blocking estimate: need_resched → scheduler entry, per CPU (src/bpf/blocking.bpf.c).
//!
//! An estimate, not a bound: it needs no debug kernel, and sees blocking only if a task was waiting for the
//! CPU.

use lathunt_core::cpuset::CpuSet;
use lathunt_core::histogram::{Exact, Histogram, Layout};
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::{Cpu, Mono, Ns};
use libbpf_rs::btf::types::Typedef;
use libbpf_rs::{Link, MapCore, MapFlags, Object};

use super::block::HIST_BINS;
use super::longest;
use crate::bpf_object::{self, kernel_types};
use crate::clock;
use crate::error::{Error, Result};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocking.bpf.o.gz"));

/// Words of `struct blocking_block`: two, six of `struct hist`, its bins.
const HEAD: usize = 8;
/// That of `seq`.
const SEQ: usize = 1;

/// The running estimate; dropping it detaches.
pub struct Blocking {
    cpus: CpuSet,
    object: Object,
    _links: Vec<Link>,
}

/// Whether BPF programs can attach to `tracepoint` here.
///
/// # Errors
/// If the kernel has no BTF.
pub fn has_tracepoint(tracepoint: &str) -> Result<bool> {
    let btf = kernel_types()?;
    Ok(btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some())
}

/// Whether this kernel has the tracepoints of the estimate.
///
/// # Errors
/// The missing tracepoint.
pub fn refuse_unless_possible() -> Result<()> {
    for (needed, since) in
        [("sched_set_need_resched_tp", "6.17"), ("sched_entry_tp", "6.15"), ("sched_exit_tp", "6.15")]
    {
        if !has_tracepoint(needed)? {
            let what = format!("this kernel has no tracepoint {needed}");
            return Err(Error::refused("estimate blocking:", what, format!("it exists since Linux {since}")));
        }
    }
    Ok(())
}

impl Blocking {
    /// Loads and attaches.
    ///
    /// # Errors
    /// A kernel feature that is missing or refused, in one line.
    pub fn start(cpus: &CpuSet) -> Result<Blocking> {
        refuse_unless_possible()?;
        let mut open = bpf_object::open("blocking", OBJECT)?;
        let possible =
            libbpf_rs::num_possible_cpus().map_err(|error| Error::new("count", "the CPUs", error))?;
        for mut map in open.maps_mut().filter(|map| map.name() == "blocking") {
            map.set_max_entries(possible as u32)
                .map_err(|error| Error::new("size", "the estimate's map", error))?;
        }
        let object = bpf_object::load("blocking", open)?;
        let links = bpf_object::attach_all(&object)?;
        Ok(Blocking { cpus: cpus.clone(), object, _links: links })
    }

    /// One series for each CPU that has samples.
    #[must_use]
    pub fn series(&self) -> Vec<Series> {
        let Some(map) = self.object.maps().find(|map| map.name() == "blocking") else { return Vec::new() };
        let read = |cpu: Cpu| {
            let bytes = map.lookup(&cpu.0.to_ne_bytes(), MapFlags::ANY).ok().flatten()?;
            Some(bytes.chunks_exact(8).map(|w| u64::from_ne_bytes(std::array::from_fn(|i| w[i]))).collect())
        };
        let online = longest::online(&self.cpus);
        let of = |cpu: Cpu| {
            let (words, now) = (whole(|| read(cpu))?, clock::mono());
            series(cpu, &words, Some(now).filter(|_| online.contains(cpu)))
        };
        self.cpus.iter().filter_map(of).collect()
    }
}

/// Maximum number of attempts to read a consistent copy.
const ATTEMPTS: usize = 8;

/// A copy that is followed by one with the same even count of writes: no sample was added while it was taken.
/// The last attempt accepts any copy: it lacks one sample at most, unless its extremes do not fit.
fn whole(mut read: impl FnMut() -> Option<Vec<u64>>) -> Option<Vec<u64>> {
    let mut copy = read()?;
    for _ in 0..ATTEMPTS {
        let next = read()?;
        let (before, after) = (*copy.get(SEQ)?, *next.get(SEQ)?);
        if before == after && before.is_multiple_of(2) {
            break;
        }
        copy = next;
    }
    Some(copy)
}

/// Samples that cannot be read consistently count as lost. A request that waits `now` for the scheduler counts if it is the
/// longest already.
fn series(cpu: Cpu, words: &[u64], now: Option<Mono>) -> Option<Series> {
    let bins = words.get(HEAD..HEAD + HIST_BINS)?;
    let counts: Vec<(usize, u64)> = bins.iter().copied().enumerate().filter(|&(_, n)| n > 0).collect();
    let exact = Exact { sum_ns: words[3], min: Ns(!words[4]), max: Ns(words[5]) };
    let mut histogram = Histogram::new(Layout::LATENCY);
    let asked = words.first().copied().filter(|&asked| asked > 0);
    let waits = now.zip(asked).map(|(now, asked)| now.since(Mono(asked)));
    if counts.is_empty() && waits.is_none() {
        return None;
    }
    let torn = !counts.is_empty() && histogram.add_counts(&counts, exact).is_err();
    let longer = waits.filter(|&waits| Some(waits) > histogram.max());
    longer.iter().for_each(|&waits| histogram.record(waits));
    let mut series = Series::new(Quantity::Blocking, Some(cpu), histogram);
    series.begin = if counts.is_empty() { now } else { Some(Mono(words[6])) };
    series.lost = if torn { counts.iter().map(|&(_, n)| n).sum() } else { 0 };
    Some(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_still_waits_for_the_scheduler_counts_if_it_is_the_longest() {
        let mut words = vec![0; HEAD + HIST_BINS];
        let of = |words: &[u64], now| series(Cpu(1), words, now).map(|series| series.histogram);
        assert_eq!(of(&words, Some(Mono(9_000_000))), None);
        words[0] = 2_000_000;
        let waits = of(&words, Some(Mono(9_000_000))).unwrap();
        assert_eq!((waits.count(), waits.max()), (1, Some(Ns::from_ms(7))));
        assert_eq!(of(&words, None), None, "its CPU is offline");
        // One that has ended after 8 ms.
        (words[2], words[3], words[4], words[5], words[6]) = (1, 8_000_000, !8_000_000, 8_000_000, 77);
        words[HEAD + Layout::LATENCY.index(Ns::from_ms(8))] = 1;
        let both = of(&words, Some(Mono(9_000_000))).unwrap();
        assert_eq!((both.count(), both.max()), (1, Some(Ns::from_ms(8))));
    }
}
