//! Real-time threads in one ordinary Linux process, without privileges: fixed priorities 0 to 98 (FIFO, round robin, sporadic
//! server) and EDF, preemptive at any instruction, in one kernel thread.
//!
//! For teaching, for research on scheduling, and for control loops whose threads must never run at the same time. The latency
//! of the whole depends on the kernel: give the kernel thread a real-time priority ([`Config::kernel_priority`]) if that is
//! allowed and matters. A kernel thread has one runtime; several kernel threads have several, which share nothing.
//!
//! - [`run`] starts; [`Builder`] creates threads; [`sync`] has the objects they wait for; [`io`] calls that block
//!   only their thread.
//! - C and C++ programs use `lathunt/runtime.h`, or `lathunt/pthread.h` instead of POSIX threads.
//! - [`policy`]: the scheduler, pure. `arch`, `dispatch`, `alarm`: the machine. `broker`: blocking calls.
//!
//! Functions that are not reentrant are unsafe in a thread that can be preempted. glibc's malloc is one of them: Rust
//! programs use [`FiberAlloc`]; other functions are called under [`lock_scheduler`]. See README.md.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod alarm;
mod allocator;
mod arch;
mod broker;
mod builder;
mod capi;
mod clock;
mod config;
mod dispatch;
mod fault;
mod fiber;
pub mod io;
mod kernel;
mod measure;
mod meter;
mod ops;
pub mod policy;
mod report;
mod signal;
mod stack;
mod start;
mod state;
pub mod sync;
mod text;
pub mod values;

pub use alarm::Mechanism;
pub use allocator::{allocator_holds, FiberAlloc};
pub use builder::{Builder, JoinHandle};
pub use clock::to_monotonic;
pub use config::{Config, Preemption, StartError};
pub use fiber::{suspend, this, CreateError, Thread};
pub use measure::Measured;
pub use meter::{Process, Times};
pub use ops::{lock_scheduler, next_job, now, sleep, sleep_until, yield_now, Error, SchedulerLock};
pub use report::{name, note, recorded, report, stop_recording, Report};

/// Runs `main` as the first thread of a new runtime, on the calling kernel thread. Threads that have not ended when `main`
/// returns never continue: join those that matter.
///
/// ```
/// use lathunt_runtime::{run, Builder, Config};
/// let sum = run(&Config::default(), || {
///     let worker = Builder::new("worker").priority(5).spawn(|| 1 + 1).unwrap();
///     worker.join().unwrap().unwrap()
/// });
/// assert_eq!(sum.unwrap(), 2);
/// ```
///
/// # Errors
/// See [`StartError`].
pub fn run<T>(config: &Config, main: impl FnOnce() -> T) -> Result<T, StartError> {
    /// Ends the runtime even if `main` panics.
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            start::stop();
        }
    }
    start::start(config)?;
    let _stop = Stop;
    Ok(main())
}
