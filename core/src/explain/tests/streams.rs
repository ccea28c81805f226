//! Whatever the stream of events: the parts add up, slices cover the window, nothing panics.

use proptest::prelude::*;

use super::super::critical_path::explain_interval;
use super::super::peak::{explain_peak, explain_wakeup};
use super::super::record::Record;
use super::super::scene::{Interval, WakeInterval};
use super::super::text::{render, Options};
use crate::time::{Cpu, Mono, Ns, Prio, Tid};
use crate::trace::event::{Event, Faulted, Kind, LeftAs, Level, TaskRef, Vector};
use crate::trace::window::{StackSample, Window};

fn task() -> impl Strategy<Value = TaskRef> {
    // Few ids, so that they recur, also with another priority: reuse of a pid, or a changed class.
    (0i32..5, proptest::option::of(prop_oneof![Just(Prio(4)), Just(Prio(49)), Just(Prio(120))]))
        .prop_map(|(tid, prio)| TaskRef { tid: Tid(tid), prio, comm: None })
}

fn left_as() -> impl Strategy<Value = LeftAs> {
    prop_oneof![
        Just(LeftAs::Runnable),
        Just(LeftAs::Blocked(1)),
        Just(LeftAs::Blocked(2)),
        Just(LeftAs::Dead)
    ]
}

fn vector() -> impl Strategy<Value = Vector> {
    prop_oneof![Just(Vector::LocalTimer), Just(Vector::Reschedule), Just(Vector::CallFunctionSingle)]
}

fn scheduler() -> impl Strategy<Value = Kind> {
    prop_oneof![
        3 => (task(), left_as(), task()).prop_map(|(prev, left_as, next)| Kind::Switch { prev, left_as, next }),
        2 => (task(), proptest::option::of((0u32..3).prop_map(Cpu)))
            .prop_map(|(task, target_cpu)| Kind::Waking { task, target_cpu, new: false, waker_prio: None }),
        1 => task().prop_map(|task| Kind::Wakeup { task, target_cpu: None }),
        1 => (task(), 0u32..3, 0u32..3)
            .prop_map(|(task, from, to)| Kind::Migrate { task, from: Cpu(from), to: Cpu(to) }),
        1 => task().prop_map(|task| Kind::PiSetprio { task, old: Prio(120), new: Prio(1) }),
    ]
}

fn interrupt() -> impl Strategy<Value = Kind> {
    prop_oneof![
        (1u32..3).prop_map(|irq| Kind::IrqEntry { irq, name: None }),
        (1u32..3).prop_map(|irq| Kind::IrqExit { irq }),
        vector().prop_map(Kind::VectorEntry),
        vector().prop_map(Kind::VectorExit),
        (0u8..12).prop_map(|vec| Kind::SoftirqEntry { vec }),
        (0u8..12).prop_map(|vec| Kind::SoftirqExit { vec }),
        (0u64..9_000).prop_map(|duration| Kind::Nmi { duration: Ns(duration) }),
        (0u64..99_000, 0u64..99_000)
            .prop_map(|(taken, since)| Kind::HostSteal { taken: Ns(taken), since: Mono(since) }),
        Just(Kind::TimerExpireEntry {
            timer: 1,
            function: None,
            expires: Some(Mono(7_000)),
            now: None,
            slack: None
        }),
        Just(Kind::TimerExpireExit { timer: 1 }),
        Just(Kind::CsdEntry { function: None, csd: 1 }),
        Just(Kind::CsdExit { csd: 1 }),
        (-2i32..9).prop_map(Kind::found_in),
        (0i32..20).prop_map(|sig| Kind::SignalDeliver { sig, code: 0 }),
        (0u32..4).prop_map(|state| Kind::IdleEnter { state }),
        Just(Kind::IdleExit),
        (0u32..100).prop_map(|count| Kind::PageFault { address: 0, count, how: Faulted::default() }),
        proptest::option::of(0u64..9).prop_map(|count| Kind::Lost { count, after: None }),
    ]
}

/// What links threads and CPUs: few numbers, so that wrong partners meet as often as right ones.
fn link() -> impl Strategy<Value = Kind> {
    let id = || 1u64..3;
    prop_oneof![
        (
            prop_oneof![Just(202), Just(600), Just(0)],
            prop_oneof![Just(0u64), Just(1), Just(6), Just(7)],
            id()
        )
            .prop_map(|(call, op, address)| Kind::SysEnter { id: call, args: [address, op, 0, 0, 0, 0] }),
        Just(Kind::SysExit { id: 202, ret: 0 }),
        (id(), 0u64..20_000).prop_map(|(timer, due)| Kind::HrtimerStart {
            timer,
            function: None,
            expires: Ns(due),
            soft: Some(Ns(due / 2))
        }),
        (id(), 0u64..20_000).prop_map(|(timer, expires)| Kind::WheelTimerStart {
            timer,
            function: None,
            expires,
            now: None
        }),
        id().prop_map(|timer| Kind::WheelExpireEntry { timer, function: None }),
        id().prop_map(|timer| Kind::WheelExpireExit { timer }),
        id().prop_map(|work| Kind::WorkQueue { work, function: None, target_cpu: None }),
        id().prop_map(|work| Kind::WorkStart { work, function: None }),
        id().prop_map(|work| Kind::WorkEnd { work, function: None }),
        id().prop_map(|sector| Kind::BlockIssue { dev: 8, sector, nr_sector: 8, rwbs: None }),
        id().prop_map(|sector| Kind::BlockComplete { dev: 8, sector, nr_sector: 8, error: 0 }),
        id().prop_map(|skb| Kind::NetQueue { skb, len: 1, device: None }),
        id().prop_map(|skb| Kind::NetReceive { skb, len: 1, device: None }),
        (0u32..3, id()).prop_map(|(cpu, csd)| Kind::CsdQueue { target_cpu: Cpu(cpu), function: None, csd }),
        id().prop_map(|address| Kind::UserFault { address, ip: 0, error_code: 4 }),
        id().prop_map(|ino| Kind::FilemapFault { dev: 8, ino, offset: 4096 }),
        id().prop_map(|lock| Kind::ContentionBegin { lock, flags: 32 }),
        task().prop_map(|task| Kind::SignalGenerate { sig: 10, task, code: 0, result: 0 }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let kind = prop_oneof![scheduler(), interrupt(), link()];
    let level =
        prop_oneof![Just(Level::Unsaid), Just(Level::Thread), Just(Level::Softirq), Just(Level::Hard)];
    (0u64..20_000, 0u32..3, proptest::option::of((0i32..5).prop_map(Tid)), level, kind).prop_map(
        |(at, cpu, current, level, kind)| Event { at: Mono(at), cpu: Cpu(cpu), current, level, kind },
    )
}

fn stack() -> impl Strategy<Value = StackSample> {
    let frames = prop_oneof![
        Just(vec![]),
        Just(vec!["f".to_owned()]),
        Just(vec!["asm_sysvec_apic_timer_interrupt".to_owned(), "_raw_spin_unlock_irqrestore".to_owned()]),
    ];
    let said = || proptest::option::of(any::<bool>());
    (0u64..20_000, 0u32..3, 0i32..5, frames, said(), said()).prop_map(
        |(at, cpu, tid, frames, in_user, enabled_there)| StackSample {
            at: Mono(at),
            cpu: Cpu(cpu),
            tid: Tid(tid),
            frames,
            in_user,
            enabled_there,
        },
    )
}

fn window() -> impl Strategy<Value = Window> {
    let events = proptest::collection::vec(event(), 0..120);
    let stacks = proptest::collection::vec(stack(), 0..4);
    let complete =
        proptest::collection::hash_map((0u32..3).prop_map(Cpu), (0u64..20_000).prop_map(Mono), 0..3);
    (events, stacks, complete, any::<bool>()).prop_map(|(mut events, stacks, complete_from, sorted)| {
        if sorted {
            events.sort_by_key(|event| event.at);
        }
        Window { events, stacks, complete_from, ..Window::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_parts_of_any_interval_add_up(
        window in window(), tid in 0i32..6, cpu in 0u32..4, begin in 0u64..21_000, end in 0u64..21_000
    ) {
        let (tid, cpu, begin, end) = (Tid(tid), Cpu(cpu), Mono(begin), Mono(end));
        let timer = explain_peak(&window, &Interval { tid, cpu, begin, end });
        let wake = explain_wakeup(&window, &WakeInterval { tid, cpu, begin, end });
        let life = explain_interval(&Record::new(&window), &Interval { tid, cpu, begin, end });
        for explanation in [timer, wake, life] {
            let tree = &explanation.tree;
            prop_assert!(tree.adds_up(), "{explanation:#?}");
            prop_assert_eq!(tree.duration_ns, end.since(begin));
            prop_assert_eq!(tree.total_explained() + explanation.unexplained_ns, end.since(begin));
            prop_assert_eq!(explanation.total_ns, end.since(begin));
            for leaf in tree.leaves() {
                prop_assert!(leaf.begin >= begin && leaf.begin + leaf.duration_ns <= end.max(begin), "{leaf:?}");
            }
            let text = render(&explanation, Options { evidence: true, stacks: true });
            prop_assert!(text.lines().all(|line| line.chars().count() <= super::super::text::WIDTH), "{text}");
        }
    }

    #[test]
    fn the_slices_of_any_cpu_cover_any_stretch_exactly(
        window in window(), cpu in 0u32..4, a in 0u64..21_000, length in prop_oneof![Just(0), 1u64..21_000]
    ) {
        let slices = Record::new(&window).slices(Cpu(cpu), Mono(a), Mono(a + length));
        let mut at = Mono(a);
        for slice in &slices {
            prop_assert_eq!(slice.begin, at);
            prop_assert!(slice.end > slice.begin);
            at = slice.end;
        }
        prop_assert_eq!(at, Mono(a + length));
    }
}
