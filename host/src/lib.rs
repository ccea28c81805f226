//! Privileged Linux I/O: every system call, `/proc`, `/sys`, BPF, and every `unsafe` of lathunt.

pub mod error;
pub mod inject;
pub mod recorder;
pub mod symbols;
pub mod testing;
