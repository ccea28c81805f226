//! Instruments: what takes samples in user space. One file (or folder) each.

pub mod cyclic;
pub mod peak_queue;
