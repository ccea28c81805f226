//! What the numbers allow to say: first without any model of the tail, then by named rules.

pub(crate) mod activations;
pub mod claim;
pub mod clusters;
pub mod holm;
pub mod model_free;
pub mod rule_of_thumb;
