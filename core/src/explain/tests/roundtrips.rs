//! Round trips of two threads: latency outward, in the responder, and on return.

use super::notation::window;
use crate::explain::{explain_roundtrip, Explanation, RoundTrip, Segment};
use crate::time::{Cpu, Mono, Ns, Tid};

/// The stimulus wakes `respond/60` on CPU 0, where `hog/90` has just come; it answers, and `box/50` is woken on CPU 1.
const HOGGED: &str = "
        0 c0 switch idle > idle
        0 c1 switch idle > stim/51@94
       95 c0 waking hog/90@99
       97 c0 switch idle > hog/90@99
      102 c1 waking respond/60@95 c0
      105 c1 switch stim/51@94:S > idle
    20100 c0 switch hog/90@99:S > respond/60@95
    20120 c0 waking box/50@95 c1
    20125 c1 switch idle > box/50@95
    20130 c0 switch respond/60@95:S > idle
    20140 c1 switch box/50@95:S > idle
";

fn told(events: &str, there: (u64, u64), responder: Option<i32>) -> Explanation {
    let at = |us: u64| Mono(us * 1_000);
    let trip = RoundTrip {
        tid: Tid(50),
        cpu: Cpu(1),
        sent: at(100),
        there: (at(there.0), at(there.1)),
        arrived: at(20_128),
        responder: responder.map(Tid),
    };
    let told = explain_roundtrip(&window(events), &trip);
    assert_eq!(told.total_ns, Ns::from_us(20_028));
    assert!(told.tree.adds_up(), "{told:#?}");
    assert_eq!(told.tree.total_explained() + told.unexplained_ns, told.total_ns);
    told
}

fn of(tree: &Segment, label: &str) -> Ns {
    tree.leaves().iter().filter(|leaf| leaf.label.contains(label)).map(|leaf| leaf.duration_ns).sum()
}

#[test]
fn a_hog_on_the_responders_cpu_is_named_with_its_size_whether_the_responder_is_known_or_not() {
    for responder in [Some(60), None] {
        let told = told(HOGGED, (20_105, 20_112), responder);
        assert_eq!(told.cause, "thread: hog", "{}", told.sentence);
        assert!(told.sentence.starts_with("the answer took 20.028 ms: respond/60 (RT 95) waited 19.998 ms"));
        assert_eq!(of(&told.tree, "hog/90"), Ns::from_us(19_998));
        assert_eq!(told.unexplained_ns, Ns::ZERO);
        let parts: Vec<(&str, Ns)> =
            told.tree.children.iter().map(|part| (&part.label[..6], part.duration_ns)).collect();
        let sizes = [("outwar", 20_005), ("turnar", 7), ("return", 16)];
        assert_eq!(parts, sizes.map(|(label, us)| (label, Ns::from_us(us))));
    }
}

#[test]
fn what_the_responder_does_itself_is_its_turnaround_and_nobody_elses() {
    let events = HOGGED.replace("20100 c0 switch hog/90@99:S", "  110 c0 switch hog/90@99:S");
    let told = told(&events, (115, 20_112), Some(60));
    assert_eq!(told.tree.children[1].duration_ns, Ns::from_us(19_997));
    assert!(told.sentence.contains("respond/60 (RT 95) ran for 20.01"), "{}", told.sentence);
    assert!(!told.cause.contains("hog"), "{}", told.cause);
}

#[test]
fn without_events_or_with_times_of_another_clock_nobody_is_blamed() {
    let nothing = told("0 c0 switch idle > idle", (20_105, 20_112), None);
    assert_eq!((nothing.unexplained_ns, nothing.cause.as_str()), (nothing.total_ns, "unexplained"));
    assert!(nothing.limits.iter().any(|limit| limit.contains("the answering task")));
    // Zero: the responder has another clock. What is recorded here still counts.
    let other_clock = told(HOGGED, (0, 0), None);
    assert_eq!(other_clock.cause, "thread: hog", "{}", other_clock.sentence);
}
