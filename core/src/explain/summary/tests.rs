//! Sums of recordings as text.

use super::in_order::summarize;
use crate::time::Ns;
use crate::trace::ftrace_text::FtraceText;

#[test]
fn a_softirq_that_was_preempted_has_its_own_time_only() {
    let text = "\
  irq/4-8  [001] d..1. 1.000100: softirq_entry: vec=3 [action=NET_RX]
  irq/4-8  [001] d..2. 1.000110: sched_switch: prev_comm=irq/4 prev_pid=8 prev_prio=49 prev_state=R ==> next_comm=hog next_pid=9 next_prio=9
  hog-9    [001] d..2. 1.005110: sched_switch: prev_comm=hog prev_pid=9 prev_prio=9 prev_state=S ==> next_comm=irq/4 next_pid=8 next_prio=49
  irq/4-8  [001] d..1. 1.005130: softirq_exit: vec=3 [action=NET_RX]
  irq/4-8  [001] d..2. 1.005140: sched_switch: prev_comm=irq/4 prev_pid=8 prev_prio=49 prev_state=S ==> next_comm=hog next_pid=9 next_prio=9
";
    let summary = summarize(&FtraceText::open(text.as_bytes()).unwrap());
    let [softirq] = &summary.interrupters[..] else { panic!("{:?}", summary.interrupters) };
    assert_eq!((softirq.count, softirq.total_ns, softirq.worst_ns), (1, Ns::from_us(30), Ns::from_us(30)));
}

/// Time without a recorded task is neither busy nor idle, and interrupts that are not recorded did not take 0 ns.
#[test]
fn unrecorded_time_has_a_column_and_unknown_is_not_0() {
    let text = "\
  a-1      [000] d..2. 1.000000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120
  c-3      [001] ..... 1.000200: sched_stat_runtime: comm=c pid=3 runtime=1 [ns]
  c-3      [001] d..2. 1.000300: sched_switch: prev_comm=c prev_pid=3 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
  b-2      [000] d..2. 1.001000: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
";
    let summary = summarize(&FtraceText::open(text.as_bytes()).unwrap());
    for cpu in &summary.cpus {
        assert_eq!(cpu.busy_ns + cpu.idle_ns + cpu.unrecorded_ns, summary.span_ns, "{cpu:?}");
        assert_eq!(cpu.interrupted_ns, None);
    }
    assert!(summary.cpus[1].unrecorded_ns > Ns::ZERO);
    let told = summary.to_text();
    assert!(told.contains("unrecorded") && told.contains("no interrupt is recorded"), "{told}");
    assert!(
        told.contains("no wake-up with its switch-in is recorded") && !told.contains("max 0 ns"),
        "{told}"
    );
}

#[test]
fn a_wake_up_that_the_trace_cuts_at_its_end_is_told() {
    let text = "\
  a-1      [000] d..2. 1.000000: sched_switch: prev_comm=a prev_pid=1 prev_prio=49 prev_state=S ==> next_comm=b next_pid=2 next_prio=120
  b-2      [000] d..2. 1.000100: sched_waking: comm=a pid=1 prio=49 target_cpu=000
  b-2      [000] d..2. 1.000120: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=R ==> next_comm=a next_pid=1 next_prio=49
  a-1      [000] d..2. 1.000200: sched_switch: prev_comm=a prev_pid=1 prev_prio=49 prev_state=S ==> next_comm=b next_pid=2 next_prio=120
";
    let waits = "\
  b-2      [000] d..2. 1.001000: sched_waking: comm=a pid=1 prio=49 target_cpu=000
  b-2      [000] ..... 1.051000: sched_stat_runtime: comm=b pid=2 runtime=1 [ns]
";
    let of = |text: &str| summarize(&FtraceText::open(text.as_bytes()).unwrap());
    let (whole, cut) = (of(text), of(&(text.to_owned() + waits)));
    assert_eq!((whole.wakeups.unfinished, whole.wakeups.longest_unfinished_ns), (0, None));
    assert_eq!((cut.wakeups.count, cut.wakeups.worst_ns, cut.wakeups.unfinished), (1, Ns::from_us(20), 1));
    assert_eq!(cut.wakeups.longest_unfinished_ns, Some(Ns::from_ms(50)));
    assert!(cut.to_text().contains("1 more not finished when the trace ended"), "{}", cut.to_text());
}
