//! Recorded kernel events as one normalized stream, whatever recorded them.
//!
//! One format a file: [`flight`] is the recorder's own ring. Decoders take bytes and give [`event::Event`]s plus
//! losses as values; damaged input is never an abort.

pub mod event;
pub mod flight;
pub mod user_event;
pub mod user_ring;
pub mod user_stream;
