//! Configuration of a runtime, and reasons why it does not start.

use crate::policy::Refusal;

/// How running threads are interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preemption {
    /// The better of the next two, measured at start (4 ms).
    #[default]
    Measure,
    /// A POSIX timer.
    Timer,
    /// A helper thread that sleeps and sends a signal.
    Helper,
    /// Not at all: threads switch only when they wait, yield or unlock.
    None,
}

/// Configuration of a runtime.
#[derive(Clone, Debug)]
pub struct Config {
    /// Maximum number of threads at a time, 1 to 65,536.
    pub threads: usize,
    /// Default size of a thread's stack for the program, in bytes.
    pub stack: usize,
    /// Priority of the thread that starts the runtime, 0 to 98.
    pub main_priority: u8,
    /// The starting thread is round robin with this quantum in ns; `None`: FIFO.
    pub main_quantum: Option<u64>,
    /// How running threads are interrupted.
    pub preemption: Preemption,
    /// SCHED_FIFO priority of the kernel thread (1 to 98; the helper gets one more). Needs CAP_SYS_NICE or RLIMIT_RTPRIO.
    /// `None`: unchanged.
    pub kernel_priority: Option<i32>,
    /// CPU that the kernel thread is bound to.
    pub cpu: Option<usize>,
    /// With `kernel_priority`: CPU seconds without a blocking system call after which the kernel kills the process
    /// (RLIMIT_RTTIME), so that a runaway thread cannot take the CPU for good. 0: no limit.
    pub runaway_seconds: u64,
    /// Whether stacks are backed by memory at once, so that no page fault delays a thread later.
    pub touch_stacks: bool,
    /// Whether the CPU time counted by the kernel is separated from the time in which the process did not run, by a system
    /// call at each switch (some 200 ns): see [`crate::Thread::times`] and [`crate::Report::process`].
    pub meter: bool,
    /// Keeps this many of the newest events of the scheduler: see [`crate::recorded`]. 0: none.
    pub record: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            threads: 256,
            stack: 128 * 1024,
            main_priority: 0,
            main_quantum: None,
            preemption: Preemption::Measure,
            kernel_priority: None,
            cpu: None,
            runaway_seconds: 10,
            touch_stacks: false,
            meter: false,
            record: 0,
        }
    }
}

/// Why a runtime does not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The calling kernel thread has one already.
    Running,
    /// The process runs with a shadow stack, which forbids switching stacks.
    ShadowStack,
    /// A parameter is outside its range.
    Refused(Refusal),
    /// The kernel refused something.
    System {
        /// The attempted operation.
        doing: &'static str,
        /// The kernel's error.
        source: std::io::Error,
    },
}

impl StartError {
    /// The errno for it.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            StartError::Running => libc::EALREADY,
            StartError::ShadowStack => libc::ENOTSUP,
            StartError::Refused(refusal) => refusal.errno(),
            StartError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EAGAIN),
        }
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Running => out.write_str("this kernel thread has a runtime already"),
            StartError::ShadowStack => out.write_str(
                "this process uses a shadow stack (CET), which forbids to switch stacks; start it with \
                 GLIBC_TUNABLES=glibc.cpu.hwcaps=-SHSTK",
            ),
            StartError::Refused(refusal) => refusal.fmt(out),
            StartError::System { doing, source } => write!(out, "cannot {doing}: {source}"),
        }
    }
}

impl std::error::Error for StartError {}
