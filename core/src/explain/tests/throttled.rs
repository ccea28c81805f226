//! An idle CPU beside a runnable real-time thread: throttled, or not known; never slow to leave idle.

use super::wakers::expect;
use super::{explained, notation, told};
use crate::explain::segment::Explanation;

/// The wait of rt/50, which used CPU 1 for 400 ms, until its switch-in at 402000; `since` is when it had to wait.
fn waited(since: u64, events: &str) -> [Explanation; 2] {
    let used = "0 c1 switch idle > rt/50@40\n390000 c1 other tick\n";
    let window = notation::window(&format!("{used}{events}\n402500 c1 switch rt/50@40:S > idle"));
    let both = [told(&window, since, 402_000), explained(&window, since, 402_000)];
    both.iter().for_each(|each| assert!(each.tree.adds_up(), "{each:#?}"));
    both
}

const TIMER: &str = "401996 c1 vec+ local_timer\n401997 c1 timer+ sched_rt_period_timer 401996 401997\n\
                     401998 c1 timer-\n401999 c1 vec- local_timer\n402000 c1 switch idle > rt/50@40";

/// Idle for 770 µs: too short to be sure without the timer.
const PREEMPTED: &str = "401230 c1 switch rt/50@40:R > idle";
/// Its CPU goes idle once more 480 µs after the waking.
const WOKEN: &str = "400000 c1 switch rt/50@40:S > other/9\n400750 c1 waking rt/50@40 c1\n\
                     401230 c1 switch other/9:S > idle";
/// Throttled before it slept: the waking does not make the CPU leave idle.
const STAYS_IDLE: &str = "400000 c1 switch rt/50@40:S > idle\n401230 c0 waking rt/50@40 c1";

#[test]
fn a_cpu_that_goes_idle_beside_a_runnable_thread_is_not_slow_to_leave_idle() {
    for (since, events) in [(401_230, PREEMPTED), (400_750, WOKEN)] {
        let [told, peak] = waited(since, &format!("{events}\n402000 c1 switch idle > rt/50@40"));
        assert_eq!(told.cause, "unexplained", "{}", told.sentence);
        assert!(told.sentence.contains("throttled"), "{}", told.sentence);
        assert!(!peak.sentence.contains("left it late"), "{}", peak.sentence);
    }
}

/// Its waking on its own CPU puts it on the run queue at once: ordinary threads, then idle, were chosen beside it.
#[test]
fn a_thread_that_its_own_cpu_wakes_is_runnable_from_then_on() {
    let chosen = "400000 c1 switch rt/50@40:S > two/51@50\n400006 c1 waking rt/50@40 c1\n\
                  400020 c1 switch two/51@50:R > other/9\n400070 c1 switch other/9:S > idle\n402000 c1 switch idle > rt/50@40";
    for told in waited(400_006, chosen) {
        assert!(!told.cause.starts_with("idle exit"), "{}: {}", told.cause, told.sentence);
    }
    let [told, _] = waited(400_006, chosen);
    assert_eq!(told.cause, "RT throttling", "{}", told.sentence);
    // Of a waking by another CPU it is not known when it arrived.
    let [told, _] = waited(400_006, &chosen.replace("400006 c1 waking", "400006 c0 waking"));
    assert!(told.cause != "RT throttling", "{}", told.sentence);
}

#[test]
fn the_timer_that_gives_a_new_budget_shows_that_the_thread_was_throttled() {
    for (since, events) in [(401_230, PREEMPTED), (400_750, WOKEN), (401_230, STAYS_IDLE)] {
        let [told, _] = waited(since, &format!("{events}\n{TIMER}"));
        assert_eq!(told.cause, "RT throttling", "{}", told.sentence);
        assert!(told.sentence.contains("sched_rt_period_timer ends it"), "{}", told.sentence);
    }
}

#[test]
fn a_cpu_that_is_idle_at_the_waking_is_slow_to_leave_idle() {
    for told in waited(401_230, &format!("{STAYS_IDLE}\n402000 c1 switch idle > rt/50@40")) {
        assert!(told.cause.starts_with("idle exit"), "{}", told.sentence);
    }
}

#[test]
fn a_cpu_that_woke_a_thread_in_its_own_interrupt_had_left_idle() {
    let events = |switch: u64| {
        format!(
            "
          0 c1 switch any/9:S > idle
        100 c1 irq+ 86 mmc1
        140 c1 irq- 86
        158 c1 waking rt/50@95 c1
        {switch} c1 switch idle > rt/50@95
        300 c1 switch rt/50@95:S > idle
    "
        )
    };
    let explanation =
        expect(&events(164), (158, 164), &["from the interrupt to the switch took"], &["from idle"]);
    assert_eq!(explanation.unexplained_ns.0, 0);
    let explanation = expect(&events(176), (158, 176), &["unexplained"], &["to wake up from idle"]);
    assert_eq!(explanation.unexplained_ns.0, 18_000);
}
