//! The scheduler in virtual time: for any set of threads and any order of events the thread that runs is the one that the
//! policy demands.

mod analysis;
mod events;
mod protocols;
mod simulation;
mod units;
