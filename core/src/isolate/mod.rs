//! Giving CPUs to real time: what would have to change ([`plan`]), from what a machine lets run where ([`survey`]).
//! What changes it is `host::isolate`.

pub mod plan;
pub mod survey;
pub mod text;

pub use plan::{plan, Plan, Request};
pub use survey::Survey;
