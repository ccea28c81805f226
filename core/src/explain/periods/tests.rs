use super::jobs::{Reader, MOST_JOBS};
use super::*;
use crate::time::Cpu;
use crate::trace::event::{Event, Kind, LeftAs, Level, TaskRef};
use crate::trace::ftrace_text::FtraceText;
use crate::trace::normalize::Normalizer;

/// A thread that a timer releases every ms and that computes for `run(job)` µs; the timer interrupt comes 3 µs late
/// and the thread starts 5 µs after that. Where it computes past the next release, that one is missing.
fn trace(jobs: u64, run: impl Fn(u64) -> u64) -> String {
    sleeping(jobs, run, |_| 0)
}

/// The same, with this number of periods omitted after each job.
fn sleeping(jobs: u64, run: impl Fn(u64) -> u64, skip: impl Fn(u64) -> u64) -> String {
    let mut text = "# tracer: nop\n#\n".to_owned();
    let (mut now_us, mut next) = (0, 1_000);
    for job in 0..jobs {
        while next < now_us {
            next += 1_000;
        }
        let at = |us: u64| format!("{}.{:06}", 10 + us / 1_000_000, us % 1_000_000);
        let line = |text: &mut String, us: u64, task: &str, event: &str| {
            text.push_str(&format!("{task} [001] d..2. {}: {event}\n", at(us)));
        };
        line(
            &mut text,
            next - 500,
            "          <idle>-0    ",
            &format!(
                "hrtimer_start: hrtimer=00000000aa function=hrtimer_wakeup expires={} softexpires=0 mode=ABS",
                10_000_000_000 + next * 1000
            ),
        );
        line(
            &mut text,
            next + 3,
            "          <idle>-0    ",
            &format!(
                "hrtimer_expire_entry: hrtimer=00000000aa function=hrtimer_wakeup now={}",
                10_000_000_000 + (next + 3) * 1000
            ),
        );
        line(
            &mut text,
            next + 4,
            "          <idle>-0    ",
            "sched_waking: comm=axis pid=77 prio=19 target_cpu=001",
        );
        line(&mut text, next + 5, "          <idle>-0    ", "hrtimer_expire_exit: hrtimer=00000000aa");
        line(&mut text, next + 8, "          <idle>-0    ", "sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=axis next_pid=77 next_prio=19");
        now_us = next + 8 + run(job);
        line(&mut text, now_us, "            axis-77   ", "sched_switch: prev_comm=axis prev_pid=77 prev_prio=19 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120");
        next += 1_000 * (1 + skip(job));
    }
    text
}

#[test]
fn a_thread_that_sleeps_for_any_number_of_ticks_has_no_period_and_misses_none() {
    let ticks = |job: u64| [0, 0, 17, 0, 9, 30, 0, 5][job as usize % 8];
    let text = sleeping(67, |_| 20, ticks);
    let source = FtraceText::open(text.as_bytes()).unwrap();
    assert_eq!(periods(&source, &Whose::default()).threads, []);
    // Who computes past as many periods has missed them.
    let busy = only(&trace(67, |job| 20 + 1_000 * ticks(job)));
    assert!(busy.period_ns == Ns::from_ms(1) && busy.missed > 400, "{busy:?}");
    // Neither does a single long sleep take a period away.
    let once = only(&sleeping(67, |_| 20, |job| if job == 40 { 500 } else { 0 }));
    assert_eq!((once.period_ns, once.missed), (Ns::from_ms(1), 500));
}

fn only(text: &str) -> Periodic {
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let found = periods(&source, &Whose::default());
    assert_eq!(found.threads.len(), 1, "{found:?}");
    found.threads[0].clone()
}

#[test]
fn a_thread_in_time_misses_nothing() {
    let axis = only(&trace(50, |_| 200));
    assert_eq!((axis.comm.as_str(), axis.tid, axis.jobs), ("axis", Tid(77), 50));
    assert_eq!((axis.period_ns, axis.missed, axis.overruns), (Ns::from_ms(1), 0, 0));
    assert_eq!(axis.run.unwrap().worst_ns, Ns::from_us(200));
    assert_eq!(axis.start.unwrap().worst_ns, axis.start.unwrap().least_ns);
}

#[test]
fn a_job_that_runs_into_the_next_period_is_an_overrun_and_costs_the_releases_it_covers() {
    let axis = only(&trace(50, |job| if job == 20 { 2_300 } else { 200 }));
    assert_eq!((axis.missed, axis.overruns), (2, 1));
    assert_eq!(axis.run.unwrap().worst_ns, Ns::from_us(2_300));
    assert_eq!(axis.worst.end.since(axis.worst.start.unwrap()), Ns::from_us(2_300));
}

/// A thread that timers release at these times and that takes so long each time, µs.
fn released(at: &[u64], run: u64) -> Option<Periodic> {
    let text = trace(1, |_| 200);
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let normalizer = Normalizer::new(&source);
    let mut reader = Reader::default();
    let task = |tid| TaskRef { tid: Tid(tid), ..TaskRef::default() };
    let mut step = |at: u64, kind| {
        let event = Event { at: Mono(at * 1_000), cpu: Cpu(1), current: None, level: Level::Unsaid, kind };
        reader.step(&event, &normalizer);
    };
    for &at in at {
        step(at, Kind::TimerExpireEntry { timer: 1, function: None, expires: None, now: None, slack: None });
        step(at, Kind::Waking { task: task(77), target_cpu: None, new: false, waker_prio: None });
        step(at, Kind::TimerExpireExit { timer: 1 });
        step(at + 1, Kind::Switch { prev: task(0), left_as: LeftAs::Runnable, next: task(77) });
        step(at + run, Kind::Switch { prev: task(77), left_as: LeftAs::Blocked(1), next: task(0) });
    }
    periodic(Tid(77), String::new(), reader.tasks.remove(&Tid(77)).unwrap())
}

#[test]
fn uneven_releases_are_no_period_and_who_ends_with_its_period_has_not_overrun_it() {
    let even: Vec<u64> = (1..40).map(|n| n * 1_000).collect();
    assert_eq!(released(&even, 200).unwrap().period_ns, Ns::from_ms(1));
    // Two of three distances are far from any multiple of the median.
    let uneven: Vec<u64> = even.iter().map(|at| at + [0, 400, 100][*at as usize / 1_000 % 3]).collect();
    assert_eq!(released(&uneven, 200), None);
    assert_eq!(released(&even, 1_000).unwrap().overruns, 0, "the next release is due as each ends");
}

#[test]
fn wakings_without_a_timer_are_not_periodic() {
    let text = trace(50, |_| 200);
    let woken_by_hand: String =
        text.lines().filter(|line| !line.contains("hrtimer")).map(|line| format!("{line}\n")).collect();
    let source = FtraceText::open(woken_by_hand.as_bytes()).unwrap();
    assert_eq!(periods(&source, &Whose::default()).threads, vec![]);
    assert!(periods(&source, &Whose::default()).to_text().starts_with("no periodic thread"));
}

#[test]
fn what_comes_behind_the_jobs_that_are_kept_still_counts() {
    let text = trace(4, |_| 200);
    let source = FtraceText::open(text.as_bytes()).unwrap();
    let normalizer = Normalizer::new(&source);
    let mut reader = Reader::default();
    let (all, late) = (MOST_JOBS as u64 + 10, MOST_JOBS as u64 + 5);
    let task = |tid| TaskRef { tid: Tid(tid), ..TaskRef::default() };
    let (axis, idle) = (task(77), task(0));
    let mut step = |at: u64, kind| {
        let event = Event { at: Mono(at * 1_000), cpu: Cpu(1), current: None, level: Level::Unsaid, kind };
        reader.step(&event, &normalizer);
    };
    for job in 0..all {
        let at = job * 1_000;
        let end = at + if job == late { 1_500 } else { 200 };
        if job != late + 1 {
            step(
                at,
                Kind::TimerExpireEntry { timer: 1, function: None, expires: None, now: None, slack: None },
            );
            step(at, Kind::Waking { task: axis, target_cpu: None, new: false, waker_prio: None });
            step(at, Kind::TimerExpireExit { timer: 1 });
            step(at + 1, Kind::Switch { prev: idle, left_as: LeftAs::Runnable, next: axis });
            step(end, Kind::Switch { prev: axis, left_as: LeftAs::Blocked(1), next: idle });
        }
    }
    let axis = periodic(Tid(77), String::new(), reader.tasks.remove(&Tid(77)).unwrap()).unwrap();
    assert_eq!((axis.jobs, axis.missed, axis.overruns), (all - 1, 1, 1));
    assert_eq!((axis.response.worst_ns, axis.response.median_ns), (Ns::from_us(1_500), Ns::from_us(200)));
    assert_eq!(axis.worst.release, Mono(late * 1_000_000));
}

#[test]
fn events_lost_in_place_of_jobs_are_no_missed_periods() {
    let text = trace(50, |_| 200);
    let is_lost = |line: &str| ["10.02", "10.03"].iter().any(|at| line.contains(&format!(" {at}")));
    let mut kept: Vec<&str> = text.lines().filter(|line| !is_lost(line)).collect();
    let first_behind = kept.iter().position(|line| line.contains(" 10.04")).unwrap();
    kept.insert(first_behind, "CPU:1 [LOST 120 EVENTS]");
    let axis = only(&kept.join("\n"));
    assert_eq!((axis.period_ns, axis.missed), (Ns::from_ms(1), 0));
}

/// Jobs of 10 ms; the one released at 10.200 takes 25 ms: the two sleeps behind it are until times that are over, and
/// their timers expire while the thread still has its CPU.
fn overrun(unseen: &str) -> String {
    let mut text = String::new();
    let mut line = |us: u64, task: &str, event: &str| {
        text.push_str(&format!("{task} [001] d..2. 10.{us:06}: {event}\n"));
    };
    let mut release = |us: u64, task: &str, comm: &str| {
        let fired = format!(
            "hrtimer_expire_entry: hrtimer=00000000aa function=hrtimer_wakeup now={}",
            10_000_000_000 + us * 1000
        );
        line(us, task, &fired);
        line(us + 1, task, &format!("sched_waking: comm={comm} pid=77 prio=19 target_cpu=001"));
        line(us + 2, task, "hrtimer_expire_exit: hrtimer=00000000aa");
    };
    let mut switches = Vec::new();
    for job in 1..=40u64 {
        let (due, comm) = (job * 10_000, if job < 4 { "parent" } else { "axis" });
        match job {
            21 => release(225_000, "axis-77", comm),
            22 => release(226_000, "axis-77", comm),
            _ => release(due, "<idle>-0", comm),
        }
        let end = match job {
            20 | 21 => None,
            22 => Some(227_000),
            _ => Some(due + 1_000),
        };
        if !(21..=22).contains(&job) {
            switches.push((due + 8, format!("<idle>-0 SWITCH prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm={comm} next_pid=77 next_prio=19")));
        }
        if let Some(end) = end {
            switches.push((end, format!("axis-77 SWITCH prev_comm={comm} prev_pid=77 prev_prio=19 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120")));
        }
    }
    for (us, switch) in switches {
        let (task, event) = switch.split_once(" SWITCH ").unwrap();
        text.push_str(&format!("{task} [001] d..2. 10.{us:06}: sched_switch: {event}\n"));
    }
    let mut lines: Vec<&str> =
        text.lines().filter(|line| unseen.is_empty() || !line.contains(unseen)).collect();
    lines.sort_by_key(|line| line.split_whitespace().nth(3).unwrap().to_owned());
    lines.join("\n")
}

#[test]
fn a_job_whose_next_timer_has_expired_already_ends_where_that_meets_it() {
    let axis = only(&overrun(""));
    assert_eq!((axis.jobs, axis.overruns, axis.missed), (40, 1, 0));
    assert_eq!((axis.worst.release, axis.worst.end), (Mono(10_200_000_000), Mono(10_225_001_000)));
    assert_eq!(axis.worst.run_ns, Some(Ns(24_993_000)));
    assert_eq!((axis.unseen_starts, axis.unseen_ends), (0, 0));
}

#[test]
fn a_job_whose_switch_in_was_not_recorded_has_a_response_all_the_same() {
    // The switch-in of the long job: it runs into two releases that do not find it on a CPU.
    let axis = only(&overrun(" 10.200008: sched_switch"));
    assert_eq!((axis.jobs, axis.unseen_starts, axis.unseen_ends), (38, 1, 2));
    assert_eq!(axis.longest_unseen_ns, Some(Ns(25_001_000)));
    // That of a short one.
    let axis = only(&overrun(" 10.100008: sched_switch"));
    assert_eq!((axis.jobs, axis.unseen_starts, axis.unseen_ends, axis.overruns), (40, 1, 0, 1));
    let source = FtraceText::open(b"x-7 [001] d.... 1.000001: other: a=1\n").unwrap();
    let text = Periods { threads: vec![axis], ..periods(&source, &Whose::default()) }.to_text();
    assert!(text.contains("! axis/77: the switch-in of 1 of its jobs was not recorded"), "{text}");
}

#[test]
fn a_job_that_left_its_cpu_unseen_has_no_known_end() {
    // Another thread leaves the CPU while the long job seems to have it.
    let leaves = "other-9 [001] d..2. 10.210000: sched_switch: prev_comm=other prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120";
    let text = overrun("");
    let mut lines: Vec<&str> = text.lines().chain([leaves]).collect();
    lines.sort_by_key(|line| line.split_whitespace().nth(3).unwrap().to_owned());
    let axis = only(&lines.join("\n"));
    assert_eq!((axis.unseen_ends, axis.longest_unseen_ns), (2, Some(Ns(25_001_000))));
    assert_eq!((axis.jobs, axis.response.worst_ns), (38, Ns::from_ms(1)));
}

#[test]
fn a_thread_is_asked_for_by_every_name_that_it_had() {
    let source = overrun("");
    let source = FtraceText::open(source.as_bytes()).unwrap();
    let named = |comm: &str| periods(&source, &Whose { tid: None, comm: Some(comm.to_owned()) });
    assert_eq!((named("axis").threads.len(), named("axis").others), (1, 0));
    assert_eq!((named("parent").threads.len(), named("parent").others), (1, 0));
    assert_eq!(named("parent").threads[0].comm, "axis");
    assert_eq!((named("other").threads.len(), named("other").others), (0, 1));
    assert!(named("other").to_text().starts_with("the only periodic thread is not"));
}

#[test]
fn damage_is_told_also_where_no_thread_is_periodic() {
    let whole = trace(20, |_| 100);
    let of = |text: &str| {
        let source = FtraceText::open(text.as_bytes()).unwrap();
        periods(&source, &Whose::default())
    };
    assert!(of(&whole).damage.is_empty());
    let damaged = of(&(whole.clone() + "nothing known\n"));
    assert!(damaged.to_text().contains("the file is damaged at offset"), "{}", damaged.to_text());
    assert_eq!(damaged.threads, of(&whole).threads);
    let short = of(&(trace(2, |_| 100) + "nothing known\n")).to_text();
    assert!(short.contains("no periodic thread") && short.contains("is damaged"), "{short}");
}

#[test]
fn a_trace_without_the_events_of_jobs_says_which_it_lacks() {
    let whole = trace(20, |_| 100);
    let of = |absent: &str| {
        let lines = whole.lines().filter(|line| absent.is_empty() || !line.contains(absent));
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        periods(&FtraceText::open(text.as_bytes()).unwrap(), &Whose::default()).unanswerable
    };
    assert_eq!(of(""), None);
    for event in ["hrtimer_expire_entry", "sched_waking", "sched_switch"] {
        assert!(
            of(event).is_some_and(|told| told.starts_with(&format!("{event} is not recorded"))),
            "{event}"
        );
    }
}
