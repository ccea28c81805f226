//! The rules of `check` against a corpus of machines: a real-time box, one with everything wrong, a virtual machine, and
//! kernel configurations of Debian.

mod old_kernels;

use std::collections::{BTreeMap, BTreeSet};

use lathunt_core::check::facts::Facts;
use lathunt_core::check::judge::worst;
use lathunt_core::check::rule::{Expect, Outcome};
use lathunt_core::check::snapshot::matches;
use lathunt_core::check::{
    answers, check, fix_script, json, kconfig_fragment, rules, text, Kconfig, Origin, Profile, Severity,
    Shown, Snapshot,
};
use lathunt_core::cpuset::CpuSet;

const RT_BOX: &str = include_str!("machines/rt-box.json");
const WRONG: &str = include_str!("machines/everything-wrong.json");
const VIRTUAL: &str = include_str!("machines/virtual-machine.json");
/// Debian's PREEMPT_RT kernel in the lab's guest: `lathunt check --snapshot` there.
const LAB: &str = include_str!("machines/lab-rt.json");
const CONFIGS: [&str; 3] = [
    include_str!("machines/debian-6.1.0-56-amd64.config"),
    include_str!("machines/debian-6.1.0-56-rt-amd64.config"),
    include_str!("machines/old-slab.config"),
];

/// Rules that show or judge by the profile.
const SHOWN: &str = "turbo";

fn machine(json: &str) -> Snapshot {
    Snapshot::from_json(json).unwrap()
}

/// The corpus: hand-made and real machines, and nothing at all.
fn corpus() -> Vec<Snapshot> {
    let mut all: Vec<Snapshot> = [RT_BOX, WRONG, VIRTUAL, LAB].into_iter().map(machine).collect();
    all.extend(CONFIGS.into_iter().map(|text| Kconfig::of(text).snapshot().unwrap()));
    all.push(Snapshot::empty(Origin::Tree));
    // The real-time box without a readable configuration and with nothing isolated.
    let mut bare = machine(RT_BOX);
    bare.config = None;
    for list in ["/sys/devices/system/cpu/isolated", "/sys/fs/cgroup/cpuset.cpus.isolated"] {
        bare.files.insert(list.to_owned(), String::new());
    }
    all.push(bare);
    all
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

#[test]
fn every_rule_has_a_machine_that_passes_and_one_that_fails_it() {
    let mut outcomes: BTreeMap<&str, BTreeSet<Outcome>> = BTreeMap::new();
    let chosen = cpus("2-3");
    for snapshot in corpus() {
        for profile in Profile::ALL {
            for cpus in [None, Some(&chosen)] {
                for finding in check(&Facts::new(&snapshot, profile, cpus)) {
                    outcomes.entry(finding.rule.id).or_default().insert(finding.outcome);
                }
            }
        }
    }
    let mut lacking = Vec::new();
    for (_, rule) in rules::all() {
        let seen = &outcomes[rule.id];
        let needed: &[Outcome] = match rule.expect.only_shows() || rule.id == SHOWN {
            true => &[Outcome::Reported],
            false => &[Outcome::Good, Outcome::Bad],
        };
        if !needed.iter().all(|outcome| seen.contains(outcome)) {
            lacking.push(format!("{}: only {seen:?}", rule.id));
        }
        if rule.expect.only_shows() && (seen.contains(&Outcome::Good) || seen.contains(&Outcome::Bad)) {
            lacking.push(format!("{} judges: {seen:?}", rule.id));
        }
    }
    assert!(lacking.is_empty(), "{}", lacking.join("\n"));
}

#[test]
fn of_a_machine_of_which_nothing_is_known_nothing_is_claimed() {
    let nothing = Snapshot::empty(Origin::Tree);
    for finding in check(&Facts::new(&nothing, Profile::Periodic, None)) {
        let claims = !matches!(finding.outcome, Outcome::Unknown | Outcome::DoesNotApply)
            && finding.rule.id != "length";
        assert!(!claims, "{}: {:?} {}", finding.rule.id, finding.outcome, finding.found);
        assert!(!finding.found.is_empty(), "{} gives no reason", finding.rule.id);
    }
}

/// Otherwise a snapshot of another machine would lack what the rule looks at.
#[test]
fn a_rule_looks_at_nothing_but_the_facts_it_names() {
    for whole in [RT_BOX, WRONG, VIRTUAL, LAB].map(machine) {
        for profile in Profile::ALL {
            for finding in check(&Facts::new(&whole, profile, Some(&cpus("1")))) {
                let mut named = rules::needs(finding.rule);
                named.extend(["/sys/devices/system/cpu/online", "/sys/devices/system/cpu/isolated"]);
                let keep = |name: &String| named.iter().any(|pattern| matches(pattern, name));
                let mut part = whole.clone();
                part.files.retain(|name, _| keep(name));
                part.later.retain(|name, _| {
                    keep(name) && rules::TWICE.iter().any(|pattern| matches(pattern, name))
                });
                part.unreadable.retain(|name, _| keep(name));
                let options: &[&str] = match finding.rule.expect {
                    Expect::NotBuilt(options) => options,
                    _ => &[],
                };
                if let Some(config) = &mut part.config {
                    config.retain(|name, _| {
                        options.contains(&name.as_str()) || named.contains(&format!("CONFIG_{name}").as_str())
                    });
                }
                let again = check(&Facts::new(&part, profile, Some(&cpus("1"))));
                let again = again.iter().find(|other| other.rule.id == finding.rule.id).unwrap();
                assert_eq!(
                    (again.outcome, &again.found),
                    (finding.outcome, &finding.found),
                    "{}",
                    finding.rule.id
                );
            }
        }
    }
}

#[test]
fn rules_are_complete_and_their_names_are_unique() {
    let all: Vec<_> = rules::all().collect();
    assert!(all.len() >= 80, "{}", all.len());
    let ids: BTreeSet<&str> = all.iter().map(|(_, rule)| rule.id).collect();
    assert_eq!(ids.len(), all.len());
    for (_, rule) in all {
        for text in [rule.id, rule.title, rule.why, rule.source] {
            assert!(!text.is_empty() && !text.contains('\n'), "{}", rule.id);
        }
        let mends = !rule.fix.is_empty() || matches!(rule.expect, Expect::NotBuilt(_));
        let reports = rule.expect.only_shows() || rule.id == SHOWN;
        assert!(mends || reports, "{} finds fault and does not say how to fix it", rule.id);
    }
}

/// What README and CHANGELOG promise.
#[test]
fn the_number_of_rules_is_the_one_that_the_documentation_says() {
    let says = format!("{} rules", rules::all().count());
    for (file, text) in [
        ("README.md", include_str!("../../../README.md")),
        ("CHANGELOG.md", include_str!("../../../CHANGELOG.md")),
    ] {
        assert!(text.contains(&says), "{file} does not say '{says}'");
    }
}

#[test]
fn a_machine_that_is_well_set_up_has_nothing_to_fix() {
    let snapshot = machine(RT_BOX);
    let facts = Facts::new(&snapshot, Profile::BusyPoll, None);
    let findings = check(&facts);
    assert_eq!(worst(&findings), None, "{:?}", findings.first());
    assert_eq!(answers(&facts).realtime, Some(true));
    assert_eq!(answers(&facts).take, None);
    assert_eq!(kconfig_fragment(&findings), "");
}

#[test]
fn what_else_is_set_decides_about_a_value() {
    /// Rule, facts in which the machine differs from the real-time box, outcome, what is said.
    type Case = (&'static str, &'static [(&'static str, &'static str)], Outcome, &'static str);
    let cases: [Case; 14] = [
        (
            "timer-migration",
            &[("/proc/sys/kernel/timer_migration", "1")],
            Outcome::Reported,
            "from CPU 2-3 by nohz_full",
        ),
        (
            "timer-migration",
            &[("/proc/sys/kernel/timer_migration", "1"), ("/sys/devices/system/cpu/nohz_full", "")],
            Outcome::Bad,
            "on",
        ),
        (
            "housekeeping",
            &[
                ("/sys/devices/system/node/node0/cpulist", "0-1"),
                ("/sys/devices/system/node/node1/cpulist", "2-3"),
                ("/sys/devices/system/node/node2/cpulist", ""),
            ],
            Outcome::Bad,
            "2 of 4 CPUs: 0-1; none on node1",
        ),
        ("irqbalance", &[("/proc/77/task/77/stat", BALANCE)], Outcome::Bad, "running"),
        ("efi-runtime", &[("/proc/cmdline", "efi=runtime")], Outcome::Bad, "are on"),
        (
            "efi-runtime",
            &[("/proc/cmdline", "efi=runtime"), ("/sys/devices/virtual/workqueue/efi_runtime/cpumask", "3")],
            Outcome::Good,
            "on CPU 0-1 only",
        ),
        (
            "efi-runtime",
            &[("/proc/cmdline", "efi=runtime"), ("/sys/devices/virtual/workqueue/efi_runtime/cpumask", "f")],
            Outcome::Bad,
            "are on",
        ),
        (
            "governor",
            &[("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave")],
            Outcome::Bad,
            "powersave (cpu0)",
        ),
        (
            "irqbalance",
            &[
                ("/proc/77/task/77/stat", BALANCE),
                ("/etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=2,3\n"),
            ],
            Outcome::Good,
            "running, and banned from CPU 2-3",
        ),
        (
            "machine-checks",
            &[
                ("/sys/devices/system/machinecheck/machinecheck0/check_interval", "300"),
                ("/sys/devices/system/machinecheck/machinecheck0/ignore_ce", "1"),
            ],
            Outcome::Good,
            "ignored",
        ),
        ("isolcpus", &[("/proc/cmdline", "isolcpus=2-3")], Outcome::Good, "but not from managed interrupts"),
        (
            "performance-floor",
            &[("/sys/devices/system/cpu/intel_pstate/status", "off")],
            Outcome::DoesNotApply,
            "off",
        ),
        (
            "tracing",
            &[
                ("/sys/kernel/tracing/instances/idle/current_tracer", "nop"),
                ("/sys/kernel/tracing/instances/idle/events/enable", "0"),
            ],
            Outcome::Good,
            "nothing",
        ),
        (
            "tracing",
            &[
                ("/sys/kernel/tracing/instances/busy/current_tracer", "nop"),
                ("/sys/kernel/tracing/instances/busy/events/enable", "X"),
            ],
            Outcome::Bad,
            "instance busy with events enabled",
        ),
    ];
    for (rule, differs, outcome, says) in cases {
        let mut snapshot = machine(RT_BOX);
        differs.iter().for_each(|(name, text)| {
            snapshot.files.insert((*name).to_owned(), (*text).to_owned());
        });
        let findings = check(&Facts::new(&snapshot, Profile::Periodic, None));
        let found = findings.iter().find(|finding| finding.rule.id == rule).unwrap();
        assert_eq!((found.outcome, found.found.contains(says)), (outcome, true), "{rule}: {}", found.found);
    }
}

/// `/proc/77/task/77/stat` of a running irqbalance.
const BALANCE: &str = "77 (irqbalance) S 1 77 77 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0";

#[test]
fn a_machine_with_everything_wrong_is_told_so_and_a_script_mends_what_can_be() {
    let snapshot = machine(WRONG);
    let facts = Facts::new(&snapshot, Profile::BusyPoll, Some(&cpus("2-3")));
    let findings = check(&facts);
    assert_eq!(worst(&findings), Some(Severity::Fatal));
    assert_eq!(answers(&facts).realtime, Some(false));
    let script = fix_script(&findings);
    for says in [
        "echo 3 > /proc/irq/default_smp_affinity",
        "for i in /sys/kernel/tracing/instances/*; do echo nop > \"$i\"/current_tracer;",
        "for f in /proc/irq/*/smp_affinity_list; do echo 0-1 > \"$f\"; done",
        "nohz_full=2-3",
        "#   # CONFIG_KASAN is not set",
    ] {
        assert!(script.contains(says), "{says}\n{script}");
    }
    for line in script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        assert!(
            !line.contains("{cpus") && !line.contains("{house") && !line.contains('<'),
            "a gap was left in: {line}"
        );
    }
}

#[test]
fn a_bare_configuration_gets_the_fragment_that_is_missing() {
    let of = |at: usize| Kconfig::of(CONFIGS[at]).snapshot().unwrap();
    let (plain, rt) = (of(0), of(1));
    let fragment =
        |snapshot: &Snapshot| kconfig_fragment(&check(&Facts::new(snapshot, Profile::Periodic, None)));
    assert!(fragment(&plain).contains("CONFIG_PREEMPT_RT=y\n"), "{}", fragment(&plain));
    assert!(fragment(&plain).contains("CONFIG_HWLAT_TRACER=y\n"));
    assert!(!fragment(&rt).contains("PREEMPT_RT"));
    assert_eq!(fragment(&rt), "CONFIG_CPU_FREQ=y\nCONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE=y\n# CONFIG_DEBUG_LIST is not set\n# CONFIG_SCHEDSTATS is not set\n");
    let old = answers(&Facts::new(&of(2), Profile::Periodic, None));
    assert!(old.take.unwrap().contains("Linux 4.16, the nearest series below 4.17"));
    let debian = answers(&Facts::new(&plain, Profile::Periodic, None));
    assert!(debian.take.unwrap().ends_with("/rt/6.1/"));
}

#[test]
fn findings_on_a_terminal_are_as_kept() {
    let shown = Shown { width: 120, colour: false, all: false, only_bad: false };
    let virtual_machine = machine(VIRTUAL);
    let wrong = machine(WRONG);
    let debian = Kconfig::of(CONFIGS[0]).snapshot().unwrap();
    for (name, snapshot, chosen) in [
        ("virtual machine", &virtual_machine, None),
        ("lab", &machine(LAB), None),
        ("everything wrong", &wrong, Some(cpus("2-3"))),
        ("debian configuration", &debian, None),
    ] {
        let facts = Facts::new(snapshot, Profile::Periodic, chosen.as_ref());
        let findings = check(&facts);
        insta::assert_snapshot!(name.replace(' ', "_"), text(&facts, &answers(&facts), &findings, shown));
    }
    let rt = machine(RT_BOX);
    let facts = Facts::new(&rt, Profile::BusyPoll, None);
    let all = Shown { all: true, ..shown };
    insta::assert_snapshot!("real-time_box_in_full", text(&facts, &answers(&facts), &check(&facts), all));
}

#[test]
fn the_json_form_says_everything_and_is_json() {
    let snapshot = machine(WRONG);
    let facts = Facts::new(&snapshot, Profile::Periodic, None);
    let findings = check(&facts);
    let document = json::document(snapshot.of, &facts, &answers(&facts), &findings);
    let value: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!((&value["format"], &value["version"]), (&"lathunt-check".into(), &1.into()));
    assert_eq!(value["findings"].as_array().unwrap().len(), rules::all().count());
    let first = &value["findings"][0];
    assert_eq!((&first["severity"], &first["outcome"]), (&"fatal".into(), &"bad".into()));
    assert!(first["fix"][0]["kind"].is_string() && first["why"].is_string() && first["source"].is_string());
}
