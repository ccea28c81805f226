//! One file per command: its arguments and what it does with them, longer ones in a folder with one file per step.
//! Measurement and evaluation are in `host` and `core`.

pub mod bound;
pub mod check;
pub mod clock;
pub mod compare;
pub mod completions;
pub mod cyclic;
pub mod cyclictest;
pub mod deadlines;
pub mod explain;
pub mod history;
pub mod hunt;
pub mod hwlat;
pub mod hwlatdetect;
pub mod import;
pub mod inject;
pub mod isolate;
pub mod latency_box;
pub mod merge;
pub mod monitor;
pub mod munin;
pub mod npt;
pub mod on_late;
pub mod plot;
pub mod record;
pub mod report;
pub mod respond;
pub mod restore;
pub mod tasks;
pub mod trace;
pub mod units;
pub mod user;
