//! Sources of a gap of `npt`, by the state of the loop's thread: as in the explanation of the gap.

use super::notation;
use super::Record;
use crate::npt::gap::{shares, Gap, NOT_RUNNABLE, THROTTLED};
use crate::time::{Cpu, Mono, Ns, Tid};

/// The parts of the gap of thread 50 on CPU 1 from 100 to 900 µs, with their µs.
fn parts(events: &str) -> Vec<(String, u64)> {
    let window = notation::window(events);
    let gap = Gap { cpu: Cpu(1), begin: Mono(100_000), end: Mono(900_000), ..Gap::default() };
    let found = shares(&Record::new(&window), Tid(50), &gap);
    let sum =
        found.parts.iter().map(|part| part.net).fold(found.own + found.unrecorded, |sum, net| sum + net);
    assert_eq!(sum, Ns::from_us(800), "{found:?}");
    found.parts.into_iter().map(|part| (part.name, part.net.0 / 1_000)).collect()
}

#[test]
fn a_lower_class_throttles_only_a_loop_that_is_runnable_and_real_time() {
    let preempted = |left: &str, prio: &str| {
        parts(&format!(
            "
            0   c1 switch idle > npt/50{prio}
            110 c1 switch npt/50{prio}:{left} > hog/33
            510 c1 vec+ local_timer
            520 c1 vec- local_timer
            600 c1 switch hog/33:S > idle
            890 c1 switch idle > npt/50{prio}
            "
        ))
    };
    let throttled = preempted("R", "@95");
    assert_eq!(throttled[0], (format!("{THROTTLED}: hog"), 480), "{throttled:?}");
    assert!(throttled[1].0.starts_with(&format!("{THROTTLED}: idle")) && throttled[1].1 == 290);
    // SIGSTOP
    let stopped = preempted("S", "@95");
    assert_eq!(stopped[0], (NOT_RUNNABLE.to_owned(), 770));
    assert!(stopped[1].0.starts_with("vector local_timer") && stopped.len() == 2, "{stopped:?}");
    // chrt -o
    let ordinary = preempted("R", "");
    assert!(ordinary[0].0.starts_with("hog") && ordinary[0].1 == 480, "{ordinary:?}");
}
