//! The core of lathunt without I/O: latencies, how they are stored, explained and judged.
//!
//! Contract: bytes and plain values in, values and bytes out. This crate opens no files, reads no clock, starts no
//! threads and reads no environment variables; its `clippy.toml` makes each of these an error. It compiles on any
//! operating system, so that everything is tested without root.
//!
//! Where to look:
//! - [`time`], [`cpuset`]: quantities as types; [`random`]: reproducible random numbers; [`printable`]: untrusted text.
//! - [`histogram`], [`series`], [`peak`], [`run`]: measurements and their storage.
//! - [`trace`]: recorded kernel events as one normalized stream.
//! - [`import`]: results of other latency tools.
//! - [`check`]: is a machine configured for real time? Rules as data.
//! - [`isolate`]: settings that isolate a CPU.
//! - [`latency_box`]: stimuli and answers of an external measurement.
//! - [`npt`]: iterations of a busy loop, and their interruptions.
//! - [`elf`]: variables of programs by their addresses.
//! - [`explain`]: from events to a tree of causes whose parts add up to the latency.
//! - [`stats`], [`judge`], [`verdict`]: statistical statements, and the verdict.
//! - [`regression`]: is a run worse than another, by more than chance?
//! - [`bound`]: extrapolation to longer times from observed samples; [`path_analysis`]: a bound from the kernel's paths.
//! - [`monitor`]: windows of a continuous measurement: storage, export and display.
//! - [`tasks`]: real-time task sets: their grammar, their schedulability, a simulated scheduler.
//! - [`report`]: SVG, HTML and terminal text from a [`run::Run`]; [`tail_plots`]: the plots of [`bound`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods))]

pub mod application;
pub mod bound;
pub mod calendar;
pub mod check;
pub mod clock;
pub mod comm;
pub mod conditions;
pub mod cpuset;
pub mod cyclictest;
pub mod elf;
pub mod explain;
pub mod export;
pub mod glob;
mod hash;
pub mod histogram;
pub mod hwlat;
pub mod idle;
pub mod import;
pub mod isolate;
pub mod judge;
pub mod latency_box;
pub mod merge;
pub mod monitor;
pub mod npt;
pub mod numbers;
pub mod on_late;
pub mod path_analysis;
pub mod peak;
pub mod printable;
pub mod random;
pub mod regression;
pub mod report;
pub mod run;
pub mod series;
pub mod set_run;
pub mod stats;
pub mod tail_plots;
pub mod tasks;
pub mod time;
pub mod trace;
pub mod verdict;
pub mod warm_up;
