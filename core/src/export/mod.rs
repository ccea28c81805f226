//! Other programs' formats, one a file.

pub mod ctf;
pub mod latency_hist;
pub mod trace_dat;
