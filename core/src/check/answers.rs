//! The first questions: is this a PREEMPT_RT kernel, which one to use if not, and which latency to expect.

use crate::time::Ns;

use super::facts::{chosen, Facts};
use super::patches;

/// Answers in words; `None` where a fact is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// `6.1.0-50-rt-amd64`.
    pub release: Option<String>,
    /// Whether it is a PREEMPT_RT kernel.
    pub realtime: Option<bool>,
    /// The evidence.
    pub evidence: Vec<String>,
    /// Preemption model of a kernel without PREEMPT_RT.
    pub preemption: Option<String>,
    /// Which kernel to use; `None` if this is one already.
    pub take: Option<String>,
    /// 10^5 clock periods of the fastest CPU.
    pub rule_of_thumb_ns: Option<Ns>,
}

/// Answers from the facts.
#[must_use]
pub fn answers(facts: &Facts) -> Answers {
    let release = facts.text("/proc/sys/kernel/osrelease").ok().map(str::to_owned);
    let (realtime, evidence) = realtime(facts);
    let take = match realtime {
        Some(true) => None,
        _ => Some(patches::advice(release.as_deref().unwrap_or_default())),
    };
    Answers {
        preemption: preemption(facts),
        take: take.filter(|_| realtime == Some(false)),
        rule_of_thumb_ns: max_hz(facts).and_then(bound),
        release,
        realtime,
        evidence,
    }
}

/// Whether it is a PREEMPT_RT kernel, and the evidence: the flag in sysfs, the build option, the version text.
pub(super) fn realtime(facts: &Facts) -> (Option<bool>, Vec<String>) {
    let mut witnesses = Vec::new();
    if let Ok(Some(flag)) = facts.maybe("/sys/kernel/realtime") {
        witnesses.push((flag == "1", format!("/sys/kernel/realtime is {flag}")));
    }
    // The patches before Linux 5.4 named the option PREEMPT_RT_FULL; later kernels ignore it.
    let old = facts.config("PREEMPT_RT_FULL").ok();
    let old = old.filter(|option| *option == "y" && facts.is_older_than((5, 4)));
    if let Some(option) = old {
        witnesses.push((true, format!("CONFIG_PREEMPT_RT_FULL={option}")));
    } else if let Ok(option) = facts.config("PREEMPT_RT") {
        let told = format!("CONFIG_PREEMPT_RT={option}");
        match option == "y" {
            // The patches for Linux 5.2 and before, and other kernels, drop it without a word.
            true if patches::has_rt_full(facts) => {
                witnesses.push((false, format!("{told}, but the option of this series is PREEMPT_RT_FULL")));
            }
            // The build drops it (depends on ARCH_SUPPORTS_RT since Linux 5.3, kernel/Kconfig.preempt).
            true if facts.config("ARCH_SUPPORTS_RT") == Ok("n") && !facts.is_older_than((5, 3)) => {
                let needs = "without CONFIG_ARCH_SUPPORTS_RT=y, which the PREEMPT_RT patch sets, and Linux since 6.12 on architectures that support it: the build ignores the option";
                witnesses.push((false, format!("{told} {needs}")));
            }
            true if facts.config_is_partial() => {
                let told =
                    format!("{told}, which kernels without the option ignore: check the whole configuration");
                return (None, vec![told]);
            }
            is => witnesses.push((is, told)),
        }
    }
    if let Ok(version) = facts.text("/proc/sys/kernel/version") {
        let flag = version.split_ascii_whitespace().find(|word| word.starts_with("PREEMPT"));
        // Trees before 5.4 called it "PREEMPT RT", in two words.
        let named = flag.is_some_and(|word| word == "PREEMPT_RT") || version.contains("PREEMPT RT");
        witnesses.push((named, format!("uname -v says {}", flag.unwrap_or("nothing about preemption"))));
    }
    let realtime = if witnesses.is_empty() { None } else { Some(witnesses.iter().any(|(yes, _)| *yes)) };
    (realtime, witnesses.into_iter().map(|(_, text)| text).collect())
}

fn preemption(facts: &Facts) -> Option<String> {
    if let Ok(text) = facts.text("/sys/kernel/debug/sched/preempt") {
        return Some(format!("{} (dynamic)", chosen(text)));
    }
    let built = |option: &str| facts.config(option).is_ok_and(|value| value == "y");
    // Kconfig drops PREEMPT_RT then, and the next option that is set is the preemption model.
    let is_ignored = |model: &&str| *model == "PREEMPT_RT" && realtime(facts).0 == Some(false);
    let models =
        ["PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT_LAZY", "PREEMPT", "PREEMPT_VOLUNTARY", "PREEMPT_NONE"];
    models.into_iter().find(|model| built(model) && !is_ignored(model)).map(str::to_owned).or_else(|| {
        let version = facts.text("/proc/sys/kernel/version").ok()?;
        version.split_ascii_whitespace().find(|word| word.starts_with("PREEMPT")).map(str::to_owned)
    })
}

/// Highest clock frequency of any CPU, Hz.
fn max_hz(facts: &Facts) -> Option<u64> {
    let limits = facts.all("/sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq");
    let khz = limits.iter().filter_map(|(_, khz)| khz.parse::<u64>().ok()).max();
    khz.map(|khz| khz.saturating_mul(1000)).or_else(|| {
        let mhz: f64 = facts.cpu_field("cpu MHz").ok()?.parse().ok()?;
        (mhz > 0.0).then_some((mhz * 1e6).round() as u64)
    })
}

fn bound(hz: u64) -> Option<Ns> {
    crate::stats::rule_of_thumb::clock_periods(hz, Ns::ZERO).map(|rule| rule.bound_ns)
}
