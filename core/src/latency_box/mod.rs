//! How long from a stimulus to its answer, seen from outside? The pure part of `lathunt box` and `lathunt respond`.
//!
//! - [`message`]: what goes over a channel, with the random key of a session and a sequence number.
//! - [`deframe`]: messages out of a stream of bytes that may be damaged.
//! - [`schedule`]: when stimuli are due; [`delay`]: the known delay of a responder.
//! - [`flights`]: stimuli under way; [`ledger`]: what each answer is (first, duplicate, out of order, foreign).
//! - [`lines`]: the histogram of 1000 lines of OSADL's Latency Box.
//! - [`edge`]: edges of a GPIO line, which carry nothing.
//! - [`channel`]: the names of channels; [`reception`]: ways to wait for what comes.
//! - [`session`]: what the runs of both ends are joined by.
//! - [`latmon`]: the protocol of Zephyr's latmon and EVL's latmus.
//!
//! Channels, threads and clocks are in `lathunt_host::link` and `lathunt_host::latency_box`.

pub mod channel;
pub mod counts;
pub mod deframe;
pub mod delay;
pub mod edge;
pub mod flights;
pub mod latmon;
pub mod ledger;
pub mod lines;
pub mod message;
pub mod reception;
pub mod schedule;
pub mod sequences;
pub mod session;

pub use counts::Counts;
