//! Statements on the worst case: observed, bound by a path analysis, and extrapolated by a fitted tail.
//!
//! The three are never mixed. *Observed* needs no model of the tail, only independent samples, and is corrected for
//! clusters. *Bound* adds up measured terms of the kernel's paths ([`crate::path_analysis`]). *Extrapolated* is a generalised Pareto tail that is
//! printed only if every gate passes: a number without a basis is worse than none.

pub mod analyse;
pub mod answer;
pub mod blocks;
pub mod curves;
mod exceedances;
mod gate;
pub mod gev;
mod gev_likelihood;
pub mod goodness;
pub mod gpd;
mod largest;
mod limit;
pub mod mechanisms;
pub mod minimise;
mod observed;
pub mod of_path;
pub mod of_run;
pub mod of_windows;
pub mod order;
mod order_gates;
pub mod random;
pub mod special;
pub mod tail;
mod tail_gates;
pub mod text;
mod threshold;
pub mod twice;

#[cfg(test)]
mod oracles;
#[cfg(test)]
mod tests;
