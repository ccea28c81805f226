//! Activity of firmware, processor and hypervisor.

use super::super::facts::{number, Facts, Known};
use super::super::rule::Expect::{Judge, Report, Show};
use super::super::rule::Fix::{Boot, Do, Run};
use super::super::rule::Severity::{High, Info, Medium};
use super::super::rule::{Answer, Judged, Missing, Rule};
use super::{shown, EVERY};

const MCE_INTERVAL: &str = "/sys/devices/system/machinecheck/machinecheck*/check_interval";
const MCE_IGNORED: &str = "/sys/devices/system/machinecheck/machinecheck*/ignore_ce";

const GPU_RC6: &str = "/sys/class/drm/card*/gt/gt*/rc6_enable";
const GPU_LEVEL: &str = "/sys/class/drm/card*/device/power_dpm_force_performance_level";
const GPU_SLEEP: &str = "/sys/class/drm/card*/device/power/control";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "smi",
        title: "System management interrupts during the watch",
        facts: &["@smi_count", "/proc/cpuinfo"],
        expect: Judge(smi),
        severity: High,
        why: "firmware takes all CPUs for tens to hundreds of microseconds, invisibly to the kernel",
        fix: &[Do("look in the firmware's setup for USB legacy support, power and error reporting; ask the board's maker")],
        source: "rt-tests (--smi); CI; Intel SDM volume 4 (MSR 0x34)",
        profiles: EVERY,
    },
    Rule {
        id: "machine-checks",
        title: "Polling for corrected machine errors",
        facts: &[MCE_INTERVAL, MCE_IGNORED],
        expect: Judge(machine_checks),
        severity: Medium,
        why: "a timer on every CPU reads all error banks every five minutes",
        fix: &[Run("for f in /sys/devices/system/machinecheck/machinecheck*/check_interval; do echo 0 > \"$f\"; done")],
        source: "tuned realtime",
        profiles: EVERY,
    },
    Rule {
        id: "nmi",
        title: "Non-maskable interrupts during the watch",
        facts: &["/proc/interrupts", "/proc/sys/kernel/perf_event_paranoid"],
        expect: Judge(|facts| {
            let (sum, seconds) = interrupts(facts, &["NMI", "PMI"])?;
            let paranoid = facts.text("/proc/sys/kernel/perf_event_paranoid");
            let who = paranoid.map_or(String::new(), |level| format!(" (perf_event_paranoid {level})"));
            Answer::is(sum == 0, format!("{sum} in {seconds:.1} s{who}"))
        }),
        severity: Medium,
        why: "they arrive even while interrupts are off; perf and the watchdog use them",
        fix: &[Run("sysctl -w kernel.nmi_watchdog=0"), Do("end perf and other profilers")],
        source: "tuned network-latency",
        profiles: EVERY,
    },
    Rule {
        id: "virtualisation",
        title: "Virtual machine",
        facts: &["@hypervisor", "/sys/hypervisor/type", "/proc/cpuinfo"],
        expect: Judge(virtualisation),
        severity: High,
        why: "the hypervisor can take the CPU at any time, and no setting of the guest prevents that",
        fix: &[Do("measure on bare metal, or bind each virtual CPU to a host CPU of its own")],
        source: "HW",
        profiles: EVERY,
    },
    Rule {
        id: "steal",
        title: "Steal time during the watch",
        facts: &["/proc/stat"],
        expect: Judge(steal),
        severity: High,
        why: "the virtual CPU does not run at all during it",
        fix: &[Do("bind each virtual CPU to a host CPU of its own")],
        source: "proc_stat(5)",
        profiles: EVERY,
    },
    Rule {
        id: "mitigations",
        title: "Mitigations of processor faults",
        facts: &["/sys/devices/system/cpu/vulnerabilities/*"],
        expect: Show(mitigations),
        severity: Info,
        why: "they make every entry into the kernel longer: a shift of the whole distribution",
        fix: &[],
        source: "meta-nilrt",
        profiles: EVERY,
    },
    Rule {
        id: "microcode",
        title: "Microcode equal on all CPUs",
        facts: &["/proc/cpuinfo"],
        expect: Judge(microcode),
        severity: Info,
        why: "results with different microcode are not comparable",
        fix: &[Do("update the microcode package and boot")],
        source: "jitterdebugger",
        profiles: EVERY,
    },
    Rule {
        id: "graphics",
        title: "Graphics processor in use",
        facts: &[],
        expect: Report { path: "/sys/class/drm/", absent: "no graphics driver is loaded" },
        severity: Info,
        why: "it shares caches and memory bandwidth with the processor",
        fix: &[],
        source: "KC",
        profiles: EVERY,
    },
    Rule {
        id: "graphics-power",
        title: "Power saving of the graphics processor",
        facts: &[GPU_RC6, GPU_LEVEL, GPU_SLEEP],
        expect: Judge(graphics_power),
        severity: Medium,
        why: "waking it up holds the memory and the power controller that the processor shares with it",
        fix: &[
            Run("for f in /sys/class/drm/card*/device/power/control; do echo on > \"$f\"; done"),
            Boot("i915.enable_dc=0 i915.disable_power_well=0"),
            Do("amdgpu: echo high > /sys/class/drm/card*/device/power_dpm_force_performance_level; i915: keep it busy or use no graphics, RC6 cannot be switched off since 4.16"),
        ],
        source: "practice (i915 RC6 and display C-states, amdgpu DPM)",
        profiles: EVERY,
    },
    Rule {
        id: "cache-partition",
        title: "Partition of the shared cache (resctrl)",
        facts: &[],
        expect: Report { path: "/sys/fs/resctrl/schemata", absent: "resctrl is not mounted" },
        severity: Info,
        why: "other work evicts the real-time work's data from the shared cache",
        fix: &[],
        source: "HW",
        profiles: EVERY,
    },
];

fn smi(facts: &Facts) -> Judged {
    if !facts.cpu_field("vendor_id").is_ok_and(|vendor| vendor == "GenuineIntel") {
        facts.text("/proc/cpuinfo")?;
        return Missing::not_here("only Intel's processors count them where it can be read");
    }
    let (before, after) = facts.twice("@smi_count")?;
    let sum = number("@smi_count", after)? - number("@smi_count", before)?;
    Answer::is(sum == 0, format!("{sum} in {:.1} s", facts.watched_s().unwrap_or(0.0)))
}

/// Increase of rows of /proc/interrupts, summed over all CPUs, and the seconds it took.
fn interrupts(facts: &Facts, rows: &[&str]) -> Result<(u64, f64), Missing> {
    let (before, after) = facts.twice("/proc/interrupts")?;
    let sum = |text: &str| -> u64 { rows.iter().map(|row| row_sum(text, row)).sum() };
    Ok((sum(after).saturating_sub(sum(before)), facts.watched_s().unwrap_or(0.0)))
}

fn row_sum(text: &str, row: &str) -> u64 {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(row)?.strip_prefix(':'));
    let numbers =
        line.unwrap_or_default().split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok());
    numbers.sum()
}

/// Either ends the polling: no interval, or corrected errors ignored.
fn machine_checks(facts: &Facts) -> Judged {
    let intervals = match facts.all(MCE_INTERVAL) {
        none if none.is_empty() && facts.absence_means_something() => {
            return Missing::not_here("no machine checks are visible")
        }
        _ => facts.some(MCE_INTERVAL)?,
    };
    let ignored = facts.all(MCE_IGNORED);
    if !ignored.is_empty() && ignored.iter().all(|(_, on)| *on == "1") {
        return Answer::good("corrected errors are ignored");
    }
    match intervals.iter().all(|(_, s)| *s == "0") {
        true => Answer::good("off"),
        false => Answer::bad(format!("every {} s", shown(&intervals))),
    }
}

fn virtualisation(facts: &Facts) -> Judged {
    if let Ok(kind) = facts.text("@hypervisor") {
        return Answer::is(
            kind == "none",
            if kind == "none" { "bare metal, as far as the processor says" } else { kind },
        );
    }
    if let Some(kind) = facts.maybe("/sys/hypervisor/type")?.filter(|kind| !kind.is_empty()) {
        return Answer::bad(kind);
    }
    let flags = facts
        .cpu_field("flags")
        .map_err(|_| Missing::Unknown("this processor does not report it".to_owned()))?;
    let guest = flags.split(' ').any(|flag| flag == "hypervisor");
    Answer::is(
        !guest,
        if guest { "the processor says so" } else { "bare metal, as far as the processor says" },
    )
}

fn steal(facts: &Facts) -> Judged {
    let (before, after) = facts.twice("/proc/stat")?;
    let ticks = |text: &str| -> i64 {
        let line = text.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
        line.split_ascii_whitespace().nth(8).and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    let taken = ticks(after) - ticks(before);
    Answer::is(taken <= 0, format!("{} ms in {:.1} s", taken * 10, facts.watched_s().unwrap_or(0.0)))
}

fn mitigations(facts: &Facts) -> Known<String> {
    let all = facts.some("/sys/devices/system/cpu/vulnerabilities/*")?;
    let count = |head: &str| all.iter().filter(|(_, text)| text.starts_with(head)).count();
    let (on, open) = (count("Mitigation"), count("Vulnerable"));
    Ok(format!("{on} on, {open} open, {} not affected", count("Not affected")))
}

fn microcode(facts: &Facts) -> Judged {
    let info = facts.text("/proc/cpuinfo")?;
    let mut versions: Vec<&str> = info
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| key.trim() == "microcode")
        .map(|(_, value)| value.trim())
        .collect();
    versions.sort_unstable();
    versions.dedup();
    match versions.as_slice() {
        [] => Missing::not_here("this processor names none"),
        [one] => Answer::good(*one),
        several => Answer::bad(format!("differs: {}", several.join(", "))),
    }
}

fn graphics_power(facts: &Facts) -> Judged {
    let saves = [(GPU_RC6, &["1"][..]), (GPU_LEVEL, &["auto", "low"]), (GPU_SLEEP, &["auto"])];
    let all: Vec<_> = saves.iter().map(|(path, saving)| (facts.all(path), *saving)).collect();
    if all.iter().all(|(files, _)| files.is_empty()) {
        return match facts.absence_means_something() {
            true => Missing::not_here("no graphics processor with power management is there"),
            false => facts.some(GPU_SLEEP).and_then(|_| Answer::good("")),
        };
    }
    let found: Vec<String> = all
        .into_iter()
        .flat_map(|(files, saving)| files.into_iter().filter(move |(_, text)| saving.contains(text)))
        .map(|(path, text)| format!("{} is {text}", path.trim_start_matches("/sys/class/drm/")))
        .collect();
    Answer::is(found.is_empty(), if found.is_empty() { "off".to_owned() } else { found.join(", ") })
}
