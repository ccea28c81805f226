//! The parts of a monitor that depend on the machine: windows from the recorder, a database, clocks, a socket, fewer
//! privileges, and bounded memory.
//!
//! Only [`source`] uses the recorder; only [`store`] uses SQLite.

pub mod clocks;
pub mod http;
pub mod memory;
pub mod source;
pub mod store;
