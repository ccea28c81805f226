//! `lathunt tasks run`: sets whose truth is known by construction.
//!
//! Every bound is one that a loaded machine of two CPUs keeps: counts, which load cannot change; lower bounds, which it can
//! only raise; and smallest values, which it cannot lower.

mod call;
mod fibers;
mod outputs;

use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use call::lathunt;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::set_run::ThreadRun;
use lathunt_core::time::Ns;
use lathunt_core::verdict::Outcome;
use lathunt_host::testing::{lacks_root, may_run};

/// One at a time: sets share the CPU that is left to them.
fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shell's command with `input`.
fn run_shell(command: &str, input: &str) -> Output {
    call::with_input(Command::new("sh").args(["-c", command]), input)
}

/// Exit code and run of `set`.
fn measured(set: &str, more: &[&str]) -> (i32, Run) {
    let _machine = machine();
    let output = lathunt(&[&["tasks", "run", "-", "--json"][..], more].concat(), set);
    let said = String::from_utf8_lossy(&output.stderr);
    let run = Run::from_json(&String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), run.unwrap_or_else(|error| panic!("{error}: {said}")))
}

fn thread<'r>(run: &'r Run, name: &str) -> &'r ThreadRun {
    run.task_set.as_ref().unwrap().threads.iter().find(|thread| thread.name == name).unwrap()
}

/// Smallest response of a thread.
fn shortest(run: &Run, name: &str) -> Ns {
    let at = run.task_set.as_ref().unwrap().threads.iter().position(|thread| thread.name == name);
    run.series[at.unwrap()].histogram.min().unwrap()
}

/// Median response of a thread.
fn median(run: &Run, name: &str) -> Ns {
    let at = run.task_set.as_ref().unwrap().threads.iter().position(|thread| thread.name == name);
    run.series[at.unwrap()].histogram.quantile(0.5).unwrap()
}

/// A periodic task.
fn periodic(name: &str, priority: u32, work_us: u32, period_us: u32) -> String {
    format!(
        r#""{name}": {{"policy": "SCHED_FIFO", "priority": {priority}, "loop": -1, "cputime": {work_us},
            "timer": {{"ref": "unique", "period": {period_us}, "mode": "absolute"}}}}"#
    )
}

fn set(tasks: &[String]) -> String {
    format!("{{\"tasks\": {{{}}}}}", tasks.join(",\n"))
}

#[test]
#[ignore = "needs root"]
fn a_thread_below_another_takes_as_long_as_both_and_the_jobs_are_those_of_period_and_length() {
    if !may_run("tasks: response by construction", lacks_root()) {
        return;
    }
    let set = set(&[periodic("high", 20, 2_000, 10_000), periodic("low", 10, 5_000, 20_000)]);
    let (code, run) = measured(&set, &["-D", "1s"]);
    assert!([2, 3].contains(&code), "{code}: 100 jobs show too little for a PASS");
    assert_eq!((run.scheduler.as_deref(), run.jobs), (Some("fifo"), Some(150)));
    let responses: Vec<u64> = run.of(Quantity::Response).map(|series| series.histogram.count()).collect();
    assert_eq!(responses, [100, 50], "one response for each job");
    assert!(shortest(&run, "low") >= Ns::from_ms(7), "2 ms of high come before its 5 ms");
    assert!((Ns::from_ms(2)..Ns::from_ms(5)).contains(&shortest(&run, "high")));
    let low = thread(&run, "low");
    assert_eq!((low.analysed_ns, low.deadline_ns), (Some(Ns::from_ms(7)), Some(Ns::from_ms(20))));
    assert!(low.release.unwrap().min_ns >= Ns::from_ms(2), "high has the CPU when low is released");
    assert!(low.execution.unwrap().min_ns >= Ns::from_ms(5));
}

#[test]
#[ignore = "needs root"]
fn the_number_of_jobs_does_not_depend_on_the_scheduler() {
    if !may_run("tasks: jobs under each scheduler", lacks_root()) {
        return;
    }
    let set = set(&[periodic("a", 20, 500, 5_000), periodic("b", 10, 1_000, 8_000)]);
    for scheduler in ["fifo", "rr", "deadline", "other", "fiber-fp", "fiber-edf"] {
        let (_, run) = measured(&set, &["-D", "600ms", "--scheduler", scheduler]);
        assert_eq!(run.scheduler.as_deref(), Some(scheduler));
        assert_eq!((thread(&run, "a").jobs, thread(&run, "b").jobs), (120, 75), "{scheduler}");
    }
}

#[test]
#[ignore = "needs root"]
fn earliest_deadlines_are_met_where_fixed_priorities_miss() {
    if !may_run("tasks: EDF and fixed priorities", lacks_root()) {
        return;
    }
    // U = 0.95; the analysis gives b 33 ms of 30.
    let set = set(&[periodic("a", 20, 9_000, 20_000), periodic("b", 10, 15_000, 30_000)]);
    let (code, run) = measured(&set, &["-D", "1200ms", "--scheduler", "fifo"]);
    assert_eq!(code, 2);
    assert_eq!(thread(&run, "b").analysed_ns, Some(Ns::from_ms(33)));
    // Once in each 60 ms.
    let late = thread(&run, "b").misses;
    assert!((15..=40).contains(&late), "{late} of 40 jobs");
    assert_eq!(run.verdict.as_ref().unwrap().outcome, Some(Outcome::Fail));
    let (_, run) = measured(&set, &["-D", "1200ms", "--scheduler", "deadline"]);
    assert_eq!((thread(&run, "a").jobs, thread(&run, "b").jobs), (60, 40));
    assert!(thread(&run, "b").misses < late / 2, "{:?}", thread(&run, "b"));
}

/// `low` holds a mutex for 5 ms, `high` wants it after 1 ms, `middle` needs 20 ms from 2 ms on.
fn inversion(protocol: &str) -> Run {
    let task = |name: &str, priority: u32, delay: u32, work: &str| {
        format!(
            r#""{name}": {{"policy": "SCHED_FIFO", "priority": {priority}, "delay": {delay}, "loop": -1, {work},
                "timer": {{"ref": "unique", "period": 60000, "mode": "absolute"}}}}"#
        )
    };
    let locked = |work: u32| format!(r#""lock": "m", "cputime": {work}, "unlock": "m""#);
    let tasks = [
        task("high", 30, 1_000, &locked(100)),
        task("middle", 20, 2_000, r#""cputime": 20000"#),
        task("low", 10, 0, &locked(5_000)),
    ];
    let set = format!(
        r#"{{"tasks": {{{}}}, "resources": {{"m": {{"type": "mutex", "protocol": "{protocol}"}}}}}}"#,
        tasks.join(",\n")
    );
    measured(&set, &["-D", "480ms"]).1
}

#[test]
#[ignore = "needs root"]
fn a_middle_thread_prolongs_blocking_only_without_a_protocol() {
    if !may_run("tasks: priority inversion", lacks_root()) {
        return;
    }
    let none = inversion("none");
    // 4 ms of low are left when high comes, and 20 ms of middle come between.
    assert!(median(&none, "high") >= Ns::from_ms(23), "{}", median(&none, "high"));
    assert!(thread(&none, "high").blocked.count >= 5, "each job waits, unless a timer was late");
    assert_eq!(thread(&none, "high").analysed_ns, None, "not bounded");
    for protocol in ["inherit", "ceiling"] {
        let run = inversion(protocol);
        let response = median(&run, "high");
        assert!(response >= Ns::from_ms(3) && response < Ns::from_ms(12), "{protocol}: {response}");
        let blocked = thread(&run, "high").blocked;
        // Under the ceiling low cannot be preempted by high: it finds the mutex free.
        assert!(if protocol == "inherit" { blocked.count >= 5 } else { blocked.count <= 3 }, "{protocol}");
        assert_eq!(thread(&run, "high").analysed_ns, Some(Ns::from_us(5_100)));
        assert!(shortest(&run, "middle") < Ns::from_ms(40));
    }
}

#[test]
#[ignore = "needs root"]
fn overload_is_counted_to_the_last_release_and_late_jobs_have_their_delay() {
    if !may_run("tasks: overload", lacks_root()) {
        return;
    }
    let (code, run) = measured(&set(&[periodic("t", 10, 3_000, 2_000)]), &["-D", "600ms"]);
    let t = thread(&run, "t");
    assert_eq!((code, t.jobs), (2, 300), "every release is a job, started or not");
    assert!(t.finished <= 200 && t.not_started >= 99, "{t:?}");
    assert_eq!(t.finished + t.not_started + 1, 300, "one went on when the run ended");
    // Each job takes 1 ms more than there is.
    assert!(t.lateness_max_ns >= Some(Ns::from_ms(195)), "{t:?}");
    assert!(t.release.unwrap().max_ns >= Ns::from_ms(190), "a late job is not on time");
    assert!(t.misses >= 298, "{t:?}");
    // A relative timer forgives the backlog: its releases move.
    let relative = set(&[periodic("t", 10, 3_000, 2_000).replace("absolute", "relative")]);
    let (code, run) = measured(&relative, &["-D", "600ms"]);
    let t = thread(&run, "t");
    assert!(code == 2 && (100..=201).contains(&t.jobs) && t.not_started == 0, "{t:?}");
    assert!(t.lateness_max_ns < Some(Ns::from_ms(100)), "{t:?}");
}

#[test]
#[ignore = "needs root"]
fn a_job_that_never_ends_counts_with_what_it_has_taken() {
    if !may_run("tasks: a job without an end", lacks_root()) {
        return;
    }
    let (code, run) = measured(&set(&[periodic("t", 10, 60_000_000, 100_000)]), &["-D", "500ms"]);
    let t = thread(&run, "t");
    assert_eq!((code, t.jobs, t.finished, t.not_started), (2, 5, 0, 4));
    let max = run.max_of(Quantity::Response).unwrap();
    assert!((Ns::from_ms(495)..Ns::from_ms(560)).contains(&max), "{max}");
}

#[test]
#[ignore = "needs root"]
fn threads_of_the_highest_priority_on_every_cpu_end_when_they_should() {
    if !may_run("tasks: no CPU left", lacks_root()) {
        return;
    }
    let all = std::thread::available_parallelism().unwrap().get();
    let cpus: Vec<String> = (0..all).map(|cpu| cpu.to_string()).collect();
    let set = format!(
        r#"{{"tasks": {{"h": {{"instance": {all}, "policy": "SCHED_FIFO", "priority": 99, "cpus": [{}], "loop": -1,
            "cputime": 60000000, "timer": {{"ref": "unique", "period": 100000}}}}}}}}"#,
        cpus.join(", ")
    );
    let begun = Instant::now();
    let (code, run) = measured(&set, &["-D", "700ms"]);
    assert_eq!((code, run.jobs), (2, Some(all as u64)));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let seconds = run.conditions.duration_s.unwrap();
    assert!((0.69..2.0).contains(&seconds), "{seconds} s: nobody could end it");
}

#[test]
#[ignore = "needs root"]
fn a_deadlock_ends_the_run_and_is_named() {
    if !may_run("tasks: deadlock", lacks_root()) {
        return;
    }
    let task = |name: &str, priority: u32, first: &str, second: &str| {
        format!(
            r#""{name}": {{"policy": "SCHED_FIFO", "priority": {priority}, "loop": -1, "lock": "{first}", "sleep": 5000,
                "lock1": "{second}", "unlock1": "{second}", "unlock": "{first}",
                "timer": {{"ref": "unique", "period": 50000}}}}"#
        )
    };
    let tasks = format!("{}, {}", task("a", 20, "m", "n"), task("b", 10, "n", "m"));
    let set = format!(r#"{{"tasks": {{{tasks}}}, "global": {{"pi_enabled": true}}}}"#);
    let (code, run) = measured(&set, &["-D", "5s"]);
    assert_eq!(code, 3);
    let early = &run.conditions.during.ended_early;
    assert!(early.iter().any(|why| why.contains("a deadlock")), "{early:?}");
    assert!(run.conditions.duration_s.unwrap() < 4.0);
    // Without inheritance the kernel does not see it: they wait until the end, and that long counts.
    let (code, run) = measured(&set.replace("true", "false"), &["-D", "500ms"]);
    assert_eq!((code, run.jobs), (2, Some(2)));
    let waited = |name: &str| thread(&run, name).blocked.max_ns;
    assert!(waited("a").max(waited("b")) >= Ns::from_ms(400), "{:?}", run.task_set);
}

#[test]
fn threads_that_signal_each_other_count_from_the_signal() {
    // As SCHED_OTHER threads, which need no privileges.
    let set = r#"{"tasks": {
        "producer": {"loop": 20, "phases": {"p": {"loop": 1, "cputime": 100, "sem_post": "full",
            "timer": {"ref": "unique", "period": 10000, "mode": "absolute"}}}},
        "consumer": {"loop": -1, "sem_wait": "full", "cputime": 300}
    }}"#;
    let (_, run) = measured(set, &["-D", "400ms"]);
    assert_eq!((thread(&run, "producer").jobs, thread(&run, "consumer").jobs), (20, 20));
    assert!(shortest(&run, "consumer") >= Ns::from_us(300));
}

#[test]
#[ignore = "needs root"]
fn a_barrier_lets_both_through_equally_often() {
    if !may_run("tasks: barrier", lacks_root()) {
        return;
    }
    let task = |name: &str, priority: u32| {
        format!(
            r#""{name}": {{"policy": "SCHED_FIFO", "priority": {priority}, "loop": 500, "phases": {{"p": {{"loop": 1,
                "cputime": 20, "barrier": "b"}}}}}}"#
        )
    };
    let (_, run) = measured(&set(&[task("high", 20), task("low", 10)]), &["-D", "20s"]);
    let jobs = [thread(&run, "high").jobs, thread(&run, "low").jobs];
    assert_eq!(jobs, [500, 500], "rt-app passes its last arriver again");
    assert!(run.conditions.duration_s.unwrap() < 10.0, "it ends with its threads");
}

#[test]
fn phases_and_forks_run_as_often_as_they_say() {
    let set = r#"{"tasks": {
        "main": {"loop": 2, "phases": {
            "one": {"loop": 3, "cputime": 100, "timer": {"ref": "unique", "period": 3000, "mode": "absolute"}},
            "two": {"loop": 1, "fork": "child", "cputime": 100,
                "timer": {"ref": "unique", "period": 3000, "mode": "absolute"}}}},
        "child": {"instance": 0, "loop": 4, "phases": {"p": {"loop": 1, "cputime": 50, "sleep": 500}}}
    }}"#;
    let (_, run) = measured(set, &[]);
    assert_eq!(thread(&run, "main").jobs, 8);
    let names: Vec<&str> =
        run.task_set.as_ref().unwrap().threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!(names, ["main", "child-0", "child-1"]);
    assert_eq!((thread(&run, "child-0").jobs, thread(&run, "child-1").jobs), (4, 4));
}

#[test]
#[ignore = "needs root"]
fn a_run_without_a_length_ends_when_no_thread_can_continue() {
    if !may_run("tasks: threads that wait for each other", lacks_root()) {
        return;
    }
    let ends = periodic("ends", 10, 100, 5_000).replace("\"loop\": -1", "\"loop\": 5");
    let waits = r#""waits": {"policy": "SCHED_FIFO", "priority": 20, "loop": -1, "cputime": 100, "sem_wait": "never"}"#;
    for scheduler in ["fifo", "fiber-fp"] {
        // A run that does not end is a failure, not a test that hangs.
        let set = set(&[ends.clone(), waits.to_owned()]);
        let command = format!(
            "timeout -s INT 20 {} tasks run - --json --scheduler {scheduler}",
            env!("CARGO_BIN_EXE_lathunt")
        );
        let _machine = machine();
        let begun = Instant::now();
        let output = run_shell(&command, &set);
        assert!(begun.elapsed() < Duration::from_secs(15), "{scheduler}: it waits for ever");
        let run = Run::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap();
        assert_eq!(thread(&run, "ends").finished, 5, "{scheduler}");
        let early = &run.conditions.during.ended_early;
        assert!(early.iter().any(|why| why.contains("wait for each other")), "{scheduler}: {early:?}");
        assert_ne!(run.verdict.unwrap().outcome, Some(Outcome::Pass));
    }
}

#[test]
#[ignore = "needs root"]
fn late_jobs_of_timers_with_different_periods_fail() {
    if !may_run("tasks: timers with different periods", lacks_root()) {
        return;
    }
    let phase = |name: &str, work: u32, period: u32| {
        format!(
            r#""{name}": {{"cputime": {work}, "timer": {{"ref": "unique", "period": {period}, "mode": "absolute"}}}}"#
        )
    };
    let task = format!(
        r#""t": {{"policy": "SCHED_FIFO", "priority": 10, "loop": 10, "phases": {{{}, {}}}}}"#,
        phase("short", 6_000, 5_000),
        phase("long", 2_000, 20_000)
    );
    for scheduler in ["fifo", "fiber-edf"] {
        let (code, run) = measured(&set(std::slice::from_ref(&task)), &["--scheduler", scheduler]);
        let t = thread(&run, "t");
        assert!((t.jobs, t.misses) >= (20, 10), "{t:?}");
        assert_eq!((code, run.verdict.as_ref().unwrap().outcome), (2, Some(Outcome::Fail)), "{scheduler}");
        assert!(Run::from_json(&run.to_json()).is_ok(), "a reader judges it again");
    }
}
