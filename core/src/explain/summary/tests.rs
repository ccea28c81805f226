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
