//! The consumer's side of the user-space tracer (crate `lathunt-tracer`).
//!
//! Instrumented programs write into shared memory and never call a consumer. This module reads it:
//! - [`place`]: paths, [`session`]: what the user wants recorded, [`lock`]: only one consumer runs.
//! - [`memory`]: a mapped file as checked words; [`program`]: one program's share, alive or dead.
//! - [`drain`]: a ring's packets into a CTF stream; [`output`]: trace directories, disk limits, resumption.
//! - [`consumer`]: the polling loop, [`daemon`]: in the background; [`snapshot`]: the flight recorder's content, now.
//!
//! The bytes are interpreted by `lathunt_core::trace::user_ring`; CTF is `lathunt_core::export::ctf`.

pub mod clock;
pub mod consumer;
pub mod daemon;
pub mod drain;
pub mod lock;
pub mod memory;
pub mod output;
pub mod place;
pub mod program;
pub mod session;
pub mod snapshot;
