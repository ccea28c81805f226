//! Low-latency tracing for programs with deadlines: an event costs tens of nanoseconds, always, and committed events are not
//! lost when the program dies.
//!
//! Each thread writes into its own ring, in memory that outlives the process (a file in `/dev/shm`); the consumer (`lathunt
//! trace`) polls that memory and is never woken. On the hot path there is no system call, no lock, no locked instruction, no
//! page fault and no allocation: one relaxed load shows whether the event is enabled, followed by the time stamp counter, one
//! compare-exchange, plain stores, and one release store that commits.
//!
//! - Rust programs use [`event!`], [`enumeration!`] and [`thread_init`]; C and C++ programs `lathunt/trace.h`.
//! - [`ring`]: the protocol. [`layout`]: the shared memory (LAYOUT.md). [`process`], [`thread`]: ownership across fork,
//!   dlopen and threads that start and end. [`declare`]: events. [`session`]: the running session.
//!
//! The only dependency is libc, and nothing here allocates after the program has started. Not here: reading the memory
//! (`lathunt-host::channel`).
#![cfg(target_endian = "little")]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods))]

mod capi;
pub mod clock;
pub mod declare;
mod environment;
pub mod field;
mod file;
pub mod layout;
mod macros;
pub mod mapped;
pub mod process;
pub mod ring;
pub mod session;
mod sweep;
mod text;
pub mod thread;

#[doc(hidden)]
pub use macros::{init_event, Record};
pub use thread::thread_init;
