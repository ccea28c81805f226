//! CPU isolation: the changes to make ([`plan()`]), from the current placement of work ([`mod@survey`]).
//! `host::isolate` applies them; [`verify`] checks the result.

pub mod interrupts;
pub mod plan;
pub mod survey;
pub mod text;
pub mod verify;

pub use plan::{plan, Plan, Request};
pub use survey::Survey;
