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
