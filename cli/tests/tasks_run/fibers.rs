//! Task sets in user space (`--scheduler fiber-fp`, `fiber-edf`): the same truths as under the kernel's schedulers.
//!
//! All but a few run as anybody. A CPU that others use as well makes fibers late, and the run says so; counts stay what they are.

use lathunt_core::time::Ns;
use lathunt_core::verdict::Outcome;
use lathunt_host::testing::{lacks_root, may_run};

use super::{measured, median, periodic, set, shortest, thread};

const BOTH: [&str; 2] = ["fiber-fp", "fiber-edf"];

/// A task of `period` µs by name, priority, offset (µs), deadline (µs) and work.
fn with_offset(period: u32) -> impl Fn(&str, u32, u32, u32, &str) -> String {
    move |name, priority, delay, deadline, work| {
        format!(
            r#""{name}": {{"policy": "SCHED_FIFO", "priority": {priority}, "delay": {delay}, "deadline": {deadline},
                "loop": -1, {work}, "timer": {{"ref": "unique", "period": {period}, "mode": "absolute"}}}}"#
        )
    }
}

#[test]
#[ignore = "needs root"]
fn earliest_deadlines_of_fibers_are_met_where_their_fixed_priorities_miss() {
    if !may_run("tasks: EDF and fixed priorities of fibers", lacks_root()) {
        return;
    }
    // U = 0.95; the analysis gives b 33 ms of 30 by priorities, and 27 ms by deadlines.
    let set = set(&[periodic("a", 20, 9_000, 20_000), periodic("b", 10, 15_000, 30_000)]);
    let (code, run) = measured(&set, &["-D", "1200ms", "--scheduler", "fiber-fp"]);
    assert_eq!((code, run.scheduler.as_deref()), (2, Some("fiber-fp")));
    assert_eq!(thread(&run, "b").analysed_ns, Some(Ns::from_ms(33)));
    let late = thread(&run, "b").misses;
    assert!((15..=40).contains(&late), "once in each 60 ms: {late} of 40 jobs");
    assert_eq!(run.verdict.as_ref().unwrap().outcome, Some(Outcome::Fail));
    assert!(run.task_set.as_ref().unwrap().fibers.as_ref().unwrap().kernel_priority.is_some());
    let (_, run) = measured(&set, &["-D", "1200ms", "--scheduler", "fiber-edf"]);
    assert_eq!((thread(&run, "a").jobs, thread(&run, "b").jobs), (60, 40));
    assert_eq!(thread(&run, "b").analysed_ns, Some(Ns::from_ms(27)));
    assert!(thread(&run, "b").misses < late / 2, "{:?}", thread(&run, "b"));
    assert!(median(&run, "b") <= Ns::from_ms(28), "{}", median(&run, "b"));
}

#[test]
#[ignore = "needs root"]
fn protocols_of_fibers_bound_the_inversion_under_priorities_and_under_deadlines() {
    if !may_run("tasks: priority inversion of fibers", lacks_root()) {
        return;
    }
    // `low` holds a mutex for 5 ms, `high` wants it after 1 ms, `middle` needs 20 ms from 2 ms on.
    let task = with_offset(60_000);
    let locked = |work: u32| format!(r#""lock": "m", "cputime": {work}, "unlock": "m""#);
    for scheduler in BOTH {
        for protocol in ["none", "inherit", "ceiling"] {
            let tasks = [
                task("high", 30, 1_000, 15_000, &locked(100)),
                task("middle", 20, 2_000, 40_000, r#""cputime": 20000"#),
                task("low", 10, 0, 60_000, &locked(5_000)),
            ];
            let set = format!(
                r#"{{"tasks": {{{}}}, "resources": {{"m": {{"type": "mutex", "protocol": "{protocol}"}}}}}}"#,
                tasks.join(",\n")
            );
            let (_, run) = measured(&set, &["-D", "480ms", "--scheduler", scheduler]);
            let (response, blocked) = (median(&run, "high"), thread(&run, "high").blocked);
            match protocol {
                "none" => assert!(response >= Ns::from_ms(23), "{scheduler}: {response}"),
                _ => assert!(
                    response >= Ns::from_ms(3) && response < Ns::from_ms(12),
                    "{scheduler}, {protocol}: {response}"
                ),
            }
            // Under the ceiling, and the deadline floor, low cannot be preempted by high: it finds the mutex free.
            assert!(
                if protocol == "ceiling" { blocked.count <= 3 } else { blocked.count >= 5 },
                "{protocol}"
            );
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_late_fiber_is_explained_by_the_fiber_that_had_the_mutex_and_the_one_that_preempted_it() {
    if !may_run("tasks: a late fiber explained", lacks_root()) {
        return;
    }
    let task = with_offset(100_000);
    let tasks = [
        task("high", 30, 1_000, 8_000, r#""lock": "m", "cputime": 100, "unlock": "m""#),
        task("middle", 20, 2_000, 90_000, r#""cputime": 20000"#),
        task("low", 10, 0, 90_000, r#""lock": "m", "cputime": 5000, "unlock": "m""#),
    ];
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("fibers.txt");
    let trace = trace.to_str().unwrap();
    let (code, run) = measured(&set(&tasks), &["-D", "300ms", "--scheduler", "fiber-fp", "--trace", trace]);
    assert!(code == 2 && thread(&run, "high").misses >= 1);
    let asked =
        ["explain", trace, "--between", "event:job_release", "event:job_done", "--pair", "job", "--json"];
    let output = super::lathunt(&asked, "");
    let said = String::from_utf8_lossy(&output.stdout);
    let of_high = said
        .lines()
        .find(|line| line.contains("high/4194304 (RT 30) took"))
        .unwrap_or_else(|| panic!("{said}"));
    for cause in [
        "held by low/4194306 (RT 10)",
        "a mutex without priority inheritance",
        "occupied by middle/4194305 (RT 20)",
    ] {
        assert!(of_high.contains(cause), "{cause}: {of_high}");
    }
    assert!(!said.contains("not preempted"), "{said}");
    let text = std::fs::read_to_string(trace).unwrap();
    assert!(text.contains("# futex 0x1000: mutex m"));
    let refused = super::lathunt(&["tasks", "run", "-", "--trace", trace], &set(&tasks));
    assert_eq!(refused.status.code(), Some(1), "threads of the kernel are recorded by others");
}

#[test]
fn overload_of_fibers_is_counted_to_the_last_release() {
    for scheduler in BOTH {
        let (code, run) =
            measured(&set(&[periodic("t", 10, 3_000, 2_000)]), &["-D", "400ms", "--scheduler", scheduler]);
        let t = thread(&run, "t");
        assert_eq!((code, t.jobs), (2, 200), "every release is a job, started or not");
        assert!(t.finished <= 134 && t.not_started >= 65, "{t:?}");
        assert_eq!(t.finished + t.not_started + 1, 200, "one went on when the run ended");
        assert!(t.lateness_max_ns >= Some(Ns::from_ms(130)), "{t:?}");
        assert!(t.misses >= 198, "{t:?}");
        // U = 1.2 of two: the analysis bounds the first alone, and no release is lost.
        let two = set(&[periodic("a", 20, 6_000, 10_000), periodic("b", 10, 6_000, 10_000)]);
        let (code, run) = measured(&two, &["-D", "400ms", "--scheduler", scheduler]);
        assert_eq!((code, thread(&run, "a").jobs, thread(&run, "b").jobs), (2, 40, 40));
        assert_eq!(thread(&run, "b").analysed_ns, None);
    }
}

#[test]
fn a_fiber_that_never_ends_counts_with_what_it_has_taken_and_ends_with_the_run() {
    for scheduler in BOTH {
        let set = set(&[periodic("t", 10, 60_000_000, 100_000)]);
        let (code, run) = measured(&set, &["-D", "500ms", "--scheduler", scheduler]);
        let t = thread(&run, "t");
        assert_eq!((code, t.jobs, t.finished, t.not_started), (2, 5, 0, 4));
        assert!(t.response_max_ns >= Some(Ns::from_ms(495)), "{t:?}");
        assert!(run.conditions.duration_s.unwrap() < 2.0);
    }
}

#[test]
fn fibers_pass_barriers_equally_often_and_each_post_is_one_job() {
    let task = |name: &str, priority: u32| {
        format!(
            r#""{name}": {{"policy": "SCHED_FIFO", "priority": {priority}, "loop": 500, "phases": {{"p": {{"loop": 1,
                "cputime": 20, "barrier": "b"}}}}}}"#
        )
    };
    let posts = r#"{"tasks": {
        "producer": {"loop": 20, "phases": {"p": {"loop": 1, "cputime": 100, "sem_post": "full",
            "timer": {"ref": "unique", "period": 10000, "mode": "absolute"}}}},
        "consumer": {"loop": -1, "deadline": 9000, "sem_wait": "full", "cputime": 300}
    }}"#;
    for scheduler in BOTH {
        let (_, run) =
            measured(&set(&[task("high", 20), task("low", 10)]), &["-D", "20s", "--scheduler", scheduler]);
        assert_eq!([thread(&run, "high").jobs, thread(&run, "low").jobs], [500, 500]);
        assert!(run.conditions.duration_s.unwrap() < 10.0, "it ends with its threads");
        let (_, run) = measured(posts, &["-D", "400ms", "--scheduler", scheduler]);
        assert_eq!((thread(&run, "producer").jobs, thread(&run, "consumer").jobs), (20, 20));
        assert!(shortest(&run, "consumer") >= Ns::from_us(300));
    }
}

#[test]
fn all_events_do_something_on_fibers_and_forks_are_fibers() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let set = format!(
        r#"{{"tasks": {{
            "write": {{"loop": 10, "phases": {{"p": {{"loop": 1, "mem": 10000, "iorun": 10000, "yield": "", "sleep": 1000}}}}}},
            "wait": {{"loop": 8, "phases": {{"p": {{"loop": 1, "lock": "m", "wait": {{"ref": "c", "mutex": "m"}},
                "unlock": "m", "run": 50}}}}}},
            "signal": {{"loop": 8, "delay": 5000, "phases": {{"p": {{"loop": 1, "lock": "m", "signal": "c", "unlock": "m",
                "runtime": 50, "sleep": 2000}}}}}},
            "forks": {{"loop": 2, "phases": {{"p": {{"loop": 1, "fork": "child", "sleep": 1000}}}}}},
            "child": {{"instance": 0, "loop": 4, "phases": {{"p": {{"loop": 1, "cputime": 50, "sleep": 500}}}}}}
        }}, "global": {{"io_device": "{}"}}}}"#,
        file.path().display()
    );
    for (turn, scheduler) in BOTH.iter().enumerate() {
        let (_, run) = measured(&set, &["-D", "10s", "--scheduler", scheduler]);
        let names: Vec<&str> =
            run.task_set.as_ref().unwrap().threads.iter().map(|thread| thread.name.as_str()).collect();
        assert_eq!(names, ["write", "wait", "signal", "forks", "child-0", "child-1"]);
        assert_eq!((thread(&run, "child-0").jobs, thread(&run, "child-1").jobs), (4, 4));
        assert_eq!(
            thread(&run, "wait").jobs,
            8,
            "one for each signal: the lock before the first wait is not a job"
        );
        assert_eq!(file.as_file().metadata().unwrap().len(), 100_000 * (turn as u64 + 1));
        assert!(run.conditions.duration_s.unwrap() < 5.0, "it ends with its threads");
    }
}

#[test]
fn a_deadlock_of_fibers_ends_the_run_and_is_named() {
    let task = |name: &str, priority: u32, first: &str, second: &str| {
        format!(
            r#""{name}": {{"policy": "SCHED_FIFO", "priority": {priority}, "loop": -1, "lock": "{first}", "sleep": 5000,
                "lock1": "{second}", "unlock1": "{second}", "unlock": "{first}",
                "timer": {{"ref": "unique", "period": 50000}}}}"#
        )
    };
    let set = format!(r#"{{"tasks": {{{}, {}}}}}"#, task("a", 20, "m", "n"), task("b", 10, "n", "m"));
    for scheduler in BOTH {
        let (code, run) = measured(&set, &["-D", "5s", "--scheduler", scheduler]);
        let early = &run.conditions.during.ended_early;
        assert!(early.iter().any(|why| why.contains("a deadlock")), "{early:?}");
        assert!(code != 0 && run.conditions.duration_s.unwrap() < 4.0);
    }
}

#[test]
fn a_hundred_fibers_have_the_jobs_of_their_periods_and_what_they_cannot_do_is_said() {
    let task = |nth: u32| periodic(&format!("t{nth}"), nth % 97 + 1, 10, 20_000 + nth * 100);
    let many = set(&(0..100).map(task).collect::<Vec<_>>());
    let (code, run) = measured(&many, &["-D", "400ms", "--scheduler", "fiber-edf"]);
    assert_ne!(code, 0, "too few jobs for a PASS");
    for nth in 0..100 {
        let jobs = 400_000_u64.div_ceil(20_000 + nth * 100);
        assert_eq!(thread(&run, &format!("t{nth}")).jobs, jobs);
    }
    let apart = set(&[
        periodic("x", 10, 10, 20_000).replace("\"loop\"", "\"cpus\": [0], \"loop\""),
        periodic("y", 10, 10, 20_000).replace("\"loop\"", "\"cpus\": [1], \"loop\""),
    ]);
    let output = super::lathunt(&["tasks", "run", "-", "-c", "0-1", "--scheduler", "fiber-fp"], &apart);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("share one thread of the kernel"), "{said}");
}

#[test]
fn time_that_is_not_the_fibers_own_is_in_the_run_and_no_pass_rests_on_it() {
    use std::process::{Command, Stdio};
    // A SCHED_OTHER thread and a hog on its CPU, for any user.
    let cpu = lathunt_host::sched::affinity().unwrap().iter().last().unwrap();
    let mut hog = Command::new("taskset")
        .args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let set = set(&[periodic("t", 10, 20_000, 40_000)]);
    let program = format!(
        "exec chrt -o 0 setpriv --bounding-set -sys_nice --inh-caps -sys_nice {} tasks run - --json -D 800ms -c {cpu} \
         --scheduler fiber-edf",
        env!("CARGO_BIN_EXE_lathunt")
    );
    let as_anybody = super::run_shell(&program, &set);
    hog.kill().unwrap();
    hog.wait().unwrap();
    let run = lathunt_core::run::Run::from_json(&String::from_utf8_lossy(&as_anybody.stdout));
    let run = run.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&as_anybody.stderr)));
    let fibers = run.task_set.as_ref().unwrap().fibers.clone().unwrap();
    assert_eq!(fibers.kernel_priority, None);
    // The hog has half of the CPU: 20 ms of work take 20 ms of other time.
    assert!(fibers.away_total_ns >= Ns::from_ms(100), "{fibers:?}");
    assert!(thread(&run, "t").execution.unwrap().min_ns >= Ns::from_ms(20), "CPU time is the kernel's");
    let verdict = run.verdict.unwrap();
    assert_ne!(verdict.outcome, Some(Outcome::Pass));
    assert!(as_anybody.status.code() != Some(0));
}
