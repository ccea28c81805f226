//! Other programs' formats, one a file.

pub mod ctf;
pub mod kernel_ctf;
pub mod latency_hist;
pub mod perfetto;
pub mod trace_dat;
pub mod user_stream;
