//! Giving CPUs to real time: what would have to change ([`plan()`]), from what a machine lets run where ([`mod@survey`]).
//! What changes it is `host::isolate`; whether it worked, [`verify`].

pub mod interrupts;
pub mod plan;
pub mod survey;
pub mod text;
pub mod verify;

pub use plan::{plan, Plan, Request};
pub use survey::Survey;
