//! Potential latencies on kernels that report them: how long interrupts or preemption were off, per CPU, with the longest
//! of each kind and the stack of the task that ended it (src/bpf/potential.bpf.c).
//!
//! A separate object, because these are the most frequent events of a kernel: only users who ask for them pay. Loading is
//! separate from attaching: the programs are tested on kernels without the tracepoints. They record once all of them are
//! attached: before, they would see the start of a section and miss its end.

mod block;

use std::fmt;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Release;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::peak::Peak;
use lathunt_core::run::Loss;
use lathunt_core::series::{Quantity, Series, Thread};
use lathunt_core::time::{Cpu, Mono};
use libbpf_rs::{Link, MapCore, Object};

use self::block::PotentialBlock;
use super::block::Blocks;
use super::blocking;
use super::longest::{self, telling, Longest};
use crate::bpf_object;
use crate::error::{Error, Result};
use crate::symbols::Symbols;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/potential.bpf.o.gz"));

/// `enum potential`, in its order.
pub const QUANTITIES: [Quantity; 3] = [Quantity::Irqsoff, Quantity::Preemptoff, Quantity::Preemptirqsoff];

/// Programs that every measurement needs.
const ALWAYS: [&str; 2] = ["cpu_idle", "cpuhp_enter"];

/// The tracepoints that `quantity` needs, and the kernel option that provides them.
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
/// If the kernel has no BTF.
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
    blocks: Blocks<PotentialBlock>,
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
    /// Loads and attaches the programs for `wanted`.
    ///
    /// # Errors
    /// A kernel feature that is missing or refused, in one line.
    pub fn start(cpus: &CpuSet, wanted: &[Quantity]) -> Result<Potentials> {
        for &quantity in wanted {
            if let Some(name) = lacking(quantity)? {
                let what = format!("{}: this kernel has no tracepoint {name}", quantity.name());
                return Err(Error::refused("record", what, format!("it needs {}", needs(quantity).1)));
            }
        }
        let mut potentials = Potentials::load(cpus, wanted)?;
        potentials.links = bpf_object::attach_all(&potentials.object)?;
        potentials.switch_on();
        Ok(potentials)
    }

    /// Loads. Does not record yet.
    fn load(cpus: &CpuSet, wanted: &[Quantity]) -> Result<Potentials> {
        let mut open = bpf_object::open("potential", OBJECT)?;
        let used = |section: &str| {
            let name = section.rsplit('/').next().unwrap_or(section);
            ALWAYS.contains(&name) || wanted.iter().any(|&quantity| needs(quantity).0.contains(&name))
        };
        for mut program in open.progs_mut() {
            let used = used(&program.section().to_string_lossy());
            program.set_autoload(used);
        }
        let symbols = Symbols::read().unwrap_or_else(|_| Symbols::none());
        let possible =
            libbpf_rs::num_possible_cpus().map_err(|error| Error::new("count", "the CPUs", error))?;
        for mut map in open.maps_mut() {
            let set = match map.name().to_str() {
                Some("potentials") => map.set_max_entries(possible as u32),
                Some(".rodata.telling") => map.set_initial_value(&telling(&symbols)),
                _ => Ok(()),
            };
            set.map_err(|error| Error::new("size", "the maps of potential latencies", error))?;
        }
        let object = bpf_object::load("potential", open)?;
        let map = object.maps().find(|map| map.name() == "potentials");
        let map = map.ok_or_else(|| Error::refused("find", "the map of potential latencies", ""))?;
        let blocks = Blocks::map(map.as_fd(), possible)?;
        Ok(Potentials {
            cpus: cpus.clone(),
            wanted: wanted.to_vec(),
            blocks,
            object,
            symbols,
            links: Vec::new(),
        })
    }

    /// From now on the programs record; before, they returned at once.
    fn switch_on(&self) {
        for block in self.cpus.iter().filter_map(|cpu| self.blocks.of(cpu)) {
            block.on.store(1, Release);
        }
    }

    /// One series for each wanted quantity and CPU with samples, and the longest of each.
    #[must_use]
    pub fn read(&self) -> (Vec<Series>, Vec<Peak>) {
        let (mut series, mut peaks) = (Vec::new(), Vec::new());
        let online = longest::online(&self.cpus);
        for (cpu, block) in self.cpus.iter().filter_map(|cpu| Some((cpu, self.blocks.of(cpu)?))) {
            for (which, &quantity) in QUANTITIES.iter().enumerate().filter(|(_, q)| self.wanted.contains(q)) {
                let Some(found) = block.read(which, online.contains(cpu)) else { continue };
                let mut one = Series::new(quantity, Some(cpu), found.histogram);
                (one.begin, one.lost) = (Some(found.begin), found.lost);
                series.push(one);
                peaks.push(peak(&found.longest, cpu, quantity, &self.symbols));
            }
        }
        peaks.sort_by_key(|peak| std::cmp::Reverse(peak.total_ns));
        (series, peaks)
    }

    /// Losses so far; empty: none.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        let count = bpf_object::recursions(&self.object, |_| true);
        let loss = Loss {
            counter: "potential_latencies_in_recorder".to_owned(),
            count,
            meaning:
                "interrupts or preemption disabled or enabled while the recorder's own program ran: these \
                      potential latencies are missing, or extend to the next event"
                    .to_owned(),
            evidence_only: true,
        };
        Vec::from_iter((count > 0).then_some(loss))
    }
}

fn peak(longest: &Longest, cpu: Cpu, quantity: Quantity, symbols: &Symbols) -> Peak {
    let place = longest.place(&|address| symbols.name(address));
    let culprit = match longest.is_open {
        true => place,
        false => format!("{}: {place}", longest.thread()),
    };
    Peak {
        culprit: Some(culprit),
        ..Peak::without_evidence(
            quantity,
            cpu,
            (Mono(longest.at.0.saturating_sub(longest.ns.0)), longest.ns),
            Thread::default(),
            "a potential latency: possibly no task waited",
        )
    }
}

#[cfg(test)]
mod tests {
    use lathunt_core::time::Ns;
    use libbpf_rs::ProgramInput;

    use super::*;
    use crate::testing::{lacks_bpf, may_run};
    use crate::{clock, sched};

    /// Runs the program of tracepoint `name` as the kernel would, on this CPU.
    fn happens(potentials: &Potentials, name: &str, arguments: [u64; 3]) {
        let section = format!("raw_tp/{name}");
        let program = potentials.object.progs_mut().find(|program| *program.section() == *section.as_str());
        let mut arguments = arguments.map(u64::to_ne_bytes).concat();
        let input = ProgramInput { context_in: Some(&mut arguments), ..ProgramInput::default() };
        program.unwrap().test_run(input).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// What is switched at the address `at`.
    fn switched(potentials: &Potentials, name: &str, at: u64) {
        happens(potentials, name, [at, 0, 0]);
    }

    fn pass(length: Ns) {
        let end = clock::mono() + length;
        while clock::mono() < end {}
    }

    /// Recording on CPU 0, where this thread stays.
    fn recording() -> Potentials {
        sched::pin(Cpu(0)).unwrap();
        let potentials = Potentials::load(&CpuSet::from_iter([Cpu(0)]), &QUANTITIES).unwrap();
        potentials.switch_on();
        potentials
    }

    fn counts(potentials: &Potentials) -> [u64; 3] {
        let (series, _) = potentials.read();
        let of = |quantity| series.iter().find(|series| series.quantity == quantity);
        QUANTITIES.map(|quantity| of(quantity).map_or(0, |series| series.histogram.count()))
    }

    #[test]
    #[ignore = "root: run by make test"]
    fn what_is_off_is_measured_until_it_is_on_and_idle_is_left_out() {
        if !may_run("what_is_off_is_measured_until_it_is_on", lacks_bpf()) {
            return;
        }
        let potentials = recording();
        assert_eq!(potentials.read(), (vec![], vec![]));
        let (short, long) = (Ns::from_us(300), Ns::from_ms(4));
        happens(&potentials, "preempt_disable", [0x11, 0x10, 0]);
        pass(short);
        switched(&potentials, "irq_disable", 0x22);
        pass(long);
        switched(&potentials, "irq_enable", 0x33);
        pass(short);
        switched(&potentials, "preempt_enable", 0x44);
        switched(&potentials, "preempt_enable", 0x44); // an end without its start is ignored

        // Idle: 300 µs before it and 300 µs after it count, the time in between does not.
        switched(&potentials, "irq_disable", 0x55);
        pass(short);
        happens(&potentials, "cpu_idle", [1, 0, 0]);
        pass(Ns::from_ms(200));
        happens(&potentials, "cpu_idle", [u64::from(u32::MAX), 0, 0]);
        pass(short);
        switched(&potentials, "irq_enable", 0x66);

        let (series, peaks) = potentials.read();
        assert_eq!(counts(&potentials), [3, 1, 1]);
        let of = |quantity| &series.iter().find(|series| series.quantity == quantity).unwrap().histogram;
        let max = |quantity| of(quantity).max().unwrap();
        let (irq, preempt, both) =
            (max(Quantity::Irqsoff), max(Quantity::Preemptoff), max(Quantity::Preemptirqsoff));
        assert!(irq >= long && preempt >= long + short + short, "{irq} {preempt}");
        assert!(both <= irq && irq <= preempt, "the intersection is the shortest: {both} {irq} {preempt}");
        assert!(irq < Ns::from_ms(200), "idle is left out: {irq}");
        assert!(of(Quantity::Irqsoff).min().unwrap() >= short);
        assert_eq!((peaks[0].quantity, peaks[0].total_ns), (Quantity::Preemptoff, preempt));
        let culprit = peaks[0].culprit.as_ref().unwrap();
        let comm = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        assert!(culprit.starts_with(comm.trim()), "{culprit}");
        assert!(culprit.contains(": off in 0x11 < 0x10; on in ") && culprit.contains(" < "), "{culprit}");
        assert_eq!(potentials.losses(), vec![]);
    }

    #[test]
    #[ignore = "root: run by make test"]
    fn a_section_that_is_still_open_when_recording_ends_counts_so_far_if_it_is_the_longest() {
        if !may_run("a_section_that_is_still_open_when_recording_ends", lacks_bpf()) {
            return;
        }
        let potentials = recording();
        switched(&potentials, "irq_disable", 0x11);
        pass(Ns::from_ms(2));
        switched(&potentials, "irq_enable", 0x22);
        let ended = potentials.read().0[0].histogram.max().unwrap();
        switched(&potentials, "irq_disable", 0x33);
        assert_eq!((counts(&potentials), potentials.read().0[0].histogram.max()), ([1, 0, 0], Some(ended)));
        pass(ended + Ns::from_ms(5));
        let (series, peaks) = potentials.read();
        let longest = series[0].histogram.max().unwrap();
        assert!(series[0].histogram.count() == 2 && longest > ended + Ns::from_ms(5), "{longest}");
        let culprit = peaks[0].culprit.as_deref();
        assert_eq!(
            (peaks[0].total_ns > ended, culprit),
            (true, Some("off in 0x33; on not before recording ended"))
        );
    }

    #[test]
    #[ignore = "root: run by make test"]
    fn nothing_is_recorded_before_all_programs_are_attached() {
        if !may_run("nothing_is_recorded_before_all_programs_are_attached", lacks_bpf()) {
            return;
        }
        sched::pin(Cpu(0)).unwrap();
        let potentials = Potentials::load(&CpuSet::from_iter([Cpu(0)]), &QUANTITIES).unwrap();
        switched(&potentials, "irq_disable", 0x11);
        potentials.switch_on();
        switched(&potentials, "irq_enable", 0x22);
        assert_eq!(counts(&potentials), [0; 3], "its beginning was too early");
        switched(&potentials, "irq_disable", 0x33);
        switched(&potentials, "irq_enable", 0x44);
        assert_eq!(counts(&potentials), [1, 0, 0]);
    }

    #[test]
    #[ignore = "root: run by make test"]
    fn the_time_in_which_a_cpu_is_offline_is_left_out() {
        if !may_run("the_time_in_which_a_cpu_is_offline_is_left_out", lacks_bpf()) {
            return;
        }
        let potentials = recording();
        let off = || {
            switched(&potentials, "preempt_disable", 0x11);
            switched(&potentials, "irq_disable", 0x22);
        };
        let on = || {
            switched(&potentials, "irq_enable", 0x33);
            switched(&potentials, "preempt_enable", 0x44);
        };
        off();
        happens(&potentials, "cpuhp_enter", [0, 0, 0]); // CPUHP_OFFLINE: another state
        on();
        assert_eq!(counts(&potentials), [1, 1, 1]);
        off();
        // All states: the number of the one in which a CPU is brought up differs between kernels.
        (0..400).for_each(|state| happens(&potentials, "cpuhp_enter", [0, 0, state]));
        on();
        assert_eq!(counts(&potentials), [1, 1, 1], "it went with both off");
        off();
        on();
        assert_eq!(counts(&potentials), [2, 2, 2]);
    }

    #[test]
    #[ignore = "root: run by make test"]
    fn interrupts_that_the_tracepoints_themselves_turn_off_are_left_out() {
        let name = "interrupts_that_the_tracepoints_themselves_turn_off_are_left_out";
        let symbols = Symbols::read().unwrap_or_else(|_| Symbols::none());
        let there = longest::TELLING.as_flattened().iter().filter_map(|name| symbols.address(name));
        let there: Vec<u64> = there.collect();
        let none = there.is_empty().then_some("this kernel has no such functions, or hides its symbols");
        if !may_run(name, lacks_bpf().or(none)) {
            return;
        }
        let potentials = recording();
        for address in there {
            switched(&potentials, "irq_disable", address + 8);
            switched(&potentials, "irq_enable", address + 16);
        }
        assert_eq!(counts(&potentials), [0; 3]);
        switched(&potentials, "irq_disable", 0x11);
        switched(&potentials, "irq_enable", 0x22);
        assert_eq!(counts(&potentials), [1, 0, 0]);
    }
}
