//! The programs against a simulated CPU, which knows by construction what each nanosecond is.

use lathunt_core::cpuset::CpuSet;
use lathunt_core::random::Random;
use lathunt_core::time::{Cpu, Mono, Ns};
use libbpf_rs::{MapCore, MapFlags, ProgramInput};

use super::block::{Execution, Source, TERMS};
use super::{Clock, Paths};
use crate::sched;
use crate::symbols::Symbols;
use crate::testing::{lacks_bpf, may_run};

const POID: usize = 0;
const PAIE: usize = 1;
const PSD: usize = 2;
const DST: usize = 3;

/// Addresses that the simulated scheduler has.
const SCHEDULER: [u64; 2] = [0x1000, 0x2000];
const ELSEWHERE: u64 = 0x5000;

/// Feeds the programs.
struct Kernel(Paths);

impl Kernel {
    fn new() -> Kernel {
        sched::pin(Cpu(0)).unwrap();
        let paths =
            Paths::load(&CpuSet::from_iter([Cpu(0)]), Symbols::none(), SCHEDULER, Clock::Simulated).unwrap();
        paths.switch_on();
        Kernel(paths)
    }

    fn happens(&self, world: &World, name: &str, arguments: [u64; 3]) {
        let mut told = world.now.to_ne_bytes().to_vec();
        told.extend(u32::from(world.is_idle).to_ne_bytes());
        told.extend(u32::from(world.need_resched).to_ne_bytes());
        let simulation = self.0.object.maps().find(|map| map.name() == "simulation").unwrap();
        simulation.update(&0u32.to_ne_bytes(), &told, MapFlags::ANY).unwrap();
        let section = format!("raw_tp/{name}");
        let program = self.0.object.progs_mut().find(|program| *program.section() == *section.as_str());
        let mut arguments = arguments.map(u64::to_ne_bytes).concat();
        let input = ProgramInput { context_in: Some(&mut arguments), ..ProgramInput::default() };
        program.unwrap().test_run(input).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// One CPU. The truth of each term is counted in every [`pass`](World::pass), and not computed from times.
struct World<'k> {
    kernel: &'k Kernel,
    random: Random,
    now: u64,
    is_idle: bool,
    need_resched: bool,
    /// Time counts for the interrupt, not for the terms.
    interrupt: Option<u64>,
    /// What each term has of the section that is open.
    open: [Option<u64>; TERMS],
    longest: [u64; TERMS],
    executions: Vec<Execution>,
}

impl World<'_> {
    fn new(kernel: &Kernel, seed: u64) -> World<'_> {
        World {
            kernel,
            random: Random::new(seed),
            now: 1_000_000,
            is_idle: false,
            need_resched: false,
            interrupt: None,
            open: [None; TERMS],
            longest: [0; TERMS],
            executions: Vec::new(),
        }
    }

    fn tell(&self, name: &str, arguments: [u64; 3]) {
        self.kernel.happens(self, name, arguments);
    }

    fn some(&mut self) -> u64 {
        let most = [3, 40, 900, 20_000][self.random.below(4) as usize];
        1 + self.random.below(most)
    }

    fn pass(&mut self) {
        let length = self.some();
        self.now += length;
        match &mut self.interrupt {
            Some(taken) => *taken += length,
            None => self.open.iter_mut().flatten().for_each(|section| *section += length),
        }
        if self.random.below(20) == 0 {
            let took = self.some();
            self.now += took; // an NMI, which takes time of nobody
            self.tell("nmi_handler", [0, took, 0]);
            self.executions.push(Execution {
                source: Source::Nmi,
                arrival: Mono(self.now - took),
                took: Ns(took),
            });
        }
    }

    fn begin(&mut self, term: usize) {
        self.open[term].get_or_insert(0);
    }

    fn end(&mut self, term: usize) {
        let length = self.open[term].take().unwrap_or(0);
        self.longest[term] = length.max(self.longest[term]);
    }

    /// Time passes, with interrupts on.
    fn run(&mut self) {
        self.pass();
        while self.random.below(3) == 0 {
            self.interrupted(false);
            self.pass();
        }
    }

    /// An interrupt, which may ask for the scheduler; `preempts`: and gets it at its end.
    fn interrupted(&mut self, preempts: bool) {
        self.tell("irq_disable", [ELSEWHERE, 0, 0]);
        let arrival = Mono(self.now);
        self.interrupt = Some(0);
        // Until a handler begins, it looks like a thread.
        self.pass();
        let source = match self.random.below(3) {
            0 => Source::Vector(1),
            1 => Source::Vector(2),
            _ => Source::Irq(7),
        };
        match source {
            Source::Vector(1) => self.tell("local_timer_entry", [236, 0, 0]),
            Source::Vector(_) => self.tell("reschedule_entry", [253, 0, 0]),
            _ => self.tell("irq_handler_entry", [7, 0, 0]),
        }
        self.pass();
        if self.random.below(3) == 0 || preempts {
            self.need_resched = true;
        }
        if self.random.below(3) == 0 {
            // A second handler in the same one.
            self.tell("irq_handler_entry", [9, 0, 0]);
            self.pass();
        }
        let is_preemptible = self.open[POID].is_none() && self.open[PSD].is_none() && !self.is_idle;
        if is_preemptible {
            // As irq_exit: it had made its own preempt count, the outermost one.
            self.tell("preempt_disable", [ELSEWHERE, 0, 0]);
            self.pass();
            self.tell("preempt_enable", [ELSEWHERE, 0, 0]);
            self.pass();
        }
        if preempts && is_preemptible {
            self.tell("preempt_disable", [ELSEWHERE, 0, 0]);
            self.pass();
            self.leave_interrupt(source, arrival);
            self.end(PAIE);
            self.begin(PSD);
            self.scheduler();
            // It ends as it began, with interrupts off.
            self.tell("irq_disable", [ELSEWHERE, 0, 0]);
            self.begin(POID);
            self.pass();
            self.tell("preempt_enable", [ELSEWHERE, 0, 0]);
            self.end(PSD);
            self.end(DST);
            self.pass();
            self.tell("irq_enable", [ELSEWHERE, 0, 0]);
            self.end(POID);
            self.all_on();
            return;
        }
        self.leave_interrupt(source, arrival);
        if is_preemptible {
            self.all_on();
        }
    }

    fn leave_interrupt(&mut self, source: Source, arrival: Mono) {
        self.tell("irq_enable", [ELSEWHERE, 0, 0]);
        let took = Ns(self.interrupt.take().unwrap());
        self.executions.push(Execution { source, arrival, took });
    }

    fn all_on(&mut self) {
        if self.need_resched {
            self.begin(PAIE);
        }
    }

    /// In the scheduler, up to the point where interrupts are on again.
    fn scheduler(&mut self) {
        self.run();
        self.tell("irq_disable", [SCHEDULER[0] + 0x10, 0, 0]);
        self.open[DST] = Some(0);
        self.pass();
        self.need_resched = false;
        self.is_idle = self.random.below(3) == 0;
        self.pass();
        self.tell("irq_enable", [ELSEWHERE, 0, 0]);
        if !self.is_idle {
            self.run();
            return;
        }
        // To idle and back: it never enables preemption, and its part of the scheduler is over here.
        self.end(PSD);
        self.end(DST);
        self.begin(POID);
        for _ in 0..1 + self.random.below(3) {
            self.pass();
            self.tell("irq_disable", [ELSEWHERE, 0, 0]);
            self.pass();
            self.tell("cpu_idle", [1, 0, 0]);
            self.end(POID);
            self.tell("irq_enable", [ELSEWHERE, 0, 0]);
            self.pass();
            while self.random.below(2) == 0 {
                self.interrupted(false);
                if self.need_resched {
                    self.begin(POID);
                    break;
                }
                self.pass();
            }
            self.pass();
            self.tell("cpu_idle", [u64::from(u32::MAX), 0, 0]);
            self.begin(POID);
        }
        self.run();
        self.tell("irq_disable", [SCHEDULER[0] + 0x10, 0, 0]);
        self.end(POID);
        self.begin(PSD);
        self.open[DST] = Some(0);
        self.pass();
        (self.need_resched, self.is_idle) = (false, false);
        self.pass();
        self.tell("irq_enable", [ELSEWHERE, 0, 0]);
        self.run();
    }

    /// A thread calls the scheduler.
    fn schedule(&mut self) {
        self.tell("preempt_disable", [ELSEWHERE, 0, 0]);
        self.end(PAIE);
        self.begin(PSD);
        self.scheduler();
        self.tell("preempt_enable", [ELSEWHERE, 0, 0]);
        self.end(PSD);
        self.end(DST);
        self.all_on();
    }

    /// A thread disables preemption, interrupts, or both, in any order.
    fn section(&mut self) {
        let both = self.random.below(2) == 0;
        match (self.random.below(2), both) {
            (0, false) => {
                self.tell("irq_disable", [ELSEWHERE, 0, 0]);
                self.begin(POID);
                self.pass();
                self.tell("irq_enable", [ELSEWHERE, 0, 0]);
            }
            (0, true) => {
                self.tell("irq_disable", [ELSEWHERE, 0, 0]);
                self.begin(POID);
                self.pass();
                self.tell("preempt_disable", [ELSEWHERE, 0, 0]);
                self.pass();
                self.tell("irq_enable", [ELSEWHERE, 0, 0]);
                self.run();
                self.tell("preempt_enable", [ELSEWHERE, 0, 0]);
            }
            (_, both) => {
                self.tell("preempt_disable", [ELSEWHERE, 0, 0]);
                self.begin(POID);
                self.run();
                if both {
                    self.tell("irq_disable", [ELSEWHERE, 0, 0]);
                    self.pass();
                    self.tell("irq_enable", [ELSEWHERE, 0, 0]);
                    self.run();
                }
                self.tell("preempt_enable", [ELSEWHERE, 0, 0]);
            }
        }
        self.end(POID);
        self.all_on();
    }

    /// What the thread does next.
    fn step(&mut self) {
        // Once asked for, the scheduler comes next; until then it may take some time, and interrupts.
        if self.need_resched {
            self.run();
            self.schedule();
            return;
        }
        match self.random.below(5) {
            0 => self.schedule(),
            1 => self.interrupted(true),
            2 | 3 => self.section(),
            _ => self.run(),
        }
    }
}

/// What the programs found: the longest of each term, and the executions.
fn found(paths: &Paths) -> ([u64; TERMS], Vec<Execution>) {
    let block = paths.blocks.of(Cpu(0)).unwrap();
    let longest = std::array::from_fn(|term| block.longest(term).map_or(0, |found| found.ns.0));
    let mut executions = Vec::new();
    assert_eq!(block.take(&mut Default::default(), |one| executions.push(one)), 0, "overwritten");
    assert_eq!(block.unmatched(), 0);
    (longest, executions)
}

#[test]
#[ignore = "root: run by make test"]
fn the_terms_are_those_of_a_simulated_cpu() {
    if !may_run("the_terms_are_those_of_a_simulated_cpu", lacks_bpf()) {
        return;
    }
    let mut seen = [0; TERMS];
    let mut kernel = Kernel::new();
    for seed in 0..120 {
        let map = kernel.0.object.maps().find(|map| map.name() == "paths").unwrap();
        let mut empty = vec![0; map.value_size() as usize];
        empty[0] = 1; // on
        map.update(&0u32.to_ne_bytes(), &empty, MapFlags::ANY).unwrap();
        let mut world = World::new(&kernel, seed);
        // Known from the first run of the scheduler on.
        world.tell("preempt_disable", [ELSEWHERE, 0, 0]);
        world.begin(PSD);
        world.tell("irq_disable", [SCHEDULER[0], 0, 0]);
        world.begin(DST);
        world.pass();
        world.tell("irq_enable", [ELSEWHERE, 0, 0]);
        world.tell("preempt_enable", [ELSEWHERE, 0, 0]);
        world.end(PSD);
        world.end(DST);
        for _ in 0..30 {
            world.step();
        }
        let (longest, mut executions) = found(&kernel.0);
        assert_eq!(longest, world.longest, "seed {seed}: POID, PAIE, PSD, DST");
        // Interrupts and NMIs come in rings of their own.
        let mut truth = world.executions;
        let order = |one: &Execution| (one.source == Source::Nmi, one.arrival, one.took);
        executions.sort_by_key(order);
        truth.sort_by_key(order);
        assert_eq!(executions, truth, "seed {seed}");
        (0..TERMS).for_each(|term| seen[term] += u32::from(longest[term] > 0));
        kernel.0.collected.clear();
    }
    println!("POID, PAIE, PSD, DST seen in {seen:?} of 120 machines");
    assert!(seen.iter().all(|&count| count > 60), "{seen:?}");
}

#[test]
#[ignore = "root: run by make test"]
fn a_cpu_that_was_offline_begins_anew() {
    if !may_run("a_cpu_that_was_offline_begins_anew", lacks_bpf()) {
        return;
    }
    let kernel = Kernel::new();
    let mut world = World::new(&kernel, 1);
    let tell = |world: &mut World<'_>, name: &str, ip: u64, after: u64| {
        world.now += after;
        world.tell(name, [ip, 0, 0]);
    };
    let schedule = |world: &mut World<'_>| {
        tell(world, "preempt_disable", ELSEWHERE, 10);
        tell(world, "irq_disable", SCHEDULER[0], 10);
        tell(world, "irq_enable", ELSEWHERE, 10);
        tell(world, "preempt_enable", ELSEWHERE, 10);
    };
    schedule(&mut world);
    tell(&mut world, "preempt_disable", ELSEWHERE, 10);
    tell(&mut world, "irq_disable", ELSEWHERE, 10);
    world.now += 5_000_000_000;
    (0..400).for_each(|state| world.tell("cpuhp_enter", [0, 0, state]));
    tell(&mut world, "irq_enable", ELSEWHERE, 10);
    tell(&mut world, "preempt_enable", ELSEWHERE, 10);
    schedule(&mut world);
    assert_eq!(found(&kernel.0).0, [0, 0, 30, 20]);
}
