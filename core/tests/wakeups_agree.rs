//! The summary and the list of wake-ups count the same, in every recorded trace; what spans lost events is set apart.
#![allow(clippy::disallowed_methods)] // tests read their recordings; the crate itself reads no file

use std::fs;
use std::path::Path;

use lathunt_core::explain::answers::{Answers, TraceFacts};
use lathunt_core::explain::intervals::{find, Found, Question, Whose};
use lathunt_core::explain::summary::summarize;
use lathunt_core::time::Tid;
use lathunt_core::trace::ftrace_text::FtraceText;
use lathunt_core::trace::perf_data::PerfData;
use lathunt_core::trace::source::Source;
use lathunt_core::trace::trace_dat::TraceDat;

#[test]
fn the_summary_counts_the_wake_ups_that_are_listed() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files = Vec::new();
    for directory in ["cases", "trace_dat", "perf_data", "ftrace_text"] {
        files.extend(fs::read_dir(data.join(directory)).unwrap().map(|entry| entry.unwrap().path()));
    }
    let mut compared = 0;
    for path in files {
        let bytes = fs::read(&path).unwrap();
        let source: Box<dyn Source> = match path.extension().and_then(|end| end.to_str()) {
            Some("dat") => Box::new(TraceDat::open(&bytes).unwrap()),
            Some("data") if path.ends_with("small.data") => Box::new(PerfData::open(&bytes).unwrap()),
            Some("text" | "txt") => Box::new(FtraceText::open(&bytes).unwrap()),
            _ => continue,
        };
        let listed = find(&*source, &Question::Wakeups, &Whose::default());
        let summed = summarize(&*source).wakeups;
        let name = path.display();
        let all = summarize(&*source);
        let run: u64 = all.threads.iter().map(|thread| thread.run_ns.0).sum();
        let busy: u64 = all.cpus.iter().map(|cpu| cpu.busy_ns.0).sum();
        assert!(run <= busy, "{name}: threads ran {run} ns, the CPUs were busy for {busy} ns");
        // Listed alone: wake-ups that the trace's end cut, and those of which only sched_wakeup is recorded.
        let more = listed.count - listed.unfinished - (summed.count + summed.spanning_losses);
        assert!(more <= listed.without_waking, "{name}: {more} of {}", listed.without_waking);
        assert_eq!(summed.spanning_losses, listed.spanning_losses, "{name}");
        let over = || listed.intervals.iter().filter(|p| !p.unfinished);
        let worst = |spans| over().find(|p| p.spans_loss == spans).map(|p| p.total());
        assert_eq!(Some(summed.worst_ns).filter(|_| summed.count > 0), worst(false), "{name}");
        assert_eq!(summed.longest_spanning_ns, worst(true), "{name}");
        assert_eq!(summed.unfinished, listed.unfinished, "{name}");
        let unfinished = listed.intervals.iter().filter(|p| p.unfinished).map(|p| p.total()).max();
        assert_eq!(summed.longest_unfinished_ns, unfinished, "{name}");
        assert_eq!(summed.unseen_switch_ins, listed.unseen_switch_ins, "{name}");
        let unseen = listed.longest_unseen_switch_in.map(|(most, _)| most);
        assert_eq!(summed.longest_unseen_ns, unseen, "{name}");
        compared += 1;
    }
    assert!(compared >= 20, "{compared}");
}

/// `rt/9` is woken, events of the other CPU are lost, and it is switched in; woken `again` in between or not.
fn over_a_loss(again: &str) -> (Vec<(u64, bool)>, (u64, u64)) {
    let text = format!(
        "
          <idle>-0       [000] d..2.     1.000000: sched_waking: comm=rt pid=9 prio=49 target_cpu=001
CPU:1 [LOST 5 EVENTS]
             x-2         [001] d..2.     1.000300: sched_switch: prev_comm=y prev_pid=3 prev_prio=120 prev_state=S ==> next_comm=x next_pid=2 next_prio=120
          {again}
             x-2         [001] d..2.     1.000410: sched_switch: prev_comm=x prev_pid=2 prev_prio=120 prev_state=R ==> next_comm=rt next_pid=9 next_prio=49
        "
    );
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let listed = find(&source, &Question::Wakeups, &Whose::default());
    let summed = summarize(&source).wakeups;
    let intervals = listed.intervals.iter().map(|interval| (interval.total().0, interval.spans_loss));
    (intervals.collect(), (summed.count, summed.spanning_losses))
}

#[test]
fn a_wake_up_whose_switch_in_may_be_lost_is_marked_and_not_counted() {
    assert_eq!(over_a_loss(""), (vec![(410_000, true)], (0, 1)));
}

#[test]
fn who_is_woken_again_was_switched_in_among_what_was_lost() {
    let again = "<idle>-0  [000] d..2. 1.000400: sched_waking: comm=rt pid=9 prio=49 target_cpu=001";
    assert_eq!(over_a_loss(again), (vec![(10_000, false)], (1, 0)));
}

/// `v/9` is woken before it has left the CPU, and a hog has its CPU for 5 ms; `wakeup`: with the second half of the waking.
fn on_the_way_to_sleep(wakeup: &str) -> String {
    format!(
        "
             v-9         [001] d..2.     1.000000: sched_switch: prev_comm=x prev_pid=2 prev_prio=120 prev_state=R ==> next_comm=v next_pid=9 next_prio=49
             x-2         [000] d..2.     1.001000: sched_waking: comm=v pid=9 prio=49 target_cpu=001
             v-9         [001] d..2.     1.001002: sched_switch: prev_comm=v prev_pid=9 prev_prio=49 prev_state=S ==> next_comm=hog next_pid=7 next_prio=9
             {wakeup}
           hog-7         [001] d..2.     1.006004: sched_switch: prev_comm=hog prev_pid=7 prev_prio=9 prev_state=S ==> next_comm=v next_pid=9 next_prio=49
             v-9         [001] d..2.     1.007000: sched_switch: prev_comm=v prev_pid=9 prev_prio=49 prev_state=S ==> next_comm=x next_pid=2 next_prio=120
        "
    )
}

#[test]
fn a_thread_that_is_woken_on_its_way_to_sleep_waits_from_its_switch_out_on() {
    for wakeup in ["", "x-2 [000] d..2. 1.001004: sched_wakeup: comm=v pid=9 prio=49 target_cpu=001"] {
        let text = on_the_way_to_sleep(wakeup);
        let source = FtraceText::open(text.as_bytes()).unwrap();
        let listed = find(&source, &Question::Wakeups, &Whose::default());
        let [interval] = listed.intervals.as_slice() else { panic!("{listed:?}") };
        assert_eq!((interval.begin.0, interval.total().0), (1_001_002_000, 5_002_000));
        let summed = summarize(&source);
        assert_eq!((summed.wakeups.count, summed.wakeups.worst_ns.0), (1, 5_002_000));
        let victim = summed.threads.iter().find(|thread| thread.comm == "v").unwrap();
        assert_eq!((victim.ready_ns.0, victim.blocked_ns.0), (5_002_000, 0));
    }
}

#[test]
fn a_waking_while_it_ran_is_none_where_another_ends_the_sleep() {
    let again = "x-2 [000] d..2. 1.005004: sched_waking: comm=v pid=9 prio=49 target_cpu=001";
    let text = on_the_way_to_sleep(again);
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let listed = find(&source, &Question::Wakeups, &Whose::default());
    assert_eq!(listed.intervals[0].total().0, 1_000_000);
    assert_eq!(summarize(&source).wakeups.worst_ns.0, 1_000_000);
}

#[test]
fn the_summary_gives_each_of_two_nested_interrupts_its_own_time() {
    let text = "
             v-9         [001] d.h..     1.000000: irq_handler_entry: irq=30 name=slow
             v-9         [001] d.h..     1.000100: irq_handler_entry: irq=23 name=quick
             v-9         [001] d.h..     1.000110: irq_handler_exit: irq=23 ret=handled
             v-9         [001] d.h..     1.005000: irq_handler_exit: irq=30 ret=handled
    ";
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let summed = summarize(&source).interrupters;
    let told: Vec<_> = summed.iter().map(|of| (of.name.as_str(), of.total_ns.0)).collect();
    assert_eq!(told, [("hard IRQ 30 (slow)", 4_990_000), ("hard IRQ 23 (quick)", 10_000)]);
}

/// The kernel says in the heading how many events were overwritten, and where the last buffer begins.
#[test]
fn the_heading_of_a_text_tells_what_was_overwritten() {
    let text = "
# entries-in-buffer/entries-written: 4/1004   #P:2
          <idle>-0       [000] d..2.     1.000000: sched_waking: comm=rt pid=9 prio=49 target_cpu=001
##### CPU 1 buffer started ####
             y-3         [001] d..2.     1.000200: sched_waking: comm=z pid=4 prio=49 target_cpu=001
             y-3         [001] d..2.     1.000300: sched_switch: prev_comm=y prev_pid=3 prev_prio=120 prev_state=S ==> next_comm=rt next_pid=9 next_prio=120
             rt-9        [001] d..2.     1.000410: sched_switch: prev_comm=rt prev_pid=9 prev_prio=49 prev_state=S ==> next_comm=z next_pid=4 next_prio=49
";
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let listed = find(&source, &Question::Wakeups, &Whose::default());
    let intervals: Vec<_> = listed.intervals.iter().map(|p| (p.total().0, p.spans_loss)).collect();
    // The doubtful one after the certain one, though it may be longer.
    assert_eq!((listed.lost, intervals), (1000, vec![(210_000, false), (300_000, true)]));
}

/// A thread starts an interval and exits; another with the reused id ends one that it did not start.
#[test]
fn a_number_that_is_given_again_is_another_thread() {
    let text = "
           first-9     [001] d..2.     1.000000: sys_enter: NR 600 (1, 0, 0, 0, 0, 0)
           first-9     [001] d..2.     1.001000: sched_switch: prev_comm=first prev_pid=9 prev_prio=120 prev_state=X ==> next_comm=swapper/1 next_pid=0 next_prio=120
          <idle>-0     [001] d..2.     1.030000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=second next_pid=9 next_prio=120
          second-9     [001] d..2.     1.041000: sys_enter: NR 601 (1, 0, 0, 0, 0, 0)
          second-9     [001] d..2.     1.042000: sys_enter: NR 600 (2, 0, 0, 0, 0, 0)
          second-9     [001] d..2.     1.044000: sys_enter: NR 601 (2, 0, 0, 0, 0, 0)
";
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let question =
        Question::Between { from: "sys:600".parse().unwrap(), to: "sys:601".parse().unwrap(), pair: None };
    let found = find(&source, &question, &Whose::default());
    let intervals: Vec<_> = found.intervals.iter().map(|p| (p.total().0, p.comm.as_str())).collect();
    assert_eq!(intervals, [(2_000_000, "second")]);
    assert_eq!((found.unmatched_begins, found.unmatched_ends), (1, 1));
    let question = Question::Between {
        from: "sys:600".parse().unwrap(),
        to: "event:sched_switch[prev_pid==9]".parse().unwrap(),
        pair: None,
    };
    let found = find(&source, &question, &Whose::default());
    assert_eq!(found.intervals[0].total().0, 1_000_000, "the end of the thread may end the interval");
    let summary = summarize(&source);
    assert_eq!(summary.threads[0].blocked_ns.0, 0, "who has ended is not blocked");
}

/// Recordings of `sched_wakeup` alone have wake-ups, too.
#[test]
fn without_sched_waking_wake_ups_count_from_sched_wakeup() {
    let text = |first: &str| {
        format!(
            "
           {first}
          <idle>-0     [001] d..2.     1.000010: sched_wakeup: comm=rt pid=9 prio=49 target_cpu=001
          <idle>-0     [001] d..2.     1.000050: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=rt next_pid=9 next_prio=49
"
        )
    };
    let waking = "x-2 [000] d..2. 1.000000: sched_waking: comm=rt pid=9 prio=49 target_cpu=001";
    for (first, expected) in [("", 40), (waking, 50)] {
        let text = text(first);
        let source = FtraceText::open(text.as_bytes()).unwrap();
        let found = find(&source, &Question::Wakeups, &Whose::default());
        assert_eq!(found.intervals.iter().map(|p| p.total().0 / 1000).collect::<Vec<_>>(), [expected]);
        assert_eq!(found.from_wakeup, first.is_empty());
        let summary = summarize(&source);
        assert_eq!((summary.wakeups.count, summary.wakeups.worst_ns.0 / 1000), (1, expected));
    }
}

/// Some kernels do not report every switch: what the thread did that left unseen is not made up.
#[test]
fn an_unseen_switch_is_said_and_no_time_is_made_up_for_it() {
    let text = "
           a-1     [001] d..2.     1.000000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120
           d-4     [001] d..2.     1.500000: sched_waking: comm=b pid=2 prio=120 target_cpu=001
           c-3     [001] d..2.     2.000000: sched_switch: prev_comm=c prev_pid=3 prev_prio=120 prev_state=S ==> next_comm=d next_pid=4 next_prio=120
           d-4     [001] d..2.     2.100000: sched_waking: comm=b pid=2 prio=120 target_cpu=001
           d-4     [001] d..2.     2.200000: sched_switch: prev_comm=d prev_pid=4 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120
           b-2     [001] d..2.     2.300000: sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=S ==> next_comm=d next_pid=4 next_prio=120
";
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let summary = summarize(&source);
    assert_eq!(summary.cpus[0].unseen_switches, 1);
    let of = |tid| summary.threads.iter().find(|thread| thread.tid.0 == tid).unwrap();
    assert_eq!((of(2).run_ns.0, of(2).ready_ns.0, of(4).run_ns.0), (100_000_000, 100_000_000, 200_000_000));
    assert_eq!(summary.wakeups.worst_ns.0 / 1_000_000, 100, "since it was woken last");
    let listed = find(&source, &Question::Wakeups, &Whose::default());
    assert_eq!(listed.intervals.iter().map(|p| p.total().0).collect::<Vec<_>>(), [100_000_000]);
    let (most, until) = listed.longest_unseen_switch_in.unwrap();
    assert_eq!((listed.unseen_switch_ins, most.0, until.0), (1, 600_000_000, 2_100_000_000), "woken again");
    assert_eq!((summary.wakeups.unseen_switch_ins, summary.wakeups.longest_unseen_ns), (1, Some(most)));
}

/// `vic/70` is woken asleep and leaves a CPU on which it was not switched in: no waking met it there.
#[test]
fn a_wake_up_whose_switch_in_was_not_recorded_is_told_with_the_most_that_it_took() {
    let text = "
           bg-50     [001] d..2.     1.001000: sched_switch: prev_comm=bg prev_pid=50 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
        other-60     [000] d..2.     1.010000: sched_waking: comm=vic pid=70 prio=120 target_cpu=001
          vic-70     [001] d..2.     1.010100: sched_switch: prev_comm=vic prev_pid=70 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
          vic-70     [001] d..2.     1.050000: sched_switch: prev_comm=vic prev_pid=70 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
           bg-50     [001] d..2.     1.110000: sched_switch: prev_comm=bg prev_pid=50 prev_prio=120 prev_state=S ==> next_comm=vic next_pid=70 next_prio=120
";
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let listed = find(&source, &Question::Wakeups, &Whose::default());
    assert_eq!((listed.count, listed.unseen_switch_ins), (0, 1));
    let limits = limits(&listed);
    let said = "1 wake-up is not listed because the switch-in was not recorded: it took at most 100 µs, until 1.010100000";
    assert!(limits.iter().any(|limit| limit == said), "{limits:?}");
    let summary = summarize(&source);
    assert_eq!((summary.wakeups.count, summary.wakeups.unseen_switch_ins), (0, 1));
    let said = "! 1 more with no recorded switch-in (at most 100 µs) are not counted";
    assert!(summary.to_text().contains(said), "{}", summary.to_text());
    assert!(summary.threads.iter().all(|thread| thread.ready_ns.0 <= 100_000), "{:?}", summary.threads);
    let whose = Whose { tid: None, comm: Some("bg".to_owned()) };
    assert_eq!(find(&source, &Question::Wakeups, &whose).unseen_switch_ins, 0, "another's");
}

fn limits(found: &Found) -> Vec<String> {
    let facts = TraceFacts { events: found.events, lost: found.lost, ..TraceFacts::default() };
    Answers::new(facts, String::new(), found).limits
}

/// A trace does not list the recorded system calls: a missing one may have been filtered.
#[test]
fn a_system_call_without_any_event_may_not_have_been_recorded() {
    let text = "
              rt-9     [001] d..2.     1.000000: sys_enter: NR 600 (1, 0, 0, 0, 0, 0)
              rt-9     [001] d..2.     1.001000: sys_exit: NR 600 = 0
";
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let asks = |call: i32, tid: i32| {
        let whose = Whose { tid: Some(Tid(tid)), comm: None };
        let found = find(&source, &Question::Syscall(call), &whose);
        let is_asked = limits(&found).iter().any(|limit| limit.ends_with("was it recorded?"));
        (found.count, is_asked)
    };
    assert_eq!((asks(600, 9), asks(601, 9)), ((1, false), (0, true)));
    assert_eq!(asks(600, 8), (0, false), "another thread's was");
}

/// The worst interval may have lost its start: its minimum length is reported.
#[test]
fn an_interval_whose_begin_was_lost_is_told_with_the_least_that_it_took() {
    let text = "
              rt-9     [001] d..2.     1.000000: sys_enter: NR 600 (1, 0, 0, 0, 0, 0)
              rt-9     [001] d..2.     1.001000: sys_enter: NR 601 (1, 0, 0, 0, 0, 0)
CPU:1 [LOST 5 EVENTS]
           other-8     [001] d..2.     1.100000: sys_enter: NR 1 (1, 0, 0, 0, 0, 0)
              rt-9     [001] d..2.     1.900000: sys_enter: NR 601 (2, 0, 0, 0, 0, 0)
              rt-9     [001] d..2.     1.950000: sys_enter: NR 601 (3, 0, 0, 0, 0, 0)
";
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let question =
        Question::Between { from: "sys:600".parse().unwrap(), to: "sys:601".parse().unwrap(), pair: None };
    let found = find(&source, &question, &Whose::default());
    assert_eq!((found.count, found.unmatched_ends, found.begun_in_losses), (1, 2, 1));
    let (least, end) = found.longest_begun_in_loss.unwrap();
    assert_eq!((least.0, end.0), (800_000_000, 1_900_000_000));
    assert!(found.may_hide_worse());
    let whole: String =
        text.lines().filter(|line| !line.starts_with("CPU:")).map(|l| l.to_owned() + "\n").collect();
    let all = FtraceText::open(whole.as_bytes()).unwrap();
    assert!(!find(&all, &question, &Whose::default()).may_hide_worse());
    let limits = limits(&found);
    let said = "1 more have no start event (lost): the longest took at least 800.000 ms, until 1.900000000";
    assert!(limits.iter().any(|limit| limit == said), "{limits:?}");
}
