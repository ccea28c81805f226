//! The kernel command line: harmful parameters, and words that are not parameters.

use super::super::facts::Facts;
use super::super::rule::Expect::Judge;
use super::super::rule::Fix::Do;
use super::super::rule::Severity::{High, Medium};
use super::super::rule::{Answer, Judged, Rule};
use super::EVERY;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "command-line",
        title: "Boot parameters that the kernel does not know, or that were given twice",
        facts: &["/proc/cmdline", "@kernel_log"],
        expect: Judge(command_line),
        severity: Medium,
        why: "an unknown parameter is silently ignored, and of two the last one counts",
        fix: &[Do("correct the command line of the boot loader")],
        source: "practice (init/main.c, since 5.14; KP)",
        profiles: EVERY,
    },
    Rule {
        id: "harmful-parameters",
        title: "Boot parameters that cost latency",
        facts: &["/proc/cmdline"],
        expect: Judge(harmful),
        severity: High,
        why: "they add work to every interrupt or allocation, or take the fast timer away",
        fix: &[Do("remove them from the command line of the boot loader")],
        source: "KP",
        profiles: EVERY,
    },
];

/// Parameters that cost latency with any value except those listed, and their effect.
const HARMFUL: [(&str, &[&str], &str); 15] = [
    ("irqpoll", &[], "each timer tick calls the handlers of all interrupts"),
    ("irqfixup", &[], "an unhandled interrupt is passed to all handlers"),
    ("noapic", &[], "interrupts cannot be moved to another CPU"),
    ("nolapic", &[], "no local timer: CPUs wait for a broadcast"),
    ("nolapic_timer", &[], "no local timer: CPUs wait for a broadcast"),
    ("nosmp", &[], "one CPU does everything"),
    ("slub_debug", &["-"], "each allocation is checked"),
    ("slab_debug", &["-"], "each allocation is checked"),
    ("debug_pagealloc", &["off", "0"], "each freed page is unmapped"),
    ("page_owner", &["off", "0"], "each allocation keeps a stack"),
    ("kmemleak", &["off"], "memory is scanned for leaks"),
    ("ftrace", &["nop"], "a tracer runs since boot"),
    ("kasan", &["off"], "each access to memory is checked"),
    ("pcie_aspm", &["off", "performance", "default"], "links of devices sleep"),
    ("pcie_aspm.policy", &["performance", "default"], "links of devices sleep"),
];

/// Words that are often mistaken for a parameter, and the correct one.
const NONE_SUCH: [(&str, &str); 6] = [
    ("workqueue.cpumask", "workqueue.unbound_cpus"),
    ("workqueue.cpus", "workqueue.unbound_cpus"),
    ("irq_affinity", "irqaffinity"),
    ("nohzfull", "nohz_full"),
    ("max_cstate", "processor.max_cstate"),
    ("cpu_dma_latency", "/dev/cpu_dma_latency, which a program holds open"),
];

/// Parameters of real-time machines, to detect misspellings.
const KNOWN: [&str; 22] = [
    "amd_pstate",
    "clocksource",
    "cpufreq.default_governor",
    "intel_idle.max_cstate",
    "intel_pstate",
    "irqaffinity",
    "isolcpus",
    "kthread_cpus",
    "mitigations",
    "nmi_watchdog",
    "nohz_full",
    "nosoftlockup",
    "nowatchdog",
    "processor.max_cstate",
    "rcu_nocb_poll",
    "rcu_nocbs",
    "rcupdate.rcu_expedited",
    "rcupdate.rcu_normal_after_boot",
    "skew_tick",
    "threadirqs",
    "transparent_hugepage",
    "workqueue.unbound_cpus",
];

fn harmful(facts: &Facts) -> Judged {
    let words = facts.boot_words()?;
    let found: Vec<String> = words
        .iter()
        .filter_map(|(word, value)| {
            let name = word.replace('-', "_");
            let (_, fine, what) = HARMFUL.iter().find(|(known, ..)| *known == name)?;
            let given = if value.is_empty() { (*word).to_owned() } else { format!("{word}={value}") };
            (!fine.contains(value)).then(|| format!("{given} ({what})"))
        })
        .collect();
    Answer::is(found.is_empty(), if found.is_empty() { "none found".to_owned() } else { found.join(", ") })
}

/// Other parameters of which the last one counts. Most others may be given more than once: values of `console`, `pci` and
/// `rd.lvm.lv` add up, and each `hugepages` belongs to the `hugepagesz` before it.
const LAST_COUNTS: [&str; 6] = ["cpuidle.governor", "cpuidle.off", "idle", "maxcpus", "nr_cpus", "preempt"];

fn command_line(facts: &Facts) -> Judged {
    let words = facts.boot_words()?;
    let last_counts = |name: &str| KNOWN.contains(&name) || LAST_COUNTS.contains(&name);
    let mut twice: Vec<&str> = Vec::new();
    for (at, (name, value)) in words.iter().enumerate() {
        let contrary = words[..at].iter().any(|(before, other)| before == name && other != value);
        if contrary && last_counts(&name.replace('-', "_")) && !twice.contains(name) {
            twice.push(name);
        }
    }
    let mut bad = Vec::new();
    if !twice.is_empty() {
        bad.push(format!("given twice with different values: {}", twice.join(", ")));
    }
    let mut unknown: Vec<String> = words.iter().filter_map(|(name, _)| meant(name)).collect();
    let log = facts.text("@kernel_log").unwrap_or_default();
    let by_kernel = log.lines().find_map(|line| line.split_once("Unknown kernel command line parameters "));
    let by_kernel =
        by_kernel.map_or("", |(_, which)| which.split(", will be passed").next().unwrap_or(which));
    for word in by_kernel.trim().trim_matches('"').split_ascii_whitespace() {
        let name = word.split('=').next().unwrap_or(word);
        if !is_for_user_space(name) && !unknown.iter().any(|known| known.starts_with(name)) {
            unknown.push(word.to_owned());
        }
    }
    if !unknown.is_empty() {
        bad.push(format!("unknown to the kernel: {}", unknown.join(", ")));
    }
    Answer::is(bad.is_empty(), if bad.is_empty() { "none found".to_owned() } else { bad.join("; ") })
}

/// `isolcpu (isolcpus is meant)`, for a misspelt parameter.
fn meant(word: &str) -> Option<String> {
    let name = word.replace('-', "_");
    let such = NONE_SUCH.iter().find(|(wrong, _)| *wrong == name).map(|(_, right)| *right);
    let near = || KNOWN.into_iter().find(|known| is_one_slip(&name, known));
    such.or_else(near).map(|right| format!("{word} ({right} is meant)"))
}

/// Whether two names differ by one substituted, missing or extra character.
fn is_one_slip(a: &str, b: &str) -> bool {
    if a == b || a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same..], &b[same..]);
    match a.len().cmp(&b.len()) {
        std::cmp::Ordering::Equal => a.get(1..) == b.get(1..),
        std::cmp::Ordering::Less => b.get(1..) == Some(a),
        std::cmp::Ordering::Greater => a.get(1..) == Some(b),
    }
}

/// Parameters of boot loaders, initramfs and init systems.
fn is_for_user_space(name: &str) -> bool {
    let prefixes = ["systemd.", "rd.", "luks.", "vconsole.", "net.ifnames", "biosdevname", "ostree", "boot"];
    let words = [
        "BOOT_IMAGE",
        "splash",
        "rhgb",
        "nosplash",
        "single",
        "fastboot",
        "text",
        "emergency",
        "rescue",
        "auto",
    ];
    words.contains(&name)
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
        || name.parse::<u8>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::super::snapshot::{Origin, Snapshot};
    use super::super::super::Profile;
    use super::*;

    fn of(line: &str, log: &str, judge: fn(&Facts) -> Judged) -> String {
        let mut snapshot = Snapshot::empty(Origin::Tree);
        snapshot.files.insert("/proc/cmdline".to_owned(), line.to_owned());
        snapshot.files.insert("@kernel_log".to_owned(), log.to_owned());
        judge(&Facts::new(&snapshot, Profile::Periodic, None)).unwrap().found
    }

    #[test]
    fn parameters_that_cost_latency_are_named_with_what_they_do() {
        let found = of("ro irqpoll debug_pagealloc=on pcie_aspm=off", "", harmful);
        assert!(
            found.starts_with("irqpoll (each timer tick") && found.contains("debug_pagealloc=on"),
            "{found}"
        );
        assert!(!found.contains("pcie_aspm"), "{found}");
        assert_eq!(of("ro quiet isolcpus=2,3 slub_debug=-", "", harmful), "none found");
    }

    #[test]
    fn words_that_no_kernel_knows_are_named_with_the_one_that_is_meant() {
        let of = |line, log| of(line, log, command_line);
        let found = of("isolcpu=2 workqueue.cpumask=1 nohz-full=2 rcu_nocbs=2", "");
        assert_eq!(
            found,
            "unknown to the kernel: isolcpu (isolcpus is meant), workqueue.cpumask (workqueue.unbound_cpus is meant)"
        );
        let log = "Unknown kernel command line parameters \"BOOT_IMAGE=/vmlinuz splash rt_mode=1\", will be passed to user space.";
        assert_eq!(of("ro rt_mode=1", log), "unknown to the kernel: rt_mode=1");
        let grub =
            "Unknown kernel command line parameters \"BOOT_IMAGE=/vmlinuz\", will be passed to user space.";
        assert_eq!(of("ro", grub), "none found", "every boot loader gives it");
        let both = of("idle=poll isolcpu=2 idle=halt", "");
        assert!(both.contains("twice with different values: idle; unknown to the kernel: isolcpu"), "{both}");
    }

    #[test]
    fn parameters_that_may_be_given_twice_are_no_contradiction() {
        let of = |line| of(line, "", command_line);
        for line in [
            "ro rd.lvm.lv=rhel/root rd.lvm.lv=rhel/swap console=tty0 console=ttyS0,115200",
            "default_hugepagesz=1G hugepagesz=1G hugepages=8 hugepagesz=2M hugepages=512",
            "intel_iommu=on intel_iommu=igfx_off video=HDMI-A-1:D video=DP-1:e pci=noaer pci=nomsi",
            "crashkernel=512M,high crashkernel=256M,low modprobe.blacklist=a modprobe.blacklist=b mce=off mce=ignore_ce",
        ] {
            assert_eq!(of(line), "none found", "{line}");
        }
        let found = of("nohz_full=1-3 rcu_nocbs=1-3 nohz_full=2,3");
        assert_eq!(found, "given twice with different values: nohz_full");
    }
}
