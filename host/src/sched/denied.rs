//! Why the kernel refuses a real-time policy: EPERM has five possible reasons, each with its own remedy.
//!
//! The rules are those of `user_check_sched_setscheduler` and `__sched_setscheduler` (kernel/sched/syscalls.c):
//! CAP_SYS_NICE or a priority up to `RLIMIT_RTPRIO` suffices; then a task group without real-time run time refuses under
//! CONFIG_RT_GROUP_SCHED, even for root. A seccomp filter decides before all of them.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::privileges;

/// Reason for refusing a real-time policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Neither CAP_SYS_NICE nor a sufficient `RLIMIT_RTPRIO`.
    NoRight {
        /// The limit in force.
        rtprio_limit: u64,
        /// The requested priority.
        priority: i32,
        /// User id 0 without the capability: a container.
        root_without_capability: bool,
    },
    /// CAP_SYS_NICE in a user namespace only, which does not count, and no sufficient `RLIMIT_RTPRIO`.
    UserNamespace {
        /// The limit in force.
        rtprio_limit: u64,
        /// The requested priority.
        priority: i32,
    },
    /// `RT_GROUP_SCHED`: the cgroup at this path has no real-time run time.
    GroupHasNoRuntime(String),
    /// `sched_rt_runtime_us` is 0: no real-time task may run.
    NoRuntimeAtAll,
    /// Rights suffice and no group refuses, but a seccomp filter is in force.
    Seccomp,
    /// None of the known reasons.
    Unknown,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::NoRight { rtprio_limit, priority, root_without_capability } => {
                let missing = format!("RLIMIT_RTPRIO is {rtprio_limit} (needed: {priority})");
                match root_without_capability {
                    true => write!(
                        f,
                        "CAP_SYS_NICE is missing (root in a container without it) and {missing}: start the container \
                         with --cap-add SYS_NICE or --ulimit rtprio=99"
                    ),
                    false => write!(
                        f,
                        "CAP_SYS_NICE is missing and {missing}: raise rtprio in /etc/security/limits.conf, or {}",
                        privileges::how_to_get()
                    ),
                }
            }
            Denied::UserNamespace { rtprio_limit, priority } => write!(
                f,
                "CAP_SYS_NICE is there, but in a user namespace (a container without root) it does not count, and \
                 RLIMIT_RTPRIO is {rtprio_limit} (needed: {priority}): raise rtprio for the user who starts the \
                 container, or run as root outside"
            ),
            Denied::GroupHasNoRuntime(group) => write!(
                f,
                "RT_GROUP_SCHED: control group {group} has no real-time run time: set its cpu.rt_runtime_us, or move \
                 this shell to the root group"
            ),
            Denied::NoRuntimeAtAll => {
                f.write_str("kernel.sched_rt_runtime_us is 0: `sysctl kernel.sched_rt_runtime_us=950000`")
            }
            Denied::Seccomp => f.write_str(
                "the rights are there, but a seccomp filter is in force: allow sched_setscheduler in the container's \
                 profile",
            ),
            Denied::Unknown => f.write_str(
                "CAP_SYS_NICE is there, and no control group, limit or seccomp filter is known to refuse",
            ),
        }
    }
}

/// Determines why `priority` is refused to this thread.
#[must_use]
pub fn why_no_realtime(priority: i32) -> Denied {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let status = read("/proc/thread-self/status");
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    judge(&Facts {
        priority,
        root,
        sys_nice: effective_capability(&status, CAP_SYS_NICE),
        user_namespace: maps_some_users_only(&read("/proc/thread-self/uid_map")),
        rtprio_limit: soft_limit(&read("/proc/thread-self/limits"), "Max realtime priority"),
        rt_runtime_us: read("/proc/sys/kernel/sched_rt_runtime_us").trim().parse().ok(),
        poor_group: group_without_runtime(&read("/proc/thread-self/cgroup"), Path::new("/sys/fs/cgroup")),
        seccomp: field(&status, "Seccomp:").is_some_and(|mode| mode != "0"),
    })
}

/// Whether this thread's own rights allow real-time priority `priority`.
#[must_use]
pub fn has_realtime_right(priority: i32) -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let capable = effective_capability(&read("/proc/thread-self/status"), CAP_SYS_NICE)
        && !maps_some_users_only(&read("/proc/thread-self/uid_map"));
    capable
        || soft_limit(&read("/proc/thread-self/limits"), "Max realtime priority")
            >= u64::try_from(priority).unwrap_or(0)
}

const CAP_SYS_NICE: u32 = 23; // include/uapi/linux/capability.h

/// Input of the decision.
#[derive(Clone, Debug)]
struct Facts {
    priority: i32,
    root: bool,
    sys_nice: bool,
    user_namespace: bool,
    rtprio_limit: u64,
    rt_runtime_us: Option<i64>,
    poor_group: Option<String>,
    seccomp: bool,
}

fn judge(facts: &Facts) -> Denied {
    if !facts.sys_nice && facts.rtprio_limit < u64::try_from(facts.priority).unwrap_or(0) {
        return Denied::NoRight {
            rtprio_limit: facts.rtprio_limit,
            priority: facts.priority,
            root_without_capability: facts.root,
        };
    }
    if facts.user_namespace && facts.rtprio_limit < u64::try_from(facts.priority).unwrap_or(0) {
        return Denied::UserNamespace { rtprio_limit: facts.rtprio_limit, priority: facts.priority };
    }
    match &facts.poor_group {
        Some(group) => Denied::GroupHasNoRuntime(group.clone()),
        None if facts.rt_runtime_us == Some(0) => Denied::NoRuntimeAtAll,
        None if facts.seccomp => Denied::Seccomp,
        None => Denied::Unknown,
    }
}

/// Whether a `uid_map` is not that of the initial user namespace, `0 0 4294967295`. Without such a file there is only one.
fn maps_some_users_only(map: &str) -> bool {
    let words: Vec<&str> = map.split_whitespace().collect();
    !words.is_empty() && words != ["0", "0", "4294967295"]
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn effective_capability(status: &str, number: u32) -> bool {
    field(status, "CapEff:")
        .and_then(|mask| u64::from_str_radix(mask, 16).ok())
        .is_some_and(|mask| mask >> number & 1 == 1)
}

/// Soft limit `name` in `/proc/PID/limits`; 0 if it is not listed.
fn soft_limit(limits: &str, name: &str) -> u64 {
    let value = limits.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    match value {
        Some("unlimited") => u64::MAX,
        Some(number) => number.parse().unwrap_or(0),
        None => 0,
    }
}

/// The control group of this thread, if its real-time run time is 0. Version 1 groups have one each; version 2 with
/// RT_GROUP_SCHED shows the same file below the unified mount.
fn group_without_runtime(cgroup: &str, mount: &Path) -> Option<String> {
    cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
        let controller = controllers.split(',').find(|name| *name == "cpu");
        let below = controller.map_or_else(|| mount.to_owned(), |_| mount.join(controllers));
        let relative = group.trim_start_matches('/');
        let candidates = [below.join(relative), mount.join("cpu").join(relative)];
        let runtime = candidates
            .iter()
            .find_map(|directory| fs::read_to_string(directory.join("cpu.rt_runtime_us")).ok())?;
        (runtime.trim() == "0").then(|| group.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn able() -> Facts {
        Facts {
            priority: 80,
            root: true,
            sys_nice: true,
            user_namespace: false,
            rtprio_limit: 0,
            rt_runtime_us: Some(950_000),
            poor_group: None,
            seccomp: false,
        }
    }

    #[test]
    fn each_reason_is_told_apart() {
        let no_right = judge(&Facts { sys_nice: false, root: false, rtprio_limit: 50, ..able() }).to_string();
        assert!(no_right.contains("RLIMIT_RTPRIO is 50 (needed: 80)"), "{no_right}");
        let container = judge(&Facts { sys_nice: false, ..able() }).to_string();
        assert!(container.contains("root in a container"), "{container}");
        let rootless = judge(&Facts { user_namespace: true, rtprio_limit: 50, ..able() }).to_string();
        assert!(rootless.contains("does not count, and RLIMIT_RTPRIO is 50 (needed: 80)"), "{rootless}");
        let by_limit = Facts { user_namespace: true, rtprio_limit: 80, seccomp: true, ..able() };
        assert_eq!(judge(&by_limit), Denied::Seccomp);
        let group = judge(&Facts { poor_group: Some("/user.slice".into()), ..able() });
        assert_eq!(group, Denied::GroupHasNoRuntime("/user.slice".into()));
        assert_eq!(judge(&Facts { rt_runtime_us: Some(0), ..able() }), Denied::NoRuntimeAtAll);
        assert_eq!(judge(&Facts { seccomp: true, ..able() }), Denied::Seccomp);
        assert_eq!(judge(&able()), Denied::Unknown);
    }

    #[test]
    fn a_sufficient_limit_needs_no_capability() {
        let by_limit = Facts { sys_nice: false, rtprio_limit: 99, ..able() };
        assert_eq!(judge(&by_limit), Denied::Unknown);
    }

    #[test]
    fn the_user_namespace_of_the_machine_maps_all_users() {
        assert!(!maps_some_users_only("         0          0 4294967295\n"));
        assert!(!maps_some_users_only(""), "a kernel without user namespaces");
        assert!(maps_some_users_only("         0       1000          1\n"));
        assert!(maps_some_users_only("         0       1000          1\n         1     100000      65536\n"));
    }

    #[test]
    fn the_group_is_found_in_both_versions_of_control_groups() {
        let mount = tempfile::tempdir().unwrap();
        let v1 = mount.path().join("cpu,cpuacct/docker/abc");
        fs::create_dir_all(&v1).unwrap();
        fs::write(v1.join("cpu.rt_runtime_us"), "0\n").unwrap();
        let text = "12:pids:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n";
        assert_eq!(group_without_runtime(text, mount.path()), Some("/docker/abc".into()));
        fs::write(v1.join("cpu.rt_runtime_us"), "950000\n").unwrap();
        assert_eq!(group_without_runtime(text, mount.path()), None);
        let v2 = mount.path().join("user.slice");
        fs::create_dir_all(&v2).unwrap();
        fs::write(v2.join("cpu.rt_runtime_us"), "0\n").unwrap();
        assert_eq!(group_without_runtime("0::/user.slice\n", mount.path()), Some("/user.slice".into()));
    }

    #[test]
    fn limits_and_capabilities_are_read_as_the_kernel_prints_them() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max realtime priority     95                   99                             \n";
        assert_eq!(soft_limit(limits, "Max realtime priority"), 95);
        assert_eq!(soft_limit("", "Max realtime priority"), 0);
        assert!(effective_capability("CapEff:\t0000000000800000\n", CAP_SYS_NICE));
        assert!(!effective_capability("CapEff:\t0000000000400000\n", CAP_SYS_NICE));
    }
}
