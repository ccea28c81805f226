//! Privileged Linux I/O: every system call, `/proc`, `/sys`, BPF, and every `unsafe` of lathunt.

pub mod arch;
pub mod calibrate;
pub mod channel;
pub mod child;
pub mod debugfs;
pub mod error;
pub mod facts;
pub mod inject;
pub mod instrument;
pub mod isolate;
pub mod knob;
pub mod load;
pub mod mapped;
pub mod named_pipe;
pub mod pingpong;
pub mod pm_qos;
pub mod recorder;
pub mod recording;
pub mod sched;
pub mod signals;
pub mod symbols;
pub mod terminal;
pub mod testing;
pub mod topology;
pub mod tracefs;
pub mod wall;
