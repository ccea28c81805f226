use super::*;
use crate::tasks::jobs::Job;
use crate::time::Cpu;

const SET: &str = r#"{"tasks": {"high": {"policy": "SCHED_FIFO", "priority": 50, "cpus": [0], "loop": -1, "cputime": 1000,
    "timer": {"ref": "unique", "period": 20000, "mode": "absolute"}}}}"#;

/// The run of [`SET`] with one job, started this late.
fn run(started_us: u64, timer_late: Option<Ns>) -> Run {
    let set = TaskSet::from_json(SET).unwrap();
    let cpus: CpuSet = "0".parse().unwrap();
    let (program, _) = Program::new(&set, Scheduler::File, &cpus).unwrap();
    let mut figures = Figures::new(Mono(0));
    figures.count(&Job {
        release: Mono(0),
        start: Some(Mono(started_us * 1_000)),
        end: Mono((started_us + 1_000) * 1_000),
        execution: Ns::from_us(1_000),
        deadline: None,
        finished: true,
        cpu: Cpu(0),
    });
    let done = Done {
        name: "high".to_owned(),
        task: 0,
        tid: Tid(1),
        comm: "high".to_owned(),
        rule: Rule::Fifo(50),
        figures: Some(figures),
        lost: 0,
        preemptions: 0,
        migrations: None,
        ended: None,
    };
    let executed = Executed {
        begin: Mono(0),
        end: Mono(1_000_000_000),
        process: Tid(1),
        threads: vec![done],
        speeds: Vec::new(),
        ns_per_loop: None,
        switch: Some(Ns::from_us(5)),
        timer_late,
        stretch: Vec::new(),
        fibers: None,
        fiber_trace: None,
        is_over: true,
    };
    let plan = Plan {
        set: &set,
        program: &program,
        scheduler: Scheduler::File,
        cpus: &cpus,
        warnings: Vec::new(),
        stopped: None,
        no_evidence: "",
    };
    to_run(&plan, &executed, Conditions::default())
}

#[test]
fn a_late_start_of_the_most_urgent_thread_does_not_explain_itself_but_a_late_timer_does() {
    let of = |run: &Run| {
        let set = run.task_set.clone().unwrap();
        (set.threads[0].analysed_ns, set.threads[0].accounted_ns, set.findings, set.accounted)
    };
    let us = |us| Some(Ns::from_us(us));
    // 9 ms of another thread before its start.
    let (analysed, accounted, findings, by_costs) = of(&run(9_000, us(60)));
    assert_eq!((analysed, accounted, by_costs), (us(1_000), us(1_070), None));
    assert!(
        findings[0].starts_with("high: 10.000 ms measured, 1.000 ms analysed (1.070 ms with"),
        "{findings:?}"
    );
    assert!(findings[0].contains("it started up to 9.000 ms after its release"), "{findings:?}");
    let (.., findings, by_costs) = of(&run(50, us(60)));
    assert!(findings.is_empty() && by_costs.unwrap().ends_with("high 1.070 ms"), "{findings:?}");
    assert_eq!(of(&run(50, None)).1, us(1_010), "no lateness of a timer is known");
}
