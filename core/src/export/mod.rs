//! Formats of other programs, one per file.

pub mod ctf;
pub mod kernel_ctf;
pub mod latency_hist;
pub mod perfetto;
pub mod trace_dat;
pub mod user_stream;
