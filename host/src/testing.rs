//! For tests that need a capability: skip by name and reason, or fail where `LATHUNT_REQUIRE` demands it.
//!
//! A skipped test prints `SKIPPED name: reason`, so that a run's log lists what was not shown. CI sets
//! `LATHUNT_REQUIRE`, and there a skip is a failure.

use std::io::Write;

/// Whether the test called `name` may go on; `reason` is why not (`None`: it may).
///
/// # Panics
/// When it may not and `LATHUNT_REQUIRE` is set to something.
#[must_use]
pub fn may_run(name: &str, reason: Option<&str>) -> bool {
    let Some(reason) = reason else { return true };
    let required = std::env::var_os("LATHUNT_REQUIRE").is_some_and(|value| !value.is_empty());
    assert!(!required, "{name} must not be skipped here, but: {reason}");
    // Not eprintln!, whose text a passing test keeps to itself.
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {reason}");
    false
}

/// Why a test that needs root cannot run; `None` when it can.
#[must_use]
pub fn lacks_root() -> Option<&'static str> {
    // SAFETY: geteuid has no preconditions.
    (unsafe { libc::geteuid() } != 0).then_some("needs root")
}

/// Why a test that loads BPF cannot run; `None` when it can.
#[must_use]
pub fn lacks_bpf() -> Option<&'static str> {
    lacks_root().or_else(|| {
        (!std::path::Path::new("/sys/kernel/btf/vmlinux").exists()).then_some("the kernel has no BTF")
    })
}
