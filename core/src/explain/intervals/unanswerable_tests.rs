//! Queries on traces that lack the events for them.

use super::{find, Question, Whose};
use crate::time::{Mono, Tid};
use crate::trace::ftrace_text::FtraceText;

const LINES: [&str; 7] = [
    "x-7 [001] d.... 1.000001: sched_switch: prev_comm=y prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=x next_pid=7 next_prio=120",
    "x-7 [001] ..... 1.000002: sys_enter: NR 600 (1, 2, 3, 4, 5, 6)",
    "x-7 [001] ..... 1.000003: sys_exit: NR 600 = -38",
    "x-7 [001] d.h.. 1.000004: irq_handler_entry: irq=4 name=ttyS0",
    "x-7 [001] d.h.. 1.000005: sched_waking: comm=y pid=8 prio=120 target_cpu=001",
    "x-7 [001] ..... 1.000006: tracing_mark_write: hit latency threshold (7 > 5)",
    "x-7 [001] ..... 1.000007: other: a=1",
];

/// The answer without the events that contain `absent`.
fn lacks(question: &Question, absent: &str) -> Option<&'static str> {
    let lines = LINES.iter().filter(|line| absent.is_empty() || !line.contains(absent));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    find(&FtraceText::open(text.as_bytes()).unwrap(), question, &Whose::default()).unanswerable
}

#[test]
fn every_query_names_what_it_needs_and_the_trace_lacks() {
    let between = Question::Between {
        from: "sys:600".parse().unwrap(),
        to: "event:other".parse().unwrap(),
        pair: None,
    };
    let needs: [(Question, &[&str]); 6] = [
        (between, &["sched_switch"]),
        (Question::Wakeups, &["sched_switch", "sched_waking"]),
        (Question::Threshold, &["sched_switch", "tracing_mark_write"]),
        (Question::Syscall(600), &["sched_switch", "sys_enter", "sys_exit"]),
        (Question::At(Mono(1_000_002_000)), &["sched_switch"]),
        (Question::IrqToThread(4, Tid(8)), &["sched_switch", "irq_handler_entry"]),
    ];
    for (question, events) in needs {
        assert_eq!(lacks(&question, ""), None, "{question:?}");
        for event in events {
            let told = lacks(&question, event).unwrap_or_else(|| panic!("{question:?} without {event}"));
            assert!(told.contains("recorded"), "{told}");
        }
    }
}
