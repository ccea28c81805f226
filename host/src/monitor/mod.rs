//! What a monitor needs of the machine: windows from the recorder, a database, clocks, a socket, and fewer privileges.
//!
//! [`source`] is the only place that knows the recorder; [`store`] the only one that knows SQLite.

pub mod clocks;
pub mod http;
pub mod privileges;
pub mod source;
pub mod store;
