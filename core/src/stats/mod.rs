//! Statements that the samples support: without a model of the tail, and by named rules.

pub(crate) mod activations;
pub mod claim;
pub mod clusters;
pub mod holm;
pub mod model_free;
pub mod rule_of_thumb;
