use super::*;
use crate::tasks::set::{Policy, Protocol};

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn program(text: &str, scheduler: Scheduler) -> Result<(Program, Vec<Warning>), CannotRun> {
    Program::new(&TaskSet::from_json(text).unwrap(), scheduler, &cpus("0-3"))
}

fn rules(text: &str, scheduler: Scheduler) -> Vec<Rule> {
    program(text, scheduler).unwrap().0.threads.iter().map(|thread| thread.rule).collect()
}

const MIXED: &str = r#"{"tasks": {
    "slow": {"cputime": 1000, "timer": {"ref": "unique", "period": 20000}},
    "fast": {"instance": 2, "cputime": 1000, "timer": {"ref": "unique", "period": 10000}}
}}"#;

#[test]
fn priorities_are_deadline_monotonic_where_the_file_has_none_and_else_its_own() {
    assert_eq!(rules(MIXED, Scheduler::Fifo), [Rule::Fifo(1), Rule::Fifo(3), Rule::Fifo(2)]);
    assert_eq!(rules(MIXED, Scheduler::File), [Rule::Fair(Policy::Other, 0); 3]);
    let own = MIXED
        .replace(r#""cputime""#, r#""policy": "SCHED_RR", "priority": 42, "cputime""#)
        .replacen("42", "50", 1);
    assert_eq!(rules(&own, Scheduler::Fifo), [Rule::Fifo(50), Rule::Fifo(42), Rule::Fifo(42)]);
    assert_eq!(rules(&own, Scheduler::File)[0], Rule::RoundRobin(50));
    assert_eq!(rules(&own, Scheduler::Other), [Rule::Fair(Policy::Other, 0); 3]);
}

#[test]
fn a_task_starts_with_the_scheduling_of_its_first_phase() {
    let text = r#"{"tasks": {"hog": {"phases": {
        "a": {"policy": "SCHED_FIFO", "priority": 90, "cpus": [2], "cputime": 9, "timer": {"ref": "t", "period": 500}},
        "b": {"cputime": 1, "timer": {"ref": "t", "period": 500}}}}}}"#;
    let (program, _) = program(text, Scheduler::File).unwrap();
    let thread = &program.threads[0];
    assert_eq!((thread.rule, thread.cpus.clone()), (Rule::Fifo(90), Some(cpus("2"))));
    // One scheduler for all: its highest priority, which the analysis takes too.
    assert_eq!(rules(text, Scheduler::RoundRobin), [Rule::RoundRobin(90)]);
    let raised = text.replace(r#""b": {"#, r#""b": {"policy": "SCHED_FIFO", "priority": 95, "#);
    assert_eq!(rules(&raised, Scheduler::File), [Rule::Fifo(90)]);
    assert_eq!(rules(&raised, Scheduler::Fifo), [Rule::Fifo(95)]);
}

#[test]
fn more_levels_than_priorities_share_some_in_order() {
    let task = |at: u32| {
        let period = 1_000 + at;
        format!(r#""t{at}": {{"cputime": 1, "timer": {{"ref": "unique", "period": {period}}}}}"#)
    };
    let text = format!("{{\"tasks\": {{{}}}}}", (0..200).map(task).collect::<Vec<_>>().join(","));
    let (program, warnings) = program(&text, Scheduler::Fifo).unwrap();
    let all: Vec<i32> = program.threads.iter().map(|thread| thread.rule.priority()).collect();
    assert!(all.is_sorted_by(|a, b| a >= b) && all[0] == 97 && all[199] == 1, "{all:?}");
    assert_eq!(warnings[0].name, "priorities-shared");
}

#[test]
fn reservations_are_the_files_or_derived_with_a_margin_and_never_what_the_kernel_refuses() {
    let derived = Rule::Deadline {
        runtime: Ns(1_000_000 + 20_000 + 100_000),
        deadline: Ns::from_ms(20),
        period: Ns::from_ms(20),
    };
    assert_eq!(rules(MIXED, Scheduler::Deadline)[0], derived);
    let stated = r#"{"tasks": {"t": {"policy": "SCHED_DEADLINE", "dl-runtime": 500, "dl-period": 9000,
        "dl-deadline": 3000, "cputime": 400, "timer": {"ref": "unique", "period": 9000}}}}"#;
    let own = Rule::Deadline {
        runtime: Ns::from_us(500),
        deadline: Ns::from_us(3_000),
        period: Ns::from_us(9_000),
    };
    assert_eq!(rules(stated, Scheduler::Deadline), [own]);
    assert_eq!(rules(stated, Scheduler::File), [own]);
    let too_much = MIXED.replacen("1000", "30000", 1);
    let error = program(&too_much, Scheduler::Deadline).unwrap_err();
    assert!(matches!(&error, CannotRun::Reservation(name, ..) if name == "slow"), "{error}");
    let unknown = r#"{"tasks": {"t": {"run": 5, "sem_wait": "s"}}}"#;
    assert_eq!(program(unknown, Scheduler::Deadline).unwrap_err(), CannotRun::NoReservation("t".to_owned()));
}

#[test]
fn jobs_are_separated_by_timers_else_sleeps_else_signals() {
    let boundary = |events: &str| {
        let text = format!(r#"{{"tasks": {{"t": {{"run": 5, {events}}}}}}}"#);
        program(&text, Scheduler::File).unwrap().0.threads[0].boundary
    };
    let timer = r#""sleep": 5, "sem_wait": "s", "timer": {"ref": "unique", "period": 9}"#;
    assert_eq!(boundary(timer), Boundary::Timer);
    assert_eq!(boundary(r#""sleep": 5, "sem_wait": "s""#), Boundary::Sleep);
    assert_eq!(boundary(r#""sem_wait": "s", "sleep": 0"#), Boundary::Signal);
    assert_eq!(boundary(r#""yield": """#), Boundary::Repetition);
}

#[test]
fn one_absolute_use_makes_a_shared_timer_absolute_and_suspends_are_no_conditions() {
    let text = r#"{"tasks": {
        "a": {"run": 1, "timer": {"ref": "tick", "period": 5, "mode": "absolute"}, "resume": "b", "signal": "b"},
        "b": {"run": 1, "timer": {"ref": "tick", "period": 5}, "suspend": "b"}}}"#;
    let (program, _) = program(text, Scheduler::File).unwrap();
    assert_eq!(program.timers, [SharedTimer { name: "tick".to_owned(), absolute: true }]);
    let steps = |at: usize| &program.threads[at].phases[0].steps;
    assert_eq!(steps(1)[2], Step::Suspend(0));
    assert_eq!((&steps(0)[2], &steps(0)[3]), (&Step::Broadcast(0), &Step::Signal(1)));
}

#[test]
fn ceilings_are_those_of_the_users_and_only_of_fixed_priorities() {
    let text = r#"{"tasks": {
        "a": {"policy": "SCHED_FIFO", "priority": 30, "run": 1, "sleep": 9, "lock": "m", "unlock": "m"},
        "b": {"policy": "SCHED_FIFO", "priority": 40, "run": 1, "sleep": 9},
        "c": {"policy": "SCHED_FIFO", "priority": 20, "run": 1, "sleep": 9, "lock": "m", "unlock": "m"}},
        "resources": {"m": {"type": "mutex", "protocol": "ceiling"}}}"#;
    let (fixed, _) = program(text, Scheduler::File).unwrap();
    assert_eq!((fixed.mutexes[0].protocol, fixed.mutexes[0].ceiling), (Protocol::Ceiling, 30));
    let (fair, warnings) = program(text, Scheduler::Other).unwrap();
    assert_eq!(fair.mutexes[0].protocol, Protocol::Inherit);
    assert!(warnings.iter().any(|warning| warning.name == "ceiling-inherits"));
}

#[test]
fn cpus_are_those_of_the_file_within_those_of_the_run() {
    let text = MIXED.replacen(r#""cputime""#, r#""cpus": [2, 9], "cputime""#, 1);
    let (program, _) = program(&text, Scheduler::File).unwrap();
    assert_eq!((&program.threads[0].cpus, &program.threads[1].cpus), (&Some(cpus("2")), &None));
    let set = TaskSet::from_json(&text).unwrap();
    let error = Program::new(&set, Scheduler::File, &cpus("0-1")).unwrap_err().to_string();
    assert!(error.contains("slow") && error.contains("none in common"), "{error}");
}

#[test]
fn a_thousand_threads_are_run_and_not_one_more() {
    let text = |instances: u32| MIXED.replacen("\"instance\": 2", &format!("\"instance\": {instances}"), 1);
    assert_eq!(program(&text(999), Scheduler::File).unwrap().0.threads.len(), 1_000);
    assert_eq!(program(&text(1_000), Scheduler::File).unwrap_err(), CannotRun::TooMany(1_001));
}

#[test]
fn a_barrier_opens_for_all_references_of_all_instances() {
    let text =
        r#"{"tasks": {"a": {"instance": 3, "run": 1, "barrier": "x"}, "b": {"run": 1, "barrier": "x"}}}"#;
    assert_eq!(program(text, Scheduler::File).unwrap().0.barriers[0].users, 4);
}

#[test]
fn fibers_have_priorities_or_deadlines_and_one_cpu_that_all_may_use() {
    assert_eq!(
        rules(MIXED, Scheduler::FiberFixed),
        [Rule::FiberFixed(1), Rule::FiberFixed(3), Rule::FiberFixed(2)]
    );
    let edf = |ms| Rule::FiberEdf(Some(Ns::from_ms(ms)));
    assert_eq!(rules(MIXED, Scheduler::FiberEdf), [edf(20), edf(10), edf(10)]);
    let none = r#"{"tasks": {"t": {"run": 10, "sleep": 100}}}"#;
    assert_eq!(rules(none, Scheduler::FiberEdf), [Rule::FiberEdf(None)]);

    let placed = MIXED.replacen("{\"cputime\"", "{\"cpus\": [1, 2], \"cputime\"", 1);
    let (program, _) = program(&placed, Scheduler::FiberEdf).unwrap();
    assert_eq!(program.common_cpu(&cpus("2-3")), Ok(Cpu(2)));
    let error = program.common_cpu(&cpus("3")).unwrap_err().to_string();
    assert!(error.contains("tasks.fast-0 may not run on CPU 1-2"), "{error}");
}

#[test]
fn a_ceiling_is_a_deadline_floor_where_all_users_have_deadlines_and_inherits_elsewhere() {
    let set = |deadline: &str| {
        format!(
            r#"{{"tasks": {{
                "a": {{{deadline} "lock": "m", "cputime": 10, "unlock": "m", "sleep": 100}},
                "b": {{"lock": "m", "cputime": 10, "unlock": "m", "timer": {{"ref": "unique", "period": 9000}}}}
            }}, "resources": {{"m": {{"type": "mutex", "protocol": "ceiling"}}}}}}"#
        )
    };
    let mutex = |text: &str| {
        let (program, warnings) = program(text, Scheduler::FiberEdf).unwrap();
        let inherits = warnings.iter().any(|warning| warning.name == "ceiling-inherits");
        (program.mutexes[0].protocol, program.mutexes[0].floor, inherits)
    };
    let with = set("\"deadline\": 4000,");
    assert_eq!(mutex(&with), (Protocol::Ceiling, Some(Ns::from_ms(4)), false));
    assert_eq!(mutex(&set("")), (Protocol::Inherit, Some(Ns::from_ms(9)), true));
}

#[test]
fn work_in_wall_clock_time_is_warned_of() {
    let names = |event: &str| {
        let task = |name: &str| {
            format!(
                r#""{name}": {{"loop": -1, "{event}": 50, "timer": {{"ref": "unique", "period": 1000}}}}"#
            )
        };
        let text = format!("{{\"tasks\": {{{}, {}}}}}", task("a"), task("b"));
        let set = TaskSet::from_json(&text).unwrap();
        let (_, warnings) = Program::new(&set, Scheduler::Fifo, &"0".parse().unwrap()).unwrap();
        warnings.iter().filter(|warning| warning.name == "wall-clock").count()
    };
    assert_eq!(["runtime", "run", "cputime"].map(names), [1, 0, 0]);
}
