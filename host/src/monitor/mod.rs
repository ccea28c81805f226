//! What a monitor needs of the machine: windows from the recorder, a database, clocks, a socket, fewer privileges, and
//! memory that does not grow.
//!
//! [`source`] is the only place that knows the recorder; [`store`] the only one that knows SQLite.

pub mod clocks;
pub mod http;
pub mod memory;
pub mod source;
pub mod store;
