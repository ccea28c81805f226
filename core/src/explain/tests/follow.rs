//! Jobs that began before the events.

use super::notation;
use crate::explain::{follow_waits, Explanation, Interval, Kind, Segment};
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::window::Window;

/// A job of 100 ms by its sums: 1 ms, a wait, 1 ms.
fn sums() -> Explanation {
    let ms = Ns::from_ms;
    let parts = vec![
        Segment::leaf(Kind::Running, "runs", Mono(0), ms(1)),
        Segment::leaf(Kind::Blocked, "blocked on a mutex, held by holder/60", Mono(1_000_000), ms(98)),
        Segment::leaf(Kind::Running, "runs", Mono(99_000_000), ms(1)),
    ];
    let tree = Segment::group(Kind::Passage, "job", Mono(0), ms(100), parts);
    let sentence = "rt/50 took 100.000 ms: was blocked 98.000 ms on a mutex, held by holder/60".to_owned();
    Explanation {
        sentence,
        advice: String::new(),
        total_ns: tree.duration_ns,
        unexplained_ns: Ns::ZERO,
        tree,
        cause: "mutex".to_owned(),
        limits: Vec::new(),
    }
}

/// The events of its end, complete on both CPUs from `from_ms` on.
fn window(from_ms: u64) -> Window {
    let mut window = notation::window(
        "
        60000 c0 switch idle > holder/60
        61000 c0 switch holder/60:R > hog/80
        98000 c0 switch hog/80:R > holder/60
        98999 c0 call 202 4096 1
        99000 c0 waking rt/50@95 c1
        99001 c1 switch idle > rt/50@95
       100000 c1 switch rt/50@95:S > idle
        ",
    );
    let from = Mono(from_ms * 1_000_000);
    window.complete_from = [(Cpu(0), from), (Cpu(1), from)].into_iter().collect();
    window
}

const JOB: Interval = Interval { tid: Tid(50), cpu: Cpu(1), begin: Mono(0), end: Mono(100_000_000) };

#[test]
fn the_end_of_a_wait_that_began_before_the_events_is_followed() {
    let mut told = sums();
    follow_waits(&mut told, &window(60), &JOB);
    assert!(told.tree.adds_up() && told.total_ns == told.tree.duration_ns, "{told:#?}");
    assert_eq!(told.tree.total_explained() + told.unexplained_ns, told.total_ns);
    let end = "in the last 39.000 ms of that wait, which the flight rings show, ";
    assert!(told.sentence.contains(end) && told.sentence.contains("holder/60"), "{}", told.sentence);
    let wait = &told.tree.children[1];
    assert_eq!((wait.duration_ns, wait.children.len()), (Ns::from_ms(98), 2), "{wait:#?}");
    assert_eq!(wait.children[0].duration_ns, Ns::from_ms(59));
}

#[test]
fn sums_stay_as_they_are_where_no_event_of_the_wait_is_there() {
    for from in [99, 200] {
        let mut told = sums();
        follow_waits(&mut told, &window(from), &JOB);
        assert_eq!(told, sums(), "from {from} ms");
    }
}
