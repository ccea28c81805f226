//! A simulated CPU as oracle: the slices must be identical, and damage must only remove information.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::cpu::Context;
use super::super::record::Record;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};
use crate::trace::event::{Event, Kind, LeftAs, Level, TaskRef, Vector};
use crate::trace::window::Window;

/// What happens next on the CPU, with lengths in ns.
#[derive(Clone, Debug)]
enum Act {
    Run(u64),
    Switch(i32),
    Irq(u32, u64),
    Tick(u64),
    Softirq(u8, u64, Option<u64>), // with a tick inside
    Nmi(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (1u64..500).prop_map(Act::Run),
        (0i32..4).prop_map(Act::Switch),
        (1u32..4, 1u64..100).prop_map(|(irq, length)| Act::Irq(irq, length)),
        (1u64..100).prop_map(Act::Tick),
        (0u8..10, 1u64..100, proptest::option::of(1u64..50)).prop_map(|(vec, a, b)| Act::Softirq(vec, a, b)),
        (1u64..40).prop_map(Act::Nmi),
    ]
}

/// The simulated CPU: its clock, its thread, its events, and the truth.
struct Simulation {
    at: u64,
    tid: i32,
    events: Vec<Event>,
    truth: BTreeMap<Context, u64>,
}

impl Simulation {
    fn emit(&mut self, kind: Kind) {
        self.events.push(Event {
            at: Mono(self.at),
            cpu: Cpu(0),
            current: Some(Tid(self.tid)),
            level: Level::Unsaid,
            kind,
        });
    }

    fn spend(&mut self, context: Context, length: u64) {
        self.at += length;
        *self.truth.entry(context).or_default() += length;
    }

    fn tick(&mut self, length: u64) {
        self.emit(Kind::VectorEntry(Vector::LocalTimer));
        self.spend(Context::Vector(Vector::LocalTimer), length);
        self.emit(Kind::VectorExit(Vector::LocalTimer));
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Run(length) => {
                let tid = Tid(self.tid);
                self.spend(if self.tid == 0 { Context::Idle(None) } else { Context::Thread(tid) }, length);
            }
            Act::Switch(to) if to != self.tid => {
                let task = |tid| TaskRef { tid: Tid(tid), prio: Some(Prio(120)), comm: None };
                self.emit(Kind::Switch { prev: task(self.tid), left_as: LeftAs::Runnable, next: task(to) });
                self.tid = to;
            }
            Act::Switch(_) => {}
            Act::Irq(irq, length) => {
                self.emit(Kind::IrqEntry { irq, name: None });
                self.spend(Context::HardIrq(irq), length);
                self.emit(Kind::IrqExit { irq });
            }
            Act::Tick(length) => self.tick(length),
            Act::Softirq(vec, length, tick) => {
                self.emit(Kind::SoftirqEntry { vec });
                self.spend(Context::Softirq(vec), length);
                if let Some(inside) = tick {
                    self.tick(inside);
                    self.spend(Context::Softirq(vec), length);
                }
                self.emit(Kind::SoftirqExit { vec });
            }
            Act::Nmi(length) => {
                self.spend(Context::Nmi, length);
                self.emit(Kind::Nmi { duration: Ns(length) });
            }
        }
    }
}

fn simulate(acts: &[Act]) -> Simulation {
    let mut simulation = Simulation { at: 1_000, tid: 1, events: Vec::new(), truth: BTreeMap::new() };
    acts.iter().for_each(|act| simulation.act(act));
    let name = crate::trace::event::Sym(0);
    simulation.emit(Kind::Other { name }); // the recorder still works at the end
    simulation
}

fn seen(events: Vec<Event>, until: u64) -> BTreeMap<Context, u64> {
    let complete_from = [(Cpu(0), Mono(1_000))].into();
    let window = Window { events, complete_from, ..Window::default() };
    let mut seen = BTreeMap::new();
    for slice in Record::new(&window).slices(Cpu(0), Mono(1_000), Mono(until)) {
        *seen.entry(slice.context).or_default() += slice.length().0;
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn an_undamaged_record_gives_everyone_exactly_his_time(acts in proptest::collection::vec(act(), 0..60)) {
        let simulation = simulate(&acts);
        prop_assert_eq!(seen(simulation.events, simulation.at), simulation.truth);
    }

    #[test]
    fn duplicated_events_change_nothing(
        acts in proptest::collection::vec(act(), 1..60), doubles in proptest::collection::vec(any::<prop::sample::Index>(), 0..4)
    ) {
        let simulation = simulate(&acts);
        let mut events = simulation.events.clone();
        for double in doubles {
            let at = double.index(events.len());
            let again = events[at];
            events.insert(at, again);
        }
        prop_assert_eq!(seen(events, simulation.at), simulation.truth);
    }

    #[test]
    fn a_loss_without_a_word_gives_nobody_more_time_than_he_had(
        acts in proptest::collection::vec(act(), 1..60), lost in any::<prop::sample::Index>()
    ) {
        // The idle task is assumed to have run where some kernels report no switch; an NMI is one event. The first and the
        // last switch show that no interrupt is open there.
        let is_sure = |act: &Act| !matches!(act, Act::Switch(0) | Act::Nmi(_));
        let acts = acts.into_iter().filter(is_sure);
        let acts: Vec<Act> = [Act::Switch(8)].into_iter().chain(acts).chain([Act::Irq(7, 1), Act::Switch(9)]).collect();
        let simulation = simulate(&acts);
        let mut events = simulation.events.clone();
        events.remove(1 + lost.index(events.len() - 3));
        for (context, time) in seen(events, simulation.at) {
            let truth = simulation.truth.get(&context).copied().unwrap_or(0);
            let admitted = matches!(context, Context::Lost | Context::Unknown);
            prop_assert!(admitted || time <= truth, "{context:?}: {time} > {truth}");
        }
    }

    #[test]
    fn a_reported_loss_gives_nobody_more_time_than_he_had(
        acts in proptest::collection::vec(act(), 1..60), lost in any::<prop::sample::Index>()
    ) {
        // Where a decoder reports the loss, no source is given more time than it had.
        let simulation = simulate(&acts);
        let mut events = simulation.events.clone();
        let at = lost.index(events.len());
        if at + 1 < events.len() {
            events.remove(at);
            let marker = Event { kind: Kind::Lost { count: Some(1), after: None }, current: None, ..events[at] };
            events.insert(at, marker);
            for (context, time) in seen(events, simulation.at) {
                let truth = simulation.truth.get(&context).copied().unwrap_or(0);
                let admitted = matches!(context, Context::Lost | Context::Unknown);
                prop_assert!(admitted || time <= truth, "{context:?}: {time} > {truth}");
            }
        }
    }
}
