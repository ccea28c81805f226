//! A measurement that never ends, window by window: what is kept of each, and how it is exported and shown.
//!
//! The seed is OSADL's farm, where each point of a plot is the maximum of five minutes. A window is closed at a multiple
//! of its length on the wall clock, so that windows of many machines lie side by side.
//!
//! - [`window`]: a closed window; [`event`]: what else a reader of the history must know; [`packed`]: a histogram as bytes.
//! - [`history`]: many windows, as table, CSV and JSON.
//! - [`metric`]: metrics in the forms that Prometheus asks for; [`export`]: which there are.
//! - [`exceedance`]: how rare activations later than their deadline are.
//! - [`moment`]: moments as people type them.
//! - [`timepiece`]: clock steps and suspends.
//!
//! - [`munin`]: the same for Munin.
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
