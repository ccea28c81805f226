//! One file per command: its arguments and what it does with them.

pub mod compare;
pub mod plot;
pub mod report;
