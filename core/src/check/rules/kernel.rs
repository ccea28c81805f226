//! Build options of the kernel, and those selected at boot.

use super::super::answers::realtime;
use super::super::facts::{chosen, Facts};
use super::super::rule::Expect::{Judge, NotBuilt, Show};
use super::super::rule::Fix::{Boot, Build, Do, Run};
use super::super::rule::Severity::{Fatal, High, Info, Medium};
use super::super::rule::{Answer, Judged, Missing, Rule};
use super::EVERY;
use crate::cpuset::CpuSet;

const VERSION: &str = "/proc/sys/kernel/version";
const REALTIME: &str = "/sys/kernel/realtime";
const EFI_WORKQUEUE: &str = "/sys/devices/virtual/workqueue/efi_runtime/cpumask";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "preempt-rt",
        title: "Fully preemptible kernel (PREEMPT_RT)",
        facts: &[REALTIME, VERSION, "/proc/sys/kernel/osrelease", "CONFIG_PREEMPT_RT", "CONFIG_PREEMPT_RT_FULL", "CONFIG_ARCH_SUPPORTS_RT"],
        expect: Judge(preempt_rt),
        severity: Fatal,
        why: "on other kernels interrupts, softirqs and spinlocks delay a real-time thread without bound",
        fix: &[Do("boot a real-time kernel (see 'To take')"), Build("CONFIG_EXPERT=y\nCONFIG_PREEMPT_RT=y")],
        source: "KC; rt-tests",
        profiles: EVERY,
    },
    Rule {
        id: "preempt-mode",
        title: "Preemption in force",
        facts: &[
            "/sys/kernel/debug/sched/preempt",
            "/proc/cmdline",
            REALTIME,
            VERSION,
            "CONFIG_PREEMPT_RT", "CONFIG_PREEMPT_RT_FULL", "CONFIG_ARCH_SUPPORTS_RT",
            "CONFIG_PREEMPT_DYNAMIC",
            "CONFIG_PREEMPT",
            "CONFIG_PREEMPT_LAZY",
            "CONFIG_PREEMPT_VOLUNTARY",
        ],
        expect: Judge(preempt_mode),
        severity: High,
        why:
            "none and voluntary let a system call run for milliseconds before a real-time thread gets the CPU",
        fix: &[Run("echo full > /sys/kernel/debug/sched/preempt"), Boot("preempt=full")],
        source: "practice; kernel/sched/core.c",
        profiles: EVERY,
    },
    Rule {
        id: "high-res-timers",
        title: "High-resolution timers",
        facts: &["CONFIG_HIGH_RES_TIMERS", "@clock_resolution_ns", "/proc/cmdline"],
        expect: Judge(high_res_timers),
        severity: Fatal,
        why: "without them every timer waits for the next tick, 1 to 10 ms",
        fix: &[Build("CONFIG_HIGH_RES_TIMERS=y"), Do("remove highres=off from the command line")],
        source: "realtimeconfigquickscan; rt-tests",
        profiles: EVERY,
    },
    Rule {
        id: "hz",
        title: "Timer tick",
        facts: &["CONFIG_HZ"],
        expect: Show(|facts| match facts.config("HZ")? {
            "n" => Missing::unknown("CONFIG_HZ is not in the configuration"),
            hz => Ok(format!("{hz} Hz")),
        }),
        severity: Info,
        why: "each tick interrupts a busy CPU for some microseconds",
        fix: &[],
        source: "realtimeconfigquickscan",
        profiles: EVERY,
    },
    Rule {
        id: "lock-debugging",
        title: "Lock debugging",
        facts: &[],
        expect: NotBuilt(&["PROVE_LOCKING", "LOCKDEP", "LOCK_STAT", "DEBUG_LOCK_ALLOC"]),
        severity: High,
        why: "checks every lock operation: worst cases grow tenfold",
        fix: &[],
        source: "KC; xenomai kconf-checklist",
        profiles: EVERY,
    },
    Rule {
        id: "latency-tracers",
        title: "Tracers of interrupts-off and preemption-off sections",
        facts: &[],
        expect: NotBuilt(&["IRQSOFF_TRACER", "PREEMPT_TRACER"]),
        severity: High,
        why: "they cost time at every interrupt and preemption switch even while idle",
        fix: &[],
        source: "KC",
        profiles: EVERY,
    },
    Rule {
        id: "memory-debugging",
        title: "Memory debugging",
        facts: &[],
        expect: NotBuilt(&[
            "KASAN",
            "KCSAN",
            "DEBUG_KMEMLEAK",
            "DEBUG_VM",
            "DEBUG_PAGEALLOC",
            "SLUB_DEBUG_ON",
        ]),
        severity: High,
        why: "slow paths in the allocator and at every memory access",
        fix: &[],
        source: "xenomai kconf-checklist; practice",
        profiles: EVERY,
    },
    Rule {
        id: "page-poisoning",
        title: "Poisoning of freed pages",
        facts: &["CONFIG_PAGE_POISONING", "/proc/cmdline"],
        expect: Judge(page_poisoning),
        severity: High,
        why: "every page is filled when it is freed, and read through before it is used again",
        fix: &[Do("remove page_poison from the command line")],
        source: "mm/Kconfig.debug (built in, it does nothing without page_poison=1)",
        profiles: EVERY,
    },
    Rule {
        id: "other-debugging",
        title: "Other debug options",
        facts: &[],
        expect: NotBuilt(&[
            "DEBUG_OBJECTS",
            "DEBUG_PER_CPU_MAPS",
            "DEBUG_ENTRY",
            "DEBUG_PREEMPT",
            "DEBUG_LIST",
            "SCHEDSTATS",
        ]),
        severity: Medium,
        why: "each adds work to hot paths (DEBUG_ATOMIC_SLEEP may stay)",
        fix: &[],
        source: "KC; xenomai kconf-checklist",
        profiles: EVERY,
    },
    Rule {
        id: "slabinfo",
        title: "Debugging of the SLAB allocator (kernels before 6.8)",
        facts: &["CONFIG_SLAB", "CONFIG_SLABINFO", "CONFIG_DEBUG_SLAB", "CONFIG_SLUB"],
        expect: Judge(slabinfo),
        severity: Medium,
        why: "reading /proc/slabinfo walks all lists of the SLAB allocator with interrupts off",
        fix: &[Build("# CONFIG_DEBUG_SLAB is not set\n# CONFIG_SLABINFO is not set\nCONFIG_SLUB=y")],
        source: "practice (mm/slab.c, removed in 6.8)",
        profiles: EVERY,
    },
    Rule {
        id: "threaded-irqs",
        title: "Interrupt handlers in threads",
        facts: &["/proc/cmdline", REALTIME, VERSION, "CONFIG_PREEMPT_RT", "CONFIG_PREEMPT_RT_FULL", "CONFIG_ARCH_SUPPORTS_RT"],
        expect: Judge(threaded_irqs),
        severity: Medium,
        why: "a handler in a thread can be preempted, one in interrupt context cannot",
        fix: &[Boot("threadirqs")],
        source: "realtimeconfigquickscan; KP",
        profiles: EVERY,
    },
    Rule {
        id: "efi-runtime",
        title: "Calls into the EFI firmware",
        facts: &[
            "/sys/firmware/efi/",
            EFI_WORKQUEUE,
            "/sys/devices/system/cpu/isolated",
            "/proc/cmdline",
            "CONFIG_EFI_DISABLE_RUNTIME",
            REALTIME,
            VERSION,
            "CONFIG_PREEMPT_RT", "CONFIG_PREEMPT_RT_FULL", "CONFIG_ARCH_SUPPORTS_RT",
        ],
        expect: Judge(efi_runtime),
        severity: Medium,
        why: "firmware may run with interrupts off for any length of time (clock, variables)",
        fix: &[
            Boot("efi=noruntime"),
            Build("CONFIG_EFI_DISABLE_RUNTIME=y"),
            Do("or keep them away from the real-time work: its CPUs out of /sys/devices/virtual/workqueue/efi_runtime/cpumask"),
        ],
        source: "KC; HW",
        profiles: EVERY,
    },
];

fn preempt_rt(facts: &Facts) -> Judged {
    let (answer, evidence) = realtime(facts);
    match answer {
        Some(is) => Answer::is(is, evidence.join("; ")),
        None if evidence.is_empty() => {
            Missing::unknown("neither /sys/kernel/realtime, the configuration nor uname -v could be read")
        }
        None => Err(Missing::Unknown(evidence.join("; "))),
    }
}

fn preempt_mode(facts: &Facts) -> Judged {
    if realtime(facts).0 == Some(true) {
        return Missing::not_here("PREEMPT_RT is preemptible everywhere");
    }
    let found = match facts.maybe("/sys/kernel/debug/sched/preempt") {
        Ok(Some(text)) => chosen(text),
        _ => match (facts.boot("preempt"), facts.config("PREEMPT_DYNAMIC")) {
            (Ok(Some(booted)), _) => booted,
            _ => [("PREEMPT_LAZY", "lazy"), ("PREEMPT", "full"), ("PREEMPT_VOLUNTARY", "voluntary")]
                .into_iter()
                .find(|(option, _)| facts.config(option).is_ok_and(|value| value == "y"))
                .map_or_else(|| facts.config("PREEMPT").map(|_| "none"), |(_, model)| Ok(model))?,
        },
    };
    Answer::is(found == "full", found)
}

fn high_res_timers(facts: &Facts) -> Judged {
    let off = facts.boot("highres").is_ok_and(|value| value == Some("off"));
    match (facts.number("@clock_resolution_ns"), facts.config("HIGH_RES_TIMERS")) {
        (Ok(ns), _) => Answer::is(ns == 1, format!("resolution of CLOCK_MONOTONIC is {ns} ns")),
        (_, Ok(value)) => Answer::is(value == "y" && !off, format!("CONFIG_HIGH_RES_TIMERS={value}")),
        (_, Err(missing)) => Err(missing),
    }
}

fn slabinfo(facts: &Facts) -> Judged {
    if facts.config("SLAB")? != "y" {
        return Missing::not_here("the allocator is SLUB");
    }
    let built: Vec<&str> =
        ["DEBUG_SLAB", "SLABINFO"].into_iter().filter(|option| facts.config(option) == Ok("y")).collect();
    Answer::is(
        built.is_empty(),
        if built.is_empty() { "not built in".to_owned() } else { format!("built in: {}", built.join(", ")) },
    )
}

fn page_poisoning(facts: &Facts) -> Judged {
    if facts.config("PAGE_POISONING")? == "n" {
        return Answer::good("not built in");
    }
    match facts.boot("page_poison")? {
        Some("1" | "on" | "y") => Answer::bad("page_poison is set"),
        _ => Answer::good("built in, and off"),
    }
}

fn threaded_irqs(facts: &Facts) -> Judged {
    match (realtime(facts).0, facts.boot("threadirqs")) {
        (Some(true), _) => Answer::good("PREEMPT_RT threads them all"),
        (_, Ok(Some(_))) => Answer::good("threadirqs is set"),
        (_, Err(missing)) => Err(missing),
        (Some(false), Ok(None)) => Answer::bad("threadirqs is not set"),
        (None, Ok(None)) => {
            Missing::unknown("threadirqs is not set, and whether the kernel is PREEMPT_RT is unknown")
        }
    }
}

fn efi_runtime(facts: &Facts) -> Judged {
    if facts.maybe("/sys/firmware/efi/")?.is_none() {
        return Missing::not_here("not booted by EFI");
    }
    let booted = facts.boot("efi")?;
    if booted.is_some_and(|value| value.split(',').any(|word| word == "noruntime")) {
        return Answer::good("efi=noruntime");
    }
    let on_purpose = booted.is_some_and(|value| value.split(',').any(|word| word == "runtime"));
    // drivers/firmware/efi/efi.c: a real-time kernel disables them, unless efi=runtime.
    if !on_purpose && (facts.config("EFI_DISABLE_RUNTIME") == Ok("y") || realtime(facts).0 == Some(true)) {
        return Answer::good("off by the kernel's configuration");
    }
    // Calls of the same word size go through this workqueue (…/real-time/hardware.rst, "EFI").
    let at = facts.maybe(EFI_WORKQUEUE)?.and_then(CpuSet::from_mask);
    match at.filter(|at| !facts.housekeeping().is_empty() && !at.meets(&facts.cpus)) {
        Some(at) => Answer::good(format!("on CPU {at} only")),
        None => Answer::bad("EFI runtime services are on"),
    }
}
