//! Potential latencies where the kernel tells them: how long interrupts or preemption were off, per CPU, with the longest
//! of each kind and the stack of who ended it (src/bpf/potential.bpf.c).
//!
//! An object of its own, because these are the most frequent events that a kernel has: what they cost nobody pays who did
//! not ask. Loading is separate from attaching: the programs are tested on kernels without the tracepoints.

use std::fmt;

use lathunt_core::comm::Comm;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::histogram::{Exact, Histogram, Layout};
use lathunt_core::peak::Peak;
use lathunt_core::series::{Quantity, Series, Thread};
use lathunt_core::time::{Cpu, Mono, Ns, Prio, Tid};
use libbpf_rs::{Link, MapCore, MapFlags, Object};

use super::block::HIST_BINS;
use super::{blocking, object};
use crate::error::{Error, Result};
use crate::symbols::Symbols;

static OBJECT: object::Aligned<[u8; include_bytes!(concat!(env!("OUT_DIR"), "/potential.bpf.o")).len()]> =
    object::Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/potential.bpf.o")));

/// `enum potential`, in its order.
pub const QUANTITIES: [Quantity; 3] = [Quantity::Irqsoff, Quantity::Preemptoff, Quantity::Preemptirqsoff];

// `struct potential_block`, in words of 8 bytes.
const HIST: usize = 16;
const HIST_WORDS: usize = 6 + HIST_BINS;
const LONGEST: usize = HIST + QUANTITIES.len() * HIST_WORDS;
const LONGEST_WORDS: usize = 38;
/// Bytes of one element.
const BYTES: usize = 278_528;
const STACK: usize = 30;
/// Functions shown of a stack.
const SHOWN: usize = 4;
/// How often a block is read again that is being written.
const ATTEMPTS: usize = 20;

/// The tracepoints that `quantity` needs, and the option a kernel needs to have them.
#[must_use]
pub fn needs(quantity: Quantity) -> (&'static [&'static str], &'static str) {
    match quantity {
        Quantity::Irqsoff => (&["irq_disable", "irq_enable"], "CONFIG_IRQSOFF_TRACER"),
        Quantity::Preemptoff => (&["preempt_disable", "preempt_enable"], "CONFIG_PREEMPT_TRACER"),
        _ => (
            &["irq_disable", "irq_enable", "preempt_disable", "preempt_enable"],
            "CONFIG_IRQSOFF_TRACER and CONFIG_PREEMPT_TRACER",
        ),
    }
}

/// The first tracepoint that `quantity` needs and this kernel lacks.
///
/// # Errors
/// When the kernel has no BTF.
pub fn lacking(quantity: Quantity) -> Result<Option<&'static str>> {
    for name in needs(quantity).0 {
        if !blocking::has_tracepoint(name)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The running reader; dropping it detaches.
pub struct Potentials {
    cpus: CpuSet,
    wanted: Vec<Quantity>,
    object: Object,
    symbols: Symbols,
    links: Vec<Link>,
}

impl fmt::Debug for Potentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Potentials")
            .field("wanted", &self.wanted)
            .field("programs", &self.links.len())
            .finish()
    }
}

impl Potentials {
    /// Loads and attaches what `wanted` need.
    ///
    /// # Errors
    /// What the kernel lacks or refuses, in one line.
    pub fn start(cpus: &CpuSet, wanted: &[Quantity]) -> Result<Potentials> {
        for &quantity in wanted {
            if let Some(name) = lacking(quantity)? {
                let what = format!("{}: this kernel has no tracepoint {name}", quantity.name());
                return Err(Error::refused("record", what, format!("it needs {}", needs(quantity).1)));
            }
        }
        let mut potentials = Potentials::load(cpus, wanted)?;
        potentials.links = object::attach_all(&potentials.object)?;
        Ok(potentials)
    }

    /// Loads, and records whatever runs the programs.
    fn load(cpus: &CpuSet, wanted: &[Quantity]) -> Result<Potentials> {
        let mut open = object::open("potential", &OBJECT.0)?;
        let used = |section: &str| {
            let name = section.rsplit('/').next().unwrap_or(section);
            name == "cpu_idle" || wanted.iter().any(|&quantity| needs(quantity).0.contains(&name))
        };
        for mut program in open.progs_mut() {
            let used = used(&program.section().to_string_lossy());
            program.set_autoload(used);
        }
        let possible =
            libbpf_rs::num_possible_cpus().map_err(|error| Error::new("count", "the CPUs", error))?;
        for mut map in open.maps_mut().filter(|map| map.name() == "potentials") {
            map.set_max_entries(possible as u32)
                .map_err(|error| Error::new("size", "the map of potential latencies", error))?;
        }
        let object = object::load("potential", open)?;
        let symbols = Symbols::read().unwrap_or_else(|_| Symbols::none());
        let loaded =
            Potentials { cpus: cpus.clone(), wanted: wanted.to_vec(), object, symbols, links: Vec::new() };
        loaded.switch_on()?;
        Ok(loaded)
    }

    fn switch_on(&self) -> Result<()> {
        let mut on = vec![0; BYTES];
        on[0] = 1;
        let map = self.object.maps().find(|map| map.name() == "potentials");
        let map = map.ok_or_else(|| Error::refused("find", "the map of potential latencies", ""))?;
        for cpu in self.cpus.iter() {
            map.update(&cpu.0.to_ne_bytes(), &on, MapFlags::ANY)
                .map_err(|error| Error::new("switch on", format!("CPU {cpu}"), error))?;
        }
        Ok(())
    }

    /// One series for each wanted quantity and CPU with samples, and the longest of each.
    #[must_use]
    pub fn read(&self) -> (Vec<Series>, Vec<Peak>) {
        let Some(map) = self.object.maps().find(|map| map.name() == "potentials") else {
            return Default::default();
        };
        let (mut series, mut peaks) = (Vec::new(), Vec::new());
        for cpu in self.cpus.iter() {
            for (which, &quantity) in QUANTITIES.iter().enumerate().filter(|(_, q)| self.wanted.contains(q)) {
                let look = || {
                    let bytes = map.lookup(&cpu.0.to_ne_bytes(), MapFlags::ANY).ok()??;
                    decode(&bytes, cpu, which, quantity, &|address| self.symbols.name(address))
                };
                // Torn is what was written meanwhile; it is whole a moment later.
                if let Some((one, peak)) = (0..ATTEMPTS).find_map(|_| look()) {
                    series.push(one);
                    peaks.push(peak);
                }
            }
        }
        peaks.sort_by_key(|peak| std::cmp::Reverse(peak.total_ns));
        (series, peaks)
    }
}

/// `None`: no sample, or torn.
fn decode(
    bytes: &[u8],
    cpu: Cpu,
    which: usize,
    quantity: Quantity,
    name: &dyn Fn(u64) -> Option<String>,
) -> Option<(Series, Peak)> {
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(std::array::from_fn(|i| word[i]))).collect();
    if words.get(1 + which)? % 2 == 1 {
        return None;
    }
    let hist = words.get(HIST + which * HIST_WORDS..HIST + (which + 1) * HIST_WORDS)?;
    let counts: Vec<(usize, u64)> =
        hist[6..].iter().copied().enumerate().filter(|&(_, count)| count > 0).collect();
    let exact = Exact { sum_ns: hist[1], min: Ns(!hist[2]), max: Ns(hist[3]) };
    let mut histogram = Histogram::new(Layout::LATENCY);
    if counts.is_empty() || histogram.add_counts(&counts, exact).is_err() {
        return None;
    }
    let mut series = Series::new(quantity, Some(cpu), histogram);
    series.begin = Some(Mono(hist[4]));
    let longest = words.get(LONGEST + which * LONGEST_WORDS..LONGEST + (which + 1) * LONGEST_WORDS)?;
    Some((series, peak(longest, cpu, quantity, name)))
}

/// `struct longest`.
fn peak(words: &[u64], cpu: Cpu, quantity: Quantity, name: &dyn Fn(u64) -> Option<String>) -> Peak {
    let half = |word: u64, high: bool| if high { (word >> 32) as i32 } else { word as i32 };
    let mut comm = [0; 16];
    comm[..8].copy_from_slice(&words[5].to_ne_bytes());
    comm[8..].copy_from_slice(&words[6].to_ne_bytes());
    let thread = Thread {
        tid: Tid(half(words[4], false)),
        comm: Comm::new(comm).text(),
        prio: Some(Prio(half(words[4], true))),
    };
    let named = |address: u64| name(address).unwrap_or_else(|| format!("{address:#x}"));
    let depth = (words[7] as usize).min(STACK);
    let stack: Vec<String> = words[8..8 + depth].iter().take(SHOWN).map(|&address| named(address)).collect();
    let at = |what: &str, address: u64| match address {
        0 => String::new(),
        address => format!("; {what} in {}", named(address)),
    };
    let culprit = format!("{thread}: {}{}{}", stack.join(" < "), at("off", words[2]), at("on", words[3]));
    Peak {
        quantity,
        cpu,
        begin: Mono(words[1].saturating_sub(words[0])),
        total_ns: Ns(words[0]),
        victim: Thread::default(),
        culprit: Some(culprit),
        explanation: None,
        no_evidence: Some("a potential latency: nobody need have waited".to_owned()),
        context: None,
    }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::ProgramInput;

    use super::*;
    use crate::testing::{lacks_bpf, may_run};
    use crate::{clock, sched};

    /// What the kernel would do at the tracepoint `name`, on this CPU.
    fn happens(potentials: &Potentials, name: &str, argument: u64) {
        let section = format!("raw_tp/{name}");
        let program = potentials.object.progs_mut().find(|program| *program.section() == *section.as_str());
        let mut arguments = [argument.to_ne_bytes(), 0u64.to_ne_bytes()].concat();
        let input = ProgramInput { context_in: Some(&mut arguments), ..ProgramInput::default() };
        program.unwrap().test_run(input).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    fn pass(length: Ns) {
        let end = clock::mono() + length;
        while clock::mono() < end {}
    }

    #[test]
    #[ignore = "root: run by make test"]
    fn what_is_off_is_measured_until_it_is_on_and_idle_is_left_out() {
        if !may_run("what_is_off_is_measured_until_it_is_on", lacks_bpf()) {
            return;
        }
        sched::pin(Cpu(0)).unwrap();
        let potentials = Potentials::load(&CpuSet::from_iter([Cpu(0)]), &QUANTITIES).unwrap();
        assert_eq!(potentials.read(), (vec![], vec![]));
        let (short, long) = (Ns::from_us(300), Ns::from_ms(4));
        happens(&potentials, "preempt_disable", 0x11);
        pass(short);
        happens(&potentials, "irq_disable", 0x22);
        pass(long);
        happens(&potentials, "irq_enable", 0x33);
        pass(short);
        happens(&potentials, "preempt_enable", 0x44);
        happens(&potentials, "preempt_enable", 0x44); // an end without its beginning is nothing
                                                      // Idle: 300 µs before it and 300 µs after it count, what lies between does not.
        happens(&potentials, "irq_disable", 0x55);
        pass(short);
        happens(&potentials, "cpu_idle", 1);
        pass(Ns::from_ms(200));
        happens(&potentials, "cpu_idle", u64::from(u32::MAX));
        pass(short);
        happens(&potentials, "irq_enable", 0x66);

        let (series, peaks) = potentials.read();
        let of = |quantity| &series.iter().find(|series| series.quantity == quantity).unwrap().histogram;
        assert_eq!(QUANTITIES.map(|quantity| of(quantity).count()), [3, 1, 1]);
        let max = |quantity| of(quantity).max().unwrap();
        let (irq, preempt, both) =
            (max(Quantity::Irqsoff), max(Quantity::Preemptoff), max(Quantity::Preemptirqsoff));
        assert!(irq >= long && preempt >= long + short + short, "{irq} {preempt}");
        assert!(both <= irq && irq <= preempt, "the intersection is the shortest: {both} {irq} {preempt}");
        assert!(irq < Ns::from_ms(200), "idle is left out: {irq}");
        assert!(of(Quantity::Irqsoff).min().unwrap() >= short);
        assert_eq!(peaks[0].quantity, Quantity::Preemptoff);
        let culprit = peaks[0].culprit.as_ref().unwrap();
        let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        assert!(culprit.starts_with(comm.trim()), "{culprit}");
        assert!(culprit.ends_with("; off in 0x11; on in 0x44") && culprit.contains('<'), "{culprit}");
    }

    #[test]
    fn blocks_that_are_being_written_or_hold_nothing_or_are_cut_are_no_samples() {
        let mut bytes = vec![0; BYTES];
        let read = |bytes: &[u8]| decode(bytes, Cpu(0), 1, Quantity::Preemptoff, &|_| None);
        assert!(read(&bytes).is_none(), "empty");
        let mut put =
            |word: usize, value: u64| bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_ne_bytes());
        let hist = HIST + HIST_WORDS;
        for (word, value) in [(0, 1), (1, 5_500), (2, !5_500), (3, 5_500), (4, 77), (6 + 5, 1)] {
            put(hist + word, value);
        }
        put(LONGEST + LONGEST_WORDS, 5_500);
        put(LONGEST + LONGEST_WORDS + 1, 100_000);
        let (series, peak) = read(&bytes).unwrap();
        assert_eq!((series.histogram.max(), series.begin), (Some(Ns(5_500)), Some(Mono(77))));
        assert_eq!((peak.total_ns, peak.begin), (Ns(5_500), Mono(94_500)));
        assert!(read(&bytes[..4_096]).is_none(), "cut");
        bytes[2 * 8] = 1;
        assert!(read(&bytes).is_none(), "being written");
    }
}
