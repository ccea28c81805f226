//! The box and the responder: threads that send stimuli on a schedule, receive the answers, and answer.
//!
//! A box has two threads per channel: the `sender` sleeps until a stimulus is due and never waits for an answer; the
//! `receiver` blocks on the channel, reads the clock first thing after waking, and counts into the [`tally`].
//! `lathunt_core::latency_box::ledger` classifies each answer. The [`responder`] is one thread that answers.
//!
//! While it measures, no thread allocates, locks or makes a system call except the channel's own and the sleep.

pub mod evidence;
pub mod feed;
pub mod identity;
pub mod latmon;
mod over;
pub mod preempt;
mod receiver;
pub mod relay;
pub mod responder;
mod sender;
mod served;
pub mod session;
pub mod tally;
pub(crate) mod thread;
pub mod trips;

pub use session::{Finished, Options, Session};
pub use thread::Place;

#[cfg(test)]
mod edge_tests;
