//! Both roles of latmon's protocol on our channels: `lathunt respond --latmon` is latmus, `lathunt box --latmon` is latmon.

pub mod monitor;
pub mod respond;
mod result;
mod session;
