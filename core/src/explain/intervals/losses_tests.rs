//! Intervals between markers, of which one has no end.

use super::{find, Found, Question, Whose};
use crate::time::{Ns, Tid};
use crate::trace::ftrace_text::FtraceText;

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
