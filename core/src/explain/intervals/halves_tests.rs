//! Wake-ups of which one end is not recorded.

use super::{find, find_realtime_wakeups, Found, Question, Whose};
use crate::time::{Mono, Ns, Tid};
use crate::trace::ftrace_text::FtraceText;

/// Two wake-ups of a real-time thread, of 10 and 300 us, while another thread has the CPU.
const LINES: [(u64, &str); 7] = [
    (100, WAKES),
    (110, TO_RT),
    (200, TO_OTHER),
    (1_000, WAKES),
    (1_300, TO_RT),
    (1_400, TO_OTHER),
    (1_500, "sched_waking: comm=z pid=9 prio=120 target_cpu=001"),
];
const WAKES: &str = "sched_waking: comm=rt pid=8 prio=19 target_cpu=001";
const TO_RT: &str = "sched_switch: prev_comm=x prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=rt next_pid=8 next_prio=19";
const TO_OTHER: &str = "sched_switch: prev_comm=rt prev_pid=8 prev_prio=19 prev_state=S ==> next_comm=x next_pid=7 next_prio=120";

/// The lines without those at these times.
fn text(without: &[u64]) -> String {
    let lines = LINES.iter().filter(|(at, _)| !without.contains(at));
    lines.map(|(at, event)| format!("x-7 [001] d.... 1.{at:06}: {event}\n")).collect()
}

fn found(text: &str) -> Found {
    find_realtime_wakeups(&FtraceText::open(text.as_bytes()).unwrap(), &Whose::default())
}

#[test]
fn a_thread_that_slept_and_got_a_cpu_without_a_wake_up_may_have_waited_longest() {
    let whole = found(&text(&[]));
    assert_eq!((whole.count, whole.unseen_wakings, whole.may_hide_worse()), (2, 0, false));
    let half = found(&text(&[1_000]));
    let (most, name, end) = half.longest_unseen_waking.clone().unwrap();
    assert_eq!((most, name.as_str(), end), (Ns::from_us(1_100), "rt/8", Mono(1_001_300_000)));
    assert!(half.may_hide_worse());
    let other = Whose { tid: Some(Tid(7)), ..Whose::default() };
    let source = text(&[1_000]);
    let other = find(&FtraceText::open(source.as_bytes()).unwrap(), &Question::Wakeups, &other);
    assert_eq!(other.unseen_wakings, 0, "of a thread that nobody asked for");
    // A loss explains it: that is reported as a loss.
    let lost =
        text(&[1_000]).replace("x-7 [001] d.... 1.001300", "CPU:1 [LOST 1 EVENTS]\nx-7 [001] d.... 1.001300");
    assert_eq!(found(&lost).unseen_wakings, 0);
}

#[test]
fn a_real_time_thread_that_waited_when_the_trace_started_may_have_waited_longest() {
    let first = "x-7 [001] d.... 1.000001: sched_stat: a=1\n";
    let before = found(&format!("{first}{}", text(&[100])));
    assert_eq!(before.longest_realtime_before, Some(Ns::from_us(109)));
    assert!(!before.may_hide_worse(), "300 us are longer");
    let shorter = text(&[100]).replace("1.001000", "1.001290");
    assert!(found(&format!("{first}{shorter}")).may_hide_worse());
}

/// As `trace-cmd record -e sched_switch -e sched_wakeup`, and kernels before 4.3.
#[test]
fn a_trace_with_the_late_event_of_wake_ups_only_has_the_same_halves() {
    let late = |text: String| found(&text.replace("sched_waking", "sched_wakeup"));
    let half = late(text(&[1_000]));
    assert_eq!((half.from_wakeup, half.unseen_wakings, half.may_hide_worse()), (true, 1, true));
    let before = late(format!("x-7 [001] d.... 0.900000: sched_stat: a=1\n{}", text(&[100])));
    assert_eq!(before.longest_realtime_before, Some(Ns::from_us(100_110)));
    assert!(before.may_hide_worse());
    let whole = late(text(&[]));
    assert_eq!((whole.waited_before, whole.unseen_wakings, whole.may_hide_worse()), (0, 0, false));
}

#[test]
fn wake_ups_of_which_only_one_end_is_recorded_answer_nothing() {
    for without in [[100, 1_000], [110, 1_300]] {
        let half = found(&text(&without));
        assert_eq!(half.count, 0, "{without:?}");
        assert!(half.has_only_halves(), "{without:?}");
    }
    assert!(!found(&text(&[])).has_only_halves());
}
