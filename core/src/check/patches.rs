//! Which real-time kernel to use for a given version.
//!
//! PREEMPT_RT is part of mainline since 6.12 (x86-64, arm64, riscv64). For older trees there are patches for chosen
//! series, at <https://cdn.kernel.org/pub/linux/kernel/projects/rt/>; which *release* of a series is the newest can
//! only be looked up there. Source of the list: the directories there, checked against announcements and third-party
//! instructions that name a release. Series with patches against release candidates only (5.12) are not in it.

use super::facts::Facts;

/// Series before 6.12 that have a real-time patch, ascending.
const PATCHED: [(u32, u32); 47] = [
    (3, 0),
    (3, 2),
    (3, 4),
    (3, 6),
    (3, 8),
    (3, 10),
    (3, 12),
    (3, 14),
    (3, 18),
    (4, 0),
    (4, 1),
    (4, 4),
    (4, 6),
    (4, 8),
    (4, 9),
    (4, 11),
    (4, 13),
    (4, 14),
    (4, 16),
    (4, 18),
    (4, 19),
    (5, 0),
    (5, 2),
    (5, 4),
    (5, 6),
    (5, 9),
    (5, 10),
    (5, 11),
    (5, 13),
    (5, 14),
    (5, 15),
    (5, 16),
    (5, 17),
    (5, 18),
    (5, 19),
    (6, 0),
    (6, 1),
    (6, 2),
    (6, 3),
    (6, 4),
    (6, 5),
    (6, 6),
    (6, 7),
    (6, 8),
    (6, 9),
    (6, 10),
    (6, 11),
];

/// Build options that rules ask for, and the first version that has them.
const SINCE: [(&str, (u32, u32)); 3] =
    [("HWLAT_TRACER", (4, 9)), ("OSNOISE_TRACER", (5, 14)), ("TIMERLAT_TRACER", (5, 14))];

/// Whether the option of the patch is PREEMPT_RT_FULL: Linux 3.0 to 5.2.
#[must_use]
pub(super) fn has_rt_full(facts: &Facts) -> bool {
    !facts.is_older_than((3, 0)) && facts.is_older_than((5, 3))
}

/// The lines `CONFIG_…` as this kernel has them: without its later options, and by its own names.
#[must_use]
pub(super) fn options_of(facts: &Facts, lines: &str) -> String {
    let is_later =
        |line: &&str| SINCE.iter().any(|(name, since)| line.contains(name) && facts.is_older_than(*since));
    let named = |line: &str| match line {
        "CONFIG_PREEMPT_RT=y" if has_rt_full(facts) => "CONFIG_PREEMPT_RT_FULL=y".to_owned(),
        line => line.to_owned(),
    };
    lines.lines().filter(|line| !is_later(line)).map(named).collect::<Vec<_>>().join("\n")
}

/// Location of the patches.
pub const PLACE: &str = "https://cdn.kernel.org/pub/linux/kernel/projects/rt";

/// `6.1.0-50-rt-amd64` → (6, 1).
#[must_use]
pub fn series(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// What to use instead of `release`, which is not a real-time kernel.
#[must_use]
pub fn advice(release: &str) -> String {
    const PACKAGES: &str = "Debian: linux-image-rt-amd64 or -arm64; Ubuntu: linux-realtime; RHEL: kernel-rt; SUSE: kernel-rt; Arch: linux-rt";
    let Some(version) = series(release) else {
        return format!("install the distribution's real-time kernel ({PACKAGES}), or build Linux 6.12 or later with CONFIG_PREEMPT_RT=y");
    };
    if version >= (6, 12) {
        return format!(
            "Linux {}.{} has PREEMPT_RT in its own tree (since 6.12): build it with CONFIG_EXPERT=y and CONFIG_PREEMPT_RT=y, \
             or install the distribution's real-time kernel ({PACKAGES})",
            version.0, version.1
        );
    }
    let packages =
        format!("install the distribution's real-time kernel ({PACKAGES}), move to Linux 6.12 or later, or");
    match PATCHED.iter().rev().find(|&&patched| patched <= version) {
        Some(&(major, minor)) if (major, minor) == version => {
            format!("{packages} apply the patch of this series: {PLACE}/{major}.{minor}/")
        }
        Some(&(major, minor)) => format!(
            "{packages} go back to Linux {major}.{minor}, the nearest series below {}.{} that has a patch: {PLACE}/{major}.{minor}/",
            version.0, version.1
        ),
        None => format!("{packages} look in {PLACE}/older/: no later patch is for a kernel this old"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_kernel_needs_no_patch_and_an_old_one_gets_the_nearest_below() {
        assert!(advice("6.18.44-fc-v595").starts_with("Linux 6.18 has PREEMPT_RT in its own tree"));
        assert!(advice("6.12.0").contains("in its own tree"));
        assert!(advice("6.1.0-50-amd64")
            .ends_with("the patch of this series: https://cdn.kernel.org/pub/linux/kernel/projects/rt/6.1/"));
        assert!(advice("5.3.18").contains("go back to Linux 5.2, the nearest series below 5.3"));
        assert!(advice("6.8.0-31-generic").ends_with("projects/rt/6.8/"), "Ubuntu 24.04");
        assert!(advice("5.12.19").contains("go back to Linux 5.11"), "5.12 had release candidates only");
        assert!(advice("2.6.18").contains("older"));
        assert!(advice("").contains("6.12 or later"));
        assert!(PATCHED.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
