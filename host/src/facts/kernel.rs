//! The kernel: preemption as compiled and as in force, tick, build options that cost latency.

use std::collections::BTreeMap;
use std::io::Read;

use lathunt_core::conditions::Kernel;

use crate::debugfs;
use crate::tree::Tree;

/// Build options relevant to latency: preemption, tick, and debugging that costs worst-case time.
const OPTIONS: [&str; 38] = [
    "PREEMPT_NONE",
    "PREEMPT_VOLUNTARY",
    "PREEMPT",
    "PREEMPT_LAZY",
    "PREEMPT_DYNAMIC",
    "PREEMPT_RT",
    "HZ",
    "HIGH_RES_TIMERS",
    "NO_HZ_FULL",
    "RCU_NOCB_CPU",
    "RT_GROUP_SCHED",
    "CPU_ISOLATION",
    "CPU_FREQ",
    "CPU_IDLE",
    "PROVE_LOCKING",
    "LOCKDEP",
    "LOCK_STAT",
    "DEBUG_LOCK_ALLOC",
    "DEBUG_PREEMPT",
    "IRQSOFF_TRACER",
    "PREEMPT_TRACER",
    "PREEMPTIRQ_TRACEPOINTS",
    "TIMERLAT_TRACER",
    "HWLAT_TRACER",
    "FUNCTION_TRACER",
    "KASAN",
    "KCSAN",
    "DEBUG_KMEMLEAK",
    "DEBUG_VM",
    "DEBUG_LIST",
    "DEBUG_PAGEALLOC",
    "SLUB_DEBUG_ON",
    "PAGE_POISONING",
    "DEBUG_OBJECTS",
    "SCHEDSTATS",
    "LOCKUP_DETECTOR",
    "EFI_DISABLE_RUNTIME",
    "DEBUG_INFO_BTF",
];

/// Reads the kernel's facts.
#[must_use]
pub fn read(tree: &Tree) -> Kernel {
    let release = tree.expected("proc/sys/kernel/osrelease");
    let version = tree.expected("proc/sys/kernel/version");
    let command_line = tree.expected("proc/cmdline");
    let config = config(tree);
    let preemption = preemption(&config, version.as_deref());
    let realtime = realtime(tree, preemption.as_deref());
    Kernel {
        preemption_in_force: in_force(tree, &config, preemption.as_deref(), command_line.as_deref()),
        hz: config.get("HZ").and_then(|hz| hz.parse().ok()),
        release,
        version,
        preemption,
        realtime,
        command_line,
        config,
    }
}

/// The kernel's configuration: `/proc/config.gz`, else the distribution's file; `None`, with a note, if there is
/// none.
pub(super) fn config_text(tree: &Tree) -> Option<String> {
    let unpacked = tree.bytes("proc/config.gz").and_then(|bytes| {
        let mut text = String::new();
        let read = flate2::read::GzDecoder::new(bytes.as_slice()).take(16 << 20).read_to_string(&mut text);
        read.map_err(|error| tree.note(format!("/proc/config.gz: damaged ({error})"))).ok().map(|_| text)
    });
    let text = unpacked.or_else(|| {
        let release = tree.text("proc/sys/kernel/osrelease")?;
        let places = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
        places.iter().find_map(|place| tree.text(place))
    });
    if text.is_none() {
        tree.note("kernel configuration: neither /proc/config.gz nor /boot/config-* exists, build options are unknown");
    }
    text
}

/// [`OPTIONS`] as built; empty where no configuration is readable.
fn config(tree: &Tree) -> BTreeMap<String, String> {
    let Some(text) = config_text(tree) else { return BTreeMap::new() };
    let set: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('=')).collect();
    let value = |option: &str| set.get(option).copied().unwrap_or("n").trim_matches('"').to_owned();
    OPTIONS.iter().map(|&option| (option.to_owned(), value(option))).collect()
}

/// The strongest model named by the configuration, else by the version text (`uname -v`).
fn preemption(config: &BTreeMap<String, String>, version: Option<&str>) -> Option<String> {
    let built = |option: &str| config.get(option).is_some_and(|value| value == "y");
    let by_strength =
        ["PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT_LAZY", "PREEMPT", "PREEMPT_VOLUNTARY", "PREEMPT_NONE"];
    if let Some(name) = by_strength.into_iter().find(|name| built(name)) {
        return Some(name.to_owned());
    }
    let word = version?.split_ascii_whitespace().find(|word| word.starts_with("PREEMPT"));
    Some(word.unwrap_or("no kernel preemption (PREEMPT_NONE or PREEMPT_VOLUNTARY)").to_owned())
}

fn realtime(tree: &Tree, preemption: Option<&str>) -> Option<bool> {
    match tree.text("sys/kernel/realtime").as_deref() {
        Some("1") => Some(true),
        _ => preemption.map(|model| model == "PREEMPT_RT"),
    }
}

/// The model in force now. Only a dynamic kernel can differ from its build.
fn in_force(
    tree: &Tree,
    config: &BTreeMap<String, String>,
    preemption: Option<&str>,
    command_line: Option<&str>,
) -> Option<String> {
    let chosen = debugfs::read(tree, "sched/preempt").and_then(|text| bracketed(&text).map(str::to_owned));
    if chosen.is_some() {
        return chosen;
    }
    let built = |option: &str| config.get(option).is_some_and(|value| value == "y");
    let by_build = || {
        let models = [
            ("PREEMPT_LAZY", "lazy"),
            ("PREEMPT", "full"),
            ("PREEMPT_VOLUNTARY", "voluntary"),
            ("PREEMPT_NONE", "none"),
        ];
        models.into_iter().find(|(option, _)| built(option)).map(|(_, name)| name.to_owned())
    };
    let preemption = preemption?;
    if preemption == "PREEMPT_DYNAMIC" || built("PREEMPT_DYNAMIC") {
        let booted = command_line.and_then(|line| {
            line.split_ascii_whitespace()
                .rev()
                .find_map(|word| word.strip_prefix("preempt="))
                .map(str::to_owned)
        });
        let derived = booted.or_else(by_build);
        tree.note(match &derived {
            Some(_) => {
                "preemption in force: from the command line and the configuration; debugfs could say more"
            }
            None => "preemption in force: unknown (debugfs sched/preempt is not readable)",
        });
        return derived;
    }
    by_build().or_else(|| matches!(preemption, "PREEMPT_RT" | "PREEMPT").then(|| "full".to_owned()))
}

/// The selected word of `none voluntary (full) lazy` or `always [madvise] never`.
pub(super) fn bracketed(text: &str) -> Option<&str> {
    text.split_ascii_whitespace().find_map(|word| {
        word.strip_prefix('(')
            .and_then(|word| word.strip_suffix(')'))
            .or_else(|| word.strip_prefix('[').and_then(|word| word.strip_suffix(']')))
    })
}
