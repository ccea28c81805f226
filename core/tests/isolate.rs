//! Plans for made-up machines: what is moved, what stays, and what is refused.

use lathunt_core::isolate::plan::{Refused, What};
use lathunt_core::isolate::survey::{CpuFile, CpuSetting, Interrupt, Mask, Mechanism, Survey, Thread};
use lathunt_core::isolate::verify::{Latency, Level, Verdict, Watched};
use lathunt_core::isolate::{interrupts, plan, text, Plan, Request};
use lathunt_core::time::{Cpu, Ns};

/// Four CPUs, isolcpus=3 at boot, with something of everything.
fn machine() -> Survey {
    let thread = |tid: i32, comm: &str, kernel: bool, bound: bool, cpus: &str| Thread {
        pid: tid,
        tid,
        comm: comm.to_owned(),
        kernel,
        bound,
        cpus: cpus.parse().unwrap(),
    };
    let interrupt = |number: u32, users: &str, allowed: &str, effective: &str, managed: bool| Interrupt {
        number,
        users: users.to_owned(),
        allowed: allowed.parse().unwrap(),
        effective: effective.parse().unwrap(),
        managed,
    };
    let idle = |name: &str, exit_us: u64| CpuFile {
        cpu: Cpu(2),
        of: CpuSetting::IdleState { name: name.to_owned(), exit_us },
        path: format!("/sys/{name}/disable"),
        value: "0".to_owned(),
    };
    Survey {
        online: "0-3".parse().unwrap(),
        possible: "0-7".parse().unwrap(),
        command_line: vec![
            "quiet".to_owned(),
            "isolcpus=managed_irq,2-3".to_owned(),
            "nohz_full=3".to_owned(),
        ],
        mechanisms: vec![Mechanism::Cpuset1, Mechanism::Affinity],
        mechanisms_missing: vec!["cgroup2: not mounted".to_owned()],
        interrupts: vec![
            interrupt(9, "acpi", "0-3", "2", false),
            interrupt(24, "nvme0q2", "2", "2", true),
            interrupt(25, "nvme0q0", "0", "0", true),
            interrupt(26, "eth0", "0-1", "1", false),
            interrupt(27, "", "0-3", "0", false), // nobody handles it
        ],
        default_affinity: "0-7".parse().ok(),
        masks: vec![
            Mask { path: "/sys/wq/cpumask".to_owned(), about: "work queues", cpus: "0-7".parse().unwrap() },
            Mask { path: "/sys/rps".to_owned(), about: "received packets", cpus: "".parse().unwrap() },
        ],
        threads: vec![
            thread(1, "init", false, false, "0-7"),
            thread(14, "kswapd0", true, false, "0-7"),
            thread(20, "ksoftirqd/2", true, true, "2"),
            thread(21, "kworker/u8:0", true, true, "0-7"),
            thread(22, "irq/9-acpi", true, false, "2"),
            thread(30, "rt-app", false, false, "2"),
            thread(31, "web", false, false, "0-1"),
        ],
        cpu_files: vec![idle("C1", 2), idle("C6", 133)],
    }
}

fn planned(request: &Request) -> Plan {
    plan(&machine(), request).unwrap()
}

fn request(cpus: &str) -> Request {
    Request { cpus: cpus.parse().unwrap(), ..Request::default() }
}

fn changes(plan: &Plan) -> Vec<(String, String)> {
    plan.changes.iter().map(|one| (one.of.clone(), one.new.clone())).collect()
}

#[test]
fn what_may_run_on_the_isolated_cpu_and_can_be_moved_is_moved() {
    let plan = planned(&request("2"));
    let expected = [
        ("interrupts to come", "b"),
        ("work queues", "b"),
        ("acpi", "0-1,3"),
        ("init", "0-1,3"),
        ("kswapd0", "0-1,3"),
        ("rt-app", "0-1,3"),
    ];
    assert_eq!(changes(&plan), expected.map(|(of, new)| (of.to_owned(), new.to_owned())));
    let acpi = plan.changes.iter().find(|one| one.what == What::Interrupt).unwrap();
    assert_eq!((acpi.old.as_str(), acpi.aside.as_str()), ("0-3", "2"), "where it came is kept");
}

#[test]
fn what_cannot_be_moved_is_named_and_only_what_comes_to_the_isolated_cpu() {
    let plan = planned(&request("2"));
    let stays: Vec<&str> = plan.stays.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(stays, ["interrupt 24 (nvme0q2) on CPU 2", "kernel threads of the isolated CPUs: ksoftirqd"]);
}

#[test]
fn the_boot_line_names_only_what_is_missing_there() {
    assert_eq!(planned(&request("2")).boot, ["nohz_full=2", "rcu_nocbs=2", "irqaffinity=0-1,3"]);
    assert_eq!(planned(&request("3")).boot, ["rcu_nocbs=3", "irqaffinity=0-2"]);
    assert!(planned(&request("1")).boot.contains(&"isolcpus=managed_irq,domain,1".to_owned()));
}

#[test]
fn housekeeping_may_be_fewer_cpus_than_the_rest() {
    let mut wanted = request("2");
    wanted.housekeeping = "0".parse().unwrap();
    let plan = planned(&wanted);
    assert!(plan.changes.iter().all(|one| one.new == "0" || one.new == "1"), "{:?}", plan.changes);
}

#[test]
fn programs_that_are_to_stay_are_left_alone_by_name_and_by_number() {
    for keep in ["rt-app", "30"] {
        let mut wanted = request("2");
        wanted.keep = vec![keep.to_owned()];
        assert!(!changes(&planned(&wanted)).iter().any(|(of, _)| of == "rt-app"), "{keep}");
    }
}

#[test]
fn governor_and_idle_states_only_if_asked() {
    let mut wanted = request("2");
    wanted.idle_us = Some(10);
    let plan = planned(&wanted);
    let last = plan.changes.last().unwrap();
    assert_eq!((last.path.as_str(), last.new.as_str()), ("/sys/C6/disable", "1"));
    wanted.governor = Some("performance".to_owned());
    assert!(matches!(lathunt_core::isolate::plan(&machine(), &wanted), Err(Refused::NoGovernor(_))));
}

#[test]
fn nothing_is_planned_that_would_leave_no_cpu_for_the_rest() {
    for (cpus, housekeeping, says) in [
        ("0-3", "", "no housekeeping CPU would be left"),
        ("", "", "no CPU to isolate"),
        ("4", "", "cannot isolate CPU 4; online are 0-3"),
        ("2", "5", "CPU 5"),
        ("1-2", "2-3", "CPU 2 for housekeeping"),
    ] {
        let mut wanted = request(cpus);
        wanted.housekeeping = housekeeping.parse().unwrap();
        let refused = plan(&machine(), &wanted).unwrap_err().to_string();
        assert!(refused.contains(says), "{cpus} {housekeeping}: {refused}");
    }
    let mut wanted = request("2");
    wanted.mechanism = Some(Mechanism::Cgroup2);
    assert_eq!(plan(&machine(), &wanted).unwrap_err().to_string(), "cannot isolate by cgroup2: not mounted");
}

#[test]
fn the_text_has_the_diff_what_stays_and_the_boot_line() {
    let text = text::plan(&planned(&request("2")));
    for line in [
        "Isolate CPU 2, everything else on CPU 0-1,3, by exclusive cpusets of cgroup v1.",
        "  not by a better way: cgroup2: not mounted",
        "  ~ /proc/irq/9/smp_affinity_list  0-3 -> 0-1,3  (acpi)",
        "  ~ 1 kernel threads  0-7 -> 0-1,3  (kswapd0)",
        "  ! interrupt 24 (nvme0q2) on CPU 2",
        "  nohz_full=2 rcu_nocbs=2 irqaffinity=0-1,3",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    }
}

const BEFORE: &str = "      CPU0 CPU1
 24: 0 0 PCI acpi
 36: 0 0 PCI disk
 38: 0 0 PCI eth0
LOC: 0 0 Local timer interrupts
RES: 0 0 Rescheduling interrupts
";

fn watched(after: &str) -> Watched {
    let soft = "   CPU0 CPU1\n RCU: 0 0\n";
    let before = interrupts::parse(BEFORE, soft);
    let after = interrupts::parse(after, &soft.replace("0 0", "9 4"));
    Watched {
        cpus: "1".parse().unwrap(),
        seconds: 2.0,
        load: "none".to_owned(),
        came: interrupts::between(&before, &after),
        managed: vec!["36".to_owned()],
        moving: vec!["24".to_owned()],
        gaps: Some(Vec::new()),
        ..Watched::default()
    }
}

fn finding(watched: &Watched, cause: &str) -> (Level, Option<u64>, String) {
    let all = watched.findings();
    let one = all.iter().find(|one| one.cause.contains(cause)).unwrap_or_else(|| panic!("{cause}: {all:#?}"));
    (one.level, one.count, one.remedy.clone())
}

#[test]
fn interrupts_that_could_come_elsewhere_break_isolation_and_others_are_noise_with_a_remedy() {
    let quiet = watched(&BEFORE.replace("24: 0 0", "24: 7 1").replace("36: 0 0", "36: 0 90"));
    assert_eq!((quiet.movable(), quiet.verdict()), (0, Verdict::Isolated), "one that moves comes once more");
    let (level, count, remedy) = finding(&quiet, "interrupt 36");
    assert_eq!((level, count), (Level::Noise, Some(90)));
    assert!(remedy.contains("isolcpus=managed_irq"), "{remedy}");
    let moved_back = watched(&BEFORE.replace("24: 0 0", "24: 7 2").replace("38: 0 0", "38: 0 5"));
    assert_eq!((moved_back.movable(), moved_back.verdict()), (7, Verdict::NotIsolated));
    assert!(finding(&moved_back, "interrupt 38").2.contains("irqbalance"));
}

#[test]
fn the_tick_is_judged_by_its_rate_and_by_nohz_full() {
    let mut ticks = watched(&BEFORE.replace("LOC: 0 0", "LOC: 500 500"));
    assert_eq!(finding(&ticks, "local timer"), (Level::Noise, Some(500), "boot with nohz_full=1".to_owned()));
    ticks.nohz_full = "1".parse().unwrap();
    assert!(finding(&ticks, "local timer").2.contains("one thread"));
    let mut calm = watched(&BEFORE.replace("LOC: 0 0", "LOC: 500 3"));
    calm.nohz_full = "1".parse().unwrap();
    assert_eq!(finding(&calm, "local timer").2, "");
    assert_eq!(finding(&watched(BEFORE), "local timer").0, Level::Quiet);
}

#[test]
fn foreign_threads_break_isolation() {
    let mut visited = watched(BEFORE);
    assert_eq!(visited.verdict(), Verdict::Isolated);
    visited.foreign = vec!["/proc/5/task/5 (cron)".to_owned()];
    assert_eq!(visited.verdict(), Verdict::NotIsolated);
    visited.cut_short = true;
    assert_eq!(visited.verdict(), Verdict::NotIsolated, "what came has come");
    assert_eq!(finding(&visited, "softirq RCU").2, "boot with rcu_nocbs");
}

#[test]
fn a_cpu_on_which_nothing_ran_all_the_time_is_not_called_isolated() {
    let mut idle = watched(BEFORE);
    idle.gaps = None;
    assert_eq!(idle.verdict(), Verdict::Inconclusive);
    assert!(
        idle.text().starts_with("INCONCLUSIVE") && idle.text().contains("No busy loop ran there"),
        "{}",
        idle.text()
    );
    let cut = Watched { cut_short: true, ..watched(BEFORE) };
    assert_eq!(cut.verdict(), Verdict::Inconclusive);
    assert!(cut.text().contains("ended early"), "{}", cut.text());
}

#[test]
fn the_table_has_every_class_with_the_rate_on_the_isolated_cpu_and_both_latencies() {
    let mut all = watched(&BEFORE.replace("LOC: 0 0", "LOC: 2000 500").replace("RES: 0 0", "RES: 3 1250"));
    let latency = |us: u64| Latency {
        samples: 1000,
        median_ns: Ns::from_us(us),
        p999_ns: Ns::from_us(us * 2),
        max_ns: Ns::from_us(us * 3),
        stolen_ns: Some(Ns::ZERO),
        idle: None,
    };
    (all.before, all.after) = (Some(latency(40)), Some(latency(5)));
    let text = all.text();
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let row = |name: &str| {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        cells(&line[name.len()..])
    };
    assert_eq!(row("local timer"), ["500", "2", "000", "250.0"]);
    assert_eq!(row("rescheduling"), ["1", "250", "3", "625.0"]);
    assert_eq!(row("I/O"), ["0", "0", "0.0"]);
    assert_eq!(row("isolated  "), ["1", "000", "5.0", "µs", "10.0", "µs", "15.0", "µs", "-"]);
    assert!(
        text.starts_with("ISOLATED  CPU 1: 0 interrupts that can be kept away came, and 0 foreign"),
        "{text}"
    );
    assert!(!text.contains("stolen"), "{text}");
}

#[test]
fn a_higher_median_on_a_cpu_that_sleeps_more_is_said_to_come_from_that() {
    let mut all = watched(BEFORE);
    let latency = |us: u64, idle: f64| Latency {
        samples: 1000,
        median_ns: Ns::from_us(us),
        p999_ns: Ns::from_us(100),
        max_ns: Ns::from_us(100),
        stolen_ns: None,
        idle: Some(idle),
    };
    (all.before, all.after) = (Some(latency(31, 0.04)), Some(latency(62, 0.97)));
    assert!(all.text().contains("97 %") && all.text().contains("finds it asleep"), "{}", all.text());
    // Lower, or as sleepy as before: nothing to explain, or not by this.
    for before in [latency(70, 0.04), latency(31, 0.9)] {
        all.before = Some(before);
        assert!(!all.text().contains("finds it asleep"), "{}", all.text());
    }
}

#[test]
fn a_latency_measured_while_the_host_stole_time_is_not_compared_in_silence() {
    let mut all = watched(BEFORE);
    let latency = |stolen| Latency {
        samples: 1,
        median_ns: Ns(1),
        p999_ns: Ns(1),
        max_ns: Ns::from_ms(20),
        stolen_ns: stolen,
        idle: None,
    };
    (all.before, all.after) = (Some(latency(None)), Some(latency(Some(Ns::from_ms(20)))));
    let text = all.text();
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("isolated  ").ends_with("20.000 ms       -   20.000 ms"), "{text}");
    assert!(row("before").ends_with('-') && row("stolen:").contains("do not compare"), "{text}");
    all.foreign = vec!["cron".to_owned()];
    assert!(all
        .text()
        .starts_with("NOT ISOLATED  CPU 1: 0 interrupts that can be kept away came, and 1 foreign"));
}
