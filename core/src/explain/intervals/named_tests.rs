//! Threads that change their names, as text.

use crate::explain::intervals::{find, Found, Question, Whose};
use crate::trace::ftrace_text::FtraceText;

/// Names and start times in µs of the intervals of threads with the name `comm`.
fn named(comm: &str, lines: &str) -> Vec<(String, u64)> {
    let question =
        Question::Between { from: "sys:600".parse().unwrap(), to: "sys:601".parse().unwrap(), pair: None };
    let found = asked(&question, comm, lines).intervals;
    let mut found: Vec<_> = found.into_iter().map(|of| (of.comm, of.begin.0 / 1_000 - 1_000_000)).collect();
    found.sort_by_key(|(_, at)| *at);
    found
}

fn asked(question: &Question, comm: &str, lines: &str) -> Found {
    let text: String = lines
        .lines()
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(at, event)| {
            let us: u64 = at.parse().unwrap();
            format!("<...>-50 [001] d.... 1.{us:06}: {event}\n")
        })
        .collect();
    let source = FtraceText::open(text.as_bytes()).unwrap();
    find(&source, question, &Whose { comm: Some(comm.to_owned()), tid: None })
}

fn switch(from: &str, to: &str) -> String {
    format!("sched_switch: prev_comm={from} prev_pid=50 prev_prio=49 prev_state=S ==> next_comm={to} next_pid=7 next_prio=120")
}

#[test]
fn a_thread_is_selected_by_every_name_that_it_had_in_the_interval() {
    let renamed = format!(
        "
        110 sys_enter: NR 600 (1)
        120 sys_enter: NR 601 (1)
        200 {}
        210 sys_enter: NR 600 (2)
        220 task_rename: pid=50 oldcomm=old newcomm=ctl oom_score_adj=0
        230 sys_enter: NR 601 (2)
        310 sys_enter: NR 600 (3)
        320 sys_enter: NR 601 (3)
        400 {}
        ",
        switch("old", "x"),
        switch("ctl", "x")
    );
    let of = |comm: &str, at: u64| (comm.to_owned(), at);
    assert_eq!(named("old", &renamed), [of("old", 110), of("old", 210)], "the first has no name before it");
    assert_eq!(named("ctl", &renamed), [of("ctl", 210), of("ctl", 310)]);
    assert_eq!(named("*", &renamed).len(), 3);
    assert_eq!(named("x", &renamed), []);
    // Without the event it may have had either name at that time.
    let without: String =
        renamed.lines().filter(|line| !line.contains("task_rename")).collect::<Vec<_>>().join("\n");
    assert_eq!(named("old", &without), [of("old", 110), of("old", 210), of("old", 310)]);
    assert_eq!(named("ctl", &without), [of("ctl", 210), of("ctl", 310)]);
}

#[test]
fn the_next_thread_of_an_id_does_not_have_the_name_of_the_one_before() {
    let reused = format!(
        "
        100 {}
        110 sys_enter: NR 600 (1)
        120 sys_enter: NR 601 (1)
        130 sched_process_exit: comm=first pid=50 prio=49
        210 sys_enter: NR 600 (2)
        220 sys_enter: NR 601 (2)
        300 {}
        ",
        switch("first", "x"),
        switch("second", "x")
    );
    assert_eq!(named("first", &reused), [("first".to_owned(), 110)]);
    assert_eq!(named("second", &reused), [("second".to_owned(), 210)]);
}

#[test]
fn wake_ups_and_what_is_missing_of_them_are_selected_by_every_name() {
    let come = |to: &str| {
        format!("sched_switch: prev_comm=x prev_pid=7 prev_prio=120 prev_state=R ==> next_comm={to} next_pid=50 next_prio=49")
    };
    let waking = |comm: &str| format!("sched_waking: comm={comm} pid=50 prio=49 target_cpu=001");
    let lines = format!(
        "
        100 {}
        200 {}
        210 {}
        300 {}
        400 {}
        900 {}
        910 {}
        920 task_rename: pid=50 oldcomm=old newcomm=ctl oom_score_adj=0
        930 {}
        1000 {}
        1500 sys_enter: NR 1 (1)
        ",
        switch("old", "x"),
        waking("old"),
        come("old"),
        switch("old", "x"),
        waking("old"), // its switch-in is missing
        waking("old"),
        come("old"),
        switch("ctl", "x"),
        waking("ctl"), // it does not run before the end
    );
    let of = |comm: &str| {
        let found = asked(&Question::Wakeups, comm, &lines);
        (found.count, found.unfinished, found.unseen_switch_ins)
    };
    assert_eq!(of("old"), (2, 0, 1));
    assert_eq!(of("ctl"), (1, 1, 0));
    assert_eq!(of("*"), (3, 1, 1));
    assert!(asked(&Question::Wakeups, "ctl", &lines).intervals.iter().all(|of| of.unfinished));
}
