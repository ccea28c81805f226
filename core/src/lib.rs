//! The pure core of lathunt: what a latency is, how it is kept, explained and judged.
//!
//! Contract: bytes and plain values in, values and bytes out. This crate opens no file, reads no clock, starts
//! no thread and knows no environment; `clippy.toml` beside this crate makes each of those an error. It compiles on
//! any operating system, so every rule here is tested without root.
//!
//! Where to look:
//! - [`time`], [`cpuset`]: quantities as types; [`random`]: reproducible random numbers; [`printable`]: hostile text, inert.
//! - [`histogram`], [`series`], [`peak`], [`run`]: what is measured and how it is kept.
//! - [`trace`]: recorded kernel events as one normalized stream.
//! - [`import`]: results of other latency tools.
//! - [`check`]: is a machine set up for real time? Rules as data.
//! - [`isolate`]: which settings keep a CPU free of everything else.
//! - [`latency_box`]: stimuli and answers of an external measurement.
//! - [`npt`]: turns of a loop that never stops, and who interrupted it.
//! - [`elf`]: variables of programs by their addresses.
//! - [`explain`]: from events to a tree of causes whose parts add up.
//! - [`stats`], [`judge`], [`verdict`]: what may be claimed, and the answer.
//! - [`regression`]: is a run worse than another, by more than chance?
//! - [`bound`]: what may still come, from what was seen.
//! - [`monitor`]: windows of a measurement that never ends: what is stored, exported and shown of them.
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
