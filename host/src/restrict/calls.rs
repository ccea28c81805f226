//! System calls that a reader of foreign files does not need, refused by seccomp.
//!
//! Without capabilities, a process of root's still owns root's files, and has the user id of root's processes: it may change
//! the mode of /etc/shadow and signal init's children. Landlock knows no right for modes, and signals only since Linux 6.12.
//! The terminal is open already: input that is put into it (TIOCSTI) would be typed by root.

use std::io;

use super::Programs;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
/// Offsets in seccomp_data; of the arguments, the low half.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: [u32; 2] = [16, 24];
#[cfg(target_arch = "x86_64")]
const OWN: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OWN: u32 = 0xc000_00b7;
/// From here on, x86-64 has the numbers of x32.
const X32: u32 = 0x4000_0000;

/// Calls of newer kernels (Linux 6.6, 6.13, 6.17), with the same numbers everywhere.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const FILE_SETATTR: libc::c_long = 469;

/// Those of x86-64 that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD: [libc::c_long; 3] = [libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown];
#[cfg(target_arch = "aarch64")]
const OLD: [libc::c_long; 0] = [];

/// Calls of ioctl(2) that put text into the input of a terminal.
const TYPING: [u32; 2] = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32];

const STARTS: [libc::c_long; 2] = [libc::SYS_execve, libc::SYS_execveat];
const REFUSED: [libc::c_long; 60] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_acct,
    libc::SYS_mknodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    FILE_SETATTR,
    libc::SYS_setuid,
    libc::SYS_setresuid,
    libc::SYS_setfsuid,
    libc::SYS_syslog,
];

/// Refuses them with EPERM, permanently, to the calling thread and its children.
///
/// # Errors
/// The kernel has no seccomp, or a container refuses it.
pub(super) fn refuse(programs: Programs) -> io::Result<()> {
    let step = |code: u16, jt: u8, jf: u8, k: u32| libc::sock_filter { code, jt, jf, k };
    let refuse = step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    let mut filter = vec![
        step(LOAD, 0, 0, ARCHITECTURE),
        step(IS, 1, 0, OWN),
        step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(LOAD, 0, 0, NUMBER),
    ];
    if cfg!(target_arch = "x86_64") {
        filter.extend([step(AT_LEAST, 0, 1, X32), refuse]);
    }
    let starts = if programs == Programs::None { &STARTS[..] } else { &[] };
    for number in REFUSED.iter().chain(&OLD).chain(starts) {
        filter.extend([step(IS, 0, 1, *number as u32), refuse]);
    }
    let [first, second] = ARGUMENTS;
    // Only own threads are signalled (abort, raise), and only own limits are set.
    let own = [(libc::SYS_tgkill, std::process::id()), (libc::SYS_prlimit64, 0)];
    for (number, allowed) in own {
        let (is_it, is_own) = (step(IS, 0, 3, number as u32), step(IS, 1, 0, allowed));
        filter.extend([is_it, step(LOAD, 0, 0, first), is_own, refuse, step(LOAD, 0, 0, NUMBER)]);
    }
    let typing = TYPING.iter().flat_map(|request| [step(IS, 0, 1, *request), refuse]);
    filter
        .extend([step(IS, 0, 1 + 2 * TYPING.len() as u8, libc::SYS_ioctl as u32), step(LOAD, 0, 0, second)]);
    filter.extend(typing);
    filter.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter live through the call.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
