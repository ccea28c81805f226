//! Both parts of latmon's protocol on top of a channel of ours: `lathunt respond --latmon` is latmus, `lathunt box --latmon` is
//! latmon.

pub mod monitor;
pub mod respond;
mod result;
mod session;
