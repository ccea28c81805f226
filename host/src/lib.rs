//! Privileged Linux I/O: every system call, `/proc`, `/sys`, BPF, and every `unsafe` of lathunt.

pub mod error;
pub mod instrument;
pub mod named_pipe;
pub mod pm_qos;
pub mod sched;
pub mod signals;
pub mod testing;
