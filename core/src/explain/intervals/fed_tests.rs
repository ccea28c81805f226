//! Interrupts of line 4 as text, and the jobs they release.

use crate::explain::intervals::{find, Question, Whose};
use crate::time::Tid;
use crate::trace::ftrace_text::FtraceText;

/// Lengths in µs of the intervals from IRQ 4 to thread 50, and whether they are only paired in order.
fn intervals(lines: &str) -> (Vec<u64>, bool) {
    let text: String = lines
        .lines()
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(at, rest)| {
            let (who, event) = rest.split_once(' ').unwrap();
            let us: u64 = at.parse().unwrap();
            format!("{who} [001] d.h1. 1.{us:06}: {event}\n")
        })
        .collect();
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let found = find(&source, &Question::IrqToThread(4, Tid(50)), &Whose::default());
    (found.intervals.iter().map(|interval| interval.total().as_us() as u64).collect(), found.only_in_order)
}

const TO_READER: &str = "sched_switch: prev_comm=x prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=reader next_pid=50 next_prio=49";
const FROM_READER: &str = "sched_switch: prev_comm=reader prev_pid=50 prev_prio=49 prev_state=S ==> next_comm=x next_pid=7 next_prio=120";
const WAKES_READER: &str = "sched_waking: comm=reader pid=50 prio=49 target_cpu=001";

#[test]
fn a_deferred_work_item_is_followed_from_the_interrupt_that_queued_it() {
    let told = intervals(&format!(
        "
        100 x-7 irq_handler_entry: irq=4 name=ttyS0
        101 x-7 workqueue_queue_work: work struct=0xff10 function=flush_to_ldisc workqueue=events req_cpu=1 cpu=1
        102 x-7 irq_handler_exit: irq=4 ret=handled
        110 x-7 irq_handler_entry: irq=36 name=virtio1
        111 x-7 irq_handler_exit: irq=36 ret=handled
        300 kworker/1:1-9 workqueue_execute_start: work struct 0xff10: function flush_to_ldisc
        310 kworker/1:1-9 {WAKES_READER}
        311 kworker/1:1-9 workqueue_execute_end: work struct 0xff10: function flush_to_ldisc
        320 x-7 {TO_READER}
        330 reader-50 {FROM_READER}
        400 x-7 {WAKES_READER}
        420 x-7 {TO_READER}
        "
    ));
    assert_eq!(told, (vec![220], false), "the second wake-up is not the interrupt's");
}

#[test]
fn softirqs_and_interrupt_threads_hand_on_and_other_interrupts_do_not() {
    let told = intervals(&format!(
        "
        100 x-7 irq_handler_entry: irq=4 name=eth0
        101 x-7 softirq_raise: vec=3 [action=NET_RX]
        102 x-7 irq_handler_exit: irq=4 ret=handled
        103 x-7 softirq_entry: vec=3 [action=NET_RX]
        105 x-7 {WAKES_READER}
        106 x-7 softirq_exit: vec=3 [action=NET_RX]
        110 x-7 {TO_READER}
        120 reader-50 {FROM_READER}
        200 x-7 irq_handler_entry: irq=4 name=eth0
        201 x-7 irq_handler_exit: irq=4 ret=handled
        202 x-7 local_timer_entry: vector=236
        203 x-7 {WAKES_READER}
        204 x-7 local_timer_exit: vector=236
        210 x-7 {TO_READER}
        220 reader-50 {FROM_READER}
        300 x-7 irq_handler_entry: irq=4 name=eth0
        301 x-7 sched_waking: comm=irq/4-eth0 pid=8 prio=49 target_cpu=001
        302 x-7 irq_handler_exit: irq=4 ret=handled
        330 irq/4-eth0-8 {WAKES_READER}
        340 x-7 {TO_READER}
        "
    ));
    assert_eq!(told, (vec![40, 10], false));
}

#[test]
fn who_preempts_a_softirq_of_preempt_rt_does_not_work_for_its_interrupt() {
    let told = intervals(&format!(
        "
        100 x-7 irq_handler_entry: irq=4 name=eth0
        101 x-7 sched_waking: comm=irq/4-eth0 pid=8 prio=49 target_cpu=001
        102 x-7 irq_handler_exit: irq=4 ret=handled
        103 x-7 sched_switch: prev_comm=x prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=irq/4-eth0 next_pid=8 next_prio=49
        104 irq/4-eth0-8 softirq_raise: vec=3 [action=NET_RX]
        105 irq/4-eth0-8 softirq_entry: vec=3 [action=NET_RX]
        110 irq/4-eth0-8 sched_switch: prev_comm=irq/4-eth0 prev_pid=8 prev_prio=49 prev_state=R ==> next_comm=hog next_pid=9 next_prio=9
        111 hog-9 {WAKES_READER}
        112 hog-9 sched_switch: prev_comm=hog prev_pid=9 prev_prio=9 prev_state=S ==> next_comm=reader next_pid=50 next_prio=49
        113 reader-50 sched_switch: prev_comm=reader prev_pid=50 prev_prio=49 prev_state=S ==> next_comm=irq/4-eth0 next_pid=8 next_prio=49
        120 irq/4-eth0-8 {WAKES_READER}
        121 irq/4-eth0-8 softirq_exit: vec=3 [action=NET_RX]
        130 irq/4-eth0-8 sched_switch: prev_comm=irq/4-eth0 prev_pid=8 prev_prio=49 prev_state=S ==> next_comm=reader next_pid=50 next_prio=49
        "
    ));
    assert_eq!(told, (vec![30], false));
}

#[test]
fn where_no_event_leads_to_the_thread_the_order_is_told_and_said_to_be_that() {
    let told = intervals(&format!(
        "
        100 x-7 irq_handler_entry: irq=4 name=eth0
        101 x-7 irq_handler_exit: irq=4 ret=handled
        150 x-7 {WAKES_READER}
        160 x-7 {TO_READER}
        "
    ));
    assert_eq!(told, (vec![60], true));
}

#[test]
fn a_softirq_that_ends_leaves_the_others_that_the_interrupt_raised() {
    let told = intervals(&format!(
        "
        100 x-7 irq_handler_entry: irq=4 name=eth0
        102 x-7 irq_handler_exit: irq=4 ret=handled
        103 x-7 softirq_entry: vec=3 [action=NET_RX]
        106 x-7 softirq_exit: vec=3 [action=NET_RX]
        107 x-7 softirq_entry: vec=4 [action=BLOCK]
        108 x-7 {WAKES_READER}
        109 x-7 softirq_exit: vec=4 [action=BLOCK]
        120 x-7 {TO_READER}
        130 reader-50 {FROM_READER}
        200 x-7 softirq_entry: vec=6 [action=TASKLET]
        210 x-7 {WAKES_READER}
        211 x-7 softirq_exit: vec=6 [action=TASKLET]
        220 x-7 {TO_READER}
        "
    ));
    assert_eq!(told, (vec![20], false), "the tasklet came after a switch, in another round");
}

#[test]
fn a_thread_that_waits_for_a_cpu_when_the_trace_ends_has_an_unfinished_interval() {
    let first = format!(
        "
        90 reader-50 {FROM_READER}
        100 x-7 irq_handler_entry: irq=4 name=eth0
        105 x-7 {WAKES_READER}
        106 x-7 irq_handler_exit: irq=4 ret=handled
        110 x-7 {TO_READER}
        120 reader-50 {FROM_READER}
        "
    );
    let woken = format!(
        "{first}
        200 x-7 irq_handler_entry: irq=4 name=eth0
        205 x-7 {WAKES_READER}
        206 x-7 irq_handler_exit: irq=4 ret=handled
        900 x-7 irq_handler_entry: irq=36 name=eth1
        "
    );
    assert_eq!(intervals(&first), (vec![10], false));
    assert_eq!(intervals(&woken), (vec![700, 10], false));
    let runs = format!("{woken}\n910 x-7 {TO_READER}\n950 reader-50 irq_handler_entry: irq=36 name=eth1\n");
    assert_eq!(intervals(&runs), (vec![710, 10], false), "once");
}
