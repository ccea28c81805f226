//! The protocol between latmon (the box: a microcontroller with Zephyr) and latmus (on the machine under test, of EVL): TCP
//! port 2306, IPv4, all integers 32 bit in network order, no magic and no version.
//!
//! | direction | bytes | content |
//! |---|---|---|
//! | latmus → latmon | 8 | period in µs (0: stop), cells of the histogram (0: none) |
//! | latmon → latmus, one each 1 000 000 / period samples | 24 | sum (64 bit), min, max, all signed, ns; overruns; samples |
//! | latmon → latmus, at the end | 24 + 4 · cells | a record with 0 samples, then the cells |
//!
//! Cell i counts latencies of i to i + 1 µs; the last cell also everything above.
//!
//! - [`wire`]: the bytes. [`monitor`]: latmon's side. [`listener`]: latmus's side, tolerant of firmware defects.
//! - [`totals`]: sums over the records, and their doubts. [`text`]: latmus's lines and plot file.
//!
//! Sockets and threads are in `lathunt_host::latency_box::latmon`.

pub mod listener;
pub mod monitor;
pub mod text;
pub mod totals;
pub mod wire;

/// Port of latmon, TCP and UDP.
pub const PORT: u16 = 2_306;
/// Longest period that latmon accepts, µs.
pub const LONGEST_PERIOD_US: u32 = 1_000_000;
/// Maximum cells of latmon.
pub const MOST_CELLS: u32 = 1_000;
