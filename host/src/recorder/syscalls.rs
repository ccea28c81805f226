//! Names of the system calls that threads block in, by number of this architecture.

macro_rules! table {
    ($($name:ident = $number:ident),* $(,)?) => {
        &[$((libc::$number, stringify!($name))),*]
    };
}

/// Those of both architectures.
const BOTH: &[(libc::c_long, &str)] = table![
    accept = SYS_accept,
    accept4 = SYS_accept4,
    clock_nanosleep = SYS_clock_nanosleep,
    close = SYS_close,
    epoll_pwait = SYS_epoll_pwait,
    execve = SYS_execve,
    exit = SYS_exit,
    exit_group = SYS_exit_group,
    fallocate = SYS_fallocate,
    fdatasync = SYS_fdatasync,
    flock = SYS_flock,
    fsync = SYS_fsync,
    ftruncate = SYS_ftruncate,
    futex = SYS_futex,
    getdents64 = SYS_getdents64,
    io_getevents = SYS_io_getevents,
    io_uring_enter = SYS_io_uring_enter,
    ioctl = SYS_ioctl,
    madvise = SYS_madvise,
    membarrier = SYS_membarrier,
    mlock = SYS_mlock,
    mlockall = SYS_mlockall,
    mmap = SYS_mmap,
    mprotect = SYS_mprotect,
    mq_timedreceive = SYS_mq_timedreceive,
    msgrcv = SYS_msgrcv,
    msync = SYS_msync,
    munmap = SYS_munmap,
    nanosleep = SYS_nanosleep,
    openat = SYS_openat,
    ppoll = SYS_ppoll,
    pread64 = SYS_pread64,
    preadv = SYS_preadv,
    pselect6 = SYS_pselect6,
    pwrite64 = SYS_pwrite64,
    pwritev = SYS_pwritev,
    read = SYS_read,
    readv = SYS_readv,
    recvfrom = SYS_recvfrom,
    recvmmsg = SYS_recvmmsg,
    recvmsg = SYS_recvmsg,
    rt_sigsuspend = SYS_rt_sigsuspend,
    rt_sigtimedwait = SYS_rt_sigtimedwait,
    sched_yield = SYS_sched_yield,
    semop = SYS_semop,
    semtimedop = SYS_semtimedop,
    sendfile = SYS_sendfile,
    sendmsg = SYS_sendmsg,
    sendto = SYS_sendto,
    splice = SYS_splice,
    sync = SYS_sync,
    wait4 = SYS_wait4,
    waitid = SYS_waitid,
    write = SYS_write,
    writev = SYS_writev,
];

/// Those that only the older architecture has.
#[cfg(target_arch = "x86_64")]
const OWN: &[(libc::c_long, &str)] = table![
    epoll_wait = SYS_epoll_wait,
    fork = SYS_fork,
    open = SYS_open,
    pause = SYS_pause,
    poll = SYS_poll,
    select = SYS_select,
    vfork = SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const OWN: &[(libc::c_long, &str)] = &[];

/// The name of system call `number`; `None` for one that seldom blocks.
#[must_use]
pub fn name(number: i16) -> Option<&'static str> {
    let number = libc::c_long::from(number);
    BOTH.iter().chain(OWN).find(|(known, _)| *known == number).map(|&(_, name)| name)
}
