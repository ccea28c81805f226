//! All CPUs stalled at once: of no thread that was on one of them.

use super::super::{notation, told};
use crate::explain::Explanation;
use crate::time::{Cpu, Ns};
use crate::trace::event::Kind;
use crate::trace::window::Window;

/// Ticks of 1 ms on both CPUs until the given time, and from the second one on, where the first of them were due at
/// 4000 and 3300 µs.
fn with_ticks(events: &str, until: u64, again: u64) -> Window {
    let mut text = events.to_owned();
    for (cpu, first) in [(0, 1_000), (1, 1_300)] {
        let due = (first..until).step_by(1_000);
        let late = (first..20_000).step_by(1_000).find(|due| *due >= until);
        let ticks = due.map(|due| (due + 1, due)).chain(late.map(|due| (again + cpu, due)));
        for (at, due) in ticks {
            text +=
                &format!("{at} c{cpu} vec+ local_timer\n{at} c{cpu} timer+ tick_nohz_handler {due} {at}\n");
            text += &format!("{} c{cpu} timer-\n{} c{cpu} vec- local_timer\n", at + 1, at + 2);
        }
    }
    // A notation in time order, because an event is of the thread that was switched in last.
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.sort_by_key(|line| line.split_whitespace().next().and_then(|at| at.parse::<u64>().ok()));
    notation::window(&lines.join("\n"))
}

/// The explanation of thread 50 from 2500 to 12000 µs, and its text in one line.
fn of_thread(window: &Window) -> (Explanation, String) {
    let explanation = told(window, 2_500, 12_000);
    assert!(explanation.tree.adds_up(), "{explanation:#?}");
    let text = crate::explain::text::render(&explanation, crate::explain::text::Options::default());
    (explanation, text.split_whitespace().collect::<Vec<_>>().join(" "))
}

const RUNS: &str = "
    100 c0 switch idle > other/70
    200 c1 switch idle > rt/50@80
    12100 c1 switch rt/50@80:S > idle
";

#[test]
fn the_time_of_a_stall_of_all_cpus_is_not_the_running_threads_own() {
    let (explanation, text) = of_thread(&with_ticks(RUNS, 3_100, 9_550));
    assert!(
        text.contains("all recorded CPUs stalled") && !text.contains("the time is the thread's own"),
        "{text}"
    );
    assert_eq!(explanation.unexplained_ns, Ns::from_us(9_550 - 3_300));
    assert_eq!(explanation.cause, "unexplained");
    let gaps = explanation.tree.all_gaps();
    assert!(gaps.iter().all(|gap| gap.is_stall()), "{gaps:?}");
}

#[test]
fn the_thread_on_the_cpu_in_a_stall_of_all_cpus_is_not_blamed() {
    let waits = "
        100 c0 switch idle > other/70
        200 c1 switch idle > rt/50@80
        2600 c1 switch rt/50@80:R > hog/60@90
        9800 c1 switch hog/60@90:S > rt/50@80
        12100 c1 switch rt/50@80:S > idle
    ";
    let (explanation, text) = of_thread(&with_ticks(waits, 3_100, 9_550));
    assert!(text.contains("all recorded CPUs stalled"), "{text}");
    assert_eq!((explanation.cause.as_str(), explanation.unexplained_ns), ("unexplained", Ns::from_us(6_250)));
}

#[test]
fn what_a_thread_waits_for_is_not_blamed_for_a_stall_of_all_cpus() {
    let blocked = "
        100 c0 switch idle > helper/70@50
        200 c1 switch idle > rt/50@80
        2600 c1 switch rt/50@80:S > other/80
        9800 c0 waking rt/50@80 c1
        9805 c1 switch other/80:R > rt/50@80
        12100 c1 switch rt/50@80:S > idle
    ";
    let (explanation, text) = of_thread(&with_ticks(blocked, 3_100, 9_550));
    assert!(text.contains("all recorded CPUs stalled"), "{text}");
    assert_eq!((explanation.cause.as_str(), explanation.unexplained_ns), ("unexplained", Ns::from_us(6_250)));
}

#[test]
fn a_silence_proves_no_stall_where_the_recorder_may_have_been_off() {
    // The ticks after it are in time: those before them were not recorded.
    let mut window = with_ticks(RUNS, 3_100, 9_302);
    assert!(!of_thread(&window).1.contains("stalled"));
    // Events were lost.
    window = with_ticks(RUNS, 3_100, 9_550);
    let kind = Kind::Lost { count: Some(5), after: None };
    let at = window.events.iter().position(|event| event.at.0 >= 9_550_000).unwrap();
    let lost = crate::trace::event::Event { kind, ..window.events[at] };
    window.events.insert(at, lost);
    assert!(!of_thread(&window).1.contains("stalled"));
}

#[test]
fn one_cpu_without_interrupts_is_no_stall_of_all() {
    let mut window = with_ticks(RUNS, 3_100, 9_550);
    window.events.retain(|event| event.cpu == Cpu(1));
    assert!(!of_thread(&window).1.contains("stalled"));
}
