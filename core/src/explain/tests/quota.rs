//! A CPU that idles although a thread is on its run queue: the CPU quota of a cgroup.

use super::super::critical_path::explain_interval;
use super::super::record::Record;
use super::super::scene::Interval;
use super::super::segment::Explanation;
use super::notation;
use crate::time::{Cpu, Mono, Tid};

/// The interval of worker/50 from 1 to 101 ms; `released` ends the throttling.
fn explained(released: &str) -> Explanation {
    let events = format!(
        "
             0 c1 switch idle > worker/50
          1000 c1 call 600 1
         12000 c1 switch worker/50:R > idle
         30000 c1 vec+ local_timer
         30009 c1 vec- local_timer
         99990 c1 vec+ local_timer
         {released}
         99996 c1 vec- local_timer
        100000 c1 switch idle > worker/50
        101000 c1 call 601 1
        "
    );
    let interval = Interval { tid: Tid(50), cpu: Cpu(1), begin: Mono(1_000_000), end: Mono(101_000_000) };
    let window = notation::window(&events);
    let explanation = explain_interval(&Record::new(&window), &interval);
    assert!(explanation.tree.adds_up(), "{explanation:#?}");
    explanation
}

#[test]
fn a_thread_over_the_quota_of_its_cgroup_is_not_taken_for_a_cpu_slow_to_leave_idle() {
    let told = explained("99991 c1 timer+ sched_cfs_period_timer 99990\n 99995 c1 timer-");
    assert_eq!(told.cause, "CPU quota of the cgroup");
    assert!(told.sentence.contains("sched_cfs_period_timer ends it"), "{}", told.sentence);
    assert!(told.sentence.contains("87.9"), "{}", told.sentence);
    assert!(told.advice.contains("cpu.max"), "{}", told.advice);
}

/// Since 6.18 it is picked once more and throttled at once. After the timer it waits in the run queue like others.
#[test]
fn a_thread_that_is_thrown_out_as_it_is_chosen_waits_for_its_quota_and_then_for_its_turn() {
    let told = |chosen: u32| {
        let events = format!(
            "0 c1 switch idle > worker/50\n4000 c1 switch worker/50:R > cc/8\n{chosen} c1 switch cc/8:R > worker/50\n\
             8006 c1 switch worker/50:R > cc/8\n12000 c1 switch cc/8:R > ld/9\n16000 c1 switch ld/9:R > as/7\n\
             18000 c1 vec+ local_timer\n18001 c1 timer+ sched_cfs_period_timer 18000\n18005 c1 timer-\n\
             18010 c1 vec- local_timer\n21000 c1 switch as/7:R > worker/50\n21500 c1 switch worker/50:S > idle"
        );
        let interval = Interval { tid: Tid(50), cpu: Cpu(1), begin: Mono(5_000_000), end: Mono(21_100_000) };
        explain_interval(&Record::new(&notation::window(&events)), &interval)
    };
    let throttled = told(8_000);
    assert!(throttled.tree.adds_up(), "{throttled:#?}");
    assert_eq!(throttled.cause, "CPU quota of the cgroup", "{}", throttled.sentence);
    assert!(throttled.sentence.contains("could not run for 9.994 ms"), "{}", throttled.sentence);
    assert!(throttled.sentence.contains("as/7 (nice 0) and waited 2.990 ms"), "{}", throttled.sentence);
    assert!(told(7_000).cause.starts_with("thread: "), "a turn of 1 ms is none that is thrown out");
}

#[test]
fn without_its_timer_the_quota_is_told_as_what_it_looks_like() {
    let told = explained("");
    assert_eq!(told.cause, "CPU quota of the cgroup");
    assert!(told.sentence.contains("went idle instead of running it, as with"), "{}", told.sentence);
}

/// Compilers run on its CPU meanwhile, and one of them still runs when the quota is refilled.
#[test]
fn the_quota_is_told_also_where_others_use_the_cpu_meanwhile() {
    let turns: String = (0..11)
        .map(|turn| {
            let at = 12_000 + turn * 8_000;
            format!(
                "{at} c1 switch {}:R > cc/8\n{} c1 switch cc/8:R > ld/9\n",
                if turn == 0 { "worker/50" } else { "ld/9" },
                at + 4_000
            )
        })
        .collect();
    let told = |timer: &str| {
        let events = format!(
            "0 c1 switch idle > worker/50\n{turns}98000 c1 vec+ local_timer\n98001 c1 timer+ {timer} 98000\n98005 c1 timer-\n\
             98010 c1 vec- local_timer\n100500 c1 switch ld/9:R > worker/50\n101500 c1 switch worker/50:S > idle"
        );
        let interval = Interval { tid: Tid(50), cpu: Cpu(1), begin: Mono(1_000_000), end: Mono(101_000_000) };
        explain_interval(&Record::new(&notation::window(&events)), &interval)
    };
    let throttled = told("sched_cfs_period_timer");
    assert_eq!(throttled.cause, "CPU quota of the cgroup", "{}", throttled.sentence);
    assert!(throttled.sentence.contains("could not run for 86.000 ms"), "{}", throttled.sentence);
    assert!(told("tick_nohz_handler").cause.starts_with("thread: "));
}
