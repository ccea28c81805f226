//! Privileged Linux I/O: every system call, `/proc`, `/sys`, BPF, and every `unsafe` of lathunt.

#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods))]

pub mod arch;
pub mod beneath;
mod bpf_object;
pub mod calibrate;
pub mod channel;
pub mod child;
pub mod clock;
pub mod clock_steps;
pub mod debugfs;
pub mod error;
pub mod facts;
pub mod inject;
pub mod instrument;
pub mod isolate;
pub mod knob;
pub mod latency_box;
pub mod link;
pub mod load;
pub mod mapped;
pub mod monitor;
pub mod named_pipe;
pub mod on_late;
pub mod pingpong;
pub mod pm_qos;
pub mod private_directory;
pub mod privileges;
pub mod programs;
pub mod recorder;
pub mod recording;
pub mod restrict;
mod ring;
pub mod sched;
pub mod signals;
pub mod symbols;
pub mod tasks;
pub mod terminal;
pub mod testing;
pub mod threads;
pub mod topology;
pub mod tracefs;
pub mod tree;
pub mod trusted;
pub mod user;
pub mod wall;
