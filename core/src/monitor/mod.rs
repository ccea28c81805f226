//! Continuous measurement in windows: their storage, export and display.
//!
//! Modelled on OSADL's QA farm, where each point of a plot is the maximum of five minutes. A window is closed at a
//! multiple of its length on the wall clock, so that windows of many machines are aligned.
//!
//! - [`window`]: a closed window; [`event`]: events of the monitor itself; [`packed`]: a histogram as bytes.
//! - [`history`]: many windows, as table, CSV and JSON.
//! - [`metric`]: metrics in the formats of Prometheus; [`export`]: the exported metrics.
//! - [`exceedance`]: upper limits of the probability of a miss.
//! - [`moment`]: parses times on the command line.
//! - [`timepiece`]: clock steps and suspends.
//!
//! - [`munin`]: the plug-in for Munin.
//!
//! Not here: the recorder, the database and the sockets (`lathunt_host::monitor`).

pub mod event;
pub mod exceedance;
pub mod export;
pub mod history;
pub mod metric;
pub mod moment;
pub mod munin;
pub mod packed;
mod responses;
pub mod timepiece;
pub mod window;
