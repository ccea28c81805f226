//! The box and the responder: who sends stimuli on a schedule, who receives the answers, who answers.
//!
//! A box has two threads a channel: the `sender` sleeps until a stimulus is due and never waits for an answer; the `receiver`
//! blocks on the channel, takes the time as its first act, and counts into the [`tally`]. What each answer is says
//! `lathunt_core::latency_box::ledger`. The [`responder`] is one thread that answers.
//!
//! No thread allocates, locks or makes a system call while it measures, but for the channel's own and the sleep.

pub mod evidence;
pub mod feed;
pub mod identity;
pub mod latmon;
pub mod preempt;
mod receiver;
pub mod relay;
pub mod responder;
mod sender;
pub mod session;
pub mod tally;
pub(crate) mod thread;
pub mod trips;

pub use session::{Finished, Options, Session};
pub use thread::Place;

#[cfg(test)]
mod edge_tests;
