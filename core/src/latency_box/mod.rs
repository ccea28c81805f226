//! Latency from a stimulus to its answer, measured externally: `lathunt box` and `lathunt respond` without I/O.
//!
//! - [`message`]: messages on a channel, with the random key of a session and a sequence number.
//! - [`deframe`]: messages from a byte stream that may be damaged.
//! - [`schedule`]: when stimuli are due; [`delay`]: the known delay of a responder.
//! - [`flights`]: stimuli in flight; [`ledger`]: classification of answers (first, duplicate, out of order, foreign).
//! - [`lines`]: the histogram of 1000 lines of OSADL's Latency Box.
//! - [`edge`]: edges of a GPIO line, which carry no data.
//! - [`channel`]: the names of channels; [`reception`]: ways to wait for messages.
//! - [`session`]: data to join the runs of both ends.
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
