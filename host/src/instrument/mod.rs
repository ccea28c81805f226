//! Instruments: take samples in user space. One file (or folder) each.

pub mod clock;
pub(crate) mod counters;
pub mod cyclic;
pub mod hwlat;
pub mod npt;
pub mod own_cpu;
pub mod peak_queue;
