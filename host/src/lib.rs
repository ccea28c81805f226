//! Privileged Linux I/O: every system call, `/proc`, `/sys`, BPF, and every `unsafe` of lathunt.

pub mod arch;
pub mod debugfs;
pub mod error;
pub mod facts;
pub mod knob;
pub mod load;
pub mod testing;
pub mod topology;
