//! Wake-ups of which one end is not recorded.

use crate::explain::answers::{Answers, TraceFacts};
use crate::explain::intervals::{find, find_realtime_wakeups, Found, Question, Whose};
use crate::time::{Cpu, Mono, Ns, Tid};
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

/// As `trace-cmd record -e sched_switch -e sched_waking`.
#[test]
fn a_thread_without_a_wake_up_may_be_new_if_no_start_of_a_thread_is_recorded() {
    let (first, new) =
        ("x-7 [001] d.... 1.000001: sched_stat: a=1\n", "x-7 [001] d.... 1.000002: sched_wakeup_new: ");
    let waited = format!("{first}{}", text(&[100]));
    let unknown = found(&waited);
    assert_eq!((unknown.waited_before, unknown.may_be_new), (1, true));
    let known = found(&format!("{first}{new}comm=y pid=77 prio=120 target_cpu=001\n{}", text(&[100])));
    assert_eq!((known.waited_before, known.may_be_new), (1, false));
    let told = |found: &Found| Answers::new(TraceFacts::default(), String::new(), found).limits.join("; ");
    assert!(told(&unknown).contains("or new (the trace has neither"), "{}", told(&unknown));
    assert!(!told(&known).contains("new"), "{}", told(&known));
}

/// The idle task is one on each CPU: their intervals do not mix, and are not left out in silence.
#[test]
fn intervals_of_idle_tasks_are_counted() {
    let between = |end: &str| Question::Between {
        from: "event:irq_disable".parse().unwrap(),
        to: end.parse().unwrap(),
        pair: None,
    };
    let text = "<idle>-0 [000] d... 1.000100: irq_disable: a=1
<idle>-0 [001] d... 1.000200: irq_disable: a=1
<idle>-0 [001] d... 1.000300: irq_enable: a=1
x-7 [001] d... 1.000400: irq_disable: a=1
x-7 [001] d... 1.000450: irq_enable: a=1
<idle>-0 [000] d... 1.002100: irq_enable: a=1
";
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let found = find(&source, &between("event:irq_enable"), &Whose::default());
    assert_eq!((found.count, found.of_idle, found.unmatched_begins, found.unmatched_ends), (1, 2, 0, 0));
    assert_eq!(found.longest_of_idle, Some((Ns::from_us(2_000), Cpu(0), Mono(1_002_100_000))));
    assert!(found.may_hide_worse(), "2000 us are longer than 50");
    let told = Answers::new(TraceFacts::default(), String::new(), &found).limits.join("; ");
    assert!(
        told.contains("2 intervals are of the idle task") && told.contains("2.000 ms, on CPU 0"),
        "{told}"
    );
    // Without switches, there is another question to ask.
    let none = find(&source, &Question::Wakeups, &Whose::default());
    assert!(none.unanswerable.unwrap().contains("--between event:irq_disable event:irq_enable"));
}

/// Kernels before 3.0 print `success=0` where the thread was awake, or its sleep was of another kind.
#[test]
fn an_attempt_to_wake_a_thread_starts_nothing() {
    let text = "x-7 [001] d... 1.000000: sched_switch: prev_comm=rt prev_pid=8 prev_prio=19 prev_state=D ==> next_comm=x next_pid=7 next_prio=120
x-7 [001] d... 1.001000: sched_wakeup: comm=rt pid=8 prio=19 success=0 target_cpu=001
x-7 [001] d... 1.009000: sched_wakeup: comm=rt pid=8 prio=19 success=1 target_cpu=001
x-7 [001] d... 1.009100: sched_switch: prev_comm=x prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=rt next_pid=8 next_prio=19
";
    let short =
        text.replace("comm=rt pid=8 prio=19 success=", "rt:8 [19] success=").replace(" target_cpu=001", "");
    for text in [text, &short] {
        let found = found(text);
        assert_eq!((found.count, found.unseen_switch_ins), (1, 0), "{text}");
        assert_eq!(found.intervals[0].total(), Ns::from_us(100));
    }
}
