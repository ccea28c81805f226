//! Does the C library read a clock without entering the kernel? Proved, not timed: in a thread for which seccomp refuses
//! the system calls of clocks, a read that still works used the vDSO.

use super::path::{gettime, gettimeofday, CLOCKS, CPU_TIME};
use crate::tree::{Tree, LIVE};

/// `None`: not applicable to this path. `Some(None)`: no system call. `Some(Some(why))`: a system call.
pub(super) fn of(path: &str) -> Option<Option<String>> {
    if path == "gettimeofday" {
        return Some(enters_kernel(gettimeofday)?.then(|| why(libc::CLOCK_REALTIME)));
    }
    let name = path.strip_prefix("clock_gettime ").or_else(|| path.strip_prefix("Rust "))?;
    let id = match name {
        "Instant::now" => libc::CLOCK_MONOTONIC,
        "SystemTime::now" => libc::CLOCK_REALTIME,
        _ => CLOCKS.iter().chain(&CPU_TIME).find(|(of, _)| *of == name)?.1,
    };
    Some(enters_kernel(move || gettime(id))?.then(|| why(id)))
}

/// Whether a read makes a system call; `None` if seccomp is unavailable.
fn enters_kernel(read: impl FnOnce() -> u64 + Send + 'static) -> Option<bool> {
    let asked = crate::threads::spawn(move || {
        refuse_clock_calls().then(|| read() == 0) // a refused call leaves the zeros
    });
    asked.ok()?.join().ok().flatten()
}

/// A filter for this thread only: `clock_gettime` and `gettimeofday` fail, everything else is unchanged.
fn refuse_clock_calls() -> bool {
    const LOAD_NR: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16; // seccomp_data.nr is at offset 0
    const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let statement = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let mut filter = [
        statement(LOAD_NR, 0),
        libc::sock_filter { code: JUMP_EQUAL, jt: 1, jf: 0, k: libc::SYS_clock_gettime as u32 },
        libc::sock_filter { code: JUMP_EQUAL, jt: 0, jf: 1, k: libc::SYS_gettimeofday as u32 },
        statement(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(RETURN, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: both calls act on this thread only; the program lives through the second.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) == 0
    }
}

fn why(id: libc::clockid_t) -> String {
    if CPU_TIME.iter().any(|(_, of)| *of == id) {
        return "CPU time is known to the kernel alone".to_owned();
    }
    // SAFETY: getauxval has no preconditions.
    if unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } == 0 {
        return "this process has no vDSO (vdso=0, or taken away)".to_owned();
    }
    let tree = Tree::new(std::path::Path::new(LIVE));
    let source =
        tree.text("sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default();
    match source.as_str() {
        "hpet" | "acpi_pm" | "refined-jiffies" | "jiffies" | "xen" => {
            format!("the clock source {source} cannot be read by the vDSO")
        }
        _ => "the kernel's vDSO or this C library does not know this clock".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_needs_the_kernel_and_a_read_after_the_question_still_works() {
        let Some(answer) = of("clock_gettime PROCESS_CPUTIME_ID") else { return };
        assert_eq!(answer.as_deref(), Some("CPU time is known to the kernel alone"));
        assert!(gettime(libc::CLOCK_PROCESS_CPUTIME_ID) > 0, "the filter must not outlive its thread");
        assert_eq!(of("rdtsc"), None);
    }
}
