//! Intervals between markers, of which one has no end.

use proptest::prelude::*;

use super::losses::Gaps;
use super::{find, Found, FoundInterval, Question, Whose};
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::ftrace_text::FtraceText;
use crate::trace::item::Loss;

/// A trace with these lines: µs, thread, text of its marker.
fn text(marks: &[(u64, &str, &str)]) -> String {
    let mark = |(at, who, text): &(u64, &str, &str)| {
        format!("{who} [001] ..... 1.{at:06}: tracing_mark_write: {text}\n")
    };
    marks.iter().map(mark).collect()
}

fn question() -> Question {
    Question::Between { from: "mark:begin".parse().unwrap(), to: "mark:end".parse().unwrap(), pair: None }
}

/// From `begin` to `end`, in a trace with these lines, which ends after 9 ms.
fn between(marks: &[(u64, &str, &str)], whose: &Whose) -> Found {
    let switch =
        "y-8 [001] d.... 1.009000: sched_switch: prev_comm=y prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=x next_pid=7 next_prio=120\n";
    let text = text(marks) + switch;
    find(&FtraceText::open(text.as_bytes()).unwrap(), &question(), whose)
}

#[test]
fn a_job_that_never_ends_may_be_longer_than_the_worst() {
    let all = Whose::default();
    let ends = [(100, "x-7", "begin"), (200, "x-7", "end"), (300, "x-7", "begin"), (350, "x-7", "end")];
    let found = between(&ends, &all);
    assert!(!found.may_hide_worse() && found.longest_unended.is_none());

    let hangs = [&ends[..], &[(1_000, "x-7", "begin")]].concat();
    let found = between(&hangs, &all);
    let (length, name, _) = found.longest_unended.clone().unwrap();
    assert_eq!((length, name.as_str()), (Ns::from_us(8_000), "x/7"));
    assert!(found.may_hide_worse());
    let other = Whose { tid: Some(Tid(8)), ..Whose::default() };
    assert!(between(&hangs, &other).longest_unended.is_none(), "of a thread that nobody asked for");

    let twice =
        [&ends[..], &[(1_000, "x-7", "begin"), (4_000, "x-7", "begin"), (4_010, "x-7", "end")]].concat();
    let found = between(&twice, &all);
    assert_eq!(found.longest_unended.as_ref().map(|one| one.0), Some(Ns::from_us(3_000)));
    assert!(found.may_hide_worse(), "the first one may have gone on");

    let short = [&ends[..], &[(8_950, "x-7", "begin")]].concat();
    assert!(!between(&short, &all).may_hide_worse(), "shorter than the worst");
    assert!(!between(&[(1_000, "x-7", "begin")], &all).may_hide_worse(), "none was found");
}

#[test]
fn a_thread_that_exits_cuts_its_job_which_is_no_late_one() {
    let exits = "x-7 [001] ..... 1.005000: sched_process_exit: comm=x pid=7 prio=120\n";
    let text = text(&[(100, "x-7", "begin"), (200, "x-7", "end"), (1_000, "x-7", "begin")]) + exits;
    let found = find(&FtraceText::open(text.as_bytes()).unwrap(), &question(), &Whose::default());
    assert_eq!(found.longest_cut_by_exit.map(|(length, _)| length), Some(Ns::from_us(4_000)));
    assert!(found.longest_unended.is_none() && !found.may_hide_worse());
    assert_eq!(found.unmatched_begins, 1);
}

#[test]
fn a_job_since_before_the_trace_may_be_longer_than_the_worst() {
    let all = Whose::default();
    let ends = [(5_000, "x-7", "end"), (5_300, "x-7", "begin"), (5_400, "x-7", "end")];
    let started = [(1_000, "z-9", "other")];
    let found = between(&[&started[..], &ends[..]].concat(), &all);
    let (least, name, _) = found.longest_begun_before.clone().unwrap();
    assert_eq!((least, name.as_str(), found.unmatched_ends), (Ns::from_us(4_000), "x/7", 1));
    assert!(found.may_hide_worse());
    let other = Whose { tid: Some(Tid(9)), ..Whose::default() };
    assert!(between(&ends, &other).longest_begun_before.is_none(), "of a thread that nobody asked for");

    let short =
        [(4_950, "z-9", "other"), (5_000, "x-7", "end"), (5_300, "x-7", "begin"), (5_400, "x-7", "end")];
    assert!(!between(&short, &all).may_hide_worse(), "shorter than the worst");
    let twice = [&ends[1..], &[(8_000, "x-7", "end")]].concat();
    let found = between(&[&started[..], &twice[..]].concat(), &all);
    assert!(found.longest_begun_before.is_none() && !found.may_hide_worse(), "it had ended before");
    assert!(!between(&ends[..1], &all).may_hide_worse(), "none was found");

    let fork = "z-9 [001] ..... 1.002000: sched_process_fork: comm=z pid=9 child_comm=x child_pid=7\n";
    let lines = text(&started) + fork + &text(&ends);
    let found = find(&FtraceText::open(lines.as_bytes()).unwrap(), &question(), &all);
    assert!(found.longest_begun_before.is_none(), "the thread was created in the trace");
}

#[test]
fn a_call_that_the_trace_cuts_may_be_longer_than_the_worst() {
    let call = |at: u64, what: &str| {
        let of = if what == "enter" { "sys_enter: NR 1 (1, 2, 3, 0, 0, 0)" } else { "sys_exit: NR 1 = 3" };
        format!("x-7 [001] ..... 1.{at:06}: {of}\n")
    };
    let calls = |calls: &[(u64, &str)]| {
        let switch = |at| {
            format!("y-8 [001] d.... 1.{at:06}: sched_switch: prev_comm=y prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=x next_pid=7 next_prio=120\n")
        };
        let lines: String = calls.iter().map(|(at, what)| call(*at, what)).collect();
        let text = switch(0) + &lines + &switch(9_000);
        find(&FtraceText::open(text.as_bytes()).unwrap(), &Question::Syscall(1), &Whose::default())
    };
    let whole = [(5_000, "enter"), (5_100, "exit")];
    assert!(!calls(&whole).may_hide_worse());
    let hangs = calls(&[&whole[..], &[(6_000, "enter")]].concat());
    assert_eq!(hangs.longest_unended.as_ref().map(|one| one.0), Some(Ns::from_us(3_000)));
    assert!(hangs.may_hide_worse());
    let before = calls(&[&[(4_000, "exit")], &whole[..]].concat());
    assert_eq!(before.longest_begun_before.as_ref().map(|one| one.0), Some(Ns::from_us(4_000)));
    assert!(before.may_hide_worse() && before.unmatched_ends == 1);
    assert!(!calls(&[&[(50, "exit")], &whole[..], &[(8_950, "enter")]].concat()).may_hide_worse());
}

#[test]
fn a_run_that_the_trace_cuts_at_its_end_is_found_by_a_time_in_it() {
    let switch = |at: u64, from: u32, to: u32| {
        format!("x-{from} [001] d.... 1.{at:06}: sched_switch: prev_comm=x prev_pid={from} prev_prio=120 prev_state=S ==> next_comm=x next_pid={to} next_prio=120\n")
    };
    let text = switch(100, 5, 6)
        + &switch(300, 6, 5)
        + "x-5 [001] ..... 1.005000: sched_process_wait: comm=x pid=5 prio=120\n";
    let at = |us: u64, tid: Option<i32>| {
        let whose = Whose { tid: tid.map(Tid), ..Whose::default() };
        let moment = Question::At(Mono((1_000_000 + us) * 1_000));
        let found = find(&FtraceText::open(text.as_bytes()).unwrap(), &moment, &whose);
        let one = |of: &FoundInterval| (of.tid.0, of.total().as_us() as u64, of.cpu.0, of.unfinished);
        found.intervals.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(at(200, None), [(6, 200, 1, false)]);
    assert_eq!(at(1_000, None), [(5, 4_700, 1, true)]);
    assert_eq!(at(1_000, Some(6)), [(6, 4_700, 1, true)], "off the CPU");
    assert_eq!(at(6_000, None), [], "after the trace");
    assert_eq!(at(50, None), [], "before it");
}

proptest! {
    #[test]
    fn an_interval_is_marked_if_and_only_if_it_overlaps_a_gap(
        gaps in prop::collection::vec((0..200u64, 0..40u64), 0..12),
        spans in prop::collection::vec((0..200u64, 0..40u64), 0..12),
        twice in any::<bool>(),
    ) {
        let interval = |&(begin, length): &(u64, u64)| FoundInterval {
            tid: Tid(1),
            comm: String::new(),
            begun_by: None,
            key: None,
            cpu: Cpu(0),
            begin: Mono(begin),
            end: Mono(begin + length),
            spans_loss: false,
            unfinished: false,
        };
        let mut intervals: Vec<_> = spans.iter().map(interval).collect();
        let (mut known, mut marks) = (Gaps::default(), 0);
        for &(after, length) in &gaps {
            let (after, before) = (Some(Mono(after)), Mono(after + length));
            known.add(&Loss { cpu: Cpu(1), after, before, count: None, origin: 0, inferred_within: None });
            if twice {
                marks += known.mark(&mut intervals);
            }
        }
        marks += known.mark(&mut intervals);
        for interval in &intervals {
            let overlaps = |&(after, length): &(u64, u64)| Mono(after) <= interval.end && interval.begin < Mono(after + length);
            prop_assert_eq!(interval.spans_loss, gaps.iter().any(overlaps), "{:?}", interval);
        }
        prop_assert_eq!(marks, intervals.iter().filter(|interval| interval.spans_loss).count() as u64);
    }
}
